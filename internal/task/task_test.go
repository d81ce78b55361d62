package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAKeptFunctionIsTriedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		k := Keep(t.Context(), Kept{Name: "x", Retry: Retry{time.Second, 4 * time.Second}, Run: func(context.Context, func()) error {
			at = append(at, time.Since(begin))
			return errors.New("no")
		}})
		time.Sleep(12 * time.Second)
		synctest.Wait()
		k.Stop()
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second}
		if !slices.Equal(at, want) {
			t.Fatalf("tried at %v, want %v", at, want)
		}
	})
}

func TestAFunctionThatWorkedBeginsWithTheFirstPauseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		k := Keep(t.Context(), Kept{Name: "x", Retry: Retry{time.Second, time.Minute}, Run: func(_ context.Context, works func()) error {
			at = append(at, time.Since(begin))
			if len(at) == 3 {
				works()
			}
			return errors.New("no")
		}})
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		k.Stop()
		if want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 4 * time.Second}; !slices.Equal(at, want) {
			t.Fatalf("tried at %v, want %v", at, want)
		}
	})
}

func TestFaultsAreReportedWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		tries := 0
		k := Keep(t.Context(), Kept{Name: "x", Retry: Retry{time.Second, time.Second}, Report: func(err error) { reported = append(reported, text(err)) },
			Run: func(ctx context.Context, works func()) error {
				tries++
				switch tries {
				case 1, 2:
					return errors.New("no socket")
				case 3:
					panic("nil map")
				case 4:
					return nil
				}
				works()
				<-ctx.Done()
				return ctx.Err()
			}})
		time.Sleep(1500 * time.Millisecond)
		if k.Fault() == nil || k.Fault().Error() != "no socket" {
			t.Errorf("fault %v", k.Fault())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if k.Fault() != nil {
			t.Errorf("fault of what works: %v", k.Fault())
		}
		k.Stop()
		if want := []string{"no socket", "panic: nil map", "ended", ""}; !slices.Equal(reported, want) {
			t.Fatalf("reported %q, want %q", reported, want)
		}
	})
}

func TestAgainEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		k := Keep(t.Context(), Kept{Name: "x", Retry: Retry{time.Hour, time.Hour}, Run: func(context.Context, func()) error { tries.Add(1); return nil }})
		synctest.Wait()
		k.Again()
		synctest.Wait()
		k.Stop()
		if tries.Load() != 2 {
			t.Fatalf("%d tries, want 2", tries.Load())
		}
	})
}

func TestOneThatFailsEndsItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(t.Context())
		var ended atomic.Bool
		g.Go(func(ctx context.Context) error { <-ctx.Done(); ended.Store(true); return nil })
		g.Go(func(context.Context) error { panic("index out of range") })
		err := g.Wait()
		var p *Panicked
		if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "TestOneThatFailsEndsItsGroup") || !ended.Load() {
			t.Fatalf("%v, other ended: %v", err, ended.Load())
		}
	})
}

func TestALoopAnswersAndSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type counter struct{ n, ticks int }
		l := StartLoop(t.Context(), "count", &counter{}, func(c *counter) time.Duration { c.ticks++; return time.Second })
		for range 3 {
			if err := l.Ask(t.Context(), func(c *counter) { c.n++ }); err != nil {
				t.Fatal(err)
			}
		}
		var p *Panicked
		if err := l.Ask(t.Context(), func(*counter) { panic("no") }); !errors.As(err, &p) {
			t.Fatalf("a panic gives %v", err)
		}
		time.Sleep(2500 * time.Millisecond)
		var got counter
		if err := l.Ask(t.Context(), func(c *counter) { got = *c }); err != nil || got != (counter{3, 3}) {
			t.Fatalf("%v %v", got, err)
		}
		l.Stop()
		if err := l.Ask(t.Context(), func(*counter) {}); !errors.Is(err, ErrEnded) {
			t.Fatalf("a loop that has ended answers %v", err)
		}
	})
}

func TestAnEndedContextEndsTheQuestion(t *testing.T) {
	box := NewMailbox[int]()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("gone")
	cancel(why)
	if err := box.Ask(ctx, func(int) {}); !errors.Is(err, why) {
		t.Fatal(err)
	}
}

type stub struct {
	name string
	log  *[]string
}

func (s stub) Stop() { *s.log = append(*s.log, "stop "+s.name) }

func TestASetFollowsWhatIsWanted(t *testing.T) {
	var log []string
	var s Set[string, stub]
	want := func(w map[string]int) error {
		log = nil
		return Want(&s, w, func(r stub, n int) bool { return n != 2 }, func(k string, n int) (stub, error) {
			if n == 9 {
				return stub{}, errors.New("no " + k)
			}
			log = append(log, "start "+k)
			return stub{k, &log}, nil
		})
	}
	for _, c := range []struct {
		want map[string]int
		log  string
		err  string
	}{
		{map[string]int{"b": 1, "a": 1}, "start a,start b", ""},
		{map[string]int{"b": 1, "a": 2, "c": 9}, "stop a,start a", "no c"},
		{map[string]int{"b": 9, "d": 1}, "stop a,start d", ""},
		{nil, "stop b,stop d", ""},
	} {
		err := want(c.want)
		if got := strings.Join(log, ","); got != c.log || text(err) != c.err {
			t.Errorf("%v: %s (%v), want %s (%s)", c.want, got, err, c.log, c.err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d left", s.Len())
	}
}

func TestSignals(t *testing.T) {
	w := NewWake()
	w.Set()
	w.Set()
	<-w
	select {
	case <-w:
		t.Error("set twice, it is received twice")
	default:
	}
	w.Set()
	w.Clear()
	g := NewGate()
	select {
	case <-w:
		t.Error("cleared, it is received")
	case <-g.Opened():
		t.Error("open before Open")
	default:
	}
	g.Open()
	g.Open()
	<-g.Opened()
	var o OnChange
	for i, c := range []struct {
		err  error
		want bool
	}{{nil, false}, {errors.New("a"), true}, {errors.New("a"), false}, {errors.New("b"), true}, {nil, true}} {
		if o.Changed(c.err) != c.want {
			t.Errorf("step %d: changed is %v", i, !c.want)
		}
	}
}
