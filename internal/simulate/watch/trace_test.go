package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
)

func scene(t *testing.T, name string, set ...string) *scenario.Scenario {
	t.Helper()
	src, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(src, set...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// file is a trace as a reader of its bytes sees it.
type file struct {
	Header
	f64    map[string][]float64
	stream []uint32
	seg    []uint32
	bytes  []uint16
	fate   []uint8
	flags  []uint8
}

func encode(t *testing.T, s *scenario.Scenario, from, length time.Duration, l Limits) file {
	t.Helper()
	trace, err := Run(context.Background(), s, from, length, l)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := trace.Write(&b); err != nil {
		t.Fatal(err)
	}
	return decode(t, b.Bytes())
}

func decode(t *testing.T, text []byte) file {
	t.Helper()
	if string(text[:8]) != Magic {
		t.Fatalf("a trace begins with %q", text[:8])
	}
	n := int(binary.LittleEndian.Uint32(text[8:]))
	f := file{f64: map[string][]float64{}}
	if err := json.Unmarshal(text[12:12+n], &f.Header); err != nil {
		t.Fatal(err)
	}
	data := text[12+n:]
	if (12+n)%8 != 0 {
		t.Errorf("columns begin at byte %d, which is no multiple of 8", 12+n)
	}
	for _, c := range f.Columns {
		read := func(into any) {
			if c.Offset%8 != 0 {
				t.Errorf("column %s begins at %d", c.Name, c.Offset)
			}
			if err := binary.Read(bytes.NewReader(data[c.Offset:]), binary.LittleEndian, into); err != nil {
				t.Fatalf("column %s: %v", c.Name, err)
			}
		}
		switch c.Name {
		case "stream":
			f.stream = make([]uint32, c.Count)
			read(f.stream)
		case "segment":
			f.seg = make([]uint32, c.Count)
			read(f.seg)
		case "bytes":
			f.bytes = make([]uint16, c.Count)
			read(f.bytes)
		case "fate":
			f.fate = make([]uint8, c.Count)
			read(f.fate)
		case "flags":
			f.flags = make([]uint8, c.Count)
			read(f.flags)
		default:
			f.f64[c.Name] = make([]float64, c.Count)
			read(f.f64[c.Name])
		}
	}
	return f
}

// counts returns what became of a path's packets until at.
func (f file) counts(path int, at simulate.Time) Counts {
	c := f.Paths[path].Before
	for i := f.Paths[path].Packets[0]; i < f.Paths[path].Packets[1]; i++ {
		if f.f64["sent"][i] > float64(at) {
			continue
		}
		if f.f64["end"][i] <= float64(at) {
			c.add(Fate(f.fate[i]))
		} else {
			c.Sent++
		}
	}
	return c
}

// delivered returns what was read in order until at, in the plainest way.
func (f file) delivered(at simulate.Time) int64 {
	got := map[[2]int64]bool{}
	for i, end := range f.f64["end"] {
		if Fate(f.fate[i]) == Arrived && end <= float64(at) {
			got[[2]int64{int64(int32(f.stream[i])), int64(f.seg[i])}] = true
		}
	}
	sum := f.Before.Bytes
	for i, s := range f.Streams {
		have := s.Base / f.MSS
		for got[[2]int64{int64(i), have}] {
			have++
		}
		bytes := have * f.MSS
		if s.Base > bytes {
			bytes = s.Base
		}
		if s.Size >= 0 {
			bytes = min(bytes, s.Size)
		}
		sum += bytes
	}
	return sum
}

func (f file) open(at simulate.Time) (n int) {
	for _, s := range f.Streams {
		if s.Arrive <= at && (s.Done < 0 || s.Done > at) {
			n++
		}
	}
	return n
}

// until is the simulator's own account of a run that ends at a time.
func until(t *testing.T, s *scenario.Scenario, at simulate.Time) simulate.Result {
	t.Helper()
	setup := s.Setup
	setup.End = at
	m, err := simulate.New(setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compare(t *testing.T, f file, s *scenario.Scenario, at simulate.Time) {
	t.Helper()
	want := until(t, s, at)
	if got := f.delivered(at); got != want.Delivered {
		t.Errorf("%s at %s: %d bytes delivered, the simulator says %d", f.Scheduler, at, got, want.Delivered)
	}
	if got := f.open(at); got != want.Open {
		t.Errorf("%s at %s: %d streams open, the simulator says %d", f.Scheduler, at, got, want.Open)
	}
	for i, p := range want.Paths {
		got := f.counts(i, at)
		if got.Sent != p.Packets || got.Dropped != p.Dropped || got.Lost != p.Lost || got.Failed != p.Failed {
			t.Errorf("%s at %s, path %s: %+v, the simulator says %+v", f.Scheduler, at, p.Name, got, p)
		}
		// of probes no event tells when they arrive
		if diff := int64(got.Arrived) - int64(p.Arrived); diff > int64(p.Probes) || -diff > int64(p.Probes) {
			t.Errorf("%s at %s, path %s: %d arrived, the simulator says %d (of them %d probes)", f.Scheduler, at, p.Name, got.Arrived, p.Arrived, p.Probes)
		}
	}
}

func TestATraceTellsWhatTheSimulatorDid(t *testing.T) {
	for _, c := range []struct {
		name, scheduler string
		from, length    time.Duration
	}{
		{"unequal", "lowrtt", 0, maxWindow},
		{"unequal", "redundant", 0, maxWindow},
		{"reorder", "daps", 0, 5 * time.Second},
		{"blocking", "blest", 7 * time.Second, 5 * time.Second},
		{"mix", "shortest", 30 * time.Second, 8 * time.Second},
		{"page", "ecf", 18 * time.Second, 8 * time.Second},
		{"page", "redundant", 0, 25 * time.Second},
		{"fifty", "turns", time.Second, time.Second},
		{"kernel", "mptcp", 0, maxWindow},
	} {
		t.Run(c.name+" "+c.scheduler, func(t *testing.T) {
			s := scene(t, c.name, "scenario.scheduler="+c.scheduler)
			f := encode(t, s, c.from, c.length, DefaultLimits())
			if f.From != c.from || f.To <= c.from || f.Scheduler != c.scheduler {
				t.Fatalf("the window is %s to %s, the scheduler %s", f.From, f.To, f.Scheduler)
			}
			for part := range 5 {
				compare(t, f, s, f.From+1+simulate.Time(part)*(f.To-f.From-1)/4)
			}
		})
	}
}

func TestATraceKnowsWindowsWaitsAndChanges(t *testing.T) {
	f := encode(t, scene(t, "page", "scenario.scheduler=ecf"), 0, maxWindow, DefaultLimits())
	if len(f.Changes) != 2 || f.Changes[0].At != 20*time.Second || f.Changes[0].Up || f.Changes[0].Path != 1 || !f.Changes[1].Up {
		t.Errorf("changes are %+v", f.Changes)
	}
	for i, p := range f.Paths {
		if p.Windows[0] >= p.Windows[1] || f.f64["window"][p.Windows[0]] != 10*1460 {
			t.Errorf("path %d begins with a window of %v", i, f.f64["window"][p.Windows[0]:p.Windows[1]][:1])
		}
	}
	if len(f.f64["wait_from"]) == 0 {
		t.Error("ECF never waits")
	}
	for i, from := range f.f64["wait_from"] {
		if to := f.f64["wait_to"][i]; to < from || i > 0 && from < f.f64["wait_to"][i-1] {
			t.Errorf("wait %d is from %g to %g", i, from, to)
		}
	}
	if f := encode(t, scene(t, "page", "path.mobile.down=0s-3s"), 0, time.Second, DefaultLimits()); len(f.Changes) == 0 || f.Changes[0].At != 0 || f.Changes[0].Up {
		t.Errorf("a path that is down at first: %+v", f.Changes)
	}
}

func TestAWindowEndsWhereTheTraceIsFull(t *testing.T) {
	l := DefaultLimits()
	l.Packets = 1000
	s := scene(t, "unequal")
	f := encode(t, s, 0, maxWindow, l)
	if len(f.fate) > 1000 || len(f.fate) < 900 || !f.Cut || f.To >= f.Result.End {
		t.Errorf("%d packets to %s, cut %v", len(f.fate), f.To, f.Cut)
	}
	compare(t, f, s, f.To)
	// and the next window goes on there
	g := encode(t, s, f.To, maxWindow, l)
	compare(t, g, s, g.From+1)
	compare(t, g, s, g.To)
	if whole := encode(t, s, 0, maxWindow, DefaultLimits()); whole.Cut || whole.To != whole.Result.End {
		t.Errorf("the whole run is cut at %s of %s", whole.To, whole.Result.End)
	}
}

func TestRunsThatAreTooMuchAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		set    []string
		from   time.Duration
		says   string
	}{
		{"many events", Limits{Packets: 1000, Streams: 100, Flight: 1000, Events: 2_000_000}, []string{"scenario.end=1000h", "stream.download.size=unlimited"}, 0, "more than 2 million events"},
		{"many streams", DefaultLimits(), []string{"stream.download.count=100000", "stream.download.every=1us"}, 0, "more than 3000 streams are open"},
		{"a whole window at once", Limits{Packets: 1_000_000, Streams: 100, Flight: 300_000, Events: 1e9}, []string{"scenario.initial_window=100000000", "stream.download.size=500 MB", "scenario.receive_buffer=unlimited"}, 0, "more than 300000 packets are in flight"},
		{"much under way when the window begins", Limits{Packets: 50, Streams: 100, Flight: 1000, Events: 1e9}, nil, time.Second, "too much to draw"},
		{"after the end", DefaultLimits(), nil, time.Hour, "but the run ends at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(context.Background(), scene(t, "unequal", c.set...), c.from, maxWindow, c.limits)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want %q", err, c.says)
			}
		})
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, scene(t, "mix"), 0, maxWindow, DefaultLimits()); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error is %v", err)
	}
}

func TestNeverIsInfinite(t *testing.T) {
	if !math.IsInf(moment(never), 1) || moment(time.Second) != 1e9 {
		t.Error("times are not what they should be")
	}
}
