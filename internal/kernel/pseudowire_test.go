package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"weft/internal/kernel/driver"
	"weft/internal/kernel/mark"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/reconcile"
	"weft/internal/state"
)

// wires are n of them. One has an MTU at which the kernel gives a device no
// IPv6, one leaves nothing to a device further on.
func pseudowires(n int) (want state.Desired) {
	for i := range n {
		w := state.PseudowireDevice{
			Name: fmt.Sprintf("w%d", i), Hidden: fmt.Sprintf("hidden%d", i), MAC: [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}, MTU: 1446,
			Owner: fmt.Sprintf("pseudowire.w%d", i), Segments: true, Sums: true, LinkLocal: i%2 == 0,
		}
		switch i {
		case 2:
			w.MTU = 600
		case 3:
			w.Segments, w.Sums = false, false
		}
		want = append(want, w)
	}
	return want
}

func inSpace(t *testing.T, space *netspace.Space, f func() error) {
	t.Helper()
	if err := space.Do(f); err != nil {
		t.Fatal(err)
	}
}

func TestManyWiresAreMadeKeptAndTakenAway(t *testing.T) {
	inSpace(t, spacetest.New(t, "wires"), func() error {
		dir, want := t.TempDir(), pseudowires(3*pseudowiresAtOnce+5)
		if steps := bring(t, dir, want); len(steps) != len(want) {
			t.Errorf("it took %d steps, want %d", len(steps), len(want))
		}
		if steps := bring(t, dir, want); len(steps) != 0 {
			t.Errorf("the second time it took %v", steps)
		}
		family, err := netlink.GenlFamilyGet("ethtool")
		if err != nil {
			return err
		}
		features := func(name string) map[string]bool {
			on := map[string]bool{}
			l, err := netlink.LinkByName(name)
			if err != nil {
				t.Error(err)
				return on
			}
			for _, f := range driver.OffloadsActive(family, l.Attrs().Index) {
				on[f] = true
			}
			return on
		}
		if on := features("w0"); !on["tx-tcp-segmentation"] || !on["tx-tcp6-segmentation"] || !on["tx-checksum-ip-generic"] || !on["rx-gro"] || on["tx-udp_tnl-segmentation"] {
			t.Errorf("offloads of w0: %v", on)
		}
		if on := features("w3"); on["tx-tcp-segmentation"] || on["tx-checksum-ip-generic"] || !on["rx-gro"] {
			t.Errorf("offloads of w3: %v", on)
		}
		linkLocal := map[int]bool{}
		// The kernel gives a device its address a moment after it is up, by the work
		// that finds out that the other end is up too (linkwatch).
		for end := time.Now().Add(20 * time.Second); len(linkLocal) == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			w0, err := netlink.LinkByName("w0")
			if err != nil {
				return err
			}
			addresses, err := netlink.AddrList(nil, netlink.FAMILY_V6)
			if errors.Is(err, netlink.ErrDumpInterrupted) {
				continue
			}
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.LinkIndex == w0.Attrs().Index }) {
				continue
			}
			for _, a := range addresses {
				linkLocal[a.LinkIndex] = true
			}
		}
		for _, test := range []struct {
			name string
			has  bool
		}{{"w0", true}, {"w1", false}, {"hidden0", false}, {"hidden1", false}} {
			if l, err := netlink.LinkByName(test.name); err != nil || linkLocal[l.Attrs().Index] != test.has {
				t.Errorf("%s has a link-local address: %v (%v), want %v", test.name, !test.has, err, test.has)
			}
		}
		if steps := bring(t, dir, nil); len(steps) != len(want) {
			t.Errorf("to take them away took %d steps", len(steps))
		}
		links, err := netlink.LinkList()
		if err != nil || len(links) != 1 {
			t.Errorf("devices are left: %v (%v)", linkNames(links), err)
		}
		return nil
	})
}

func TestWiresWhoseNamesAreTaken(t *testing.T) {
	space, dir, want := spacetest.New(t, "taken"), t.TempDir(), pseudowires(8)
	half := want[5].(state.PseudowireDevice)
	// what a process that died midway left
	spacetest.Batch(t, space, "link add w5 type veth peer name hidden5", "link set w5 alias "+mark.AliasPrefix+half.Owner)
	inSpace(t, space, func() error {
		k, err := Open(dir)
		if err != nil {
			return err
		}
		defer k.Close()
		targets := reconcile.Targets{state.Kernel: k}
		steps, err := targets.Plan(t.Context(), want)
		if err != nil {
			return err
		}
		// and another program's device, which is created in between
		bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		bridge.Name = "w6"
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		err = targets.Apply(t.Context(), steps)
		if err == nil || !strings.Contains(err.Error(), "device w6 exists and is not weft's") {
			t.Errorf("a device of another program: %v", err)
		}
		if l, err := netlink.LinkByName("w6"); err != nil || l.Attrs().Alias != "" {
			t.Errorf("it was marked: %v %v", l, err)
		}
		if err := netlink.LinkDel(bridge); err != nil {
			return err
		}
		bring(t, dir, want)
		if steps := bring(t, dir, want); len(steps) != 0 {
			t.Errorf("it still takes %v", steps)
		}
		l, err := netlink.LinkByName("w5")
		if err != nil || !slices.Equal(l.Attrs().HardwareAddr, half.MAC[:]) || l.Attrs().MTU != half.MTU {
			t.Errorf("what was left was not finished: %+v (%v)", l.Attrs(), err)
		}
		return nil
	})
}

// Whatever changes how packets get to another host is heard.
func TestNewsOfWays(t *testing.T) {
	space := spacetest.New(t, "news")
	spacetest.Batch(t, space, "link add d0 type veth peer name d1", "link set d1 up", "link set d0 up", "address add 192.0.2.1/24 dev d0")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := make(chan struct{}, 1)
	err := space.Do(func() error {
		k, err := Open(t.TempDir())
		if err != nil {
			return err
		}
		defer k.Close()
		return k.WatchPaths(ctx, events)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{
		"route add 198.51.100.0/24 via 192.0.2.9", "neigh replace 192.0.2.9 lladdr 02:00:00:00:00:09 dev d0", "rule add from 192.0.2.1 lookup 7",
		"nexthop add id 7 via 192.0.2.10 dev d0", "link set d0 mtu 1400", "route del 198.51.100.0/24",
	} {
		for quiet := false; !quiet; {
			select {
			case <-events: // of the change before
			case <-time.After(20 * eventsPause):
				quiet = true
			}
		}
		spacetest.Batch(t, space, change)
		select {
		case <-events:
		case <-time.After(10 * time.Second):
			t.Errorf("nothing was heard of: %s", change)
		}
	}
}
