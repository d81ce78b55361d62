package guardtable

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// The guard: every vector through the XDP and the TC build. Frames come in by
// lan of the router of route_test.go, to addresses that it routes to wan; what
// the guard lets in is forwarded.

// guarded has lan guarded by g, in one of the builds.
func (r *router) guarded(build string, g state.Guard) {
	r.T.Helper()
	g.Device, g.XDP = "lan", build == "ingress_xdp"
	for i := range g.Rates {
		if g.Rates[i].PerSecond > 0 && g.Rates[i].Burst == 0 {
			g.Rates[i].Burst = 1
		}
	}
	r.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleRouted, p.Device == "lan")
		p.Roles = p.Roles.With(state.RoleGuarded, p.Device == "lan")
	})
	for i := range r.Table("guard_buckets").MaxEntries() {
		if err := r.Table("guard_buckets").Put(i, uint64(0)); err != nil {
			r.T.Fatal(err)
		}
	}
	r.Apply(g)
}

func (r *router) list(entries ...state.GuardEntry) {
	r.T.Helper()
	if err := Of(r.Datapath).SetGuardList(entries); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { Of(r.Datapath).SetGuardList(nil) })
}

// guardCase is a packet and what becomes of it.
type guardCase struct {
	name    string
	packet  datapathtest.Packet
	outcome state.Outcome
}

func (r *router) guardCases(build string, cases []guardCase) {
	r.T.Helper()
	for _, c := range cases {
		frame := r.Frame("lan", c.packet.Bytes())
		want := frame
		if c.outcome == state.ForwardRouted {
			want = datapathtest.Hopped(frame, r.Neighbour(1, 0, true))
		}
		res, got := r.One(build, frame)
		if err := datapathtest.Differs(res, got, c.outcome, datapathtest.VerdictOf(build, got), want); err != nil {
			r.T.Errorf("%s: %s: %v", build, c.name, err)
		}
	}
}

const inside4, inside6 = "198.51.100.7", "2001:db8:1::7"

func TestTheGuardKeepsItsList(t *testing.T) {
	r := newRouter(t, parts()...)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked), guardEntry("192.0.2.128/25", 0), guardEntry("10.0.0.0/8", state.ListedBogon),
		guardEntry("2001:db8:bad::/48", state.ListedBlocked), guardEntry("2001:db8:bad:1::/64", 0), guardEntry("fc00::/7", state.ListedBogon))
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Bogons: true})
		r.guardCases(build, []guardCase{
			{"a source that is not listed goes on", datapathtest.Udp("203.0.113.9", inside4, 9), state.ForwardRouted},
			{"a blocked source is dropped", datapathtest.Udp("192.0.2.1", inside4, 9), state.DropBlocked},
			{"an exception goes on", datapathtest.Udp("192.0.2.129", inside4, 9), state.ForwardRouted},
			{"a bogon is dropped", datapathtest.Udp("10.9.9.9", inside4, 9), state.DropBogon},
			{"a blocked IPv6 source is dropped", datapathtest.Udp("2001:db8:bad::1", inside6, 9), state.DropBlocked},
			{"an IPv6 exception goes on", datapathtest.Udp("2001:db8:bad:1::1", inside6, 9), state.ForwardRouted},
			{"an IPv6 bogon is dropped", datapathtest.Udp("fd00::1", inside6, 9), state.DropBogon},
			{"a link-local source is left to the stack", datapathtest.Udp("fe80::1", inside6, 9), state.PassLinkScope},
			{"a source without address is left to the stack", datapathtest.Udp("::", inside6, 9), state.PassLinkScope},
		})
		r.guarded(build, state.Guard{})
		r.guardCases(build, []guardCase{
			{"bogons go on where they are not asked for", datapathtest.Udp("10.9.9.9", inside4, 9), state.ForwardRouted},
			{"blocked ones never do", datapathtest.Udp("192.0.2.1", inside4, 9), state.DropBlocked},
		})
	}
}

func TestTheGuardIsAskedOnceByTheBuildThatItIsFor(t *testing.T) {
	r := newRouter(t, parts()...)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked))
	for i, build := range datapathtest.Builds {
		r.guarded(datapathtest.Builds[1-i], state.Guard{})
		r.guardCases(build, []guardCase{{"the other build guards", datapathtest.Udp("192.0.2.1", inside4, 9), state.ForwardRouted}})
	}
}

func TestTheGuardAsksForTheWayBack(t *testing.T) {
	r := newRouter(t, parts()...)
	r.In(func() error {
		for _, p := range []string{"203.0.113.0/24", "2001:db8:b1ac::/48"} {
			_, dst, err := net.ParseCIDR(p)
			if err != nil {
				return err
			}
			if err := netlink.RouteAdd(&netlink.Route{Dst: dst, Type: 6 /* RTN_BLACKHOLE */}); err != nil {
				return fmt.Errorf("add blackhole route %s: %w", p, err)
			}
		}
		return nil
	})
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Reverse: state.ReverseLoose})
		r.guardCases(build, []guardCase{
			{"a source with a route elsewhere is let in", datapathtest.Udp("192.0.2.1", inside4, 9), state.ForwardRouted},
			{"an IPv6 source with a route here is let in", datapathtest.Udp("2001:db8:77::1", inside6, 9), state.ForwardRouted},
			{"a source behind a blackhole is not", datapathtest.Udp("203.0.113.1", inside4, 9), state.DropReversePath},
			{"an IPv6 source behind a blackhole is not", datapathtest.Udp("2001:db8:b1ac::1", inside6, 9), state.DropReversePath},
			{"the router's own address is no source from outside", datapathtest.Udp("198.51.100.1", inside4, 9), state.DropReversePath},
		})
		r.guarded(build, state.Guard{Reverse: state.ReverseStrict})
		r.guardCases(build, []guardCase{
			{"a source whose route leads elsewhere is dropped", datapathtest.Udp("192.0.2.1", inside4, 9), state.DropReversePath},
			{"an IPv6 source whose route leads here is let in", datapathtest.Udp("2001:db8:77::1", inside6, 9), state.ForwardRouted},
		})
	}
}

// withHeaders is an IPv6 packet with extension headers before its transport header.
func withHeaders(p datapathtest.Packet, first byte, headers string) datapathtest.Packet {
	p.Protocol, p.Options = first, datapathtest.Bin(headers)
	return p
}

func ping(from, to string) datapathtest.Packet {
	p := datapathtest.Packet{From: from, To: to, Protocol: 1, Payload: datapathtest.Bin("0800 0000 0001 0001 61626364")}
	if p.To == inside6 {
		p.Protocol, p.Payload[0] = 58, 128
	}
	datapathtest.Seal(p.Payload, 2, from, to, p.Protocol)
	return p
}

func TestTheGuardBoundsSYNsAndICMP(t *testing.T) {
	r := newRouter(t, parts()...)
	slow := state.GuardRate{PerSecond: 1, Burst: 2}
	for _, build := range datapathtest.Builds {
		for _, f := range []struct{ from, same, other, to string }{
			{"192.0.2.1", "192.0.2.1", "192.0.2.2", inside4},
			{"2001:db8:9::1", "2001:db8:9::2", "2001:db8:9:1::1", inside6},
		} {
			r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNSource: slow, state.GuardICMPSource: slow}})
			r.guardCases(build, []guardCase{
				{"the first SYN of a source", datapathtest.Tcp(f.from, f.to, 2, nil, 4), state.ForwardRouted},
				{"the second SYN of a source", datapathtest.Tcp(f.same, f.to, 2, nil, 4), state.ForwardRouted},
				{"the third at once is too many", datapathtest.Tcp(f.from, f.to, 2, nil, 4), state.DropSynRate},
				{"a SYN with ECN bits is one (RFC 3168)", datapathtest.Tcp(f.from, f.to, 0xc2, nil, 4), state.DropSynRate},
				{"what is no SYN goes on", datapathtest.Tcp(f.from, f.to, 0x10, nil, 4), state.ForwardRouted},
				{"an answer to a SYN goes on", datapathtest.Tcp(f.from, f.to, 0x12, nil, 4), state.ForwardRouted},
				{"another source has its own", datapathtest.Tcp(f.other, f.to, 2, nil, 4), state.ForwardRouted},
				{"the first ping", ping(f.from, f.to), state.ForwardRouted},
				{"the second ping", ping(f.same, f.to), state.ForwardRouted},
				{"the third ping is too many", ping(f.same, f.to), state.DropIcmpRate},
				{"a ping of another source goes on", ping(f.other, f.to), state.ForwardRouted},
				{"UDP is not bounded", datapathtest.Udp(f.from, f.to, 9), state.ForwardRouted},
			})
			r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNTotal: slow, state.GuardICMPTotal: slow}})
			r.guardCases(build, []guardCase{
				{"one SYN of all", datapathtest.Tcp(f.from, f.to, 2, nil, 4), state.ForwardRouted},
				{"another of all", datapathtest.Tcp(f.other, f.to, 2, nil, 4), state.ForwardRouted},
				{"more of all are too many", datapathtest.Tcp(f.other, f.to, 2, nil, 4), state.DropSynRate},
				{"one ping of all", ping(f.from, f.to), state.ForwardRouted},
				{"another ping of all", ping(f.other, f.to), state.ForwardRouted},
				{"more pings of all are too many", ping(f.from, f.to), state.DropIcmpRate},
			})
		}
	}
}

func TestTheGuardSeesThroughHeadersAndFragments(t *testing.T) {
	r := newRouter(t, parts()...)
	syn6 := datapathtest.Tcp("2001:db8:9::1", inside6, 2, nil, 4)
	cut := func(p datapathtest.Packet, n, flags int) datapathtest.Packet {
		p.Payload, p.Flags = p.Payload[:n], flags
		return p
	}
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNSource: {PerSecond: 1}, state.GuardICMPTotal: {PerSecond: 1}}})
		r.guardCases(build, []guardCase{
			{"the SYN that is allowed", syn6, state.ForwardRouted},
			{"a SYN behind destination options is one", withHeaders(syn6, 60, "0600010400000000"), state.DropSynRate},
			{"a SYN behind two headers is one", withHeaders(syn6, 60, "3c00010400000000 0600010400000000"), state.DropSynRate},
			{"a first fragment with the whole header is one", withHeaders(syn6, 44, "0600000100000001"), state.DropSynRate},
			{"a first fragment without is dropped", withHeaders(cut(syn6, 16, 0), 44, "0600000100000001"), state.DropGuardFragment},
			{"a rest of the header is dropped", withHeaders(syn6, 44, "0600000900000001"), state.DropGuardFragment},
			{"later fragments go on", withHeaders(syn6, 44, "0600001000000001"), state.ForwardRouted},
			{"a tiny first fragment of IPv4 is dropped", cut(datapathtest.Tcp("192.0.2.1", inside4, 2, nil, 4), 16, 0x2000), state.DropGuardFragment},
			{"the rest of an IPv4 header is dropped", cut(datapathtest.Tcp("192.0.2.1", inside4, 2, nil, 4), 16, 0x2001), state.DropGuardFragment},
			{"a fragment of UDP eight bytes on goes on", datapathtest.Packet{From: "192.0.2.1", To: inside4, Protocol: 17, Flags: 0x2001, Payload: datapathtest.Counting(16)}, state.ForwardRouted},
		})
		six := strings.Repeat("3c00010400000000 ", 5) + "0600010400000000"
		r.guardCases(build, []guardCase{
			{"a SYN behind six headers is one", withHeaders(syn6, 60, six), state.DropSynRate},
			{"one behind more is not let in", withHeaders(syn6, 60, "3c00010400000000"+six), state.DropGuardHeaders},
			{"a first fragment that ends before the TCP header is dropped (RFC 7112)", withHeaders(cut(syn6, 0, 0), 44, "3c00000100000001 0600010400000000"), state.DropGuardFragment},
			{"one that ends before it is said what comes", withHeaders(cut(syn6, 0, 0), 44, "3c00000100000001 3c00010400000000"), state.DropGuardFragment},
			{"its rest", withHeaders(syn6, 44, "3c00000900000001"), state.DropGuardFragment},
			{"a fragment of UDP over IPv6 eight bytes on goes on", withHeaders(datapathtest.Packet{From: "2001:db8:9::1", To: inside6, Payload: datapathtest.Counting(16)}, 44, "1100000900000001"), state.ForwardRouted},
			{"UDP behind six headers goes on", withHeaders(datapathtest.Udp("2001:db8:9::1", inside6, 9), 60, strings.Repeat("3c00010400000000 ", 5)+"1100010400000000"), state.ForwardRouted},
		})
		r.guarded(build, state.Guard{})
		r.guardCases(build, []guardCase{
			{"where nothing is bounded, what is behind many headers goes on", withHeaders(syn6, 60, "3c00010400000000"+six), state.ForwardRouted},
			{"but no first fragment without its headers", withHeaders(cut(syn6, 0, 0), 44, "3c00000100000001 3c00010400000000"), state.DropGuardFragment},
		})
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNSource: {PerSecond: 1}, state.GuardICMPTotal: {PerSecond: 1}}})
		for range 3 {
			r.guardCases(build, []guardCase{{"neighbour discovery is never bounded",
				datapathtest.Packet{From: "2001:db8:9::1", To: inside6, Protocol: 58, Payload: datapathtest.Bin("8700 0000 0000 0000 20010db8000100000000000000000007")}, state.ForwardRouted}})
		}
	}
}

func TestTheGuardNeverReadsBeyondAFrame(t *testing.T) {
	r := newRouter(t, parts()...)
	all := state.GuardRate{PerSecond: 1e9, Burst: 1e6}
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Reverse: state.ReverseLoose, Rates: [4]state.GuardRate{all, all, all, all}})
		for _, p := range []datapathtest.Packet{datapathtest.Tcp("192.0.2.1", inside4, 2, nil, 4), withHeaders(datapathtest.Tcp("2001:db8:9::1", inside6, 2, nil, 4), 60, "2c00010400000000 0600000100000001")} {
			whole := r.Frame("lan", p.Bytes())
			for n := 14; n < len(whole); n++ {
				res := r.Run(build, "lan", slices.Clone(whole[:n]))[0]
				if datapathtest.Refused(res, whole[:n]) {
					continue
				}
				o, err := datapathtest.Variant{Program: build}.Outcome(res)
				if err != nil || o != state.PassOptions {
					t.Errorf("%s: cut at %d: %s, %v", build, n, o, err)
				}
			}
		}
	}
}

func TestGuardsAreReadAsTheyWereWritten(t *testing.T) {
	r := newRouter(t, parts()...)
	for _, want := range []state.Guard{
		{Device: "lan"},
		{Device: "lan", Bogons: true, Reverse: state.ReverseStrict, XDP: true},
		{Device: "lan", Reverse: state.ReverseLoose, Rates: [4]state.GuardRate{
			{PerSecond: 999_999, Burst: 7}, {PerSecond: 3, Burst: 1}, {PerSecond: 1, Burst: 1_000_000}, {PerSecond: 1_000_000_000, Burst: 2},
		}},
	} {
		var got []state.Guard
		r.Apply(want)
		r.In(func() (err error) { got, err = Of(r.Datapath).Guards(); return err })
		if len(got) != 1 || got[0] != want {
			t.Errorf("%+v was read as %+v", want, got)
		}
	}
}

func TestTheListIsReadAndChangedOneByOne(t *testing.T) {
	r := newRouter(t, parts()...)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked), guardEntry("2001:db8::/32", state.ListedBogon))
	add := guardEntry("203.0.113.5/32", state.ListedBlocked)
	if err := Of(r.Datapath).PutGuardEntry(add); err != nil {
		t.Fatal(err)
	}
	said, ok, err := Of(r.Datapath).GuardEntryFor(add.Prefix.Addr())
	if err != nil || !ok || said != state.ListedBlocked {
		t.Errorf("203.0.113.5 is %v, %v, %v", said, ok, err)
	}
	if err := Of(r.Datapath).RemoveGuardEntry(guardEntry("192.0.2.0/24", 0).Prefix); err != nil {
		t.Fatal(err)
	}
	entries, err := Of(r.Datapath).GuardEntries()
	if err != nil || len(entries) != 2 || !slices.Contains(entries, add) || !slices.Contains(entries, guardEntry("2001:db8::/32", state.ListedBogon)) {
		t.Errorf("the list is %v, %v", entries, err)
	}
	r.list()
	if _, ok, err := Of(r.Datapath).GuardEntryFor(add.Prefix.Addr()); ok || err != nil {
		t.Errorf("the empty list knows 203.0.113.5: %v", err)
	}
	if err := Of(r.Datapath).PutGuardEntry(add); err != nil {
		t.Error("begin a list with one:", err)
	}
}
