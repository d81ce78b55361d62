package subscriber

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// What made others loop, or read where they should not, in IPv6 on a session:
// options of neighbour discovery without a length, DHCPv6 that is cut or nested,
// headers without end. The session goes on, and its hosts are still answered.
func TestIPv6ThatIsMalformed(t *testing.T) {
	from, all := netip.MustParseAddr("fe80::5"), netip.MustParseAddr("ff02::1:2")
	icmp := func(payload ...byte) []byte {
		return ipv6.Packet{From: from, To: netip.MustParseAddr("ff02::2"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: payload}.Marshal(2)
	}
	dhcp := func(b ...byte) []byte { return ipv6.MarshalUDP(from, all, 546, 547, b) }
	with := func(b []byte, change func([]byte)) []byte { change(b); return b }
	long := func(n int, head ...byte) []byte { return append(head, make([]byte, n)...) }
	solicit := []byte{1, 1, 2, 3, 0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1}
	cases := map[string][]byte{
		"a router solicitation with an option of length 0":  icmp(133, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
		"a router solicitation with an option beyond it":    icmp(133, 0, 0, 0, 0, 0, 0, 0, 1, 200, 0, 0, 0, 0, 0, 0),
		"a router solicitation that is cut":                 icmp(133, 0, 0, 0, 0),
		"a router advertisement of a subscriber":            icmp(134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0),
		"a neighbour solicitation that is cut":              icmp(135, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x80),
		"an echo request of a header alone":                 icmp(128, 0, 0, 0, 0, 0, 0, 0),
		"an ICMPv6 message of three bytes":                  with(icmp(133, 0, 0, 0, 0, 0, 0, 0), func(b []byte) { b[5] = 3 }),
		"a header alone":                                    icmp(133, 0, 0, 0, 0, 0, 0, 0)[:ipv6.HeaderLen],
		"a payload longer than the packet":                  with(icmp(133, 0, 0, 0, 0, 0, 0, 0), func(b []byte) { b[4] = 0xff }),
		"a payload of no bytes":                             with(icmp(133, 0, 0, 0, 0, 0, 0, 0), func(b []byte) { b[5] = 0 }),
		"extension headers without end":                     with(icmp(long(1200, 0, 0)...), func(b []byte) { b[6] = 0 }),
		"a fragment header that is cut":                     with(icmp(58, 0, 0, 0), func(b []byte) { b[6] = 44 }),
		"a UDP length of zero":                              with(dhcp(solicit...), func(b []byte) { b[ipv6.HeaderLen+4], b[ipv6.HeaderLen+5] = 0, 0 }),
		"a UDP length beyond the packet":                    with(dhcp(solicit...), func(b []byte) { b[ipv6.HeaderLen+4] = 0xff }),
		"a UDP header that is cut":                          ipv6.Packet{From: from, To: all, NextHeader: ipv6.UDP, HopLimit: 1, Payload: []byte{2, 34, 2, 35, 0, 8, 0, 0}}.Marshal(6)[:ipv6.HeaderLen+6],
		"DHCPv6 of no bytes":                                dhcp(),
		"DHCPv6 of one byte":                                dhcp(1),
		"DHCPv6 of an unknown kind":                         dhcp(long(30, 200)...),
		"DHCPv6 with an option that is cut":                 dhcp(append(solicit[:len(solicit):len(solicit)], 0, 25, 0)...),
		"DHCPv6 with an option beyond it":                   dhcp(append(solicit[:len(solicit):len(solicit)], 0, 25, 0xff, 0xff, 1)...),
		"DHCPv6 with an association that is cut":            dhcp(append(solicit[:len(solicit):len(solicit)], 0, 25, 0, 4, 0, 0, 0, 1)...),
		"DHCPv6 with a prefix that is cut":                  dhcp(append(solicit[:len(solicit):len(solicit)], 0, 25, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 0, 4, 0, 0, 0, 0)...),
		"DHCPv6 with a prefix of length 255":                dhcp(append(append(solicit[:len(solicit):len(solicit)], 0, 25, 0, 41, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 0, 25, 0, 0, 0, 1, 0, 0, 0, 1, 255), make([]byte, 16)...)...),
		"DHCPv6 with an identifier of no bytes":             dhcp(1, 1, 2, 3, 0, 1, 0, 0),
		"DHCPv6 with an identifier of a thousand":           dhcp(append([]byte{1, 1, 2, 3, 0, 1, 4, 0}, make([]byte, 1024)...)...),
		"a relay's message within another, without an end":  dhcp(append(long(33, 12), 0, 9, 0, 38, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff)...),
		"an option request of three bytes":                  dhcp(append(solicit[:len(solicit):len(solicit)], 0, 6, 0, 3, 0, 23, 0)...),
		"two hundred associations":                          dhcp(append(solicit[:len(solicit):len(solicit)], repeat(200, 0, 25, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)...)...),
		"a packet from the router's own link-local address": ipv6.Packet{From: netip.MustParseAddr("fe80::1"), To: netip.MustParseAddr("ff02::2"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: []byte{133, 0, 0, 0, 0, 0, 0, 0}}.Marshal(2),
		"IPv6 whose version is 0":                           with(icmp(133, 0, 0, 0, 0, 0, 0, 0), func(b []byte) { b[0] = 0 }),
	}
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	one, peer := d.server.only(), d.client.only()
	send := func(b []byte) {
		d.server.engine.Receive(d.server.addr, d.client.addr, wirel2tp.AppendData(nil, one.tunnel.Local(), one.local, wireppp.AppendFrame(nil, wireppp.IPv6, b)), d.now)
		d.client.engine.Receive(d.client.addr, d.server.addr, wirel2tp.AppendData(nil, peer.tunnel.Local(), peer.local, wireppp.AppendFrame(nil, wireppp.IPv6, b)), d.now)
		d.settle()
	}
	for name, b := range cases {
		send(b)
		for cut := range min(len(b), 120) {
			send(b[:cut])
		}
		if d.server.only() != one || d.client.only() != peer || !d.client.engine.Learned()["home"].Up {
			t.Fatalf("%s: a session ended", name)
		}
	}
	d.sound()
	before := d.server.sent
	send(icmp(133, 0, 0, 0, 0, 0, 0, 0))
	if d.server.sent != before+1 {
		t.Error("a router solicitation is not answered any more")
	}
	if d.pass(5 * time.Minute); d.server.only() != one || d.client.only() != peer {
		t.Error("a session ended afterwards")
	}
	if l := d.up(); !l.Delegated.IsValid() || !l.Router {
		t.Errorf("the client has %+v", l)
	}
}

func repeat(n int, b ...byte) []byte {
	var out []byte
	for i := range n {
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		out = append(out, b...)
	}
	return out
}
