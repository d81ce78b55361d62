package subscribertable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// Subscribers: every vector through the XDP and the TC build. Tunnel packets
// arrive on lan and what is in them is routed as in route_test.go; what is for
// subscribers leaves to the tunnels' peers behind wan (IPv4) and lan (IPv6).

const (
	peer4, here4 = "203.0.113.5", "203.0.113.1"
	peer6, here6 = "2001:db8:77::5", "2001:db8:77::1"
	alice4       = "10.64.0.7"
	alice6       = "2001:db8:a:100::7" // in what is delegated to her
	bob4         = "10.64.0.8"
	bob6         = "2001:db8:b:200::8"
)

// lns is a router with two tunnels, over IPv4 and over IPv6, and a session in
// each: alice in the first, bob in the second.
type lns struct {
	*router
	subscribers *Subscribers
	tunnels     []state.L2TPTunnel
	alice, bob  state.L2TPSession
}

const lnsDevice = "nat64-main"

func newLNS(t *testing.T) *lns {
	r := newRouter(t, parts()...)
	r.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleRouted|state.RoleSubscribers, p.Device == "lan")
	})
	s := r.lns(true)
	l := &lns{router: r, subscribers: s}
	end := func(a string) netip.AddrPort { return netip.AddrPortFrom(datapathtest.Addr(a), 1701) }
	l.tunnels = []state.L2TPTunnel{
		{Local: 17, Remote: 0x0a0b, LocalAddr: end(here4), Peer: end(peer4)},
		{Local: 18, Remote: 0x0c0d, LocalAddr: end(here6), Peer: end(peer6)},
	}
	l.alice = state.L2TPSession{
		Local: 100, Remote: 0x0102, Tunnel: 17, IPv4: datapathtest.Addr(alice4), IPv6: datapathtest.Addr("2001:db8:f::7"), MTU: 1400,
		Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:a:100::/56"), netip.MustParsePrefix("10.99.0.0/24")},
	}
	l.bob = state.L2TPSession{
		Local: 101, Remote: 0x0304, Tunnel: 18, IPv4: datapathtest.Addr(bob4), MTU: 1400,
		Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:b:200::/64")},
	}
	l.put(l.alice, l.bob)
	r.Set(9, state.Nexthop{Kind: state.NexthopSession, Index: uint32(r.Links[lnsDevice].Index)})
	for _, p := range []string{"10.64.0.0/10", "10.99.0.0/24", "2001:db8:a::/48", "2001:db8:b::/48", "2001:db8:f::/48"} {
		r.Route(0, p, 9)
	}
	r.Publish()
	return l
}

// access gives the datapath an access, without sessions.
func (b *router) lns(routed bool) *Subscribers {
	b.T.Helper()
	b.In(func() error {
		a := state.LNS{Name: "main", Device: lnsDevice, MAC: [6]byte{2, 0xac}, Routed: routed}
		return b.Datapath.Apply(b.T.Context(), state.Step{Op: state.Add, Object: a})
	})
	s, err := Of(b.Datapath).Subscribers()
	if err != nil {
		b.T.Fatal(err)
	}
	tunnels, sessions, err := s.List()
	if err != nil {
		b.T.Fatal(err)
	}
	var t, x []uint16
	for _, v := range tunnels {
		t = append(t, v.Local)
	}
	for _, v := range sessions {
		x = append(x, v.Local)
	}
	if err := s.Remove(t, x); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { s.Close() })
	return s
}

func (l *lns) put(sessions ...state.L2TPSession) {
	l.T.Helper()
	if err := l.subscribers.Put(l.tunnels, sessions); err != nil {
		l.T.Fatal(err)
	}
}

// outer wraps what UDP carries into a frame for lan.
func (l *lns) outer(from, to string, data []byte) []byte {
	return l.Frame("lan", outerIP(from, to, data))
}

func outerIP(from, to string, data []byte) []byte {
	seg := append(datapathtest.Bin("06a5 06a5 0000 0000"), data...)
	binary.BigEndian.PutUint16(seg[4:], uint16(len(seg)))
	return datapathtest.Packet{From: from, To: to, Protocol: 17, Tos: 1, Payload: seg}.Bytes()
}

// form is a way to write the headers of L2TP and PPP.
type form struct {
	name string
	l2tp string // T and S stand for the ids, L for the length
	ppp4 string
	ppp6 string
}

func forms() []form {
	return []form{
		{"plain", "0002 TTTT SSSS", "ff03 0021", "ff03 0057"},
		{"length", "4002 LLLL TTTT SSSS", "ff03 0021", "ff03 0057"},
		{"sequence numbers", "0802 TTTT SSSS 1234 0000", "ff03 0021", "ff03 0057"},
		{"length and sequence numbers", "4802 LLLL TTTT SSSS 1234 0000", "ff03 0021", "ff03 0057"},
		{"offset 0", "0202 TTTT SSSS 0000", "ff03 0021", "ff03 0057"},
		{"offset 3", "0202 TTTT SSSS 0003 ffffff", "ff03 0021", "ff03 0057"},
		{"all there is", "4b02 LLLL TTTT SSSS 0000 0000 001f " + "00000000000000000000000000000000000000000000000000000000000000", "ff03 0021", "ff03 0057"},
		{"priority", "0102 TTTT SSSS", "ff03 0021", "ff03 0057"},
		{"reserved bits, which are ignored", "34f2 TTTT SSSS", "ff03 0021", "ff03 0057"},
		{"PPP without address and control", "0002 TTTT SSSS", "0021", "0057"},
		{"PPP with a short protocol", "0002 TTTT SSSS", "ff03 21", "ff03 57"},
		{"PPP without both", "0002 TTTT SSSS", "21", "57"},
	}
}

func (f form) write(tunnel, session uint16, ip []byte) []byte {
	ppp := f.ppp6
	if datapathtest.IsIPv4(ip) {
		ppp = f.ppp4
	}
	text := f.l2tp
	text = strings.NewReplacer("TTTT", fmt.Sprintf("%04x", tunnel), "SSSS", fmt.Sprintf("%04x", session), "LLLL", "0000").Replace(text)
	b := append(append(datapathtest.Bin(text), datapathtest.Bin(ppp)...), ip...)
	if b[0]&0x40 != 0 {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	}
	return b
}

func plain(tunnel, session uint16, ip []byte) []byte { return forms()[0].write(tunnel, session, ip) }

func TestEveryFormOfL2TPIsTakenApart(t *testing.T) {
	l := newLNS(t)
	for _, build := range datapathtest.Builds {
		for _, f := range forms() {
			for name, c := range map[string]struct {
				from, to        string
				tunnel, session uint16
				inner           datapathtest.Packet
			}{
				"4 in 4": {peer4, here4, 17, 100, datapathtest.Udp(alice4, "198.51.100.7", 20)},
				"6 in 4": {peer4, here4, 17, 100, datapathtest.Udp(alice6, "2001:db8:1::7", 20)},
				"4 in 6": {peer6, here6, 18, 101, datapathtest.Udp(bob4, "198.51.100.7", 33)},
				"6 in 6": {peer6, here6, 18, 101, datapathtest.Udp(bob6, "2001:db8:1::7", 33)},
			} {
				ip := c.inner.Bytes()
				frame := l.outer(c.from, c.to, f.write(c.tunnel, c.session, ip))
				want := datapathtest.Hopped(l.Frame("lan", ip), l.Neighbour(1, 0, true))
				res, got := l.One(build, frame)
				if err := datapathtest.Differs(res, got, state.ForwardFromSubscriber, datapathtest.VerdictOf(build, got), want); err != nil {
					t.Errorf("%s: %s, %s: %v", build, f.name, name, err)
				}
			}
		}
	}
}

// What the tables do not send past the stack arrives on the access's device;
// XDP leaves it to TC.
func TestWhatIsNotRoutedHereArrivesOnTheDevice(t *testing.T) {
	l := newLNS(t)
	for name, ip := range map[string][]byte{
		"no route":         datapathtest.Udp(alice4, "203.0.113.77", 20).Bytes(),
		"the router":       datapathtest.Udp(alice4, "198.51.104.1", 20).Bytes(),
		"IPv6, the router": datapathtest.Udp(alice6, "2001:db8:5::1", 20).Bytes(),
		"TTL 1":            datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 17, Ttl: 1, Payload: datapathtest.Counting(8)}.Bytes(),
		"options":          datapathtest.Packet{From: alice4, To: "198.51.100.7", Protocol: 17, Options: []byte{1, 1, 1, 1}, Payload: datapathtest.Counting(8)}.Bytes(),
		"too large":        datapathtest.Udp(alice4, "198.51.101.7", 1300).Bytes(),
	} {
		frame := l.outer(peer4, here4, plain(17, 100, ip))
		res, got := l.One("ingress_xdp", frame)
		if got.Verdict() != state.Pass || !bytes.Equal(res.Frame, frame) {
			t.Errorf("%s: xdp gave %s", name, got)
		}
		want := append([]byte{2, 0xac, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, l.Frame("lan", ip)[12:]...)
		res, got = l.One("ingress_tc", frame)
		if err := datapathtest.Differs(res, got, state.ForwardDecapsulated, 7, want); err != nil {
			t.Errorf("%s: tc: %v", name, err)
		}
	}
}

func TestL2TPThatIsNotData(t *testing.T) {
	l := newLNS(t)
	good4, good6 := datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes(), datapathtest.Udp(alice6, "2001:db8:1::7", 20).Bytes()
	data := func(text string, ip []byte) []byte { return append(datapathtest.Bin(text), ip...) }
	long := datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()
	binary.BigEndian.PutUint16(long[2:], uint16(len(long)+1))
	long6 := datapathtest.Udp(alice6, "2001:db8:1::7", 20).Bytes()
	long6[5]++
	fragment := datapathtest.Packet{From: peer4, To: here4, Protocol: 17, Flags: 0x2000, Payload: outerIP(peer4, here4, plain(17, 100, good4))[20:]}
	tests := []struct {
		name    string
		frame   []byte
		outcome state.Outcome
	}{
		{"a control message is for the stack", l.outer(peer4, here4, data("c802 000c 0011 0000 0001 0001", nil)), state.PassNoRoute},
		{"another version is none of ours", l.outer(peer4, here4, data("0003 0011 0064 ff03 0021", good4)), state.PassNoRoute},
		{"for another host it is like any other", l.outer(peer4, "203.0.113.2", plain(17, 100, good4)), state.PassNoRoute},
		{"an unknown tunnel too", l.outer(peer4, here4, plain(19, 100, good4)), state.PassNoRoute},
		{"a tunnel id beyond the table too", l.outer(peer4, here4, plain(0xffff, 100, good4)), state.PassNoRoute},
		{"an unknown session is for the daemon", l.outer(peer4, here4, plain(17, 200, good4)), state.PassL2tpUnknown},
		{"session 0 is for the daemon", l.outer(peer4, here4, plain(17, 0, good4)), state.PassL2tpUnknown},
		{"a session of another tunnel is for the daemon", l.outer(peer4, here4, plain(17, 101, good4)), state.PassL2tpUnknown},
		{"a fragment of the outer packet is for the stack", l.Frame("lan", fragment.Bytes()), state.PassNoRoute},
		{"from another address than the peer's", l.outer("203.0.113.6", here4, plain(17, 100, good4)), state.DropL2tpPeer},
		{"from another port than the peer's", l.Frame("lan", datapathtest.With(outerIP(peer4, here4, plain(17, 100, good4)), 20, 7, 8)), state.DropL2tpPeer},
		{"LCP is for the daemon", l.outer(peer4, here4, data("0002 0011 0064 ff03 c021 0101 0004", nil)), state.PassL2tpControl},
		{"IPCP is for the daemon", l.outer(peer4, here4, data("0002 0011 0064 8021 0101 0004", nil)), state.PassL2tpControl},
		{"nothing behind the header is for the daemon", l.outer(peer4, here4, data("0002 0011 0064", nil)), state.PassL2tpControl},
		{"half a PPP header is for the daemon", l.outer(peer4, here4, data("0002 0011 0064 ff03 00", nil)), state.PassL2tpControl},
		{"another PPP address is for the daemon", l.outer(peer4, here4, data("0002 0011 0064 ff04 0021", good4)), state.PassL2tpControl},
		{"an offset larger than any in use is for the daemon", l.outer(peer4, here4, data("0202 0011 0064 0020", datapathtest.Counting(64))), state.PassL2tpControl},
		{"a router solicitation is for the daemon", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp("fe80::1", "ff02::2", 8).Bytes())), state.PassL2tpControl},
		{"link-local unicast is for the daemon", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp("fe80::1", "fe80::2", 8).Bytes())), state.PassL2tpControl},
		{"from nowhere is for the daemon", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp("::", "2001:db8:1::7", 8).Bytes())), state.PassL2tpControl},
		{"IPv4 multicast is for the daemon", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(alice4, "224.0.0.22", 8).Bytes())), state.PassL2tpControl},
		{"a length larger than the packet", l.outer(peer4, here4, data("4002 00ff 0011 0064 ff03 0021", good4)), state.DropL2tpInvalid},
		{"a length smaller than the header", l.outer(peer4, here4, data("4002 0007 0011 0064 ff03 0021", good4)), state.DropL2tpInvalid},
		{"a length that cuts the packet", l.outer(peer4, here4, data("4002 0020 0011 0064 ff03 0021", good4)), state.DropL2tpInvalid},
		{"an offset beyond the packet", l.outer(peer4, here4, data("0202 0011 0064 0010 ff03 0021", nil)), state.DropL2tpInvalid},
		{"sequence numbers that are not there", l.outer(peer4, here4, data("0802 0011 0064 0001", nil)), state.DropL2tpInvalid},
		{"an IPv4 length that lies", l.outer(peer4, here4, plain(17, 100, datapathtest.Healed(long))), state.DropL2tpInvalid},
		{"an IPv6 length that lies", l.outer(peer4, here4, plain(17, 100, long6)), state.DropL2tpInvalid},
		{"IPv6 as IPv4", l.outer(peer4, here4, data("0002 0011 0064 ff03 0021", good6)), state.DropL2tpInvalid},
		{"IPv4 as IPv6", l.outer(peer4, here4, data("0002 0011 0064 ff03 0057", good4)), state.DropL2tpInvalid},
		{"a header length that lies", l.outer(peer4, here4, plain(17, 100, datapathtest.With(good4, 0, 0x44))), state.DropL2tpInvalid},
		{"a foreign IPv4 source", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(bob4, "198.51.100.7", 20).Bytes())), state.DropSpoofed},
		{"a foreign IPv6 source", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(bob6, "2001:db8:1::7", 20).Bytes())), state.DropSpoofed},
		{"a source just outside of the prefix", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp("2001:db8:a:200::1", "2001:db8:1::7", 20).Bytes())), state.DropSpoofed},
		{"0.0.0.0 as source", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp("0.0.0.0", "198.51.100.7", 20).Bytes())), state.DropSpoofed},
	}
	for _, build := range datapathtest.Builds {
		for _, tt := range tests {
			res, got := l.One(build, tt.frame)
			if err := datapathtest.Differs(res, got, tt.outcome, datapathtest.VerdictOf(build, tt.outcome), tt.frame); err != nil {
				t.Errorf("%s: %s: %v", build, tt.name, err)
			}
		}
	}
	for name, from := range map[string]string{
		"the framed route": "10.99.0.200", "the address of DHCPv6": "2001:db8:f::7", "the last of the prefix": "2001:db8:a:1ff:ffff:ffff:ffff:ffff",
	} {
		to := "198.51.100.7"
		if datapathtest.Addr(from).Is6() {
			to = "2001:db8:1::7"
		}
		for _, build := range datapathtest.Builds {
			if _, got := l.One(build, l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(from, to, 20).Bytes()))); got != state.ForwardFromSubscriber {
				t.Errorf("%s: a source of %s met %s", build, name, got)
			}
		}
	}
}

// wrapped is what a packet for a subscriber becomes, as a frame for device.
func (l *lns) wrapped(s state.L2TPSession, f form, ip []byte, mac []byte) []byte {
	tunnel := l.tunnels[0]
	if s.Tunnel == l.tunnels[1].Local {
		tunnel = l.tunnels[1]
	}
	from, to := tunnel.LocalAddr.Addr().String(), tunnel.Peer.Addr().String()
	outer := outerIP(from, to, f.write(tunnel.Remote, s.Remote, ip))
	if datapathtest.IsIPv4(outer) {
		outer[1] = 0xb8 // of the packet inside
	} else {
		binary.BigEndian.PutUint32(outer, 6<<28|0xb8<<20|uint32(s.Local))
		datapathtest.Seal(outer[40:], 6, from, to, 17)
	}
	return append(mac, l.Frame("lan", outer)[12:]...)
}

// sameButID compares frames; the identification of an outer IPv4 header is free.
func sameButID(got, want []byte) []byte {
	want = bytes.Clone(want)
	if len(got) >= 34 && len(want) >= 34 && want[12] == 8 {
		copy(want[18:20], got[18:20])
		datapathtest.Healed(want[14:34])
		w := datapathtest.Healed(bytes.Clone(want[14:]))
		copy(want[14:34], w)
	}
	return want
}

func TestASessionIsANextHop(t *testing.T) {
	l := newLNS(t)
	wan, lan := l.Links["wan"].MAC, l.Links["lan"].MAC
	for _, build := range datapathtest.Builds {
		for name, c := range map[string]struct {
			s     state.L2TPSession
			inner datapathtest.Packet
		}{
			"4 in 4":              {l.alice, datapathtest.Udp(datapathtest.Router4, alice4, 20)},
			"6 in 4":              {l.alice, datapathtest.Udp(datapathtest.Router6, alice6, 20)},
			"a framed route":      {l.alice, datapathtest.Udp(datapathtest.Router4, "10.99.0.3", 21)},
			"DHCPv6's address":    {l.alice, datapathtest.Tcp(datapathtest.Router6, "2001:db8:f::7", 0x10, nil, 9)},
			"4 in 6":              {l.bob, datapathtest.Udp(datapathtest.Router4, bob4, 20)},
			"4 in 6, odd":         {l.bob, datapathtest.Udp(datapathtest.Router4, bob4, 21)},
			"TCP 4 in 6":          {l.bob, datapathtest.Tcp(datapathtest.Router4, bob4, 0x10, nil, 17)},
			"6 in 6":              {l.bob, datapathtest.Udp(datapathtest.Router6, bob6, 20)},
			"TCP 6 in 6":          {l.bob, datapathtest.Tcp(datapathtest.Router6, bob6, 0x18, nil, 100)},
			"ping 4 in 6":         {l.bob, datapathtest.Echo(datapathtest.Router4, bob4, false, 33)},
			"ping 6 in 6":         {l.bob, datapathtest.Echo(datapathtest.Router6, bob6, false, 34)},
			"as large as allowed": {l.alice, datapathtest.Udp(datapathtest.Router4, alice4, 1400-28)},
		} {
			for _, short := range []int{0, 9, 10, 11} { // all forms of PPP
				f := forms()[short]
				s := c.s
				s.NoAddress, s.ShortType = f.ppp4 == "0021" || f.ppp4 == "21", len(f.ppp4) == 2 || f.ppp4 == "ff03 21"
				l.put(s)
				frame := l.Frame("lan", c.inner.Bytes())
				inner := datapathtest.FewerHops(bytes.Clone(frame[14:]))
				if datapathtest.IsIPv4(inner) {
					datapathtest.Healed(inner)
				}
				mac := bytes.Clone(frame[:12])
				if build == "ingress_xdp" {
					mac = append(append([]byte{}, datapathtest.Mac4[:]...), wan[:]...)
					if s.Tunnel == 18 {
						mac = append(append([]byte{}, datapathtest.Mac6[:]...), lan[:]...)
					}
				}
				want := l.wrapped(s, f, inner, mac)
				res, got := l.One(build, frame)
				if err := datapathtest.Differs(res, got, state.ForwardToSubscriber, datapathtest.VerdictOf(build, got), sameButID(res.Frame, want)); err != nil {
					t.Errorf("%s: %s, %s: %v", build, name, f.name, err)
				}
			}
		}
	}
}

func TestTheDeviceSendsToSubscribers(t *testing.T) {
	l := newLNS(t)
	frame := l.Frame(lnsDevice, datapathtest.Udp(datapathtest.Router4, alice4, 20).Bytes())
	res := l.Run("lns_egress", "lan", frame)[0]
	want := l.wrapped(l.alice, forms()[0], frame[14:], bytes.Clone(frame[:12]))
	got, err := datapathtest.Variant{Program: "lns_egress"}.Outcome(res)
	if err == nil {
		err = datapathtest.Differs(res, got, state.ForwardToSubscriber, 7, sameButID(res.Frame, want))
	}
	if err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		ip      []byte
		outcome state.Outcome
		verdict uint32
	}{
		"for no subscriber":        {datapathtest.Udp(datapathtest.Router4, "10.64.9.9", 20).Bytes(), state.DropNoSubscriber, 2},
		"too large":                {datapathtest.Udp(datapathtest.Router4, alice4, 1401-28).Bytes(), state.SlowSubscriber, 1<<32 - 1},
		"multicast":                {datapathtest.Udp("fe80::1", "ff02::1", 20).Bytes(), state.PassLinkScope, 1<<32 - 1},
		"no checksum to go by":     {datapathtest.Packet{From: datapathtest.Router4, To: bob4, Protocol: 47, Payload: datapathtest.Counting(30)}.Bytes(), state.SlowSubscriber, 1<<32 - 1},
		"a fragment in IPv6":       {datapathtest.Packet{From: datapathtest.Router4, To: bob4, Protocol: 17, Flags: 0x2000, Payload: datapathtest.Counting(32)}.Bytes(), state.SlowSubscriber, 1<<32 - 1},
		"UDP without checksum":     {datapathtest.With(datapathtest.Udp(datapathtest.Router4, bob4, 8).Bytes(), 26, 0, 0), state.SlowSubscriber, 1<<32 - 1},
		"another protocol in IPv4": {datapathtest.Packet{From: datapathtest.Router4, To: alice4, Protocol: 47, Payload: datapathtest.Counting(30)}.Bytes(), state.ForwardToSubscriber, 7},
	} {
		frame := l.Frame(lnsDevice, c.ip)
		res := l.Run("lns_egress", "lan", frame)[0]
		got, err := datapathtest.Variant{Program: "lns_egress"}.Outcome(res)
		if err != nil || got != c.outcome || res.Verdict != c.verdict || c.outcome != state.ForwardToSubscriber && !bytes.Equal(res.Frame, frame) {
			t.Errorf("%s: %s, verdict %d, %v", name, got, int32(res.Verdict), err)
		}
	}
}

func TestASubscriberReachesAnother(t *testing.T) {
	l := newLNS(t)
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			from, to   string
			tunnel, id uint16
			inner      datapathtest.Packet
			s          state.L2TPSession
		}{
			{peer4, here4, 17, 100, datapathtest.Udp(alice4, bob4, 20), l.bob},
			{peer4, here4, 17, 100, datapathtest.Udp(alice6, bob6, 20), l.bob},
			{peer6, here6, 18, 101, datapathtest.Udp(bob4, alice4, 20), l.alice},
			{peer6, here6, 18, 101, datapathtest.Udp(bob6, alice6, 20), l.alice},
		} {
			frame := l.outer(c.from, c.to, plain(c.tunnel, c.id, c.inner.Bytes()))
			inner := datapathtest.FewerHops(c.inner.Bytes())
			if datapathtest.IsIPv4(inner) {
				datapathtest.Healed(inner)
			}
			res, got := l.One(build, frame)
			mac := bytes.Clone(res.Frame[:12])
			want := l.wrapped(c.s, forms()[0], inner, mac)
			if err := datapathtest.Differs(res, got, state.ForwardFromSubscriber, datapathtest.VerdictOf(build, got), sameButID(res.Frame, want)); err != nil {
				t.Errorf("%s: %s to %s: %v", build, c.inner.From, c.inner.To, err)
			}
		}
	}
}

func TestSequenceNumbersCountUp(t *testing.T) {
	l := newLNS(t)
	l.alice.Sequence = true
	l.put(l.alice)
	first := -1
	for i, build := range []string{"ingress_xdp", "ingress_tc", "ingress_xdp"} {
		res, got := l.One(build, l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 20).Bytes()))
		if got != state.ForwardToSubscriber || !bytes.Equal(res.Frame[42:48], datapathtest.Bin("0802 0a0b 0102")) {
			t.Fatalf("%s: %s %x", build, got, res.Frame)
		}
		n := int(binary.BigEndian.Uint16(res.Frame[48:]))
		if first < 0 {
			first = n
		}
		if n != first+i || !bytes.Equal(res.Frame[50:56], datapathtest.Bin("0000 ff03 0021")) {
			t.Errorf("%s: number %d after %d, %x", build, n, first, res.Frame[42:56])
		}
	}
}

func TestMSSIsClampedBothWays(t *testing.T) {
	l := newLNS(t)
	l.alice.MSS = 1300
	l.put(l.alice)
	mss := func(v uint16) []byte {
		return binary.BigEndian.AppendUint16(datapathtest.Bin("01 01 0402 01 01 0204"), v)
	}
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			from, to string
			up       bool
			want     uint16
		}{
			{alice4, "198.51.100.7", true, 1300}, {alice6, "2001:db8:1::7", true, 1280},
			{datapathtest.Router4, alice4, false, 1300}, {datapathtest.Router6, alice6, false, 1280},
		} {
			pad := []byte{1, 1} // options are a multiple of four
			sent := datapathtest.Tcp(c.from, c.to, 0x02, append(mss(1460), pad...), 0).Bytes()
			want := datapathtest.FewerHops(datapathtest.Tcp(c.from, c.to, 0x02, append(mss(c.want), pad...), 0).Bytes())
			if datapathtest.IsIPv4(want) {
				datapathtest.Healed(want)
			}
			frame, outcome := l.Frame("lan", sent), state.ForwardToSubscriber
			if c.up {
				frame, outcome = l.outer(peer4, here4, plain(17, 100, sent)), state.ForwardFromSubscriber
			}
			res, got := l.One(build, frame)
			if got != outcome || !bytes.HasSuffix(res.Frame, want) {
				t.Errorf("%s: %s to %s: %s, %x does not end in %x", build, c.from, c.to, got, res.Frame, want)
			}
		}
	}
}

func TestGardenAndBlock(t *testing.T) {
	l := newLNS(t)
	for _, p := range []string{"198.51.100.7/32", "2001:db8:1::/48"} {
		g := state.WalledGarden{Prefix: netip.MustParsePrefix(p)}
		l.In(func() error { return l.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: g}) })
	}
	up := func(p datapathtest.Packet) []byte { return l.outer(peer4, here4, plain(17, 100, p.Bytes())) }
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			walledGarden, blocked bool
			frame                 []byte
			want                  state.Outcome
		}{
			{true, false, up(datapathtest.Udp(alice4, "198.51.100.7", 8)), state.ForwardFromSubscriber},
			{true, false, up(datapathtest.Udp(alice4, "198.51.100.8", 8)), state.DropWalledGarden},
			{true, false, up(datapathtest.Udp(alice6, "2001:db8:1::9", 8)), state.ForwardFromSubscriber},
			{true, false, up(datapathtest.Udp(alice6, "2001:db8:2::9", 8)), state.DropWalledGarden},
			{true, false, l.Frame("lan", datapathtest.Udp("198.51.100.7", alice4, 8).Bytes()), state.ForwardToSubscriber},
			{true, false, l.Frame("lan", datapathtest.Udp("198.51.100.8", alice4, 8).Bytes()), state.DropWalledGarden},
			{true, false, l.Frame("lan", datapathtest.Udp("2001:db8:2::1", alice6, 8).Bytes()), state.DropWalledGarden},
			{false, false, up(datapathtest.Udp(alice4, "198.51.100.8", 8)), state.ForwardFromSubscriber},
			{false, true, up(datapathtest.Udp(alice4, "198.51.100.7", 8)), state.DropWalledGarden},
			{false, true, l.Frame("lan", datapathtest.Udp("198.51.100.7", alice4, 8).Bytes()), state.DropWalledGarden},
		} {
			l.alice.WalledGarden, l.alice.Blocked = c.walledGarden, c.blocked
			l.put(l.alice)
			if _, got := l.One(build, c.frame); got != c.want {
				t.Errorf("%s: garden %v, blocked %v: %s, want %s", build, c.walledGarden, c.blocked, got, c.want)
			}
		}
	}
	c := l.counters1(100)
	if c.Drops[state.SubscriberDropWalledGarden] != 2*6 {
		t.Errorf("%d drops by the garden were counted", c.Drops[state.SubscriberDropWalledGarden])
	}
}

func (l *lns) counters1(id uint16) state.LNSCounters {
	l.T.Helper()
	list, err := l.subscribers.Counters([]uint16{id})
	if err != nil || len(list) != 1 {
		l.T.Fatalf("counters of %d: %v, %v", id, list, err)
	}
	return list[0]
}

// At 80 kbit/s there is room for 64 KiB at once; then nothing passes, until
// the rate is another.
func TestRatesHoldAndChangeLive(t *testing.T) {
	l := newLNS(t)
	up := l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(alice4, "198.51.100.7", 972).Bytes()))
	down := l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 972).Bytes())
	for _, build := range datapathtest.Builds {
		if err := l.subscribers.Remove(nil, []uint16{100}); err != nil {
			t.Fatal(err)
		}
		l.alice.Up, l.alice.Down = 80_000, 80_000
		l.put(l.alice)
		sent := map[state.Outcome]int{}
		for _, c := range []struct {
			frame         []byte
			passes, drops state.Outcome
		}{
			{up, state.ForwardFromSubscriber, state.DropUpstreamRate}, {down, state.ForwardToSubscriber, state.DropDownstreamRate},
		} {
			n, begun := map[state.Outcome]int{}, time.Now()
			for sent[c.drops] = 0; n[c.drops] < 20 && time.Since(begun) < 20*time.Second; sent[c.drops]++ {
				_, got := l.One(build, c.frame)
				n[got]++
			}
			// 66 fit the bucket, and ten a second trickle in while this runs
			most := 67 + int(time.Since(begun)/(100*time.Millisecond))
			if n[c.passes] < 66 || n[c.passes] > most || n[c.drops] != 20 || n[c.passes]+n[c.drops] != sent[c.drops] {
				t.Errorf("%s: %v of %d, at most %d may pass", build, n, sent[c.drops], most)
			}
		}
		c := l.counters1(100)
		if c.UpPackets+c.Drops[state.SubscriberDropUpstreamRate] != uint64(sent[state.DropUpstreamRate]) || c.DownPackets+c.Drops[state.SubscriberDropDownstreamRate] != uint64(sent[state.DropDownstreamRate]) || c.UpBytes != 1000*c.UpPackets {
			t.Errorf("%s: of %v counted %+v", build, sent, c)
		}
		l.alice.Up, l.alice.Down = 0, 0
		l.put(l.alice)
		if _, got := l.One(build, up); got != state.ForwardFromSubscriber {
			t.Errorf("%s: without a limit: %s", build, got)
		}
	}
}

func TestSessionsCountWhatTheyCarry(t *testing.T) {
	l := newLNS(t)
	for _, build := range datapathtest.Builds {
		before := l.counters1(100)
		l.One(build, l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(alice6, "2001:db8:1::7", 52).Bytes())))
		l.One(build, l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 72).Bytes()))
		l.One(build, l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(bob4, "198.51.100.7", 20).Bytes())))
		l.One(build, l.outer("203.0.113.6", here4, plain(17, 100, datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes())))
		c := l.counters1(100)
		want := before
		want.UpPackets, want.UpBytes = want.UpPackets+1, want.UpBytes+100
		want.DownPackets, want.DownBytes = want.DownPackets+1, want.DownBytes+100
		want.Drops[state.SubscriberDropSpoofed]++
		want.Drops[state.SubscriberDropPeer]++
		want.SeenUp, want.SeenDown = c.SeenUp, c.SeenDown
		now := time.Duration(datapath.NowTicks()) * datapath.Tick
		if c != want || now-c.SeenUp > time.Minute || now-c.SeenDown > time.Minute {
			t.Errorf("%s: %+v, want %+v", build, c, want)
		}
	}
}

// A packet cut anywhere, its outer lengths right: none is forwarded, none read
// beyond its end.
func TestCutTunnelPackets(t *testing.T) {
	l := newLNS(t)
	for _, build := range datapathtest.Builds {
		for _, f := range forms() {
			for _, v6 := range []bool{false, true} {
				from, to, data := peer4, here4, f.write(17, 100, datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes())
				if v6 {
					from, to, data = peer6, here6, f.write(18, 101, datapathtest.Udp(bob6, "2001:db8:1::7", 20).Bytes())
				}
				for n := range data {
					frame := l.outer(from, to, data[:n])
					res := l.Run(build, "lan", frame)[0]
					o, err := datapathtest.Variant{Program: build}.Outcome(res)
					if err != nil || o.Verdict() == state.Forward || !bytes.Equal(res.Frame, frame) {
						t.Fatalf("%s: %s cut at %d: %s, %v", build, f.name, n, o, err)
					}
				}
			}
		}
	}
}

// Packets with bytes changed at random meet the same in both builds, nothing
// is forwarded that is spoofed, and what is not forwarded stays as it was.
func TestRandomTunnelPackets(t *testing.T) {
	l := newLNS(t)
	random := rand.New(rand.NewPCG(6, 2661))
	for i := range 4000 {
		f := forms()[random.IntN(len(forms()))]
		inner := []datapathtest.Packet{datapathtest.Udp(alice4, "198.51.100.7", 20), datapathtest.Udp(alice6, "2001:db8:1::7", 20), datapathtest.Tcp(alice4, bob4, 2, datapathtest.Bin("0204 05b4"), 4)}[i%3].Bytes()
		data := f.write(17, 100, inner)
		for range 1 + random.IntN(3) {
			data[random.IntN(min(len(data), 40))] = byte(random.Uint32())
		}
		frame := l.outer(peer4, here4, data)
		before := l.counters1(100)
		xdp, a := l.One("ingress_xdp", frame)
		tc, b := l.One("ingress_tc", frame)
		after := l.counters1(100)
		if a.Verdict() == state.Drop && a != b || a == state.ForwardFromSubscriber && b != a || b.Verdict() == state.Pass && a != b {
			t.Fatalf("%x met %s and %s", frame, a, b)
		}
		if a.Verdict() == state.Pass && !bytes.Equal(xdp.Frame, frame) || b.Verdict() == state.Pass && !bytes.Equal(tc.Frame, frame) {
			t.Fatalf("%x was changed: %s %s", frame, a, b)
		}
		if b.Verdict() == state.Forward && after.UpPackets == before.UpPackets && b != state.ForwardRouted {
			t.Fatalf("%x met %s, and is not counted", frame, b)
		}
		if b == state.ForwardDecapsulated && len(tc.Frame) > 34 && datapathtest.IsIPv4(tc.Frame[14:]) {
			if from := netip.AddrFrom4([4]byte(tc.Frame[26:30])); from != datapathtest.Addr(alice4) && !netip.MustParsePrefix("10.99.0.0/24").Contains(from) {
				t.Fatalf("%s is spoofed, and passed", from)
			}
		}
	}
}

func TestSubscribersAreKept(t *testing.T) {
	l := newLNS(t)
	again, err := Of(l.Datapath).Subscribers()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	tunnels, sessions, err := again.List()
	if err != nil || fmt.Sprint(tunnels) != fmt.Sprint(l.tunnels) {
		t.Errorf("%v, %v: want %v", tunnels, err, l.tunnels)
	}
	want := []state.L2TPSession{l.alice, l.bob}
	want[0].Prefixes = []netip.Prefix{want[0].Prefixes[1], want[0].Prefixes[0]} // sorted
	if fmt.Sprint(sessions) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", sessions, want)
	}
	// bob is given what was alice's, in one batch
	l.bob.Prefixes = append(l.bob.Prefixes, l.alice.Prefixes[0])
	l.alice.Prefixes = l.alice.Prefixes[1:]
	if err := again.Put(nil, []state.L2TPSession{l.alice, l.bob}); err != nil {
		t.Fatal(err)
	}
	res, got := l.One("ingress_xdp", l.Frame("lan", datapathtest.Udp(datapathtest.Router6, alice6, 20).Bytes()))
	if got != state.ForwardToSubscriber || len(res.Frame) < 14+40 || res.Frame[12] != 0x86 {
		t.Errorf("what bob was given went %s: %x", got, res.Frame)
	}
	if err := again.Remove([]uint16{17, 18, 9}, []uint16{100, 101, 900}); err != nil {
		t.Fatal(err)
	}
	tunnels, sessions, err = again.List()
	if err != nil || len(tunnels)+len(sessions) != 0 {
		t.Errorf("%v %v %v are left", tunnels, sessions, err)
	}
	for _, name := range []string{"l2tp_owners4", "l2tp_owners6"} {
		if key, err := l.Table(name).NextKeyBytes(nil); key != nil || err != nil {
			t.Errorf("%s still has %x, %v", name, key, err)
		}
	}
	if _, got := l.One("ingress_xdp", l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 20).Bytes())); got != state.PassSubscriber {
		t.Errorf("to no subscriber: %s", got)
	}
	if err := again.Put(nil, []state.L2TPSession{{Local: 0}}); err == nil {
		t.Error("session 0 was put")
	}
	if err := again.Put(nil, []state.L2TPSession{{Local: 5000}}); err == nil {
		t.Error("a session beyond the table was put")
	}
}

// Addresses that have a line, in either of its places, that have none, and that
// found no place free any more all have their owner, through changes and another
// process.
func TestOwnersOfManyNeighbourhoods(t *testing.T) {
	l := newLNS(t)
	s := l.subscribers
	random := rand.New(rand.NewPCG(4, 64))
	lines := len(s.lines.lines)
	var sessions []state.L2TPSession
	for i := range 2 * lines {
		x := l.alice
		x.Local, x.Prefixes = uint16(200+i), nil
		x.IPv4 = netip.AddrFrom4([4]byte{10, 80, byte(i), byte(random.IntN(256))}) // each in a neighbourhood of its own
		if i%3 == 0 {
			x.Prefixes = append(x.Prefixes, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0xa, byte(i)}), 56))
		}
		sessions = append(sessions, x)
	}
	check := func(about string, s *Subscribers, owners []state.L2TPSession) {
		t.Helper()
		_, got, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(owners)+2 {
			t.Errorf("%s: %d sessions, want %d", about, len(got), len(owners)+2)
		}
		for _, x := range owners {
			before := l.counters1(x.Local)
			if _, got := l.One("ingress_xdp", l.Frame("lan", datapathtest.Udp(datapathtest.Router4, x.IPv4.String(), 20).Bytes())); got != state.ForwardToSubscriber {
				t.Fatalf("%s: to %s: %s", about, x.IPv4, got)
			}
			if len(x.Prefixes) > 0 {
				to := x.Prefixes[0].Addr().Next().String()
				if _, got := l.One("ingress_xdp", l.Frame("lan", datapathtest.Udp(datapathtest.Router6, to, 20).Bytes())); got != state.ForwardToSubscriber {
					t.Fatalf("%s: to %s: %s", about, to, got)
				}
			}
			if after := l.counters1(x.Local); after.DownPackets != before.DownPackets+1+uint64(len(x.Prefixes)) {
				t.Fatalf("%s: what is for %s was counted for another session", about, x.IPv4)
			}
		}
	}
	l.put(sessions...)
	first, second, outside := 0, 0, 0
	for _, one := range s.lines.used {
		switch {
		case one.outside != nil:
			outside++
		case int(one.at) < lines/2:
			first++
		default:
			second++
		}
	}
	if first == 0 || second == 0 || outside == 0 {
		t.Fatalf("%d and %d lines, %d neighbourhoods without: this tests less than it says", first, second, outside)
	}
	check("new", s, sessions)
	// addresses change hands, in one batch
	for i := 0; i+1 < len(sessions); i += 2 {
		sessions[i].IPv4, sessions[i+1].IPv4 = sessions[i+1].IPv4, sessions[i].IPv4
	}
	l.put(sessions...)
	check("exchanged", s, sessions)
	again, err := Of(l.Datapath).Subscribers()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check("another process", again, sessions)
	var gone []uint16
	rest := sessions[:0]
	for i, x := range sessions {
		if i%2 == 0 {
			gone = append(gone, x.Local)
		} else {
			rest = append(rest, x)
		}
	}
	if err := again.Remove(nil, gone); err != nil {
		t.Fatal(err)
	}
	check("half of them are gone", again, rest)
	var fresh []state.L2TPSession
	for i := range lines / 2 {
		x := l.alice
		x.Local, x.Prefixes, x.IPv4 = uint16(200+2*i), nil, netip.AddrFrom4([4]byte{10, 90, byte(i), 7})
		fresh = append(fresh, x)
	}
	if err := again.Put(nil, fresh); err != nil {
		t.Fatal(err)
	}
	check("others came", again, append(rest, fresh...))
	gone = nil
	for _, x := range append(append([]state.L2TPSession{l.alice, l.bob}, rest...), fresh...) {
		gone = append(gone, x.Local)
	}
	if err := again.Remove([]uint16{17, 18}, gone); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"l2tp_owners4", "l2tp_owners6"} {
		if key, err := l.Table(name).NextKeyBytes(nil); key != nil || err != nil {
			t.Errorf("%s still has %x, %v", name, key, err)
		}
	}
	for at := range again.lines.lines {
		if line := &again.lines.lines[at]; line.Of != 0 {
			t.Errorf("line %d still is that of %s", at, ownedAt(lineKey{line.Net, line.Of}, 0).prefix)
		}
	}
}

// A sender in user space behind a virtual device leaves the outer checksum to
// that: the inner one is whole, and has to be right after the MSS was clamped.
// One that is left to the device itself, the pseudo-header's sum, stays.
func TestTheMSSInsideIsClampedByTheInnerChecksum(t *testing.T) {
	l := newLNS(t)
	l.alice.MSS = 1360
	l.put(l.alice)
	for _, program := range []string{"ingress_tc", "ingress_xdp"} {
		inner := datapathtest.Tcp(alice4, "198.51.100.7", 2, datapathtest.Bin("0204 05b4"), 4).Bytes()
		f := forms()[0]
		res, got := l.One(program, l.outer(peer4, here4, f.write(17, 100, inner)))
		if got.Verdict() != state.Forward {
			t.Fatalf("%s: %s", program, got)
		}
		ip := res.Frame[14:]
		if mss := binary.BigEndian.Uint16(ip[42:]); mss != 1360 {
			t.Errorf("%s: the MSS is %d", program, mss)
		}
		if sum := transportSum(ip); sum != 0xffff {
			t.Errorf("%s: the sum is %#x", program, sum)
		}
	}
}

// transportSum is that of an IPv4 packet's TCP with its pseudo-header; 0xffff is right.
func transportSum(ip []byte) uint16 {
	b := append(append([]byte{}, ip[12:20]...), 0, ip[9], 0, 0)
	n := binary.BigEndian.Uint16(ip[2:]) - 20
	binary.BigEndian.PutUint16(b[10:], n)
	b = append(b, ip[20:20+n]...)
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	return uint16(sum&0xffff + sum>>16)
}

// Who only reads sees all, in blocks and out of them.
func TestSubscribersCanBeReadByOthers(t *testing.T) {
	l := newLNS(t)
	tables, err := Of(l.Datapath).LNSTables()
	if err != nil || len(tables.LNSes) != 1 || len(tables.Tunnels) != 2 || len(tables.Sessions) != 2 {
		t.Fatalf("%+v, %v", tables, err)
	}
	_, want, err := l.subscribers.List()
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range tables.Sessions {
		if got.Local != want[i].Local || got.IPv4 != want[i].IPv4 || len(got.Prefixes) == 0 || !slices.Equal(got.Prefixes, want[i].Prefixes) {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
}
