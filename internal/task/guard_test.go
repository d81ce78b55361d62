package task

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// captured returns what is logged while f runs.
func captured(f func()) string {
	var b bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	defer slog.SetDefault(old)
	f()
	return b.String()
}

func TestAPanicCostsOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		if g.Fault() != nil || !g.Do("packet", nil, func() {}) {
			t.Fatal("a guard without a panic has a fault")
		}
		message := bytes.Repeat([]byte{0xab}, 1000)
		log := captured(func() {
			for range 1000 { // the same message, again and again
				if g.Do("IPv6 packet", message, func() { _ = message[2000] }) {
					t.Fatal("a panic is none")
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		if n := strings.Count(log, "level=ERROR"); n != 2 { // in 100 seconds
			t.Errorf("%d lines in the log", n)
		}
		if !strings.Contains(log, "not_logged=599") || !strings.Contains(log, "TestAPanicCostsOneMessage") {
			t.Errorf("logged: %s", log)
		}
		err := g.Fault()
		if err == nil || g.Panics() != 1000 {
			t.Fatal(err, g.Panics())
		}
		for _, want := range []string{"1000 messages", "IPv6 packet of 1000 bytes that begins with abab", "index out of range [2000]"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if len(err.Error()) > 400 {
			t.Errorf("the outline has all of the message: %s", err)
		}
		time.Sleep(guardFault + time.Second)
		if err := g.Fault(); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

func TestATaskThatPanicsIsStartedAgainWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		var tasks Tasks
		begin := time.Now()
		log := captured(func() {
			tasks.Again("reader", func() {
				if tries.Add(1) < 5 {
					panic("nil map")
				}
			})
			tasks.Wait()
		})
		if passed := time.Since(begin); tries.Load() != 5 || passed != 1500*time.Millisecond {
			t.Errorf("%d tries in %s", tries.Load(), passed)
		}
		if !strings.Contains(log, "task=reader") {
			t.Error(log)
		}
	})
}
