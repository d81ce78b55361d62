package kernel

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"

	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// hostText is what of a host a person compares.
func hostText(t *testing.T) (text string) {
	t.Helper()
	for _, line := range [][]string{
		{"ip", "-4", "route", "show", "table", "all"}, {"ip", "-6", "route", "show", "table", "all"}, {"ip", "addr"},
		{"sysctl", "-a", "-r", `^net\.ipv[46]\.(conf|ip_forward)`},
	} {
		out, err := exec.Command(line[0], line[1:]...).Output()
		if err != nil {
			t.Errorf("%v: %v", line, err)
		}
		text += string(out)
	}
	return text
}

// Each way by which weft sets a route meets one of the host's in its place.
func TestARouteOfTheHostIsNeverReplaced(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	object := func(k *Kernel, p string, metric int) error {
		return k.applyRoute(t.Context(), state.Route{Prefix: prefix(p), Device: "siit0", MTU: 1400, Metric: metric}, false)
	}
	for name, put := range map[string]func(*Kernel) error{
		"the default route":                   func(k *Kernel) error { return object(k, "0.0.0.0/0", 0) },
		"the default route of IPv6":           func(k *Kernel) error { return object(k, "::/0", 0) },
		"one of a metric":                     func(k *Kernel) error { return object(k, "0.0.0.0/0", 100) },
		"a connected network":                 func(k *Kernel) error { return object(k, "192.0.2.0/24", 0) },
		"a blackhole":                         func(k *Kernel) error { return object(k, "203.0.113.0/24", 0) },
		"one with several next hops":          func(k *Kernel) error { return object(k, "198.18.0.0/15", 0) },
		"a static route for a pool":           func(k *Kernel) error { return object(k, "2001:db8:7::/48", 0) },
		"a host route for a subscriber":       func(k *Kernel) error { return k.RouteSubscriber(prefix("198.51.100.7/32"), "siit0") },
		"a static route for a subscriber":     func(k *Kernel) error { return k.RouteSubscriber(prefix("2001:db8:7::/48"), "siit0") },
		"a prefix that is unreachable":        func(k *Kernel) error { return k.HoldSubscriber(prefix("2001:db8:8::/48")) },
		"a static route for a delegation":     func(k *Kernel) error { return k.Delegate(prefix("2001:db8:7::/48"), addr("fe80::1"), "siit0") },
		"a space to delegate that is foreign": func(k *Kernel) error { return k.HoldSpace(prefix("2001:db8:8::/48")) },
	} {
		t.Run(name, func(t *testing.T) {
			space := spacetest.New(t, "router")
			spacetest.Batch(t, space, "link add lan type veth peer name far", "link set lan addrgenmode none", "link set far addrgenmode none", "link set far up", "link set lan up",
				"link add siit0 type veth peer name siit1", "link set siit0 addrgenmode none", "link set siit1 addrgenmode none", "link set siit1 up", "link set siit0 up",
				"addr add 192.0.2.1/24 dev lan", "addr add 2001:db8:1::1/64 dev lan nodad",
				"route add default via 192.0.2.254", "route add default via 192.0.2.253 metric 100", "route add 198.51.100.7/32 via 192.0.2.9",
				"route add blackhole 203.0.113.0/24", "route add 198.18.0.0/15 nexthop via 192.0.2.8 nexthop via 192.0.2.9")
			spacetest.Batch(t, space, "-6 route add default via 2001:db8:1::fe dev lan", "-6 route add 2001:db8:7::/48 via 2001:db8:1::7 dev lan", "-6 route add unreachable 2001:db8:8::/48 metric 65535")
			err := space.Do(func() error {
				before := hostText(t)
				k, err := Open(t.TempDir())
				if err != nil {
					return err
				}
				defer k.Close()
				if err := put(k); !errors.Is(err, ErrForeignRoute) {
					t.Errorf("weft says %v, want %v", err, ErrForeignRoute)
				}
				if err := k.UnrouteSubscribers(func(netip.Prefix) bool { return false }); err != nil {
					t.Error(err)
				}
				if err := k.Undelegated(func(netip.Prefix) bool { return false }); err != nil {
					t.Error(err)
				}
				if after := hostText(t); after != before {
					t.Errorf("the host was\n%s\nand is\n%s", before, after)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A default route of weft's stands beside the host's, and its metric may change.
func TestRoutesOfOnePrefixAreKeptApartByTheirMetrics(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	spacetest.Batch(t, space, "link add lan type veth peer name far", "link set lan addrgenmode none", "link set far addrgenmode none", "link set far up", "link set lan up", "addr add 192.0.2.1/24 dev lan",
		"addr add 2001:db8:1::1/64 dev lan nodad", "route add default via 192.0.2.254")
	spacetest.Batch(t, space, "-6 route add default via 2001:db8:1::fe dev lan")
	err := space.Do(func() error {
		device := state.Device{Name: "siit0", MAC: [6]byte{2, 1, 2, 3, 4, 5}, MTU: 1520, Owner: "nat64.main"}
		anywhere4, anywhere6 := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
		before := hostText(t)
		for _, metric := range []int{1, 7, 1} {
			want := state.Desired{device, state.Route{Prefix: anywhere4, Device: "siit0", Metric: metric}, state.Route{Prefix: anywhere6, Device: "siit0", Metric: 1024 + metric, MTU: 1400}}
			bring(t, dir, want)
			if again := bring(t, dir, want); len(again) > 0 {
				t.Errorf("with metric %d there is still to do: %v", metric, again)
			}
			k, err := Open(dir)
			if err != nil {
				return err
			}
			ours, err := k.routesOf(0, RouteProtocol)
			k.Close()
			if err != nil || len(ours) != 2 {
				t.Errorf("with metric %d weft's routes are %v (%v), want 2", metric, ours, err)
			}
		}
		bring(t, dir, nil)
		if after := hostText(t); after != before {
			t.Errorf("the host was\n%s\nand is\n%s", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheHostsOwnRoutesAreFacts(t *testing.T) {
	space := spacetest.New(t, "router")
	spacetest.Batch(t, space, "link add lan type veth peer name far", "link set lan addrgenmode none", "link set far addrgenmode none", "link set far up", "link set lan up", "addr add 192.0.2.1/24 dev lan",
		"route add default via 192.0.2.254 metric 5", "route add 198.51.100.0/24 dev lan proto static", "route add 198.51.101.0/24 dev lan proto dhcp",
		"route add 203.0.113.0/24 dev lan proto 87", "route add 203.0.114.0/24 dev lan proto bird")
	spacetest.Batch(t, space, "-6 route add default via fe80::1 dev lan proto ra")
	err := space.Do(func() error {
		k, err := View()
		if err != nil {
			return err
		}
		defer k.Close()
		links, err := k.Links()
		if err != nil {
			return err
		}
		names := map[int]string{}
		for _, l := range links {
			names[l.Index] = l.Name
		}
		list, err := k.HostRoutes(t.Context(), names)
		var got []string
		for _, r := range list {
			got = append(got, r.String())
		}
		want := []string{"default via 192.0.2.254 dev lan metric 5", "198.51.100.0/24 dev lan metric 0", "198.51.101.0/24 dev lan metric 0", "default via fe80::1 dev lan metric 1024"}
		if !slices.Equal(got, want) {
			t.Errorf("the routes are %q, want %q", got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The kernel changes other settings together with the switches of forwarding.
// They are put back too, also if weft is killed in between.
func TestWhatTheSwitchesOfForwardingChangeIsPutBack(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	spacetest.Batch(t, space, "link add lan type veth peer name far")
	err := space.Do(func() error {
		for name, value := range map[string]string{
			"net/ipv4/conf/all/accept_redirects": "0", "net/ipv4/conf/far/forwarding": "1", "net/ipv6/conf/lan/forwarding": "1", "net/ipv6/conf/lan/accept_ra": "1",
		} {
			if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
				return err
			}
		}
		before := hostText(t)
		want := state.Desired{
			state.Sysctl{Name: "net/ipv6/conf/lan/accept_ra", Value: "2"},
			state.Sysctl{Name: forwarding4, Value: "1"}, state.Sysctl{Name: forwarding6, Value: "1"},
		}
		bring(t, dir, want)
		if hostText(t) == before {
			t.Error("nothing has changed")
		}
		steps := bring(t, dir, nil)
		if last := steps[len(steps)-1].Object.Key(); last != "sysctl net/ipv6/conf/lan/accept_ra" {
			t.Errorf("the last step is of %s: accept_ra goes back after forwarding", last)
		}
		if after := hostText(t); after != before {
			t.Errorf("the host was\n%s\nand is\n%s", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A table of the host that has the name of weft's stays as it is, whatever is wanted
// and at the end, and does not keep the rest from being looked at.
func TestATableOfTheHostIsNeverReplaced(t *testing.T) {
	space, dir := spacetest.New(t, "router"), t.TempDir()
	err := space.Do(func() error {
		nft := func(argv ...string) string {
			out, err := exec.Command("nft", argv...).CombinedOutput()
			if err != nil {
				t.Fatalf("nft %v: %v\n%s", argv, err, out)
			}
			return string(out)
		}
		nft("add table inet weft; add chain inet weft mine")
		before := nft("list", "ruleset")
		k, err := Open(dir)
		if err != nil {
			return err
		}
		defer k.Close()
		want := state.NFTable{Name: "weft", Owner: "firewall", Body: "\tchain a {\n\t}\n"}
		found, err := k.Observe(t.Context(), state.Desired{want})
		if err != nil || len(found) != 0 {
			t.Errorf("observed are %v, %v", found, err)
		}
		if err := k.applyNFTable(t.Context(), want, false); !errors.Is(err, ErrForeignTable) {
			t.Errorf("making it gives %v", err)
		}
		if err := k.applyNFTable(t.Context(), want, true); err != nil {
			t.Errorf("removing it gives %v", err)
		}
		if after := nft("list", "ruleset"); after != before {
			t.Errorf("the host's table is now\n%s\nit was\n%s", after, before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
