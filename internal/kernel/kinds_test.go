package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace/spacetest"
	"weft/internal/reconcile/kindtest"
	"weft/internal/state"
)

func TestEveryKindOfTheKernelHasOneDoor(t *testing.T) {
	var types []reflect.Type
	for _, k := range kinds() {
		types = append(types, k.of)
	}
	kindtest.Joined(t, state.Kernel, types)
}

// makeExampleDevices makes what the examples of state.Kinds lean on.
func makeExampleDevices() error {
	for _, name := range []string{"lan", "port"} {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: name + "-far"}
		veth.Name = name
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

// without returns the kinds that this machine's kernel lacks.
func without(t *testing.T) []string {
	t.Helper()
	know, err := BridgesKnowVLANs()
	if err != nil {
		t.Fatal(err)
	}
	if !know {
		return []string{"bridge-vlan"}
	}
	return nil
}

func TestEveryKindOfObjectIsMadeKeptAndTakenAway(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	lacking := without(t)
	err := space.Do(func() error {
		if err := makeExampleDevices(); err != nil {
			return err
		}
		before := devices(t)
		kindtest.Try(t, state.Kernel, lacking, func(use func(kindtest.Target)) {
			k, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			use(k)
		})
		if after := devices(t); !slices.Equal(after, before) {
			t.Errorf("the devices are %v, were %v", after, before)
		}
		refusesWhatTheKernelLacks(t, dir, lacking)
		return nothingLeft(t)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "journal.json")); err != nil || strings.TrimSpace(string(text)) != "{}" {
		t.Errorf("the journal still says %s (%v)", text, err)
	}
}

// refusesWhatTheKernelLacks fails if objects of such kinds are said to be made.
func refusesWhatTheKernelLacks(t *testing.T, dir string, lacking []string) {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, kind := range state.Kinds() {
		if slices.Contains(lacking, kind.Name) && k.Apply(t.Context(), state.Step{Op: state.Add, Object: kind.Example}) == nil {
			t.Errorf("%s: made, by a kernel that lacks it", kind.Example)
		}
	}
}

// madeDevices are objects that are devices of weft's.
func madeDevices() (list state.Desired) {
	for _, k := range state.Kinds() {
		switch k.Example.(type) {
		case state.Device, state.PseudowireDevice, state.VXLAN, state.Bridge, state.GuestDevice:
			list = append(list, k.Example)
			if _, guest := k.Example.(state.GuestDevice); guest {
				list = append(list, k.Changed)
			}
		}
	}
	return list
}

var errKilled = errors.New("killed")

// dies makes a device and ends at the n-th step, without taking anything back,
// as a kill would.
func dies(t *testing.T, dir string, o state.Object, n int) (killed bool) {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.fault = func(step string) error {
		if n--; n == 0 {
			return fmt.Errorf("%w after it %s", errKilled, step)
		}
		return nil
	}
	err = k.Apply(t.Context(), state.Step{Op: state.Add, Object: o})
	if err != nil && !errors.Is(err, errKilled) {
		t.Fatalf("%s: %v", o, err)
	}
	return err != nil
}

// A device whose making is killed at any step is weft's: the next start makes it
// whole, or removes it if it is not wanted any more.
func TestADeviceWhoseMakingIsKilledAtAnyStepIsRecognised(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	err := space.Do(func() error {
		for _, o := range madeDevices() {
			n := 1
			for ; dies(t, dir, o, n); n++ {
				if list := foreign(t, dir); !slices.Equal(list, []string{"lo"}) {
					t.Errorf("%s, killed at step %d: the devices %v are taken for the host's own", o, n, list)
				}
				if steps := bring(t, dir, state.Desired{o}); len(steps) != 1 || steps[0].Op == state.Remove {
					t.Errorf("%s, killed at step %d: the next start takes %v", o, n, steps)
				}
				if steps := bring(t, dir, state.Desired{o}); len(steps) != 0 {
					t.Errorf("%s, killed at step %d: the start after the next takes %v", o, n, steps)
				}
				bring(t, dir, nil)
				if !dies(t, dir, o, n) {
					t.Errorf("%s: it is not killed again at step %d", o, n)
				}
				sweep(t, dir)
				bring(t, dir, nil)
				if left := devices(t); !slices.Equal(left, []string{"lo"}) {
					t.Errorf("%s, killed at step %d: there are still %v", o, n, left)
				}
			}
			if n < 3 {
				t.Errorf("%s has only %d steps", o, n-1)
			}
			bring(t, dir, nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// foreign lists the devices that weft has not made.
func foreign(t *testing.T, dir string) (list []string) {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	links, err := k.Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Foreign {
			list = append(list, l.Name)
		}
	}
	return list
}

func sweep(t *testing.T, dir string) {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Sweep(); err != nil {
		t.Error(err)
	}
}

func devices(t *testing.T) (names []string) {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names
}
