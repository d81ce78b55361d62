package daemon_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whenever the first start is killed, the next one finishes it, and everything
// can be looked at and taken away before it does.
func TestAFirstStartThatIsKilledIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	before := w.state()
	for _, after := range []time.Duration{40, 80, 120, 160, 200, 260, 320, 400, 600, 1000} {
		w.launch().killAfter(after * time.Millisecond)
		for _, arguments := range [][]string{{"plan", w.file}, {"unload"}} {
			if out, err := w.weft(arguments...); err != nil {
				t.Errorf("killed after %v ms, weft %v: %v\n%s", int(after), arguments, err, out)
			}
		}
		if left := w.state(); left != before {
			t.Errorf("killed after %v ms, what there is after unload differs:\n%s", int(after), differences(before, left))
		}
		w.launch().killAfter(after * time.Millisecond)
		r := w.start()
		w.pings(w.member, serverFrom6)
		r.stop()
		if out, err := w.weft("unload"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// killAfter kills it when it has run for so long.
func (r *running) killAfter(d time.Duration) {
	time.Sleep(d)
	r.kill()
}

// What an older version pinned lacks maps that this one looks into before it
// makes anything.
func TestAnUpgradeFromAVersionWithFewerMapsStarts(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.start().stop()
	for _, name := range []string{"nat64_translators", "l2tp_lnses", "pseudowire_paths"} {
		if err := os.Remove(filepath.Join(w.place().Pins, "maps", name)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := w.weft("plan", w.file); err != nil {
		t.Errorf("weft plan: %v\n%s", err, out)
	}
	w.start().stop()
	w.planIsEmpty()
	if out, err := w.weft("unload"); err != nil {
		t.Errorf("weft unload: %v\n%s", err, out)
	}
}
