package kernel

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/reconcile"
	"weft/internal/state"
)

func bothFamilies() state.Desired {
	return state.Desired{
		state.Sysctl{Name: "net/ipv4/ip_forward", Value: "1"},
		state.Link{Name: "lan", MTU: 1400},
		state.Address{Device: "lan", Prefix: netip.MustParsePrefix("192.0.2.1/24")},
		state.Address{Device: "lan", Prefix: netip.MustParsePrefix("2001:db8::1/64")},
		state.AllMulticast{Device: "lan"},
		state.Device{Name: "siit0", MAC: [6]byte{2, 1, 2, 3, 4, 5}, MTU: 1520, Owner: "nat64.main"},
		state.Route{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Device: "siit0", MTU: 1480},
		state.Route{Prefix: netip.MustParsePrefix("64:ff9b::/96"), Device: "siit0"},
		state.Route{Prefix: netip.MustParsePrefix("::/0"), Device: "siit0", MTU: 1400},
		state.Route{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Device: "siit0"},
		state.Promiscuous{Device: "lan"},
		state.NoOffloads{Device: "lan"},
		state.TagsInFrames{Device: "lan"},
	}
}

// bring applies want and returns the steps that it took. The kernel is opened again
// each time, as after a restart.
func bring(t *testing.T, dir string, want state.Desired) (steps []state.Step) {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	targets := reconcile.Targets{state.Kernel: k}
	steps, err = targets.Plan(t.Context(), want)
	if err == nil {
		err = targets.Apply(t.Context(), steps)
	}
	if err != nil {
		t.Error(err)
	}
	return steps
}

func TestObjectsOfBothFamiliesAreMadeKeptChangedAndTakenAway(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	err := space.Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
		veth.Name = "lan"
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		want := bothFamilies()
		if steps := bring(t, dir, want); len(steps) != len(want) {
			t.Errorf("it took %v, want %d steps", steps, len(want))
		}
		if steps := bring(t, dir, want); len(steps) != 0 {
			t.Errorf("the second time it took %v", steps)
		}
		if flags, err := ethtool.Get("lan", ethtool.Flags); err != nil || flags&ethtool.StripTags != 0 {
			t.Errorf("lan takes tags out of its frames (%v)", err)
		}
		changed := slices.Clone(want)
		changed[1] = state.Link{Name: "lan"}
		changed[5] = state.Device{Name: "siit0", MAC: [6]byte{2, 1, 2, 3, 4, 5}, MTU: 9000, Owner: "nat64.main"}
		changed[6] = state.Route{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Device: "siit0", MTU: 1400}
		for _, s := range bring(t, dir, changed) {
			if s.Op != state.Change {
				t.Errorf("it took %v, want changes alone", s)
			}
		}
		if steps := bring(t, dir, changed); len(steps) != 0 {
			t.Errorf("after the change it took %v", steps)
		}
		if lan, err := netlink.LinkByName("lan"); err != nil || lan.Attrs().MTU != 1500 {
			t.Errorf("lan does not have its own MTU again: %+v, %v", lan, err)
		}
		bring(t, dir, nil)
		if steps := bring(t, dir, nil); len(steps) != 0 {
			t.Errorf("after all was taken away there is still %v", steps)
		}
		return nothingLeft(t)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "journal.json")); err != nil || strings.TrimSpace(string(text)) != "{}" {
		t.Errorf("the journal still says %s (%v)", text, err)
	}
}

// nothingLeft looks at the kernel itself rather than through Observe.
func nothingLeft(t *testing.T) error {
	t.Helper()
	if value, err := readSysctl("net/ipv4/ip_forward"); err != nil || value != "0" {
		t.Errorf("ip_forward is %s, want 0 as before (%v)", value, err)
	}
	lan, err := netlink.LinkByName("lan")
	if err != nil {
		return err
	}
	if flags := lan.Attrs().Flags.String(); strings.Contains(flags, "up") || lan.Attrs().Allmulti != 0 {
		t.Errorf("lan is %s, allmulticast %d, want it down as before", flags, lan.Attrs().Allmulti)
	}
	if flags, err := ethtool.Get("lan", ethtool.Flags); err != nil || flags&ethtool.StripTags == 0 {
		t.Errorf("lan does not take tags out of its frames as before (%v)", err)
	}
	addresses, err := netlink.AddrList(lan, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	if len(addresses) != 0 {
		t.Errorf("lan has %v", addresses)
	}
	if _, err := netlink.LinkByName("siit0"); err == nil {
		t.Error("the device is still there")
	}
	return nil
}

func TestAJournalThatCannotBeReadIsAClearError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "journal.json") || !strings.Contains(err.Error(), "unload") {
		t.Errorf("%v, want the file's name and what it is for", err)
	}
}

func TestTheJournalKeepsTheFirstStateThroughARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	for _, was := range []string{"first", "second"} {
		j, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.note("sysctl a", was); err != nil {
			t.Fatal(err)
		}
	}
	j, err := openJournal(path)
	if err != nil || j.was["sysctl a"] != "first" {
		t.Errorf("the journal says %v, %v", j.was, err)
	}
	if err := j.forget("sysctl a"); err != nil {
		t.Fatal(err)
	}
	if j, err = openJournal(path); err != nil || len(j.was) != 0 {
		t.Errorf("after forgetting it says %v, %v", j.was, err)
	}
}
