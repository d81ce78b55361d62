package rtnetlink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// rtmsg is the fixed part of a route's message.
func rtmsg(family, bits, source, tos, table, proto, scope, kind byte, flags uint32) []byte {
	return binary.NativeEndian.AppendUint32([]byte{family, bits, source, tos, table, proto, scope, kind}, flags)
}

func u32Attribute(kind uint16, v uint32) []byte {
	return nlconn.Attribute(kind, binary.NativeEndian.AppendUint32(nil, v))
}

// nexthop is one of an RTA_MULTIPATH.
func nexthop(device uint32, weight byte, attributes ...[]byte) []byte {
	body := slices.Concat(attributes...)
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtNexthop+len(body)))
	b = binary.NativeEndian.AppendUint32(append(b, 0, weight-1), device)
	return append(b, body...)
}

func TestRoutesAreRead(t *testing.T) {
	gateway4, gateway6 := []byte{192, 0, 2, 1}, netip.MustParseAddr("2001:db8::1").AsSlice()
	for name, c := range map[string]struct {
		message []byte
		want    state.KernelRoute
	}{
		"one gateway": {
			slices.Concat(rtmsg(unix.AF_INET, 24, 0, 0, 254, 186, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{198, 51, 100, 0}),
				u32Attribute(unix.RTA_OIF, 7), nlconn.Attribute(unix.RTA_GATEWAY, gateway4), u32Attribute(unix.RTA_PRIORITY, 32)),
			state.KernelRoute{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Table: 254, Metric: 32, Type: state.RouteUnicast, Protocol: 186,
				Hops: []state.KernelHop{{Gateway: netip.AddrFrom4([4]byte(gateway4)), Device: 7, Weight: 1}}},
		},
		"the default route has no destination": {
			slices.Concat(rtmsg(unix.AF_INET6, 0, 0, 0, 254, 3, 0, 1, 0), u32Attribute(unix.RTA_OIF, 3), nlconn.Attribute(unix.RTA_GATEWAY, gateway6)),
			state.KernelRoute{Prefix: netip.MustParsePrefix("::/0"), Table: 254, Type: state.RouteUnicast, Protocol: 3,
				Hops: []state.KernelHop{{Gateway: netip.AddrFrom16([16]byte(gateway6)), Device: 3, Weight: 1}}},
		},
		"an IPv6 gateway for IPv4 (RFC 8950)": {
			slices.Concat(rtmsg(unix.AF_INET, 32, 0, 0, 254, 3, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{203, 0, 113, 9}),
				nlconn.Attribute(unix.RTA_VIA, append(binary.NativeEndian.AppendUint16(nil, unix.AF_INET6), gateway6...)), u32Attribute(unix.RTA_OIF, 4)),
			state.KernelRoute{Prefix: netip.MustParsePrefix("203.0.113.9/32"), Table: 254, Type: state.RouteUnicast, Protocol: 3,
				Hops: []state.KernelHop{{Gateway: netip.AddrFrom16([16]byte(gateway6)), Device: 4, Weight: 1}}},
		},
		"several gateways, an MTU and a table beyond 255": {
			slices.Concat(rtmsg(unix.AF_INET, 8, 0, 0, 252, 3, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{20, 0, 0, 0}), u32Attribute(unix.RTA_TABLE, 1000),
				nlconn.Attribute(unix.RTA_METRICS, u32Attribute(rtaxMTU, 1400)),
				nlconn.Attribute(unix.RTA_MULTIPATH, slices.Concat(nexthop(1, 3, nlconn.Attribute(unix.RTA_GATEWAY, gateway4)), nexthop(2, 1, nlconn.Attribute(unix.RTA_GATEWAY, gateway4))))),
			state.KernelRoute{Prefix: netip.MustParsePrefix("20.0.0.0/8"), Table: 1000, MTU: 1400, Type: state.RouteUnicast, Protocol: 3,
				Hops: []state.KernelHop{{Gateway: netip.AddrFrom4([4]byte(gateway4)), Device: 1, Weight: 3}, {Gateway: netip.AddrFrom4([4]byte(gateway4)), Device: 2, Weight: 1}}},
		},
		"for some sources, and with a lifetime": {
			slices.Concat(rtmsg(unix.AF_INET6, 64, 48, 0, 254, unix.RTPROT_RA, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, netip.MustParseAddr("2001:db8::").AsSlice()),
				u32Attribute(unix.RTA_OIF, 4), nlconn.Attribute(unix.RTA_CACHEINFO, slices.Concat(make([]byte, 8), []byte{1, 2, 0, 0}, make([]byte, 20)))),
			state.KernelRoute{Prefix: netip.MustParsePrefix("2001:db8::/64"), Table: 254, Type: state.RouteUnicast, Protocol: unix.RTPROT_RA,
				SourceOf: true, Expires: true, Hops: []state.KernelHop{{Device: 4, Weight: 1}}},
		},
		"encapsulated, by a next hop object": {
			slices.Concat(rtmsg(unix.AF_INET, 24, 0, 0x10, 254, 3, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{198, 51, 100, 0}),
				u32Attribute(rtaNhID, 77), u32Attribute(unix.RTA_OIF, 1), nlconn.Attribute(unix.RTA_ENCAP_TYPE, []byte{1, 0})),
			state.KernelRoute{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Table: 254, TOS: 0x10, Object: 77, Type: state.RouteUnicast, Protocol: 3,
				Hops: []state.KernelHop{{Device: 1, Weight: 1, Encap: true}}},
		},
		"a blackhole has no hops": {
			slices.Concat(rtmsg(unix.AF_INET, 8, 0, 0, 254, 4, 0, 6, 0), nlconn.Attribute(unix.RTA_DST, []byte{10, 0, 0, 0})),
			state.KernelRoute{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Table: 254, Type: state.RouteBlackhole, Protocol: 4, Hops: []state.KernelHop{}},
		},
		"a gateway that is no address": {
			slices.Concat(rtmsg(unix.AF_INET, 8, 0, 0, 254, 4, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{10, 0, 0, 0}), nlconn.Attribute(unix.RTA_GATEWAY, []byte{1, 2, 3}), u32Attribute(unix.RTA_OIF, 1)),
			state.KernelRoute{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Table: 254, Type: state.RouteUnicast, Protocol: 4, Malformed: true, Hops: []state.KernelHop{{Device: 1, Weight: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := state.KernelRoute{Hops: make([]state.KernelHop, 5)}
			if err := ParseRoute(c.message, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("read as\n%+v, want\n%+v", got, c.want)
			}
			for n := range unix.SizeofRtMsg {
				if err := ParseRoute(c.message[:n], &got); !errors.Is(err, nlconn.ErrShort) {
					t.Errorf("%d bytes of it: %v, want %v", n, err, nlconn.ErrShort)
				}
			}
		})
	}
	var r state.KernelRoute
	for _, bad := range [][]byte{
		rtmsg(unix.AF_BRIDGE, 0, 0, 0, 254, 4, 0, 1, 0), rtmsg(unix.AF_INET, 33, 0, 0, 254, 4, 0, 1, 0),
		slices.Concat(rtmsg(unix.AF_INET, 8, 0, 0, 254, 4, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, make([]byte, 16))),
	} {
		if err := ParseRoute(bad, &r); err == nil {
			t.Errorf("%x was read as %+v", bad, r)
		}
	}
}

// FuzzMessages gives bytes to every reader: none may panic, and a route that is
// read has a prefix.
func FuzzMessages(f *testing.F) {
	f.Add(slices.Concat(rtmsg(unix.AF_INET, 8, 0, 0, 252, 3, 0, 1, 0), nlconn.Attribute(unix.RTA_DST, []byte{20, 0, 0, 0}),
		nlconn.Attribute(unix.RTA_MULTIPATH, slices.Concat(nexthop(1, 3, nlconn.Attribute(unix.RTA_GATEWAY, []byte{1, 2, 3, 4})), nexthop(2, 1)))))
	f.Add(slices.Concat(nlconn.Head(unix.AF_INET6, unix.SizeofNdMsg), nlconn.Attribute(unix.NDA_DST, make([]byte, 16)), nlconn.Attribute(unix.NDA_LLADDR, make([]byte, 6))))
	f.Add(slices.Concat(make([]byte, 8), u32Attribute(unix.NHA_ID, 5), nlconn.Attribute(unix.NHA_GROUP, make([]byte, 16))))
	f.Add(slices.Concat(make([]byte, unix.SizeofIfInfomsg), nlconn.Attribute(unix.IFLA_LINKINFO, nlconn.Attribute(unix.IFLA_INFO_KIND, []byte("vlan\x00")))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r state.KernelRoute
		if err := ParseRoute(b, &r); err == nil {
			if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() {
				t.Errorf("read with the prefix %v", r.Prefix)
			}
		}
		for _, h := range r.Hops {
			if h.Weight < 1 || h.Weight > 256 {
				t.Errorf("a hop with weight %d", h.Weight)
			}
		}
		if n, err := parseNeighbour(b); err == nil && !n.Addr.IsValid() {
			t.Errorf("a neighbour without an address: %+v", n)
		}
		if o, err := parseObject(b); err == nil && o.ID == 0 {
			t.Errorf("an object without a number: %+v", o)
		}
		_, _ = parseBridgeEntry(b)
		_, _ = parseLink(b)
		_, _ = parseRule(b)
		for range nlconn.Messages(b) {
		}
	})
}

// sink notes routes and rules.
type sink struct {
	routes map[netip.Prefix]int
	links  map[string]state.KernelLink
	rules  []state.KernelRule
	gone   int
}

func newSink() *sink {
	return &sink{routes: map[netip.Prefix]int{}, links: map[string]state.KernelLink{}}
}

func (s *sink) Link(l state.KernelLink) { s.links[l.Name] = l }

func (s *sink) Route(r *state.KernelRoute, change state.RouteChange) {
	if change == state.RouteDeleted {
		s.routes[r.Prefix]--
		return
	}
	s.routes[r.Prefix]++
}

func (s *sink) Rules(rules []state.KernelRule) { s.rules = rules }

func (s *sink) RoutesMayBeGone() { s.gone++ }

func (s *sink) LinkGone(int) {}

func (s *sink) Neighbour(state.KernelNeighbour) {}

func (s *sink) NeighbourGone(state.KernelNeighbour) {}

func (s *sink) BridgeEntry(state.BridgeEntry) {}

func (s *sink) BridgeEntryGone(state.BridgeEntry) {}

func (s *sink) Object(state.NexthopObject) {}

func (s *sink) ObjectGone(uint32) {}

func openFeed(t *testing.T, space *netspace.Space) *Feed {
	t.Helper()
	var feed *Feed
	err := space.Do(func() error {
		var err error
		feed, err = OpenFeed()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { feed.Close() })
	return feed
}

func TestRulesLinksAndRoutesOfANamespaceAreListed(t *testing.T) {
	space := spacetest.New(t, "list")
	spacetest.Batch(t, space, "link set lo up", "link add name bri type bridge", "link set bri up", "link add d0 type veth peer name d1", "link set d0 master bri up", "link set d1 up",
		"route add blackhole 192.0.2.0/24", "rule add iif lo lookup 7 pref 5", "rule add from 198.51.100.0/24 lookup 8 pref 6", "-6 rule add not fwmark 1 lookup 9 pref 7")
	feed := openFeed(t, space)
	var s *sink
	// The kernel's linkwatch says up to a second later that a link runs.
	for deadline := time.Now().Add(20 * time.Second); s == nil || !s.links["d0"].Up && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s = newSink()
		if err := feed.Dump(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	if s.routes[netip.MustParsePrefix("192.0.2.0/24")] != 1 {
		t.Errorf("routes %v", s.routes)
	}
	if b, d := s.links["bri"], s.links["d0"]; b.Kind != "bridge" || d.Kind != "veth" || d.Master != b.Index || !d.Up || !d.Ethernet || d.MTU != 1500 || d.MAC == [6]byte{} {
		t.Errorf("links %+v %+v", b, d)
	}
	var words []string
	for _, r := range s.rules {
		words = append(words, fmt.Sprintf("%v plain %v local %v %s", r.IPv6, r.Plain, r.LocalOnly, r.Text))
	}
	for _, want := range []string{
		"false plain true local false 0: from all lookup 255", "false plain false local true 5: iif lo lookup 7",
		"false plain false local false 6: from 198.51.100.0/24 lookup 8", "true plain false local false 7: not fwmark 0x1 lookup 9",
		"true plain true local false 32766: from all lookup 254",
	} {
		if !strings.Contains(strings.Join(words, "\n"), want) {
			t.Errorf("no rule %q among\n%s", want, strings.Join(words, "\n"))
		}
	}
}

// A socket that overran receives events again as soon as that is known: a dump made
// then misses none of what follows.
func TestSocketThatOverranIsEmptyWhenItSaysSo(t *testing.T) {
	space := spacetest.New(t, "overran")
	spacetest.Batch(t, space, "link set lo up")
	feed := openFeed(t, space)
	narrow(t, space, feed)
	if err := feed.events.Drain(func([]byte) {}); !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("events that do not fit: %v, want ENOBUFS", err)
	}
	spacetest.Batch(t, space, "route add blackhole 203.0.113.0/24")
	received := false
	err := feed.events.Drain(func(piece []byte) {
		for h, b := range nlconn.Messages(piece) {
			var r state.KernelRoute
			received = received || h.Type == unix.RTM_NEWROUTE && ParseRoute(b, &r) == nil && r.Prefix == netip.MustParsePrefix("203.0.113.0/24")
		}
	})
	if err != nil || !received {
		t.Errorf("the route after the overrun: heard %v, %v", received, err)
	}
}

// narrow gives a feed's socket too little room for the events that it causes.
func narrow(t *testing.T, space *netspace.Space, feed *Feed) {
	t.Helper()
	err := feed.events.Control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8192)
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("route add blackhole 198.18.%d.0/24", i))
	}
	spacetest.Batch(t, space, lines...)
}

// A feed whose socket holds too little hears that events were lost, once, and
// goes on hearing afterwards.
func TestLostNewsAreNoticed(t *testing.T) {
	space := spacetest.New(t, "lost")
	spacetest.Batch(t, space, "link set lo up")
	feed := openFeed(t, space)
	narrow(t, space, feed)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { feed.Follow(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	s := newSink()
	await := func(what string, ok func(error) bool) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case <-feed.Wake():
			case <-deadline:
				t.Fatal("it never came: " + what)
			}
			for more := true; more; {
				var err error
				if more, err = feed.Deliver(ctx, s, 10); ok(err) {
					return
				}
			}
		}
	}
	await("that events were lost", func(err error) bool { return errors.Is(err, nlconn.ErrEventsLost) })
	last := netip.MustParsePrefix("203.0.113.0/24")
	spacetest.Batch(t, space, "route add blackhole 203.0.113.0/24")
	await("a later route", func(err error) bool { return s.routes[last] == 1 })
}
