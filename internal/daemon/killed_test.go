package daemon_test

import (
	"os"
	"path/filepath"
	"testing"
)

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
