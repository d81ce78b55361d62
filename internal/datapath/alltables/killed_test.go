package alltables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/paths"
	"weft/internal/state"
)

var errKilled = errors.New("killed")

// killedAt has an Open end at its n-th step. Nothing is taken back then, as
// nothing is when the process is killed.
func killedAt(n int) func(string) error {
	return func(step string) error {
		if n--; n == 0 {
			return fmt.Errorf("%w after %s", errKilled, step)
		}
		return nil
	}
}

func pinDir(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := paths.MountBPF(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("/sys/fs/bpf", fmt.Sprintf("weft-killed-%d-%s", os.Getpid(), name))
	t.Cleanup(func() {
		if err := datapath.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// whole fails unless what is pinned can be read, all of it.
func whole(t *testing.T, dir string) {
	t.Helper()
	if !datapath.Exists(dir) {
		return
	}
	d, err := View(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	specs, err := d.MapSpecs()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	if err := d.EachMap(func(name string, _ *ebpf.Map) error { there[name] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for name := range specs {
		if !there[name] {
			t.Errorf("there is no map %s", name)
		}
	}
	if len(there) != len(specs) {
		t.Errorf("there are %d maps, want %d", len(there), len(specs))
	}
	if _, err := d.Observe(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// reopen opens a datapath again, and lets go of it.
func reopen(t *testing.T, dir string, o datapath.Options) {
	t.Helper()
	d, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("there are %v, want maps and links (%v)", entries, err)
	}
	whole(t, dir)
}

// steps counts those of an Open.
func steps(t *testing.T, dir string, o datapath.Options) (n int) {
	t.Helper()
	o.Fault = func(string) error { n++; return nil }
	reopen(t, dir, o)
	return n
}

func TestAFirstStartThatIsKilledAtAnyStepIsFinishedByTheNext(t *testing.T) {
	dir := pinDir(t, "first")
	all := steps(t, dir, datapath.Options{})
	if err := datapath.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if all < 100 {
		t.Fatalf("there are only %d steps", all)
	}
	for n := 1; n <= all; n++ {
		d, err := Open(dir, datapath.Options{Fault: killedAt(n)})
		if !errors.Is(err, errKilled) {
			t.Fatalf("step %d: opened %v, %v", n, d, err)
		}
		whole(t, dir)
		// the kill before the last step of every kind, and some others
		if n%16 != 0 && n < all-1 {
			continue // the next attempt finds what this one left
		}
		reopen(t, dir, datapath.Options{})
		if t.Failed() {
			t.Fatalf("killed at step %d: %v", n, err)
		}
		if err := datapath.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// An upgrade that has another layout of some maps keeps what is in the others,
// wherever it is killed.
func TestAnUpgradeThatIsKilledAtAnyStepKeepsSessions(t *testing.T) {
	dir := pinDir(t, "upgrade")
	before := datapath.Options{Tables: state.Tables{Bindings: 64, Sessions: 64}}
	after := datapath.Options{Tables: state.Tables{Bindings: 64, Sessions: 64, Flows: 64}}
	key := datapath.IngressTCNat64Bib6Key{Port: 7}
	var kept ebpf.MapID
	look := func() {
		t.Helper()
		d, err := View(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m, err := d.Map("nat64_bib6")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := m.LookupBytes(key); err != nil || v == nil {
			t.Fatalf("the binding is lost: %v", err)
		}
		if id, _ := datapath.MapID(m); id != kept {
			t.Fatalf("the bindings are in map %d, were in %d", id, kept)
		}
	}
	d, err := Open(dir, before)
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := d.Map("nat64_bib6")
	if err != nil {
		t.Fatal(err)
	}
	kept, _ = datapath.MapID(bindings)
	if err := errors.Join(bindings.Put(key, make([]byte, bindings.ValueSize())), d.Close()); err != nil {
		t.Fatal(err)
	}
	all := 0
	for n := 1; ; n += 3 {
		after.Fault = killedAt(n)
		d, err := Open(dir, after)
		if !errors.Is(err, errKilled) {
			if err != nil {
				t.Fatal(err)
			}
			// the last of what it made was in place when it was killed
			if all = n; d.Tables() != after.Tables {
				t.Errorf("the tables are %+v", d.Tables())
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		whole(t, dir)
		look()
	}
	if all < 67 {
		t.Errorf("it took only %d steps", all)
	}
	after.Fault = nil
	reopen(t, dir, after)
	look()
}

// Programs of a version that had fewer maps are shown, and unloaded, by one that
// has more.
func TestWhatIsPinnedByAnotherVersionIsObservedAsFarAsItGoes(t *testing.T) {
	dir := pinDir(t, "other")
	reopen(t, dir, datapath.Options{})
	if err := os.Remove(filepath.Join(dir, "maps", "nat64_translators")); err != nil {
		t.Fatal(err)
	}
	d, err := View(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := nat64table.Of(d).Translators(); !errors.Is(err, datapath.ErrOtherVersion) {
		t.Errorf("%v, want %v", err, datapath.ErrOtherVersion)
	}
	if found, err := d.Observe(t.Context(), nil); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	reopen(t, dir, datapath.Options{})
}
