package subscriber

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/mutator"
	"weft/internal/ppp"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// spoken are datagrams of L2TP: what a LAC and its subscriber send to an LNS, or an LNS
// to a client.
func spoken(t *testing.T, server bool) (list [][]byte) {
	data := func(p wireppp.Protocol, b []byte) {
		list = append(list, wirel2tp.AppendData(nil, 0, 0, wireppp.AppendFrame(nil, p, b)))
	}
	options := wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptMRU, Data: []byte{5, 180}}, {Type: wireppp.OptMagic, Data: []byte{1, 2, 3, 4}}, {Type: wireppp.OptAuth, Data: []byte{0xc2, 0x23, 5}}})
	for code := wireppp.ConfigureRequest; code <= 13; code++ { // to Time-Remaining (RFC 1570)
		data(wireppp.LCP, wireppp.Packet{Code: code, ID: 1, Data: options}.Marshal())
		data(wireppp.IPCP, wireppp.Packet{Code: code, ID: 1, Data: []byte{3, 6, 203, 0, 113, 5, 129, 6, 192, 0, 2, 53}}.Marshal())
		data(wireppp.IPV6CP, wireppp.Packet{Code: code, ID: 1, Data: []byte{1, 10, 0, 0, 0, 0, 0, 0, 0, 5}}.Marshal())
	}
	data(wireppp.PAP, wireppp.Packet{Code: wireppp.PAPRequest, ID: 1, Data: wireppp.MarshalPAP("bob", "builder")}.Marshal())
	for code := wireppp.CHAPChallenge; code <= 4; code++ { // and Response, Success, Failure
		data(wireppp.CHAP, wireppp.Packet{Code: code, ID: 1, Data: wireppp.MarshalCHAP(make([]byte, 16), "alice")}.Marshal())
	}
	router, host := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::5")
	from, to, fromPort, toPort := host, netip.MustParseAddr("ff02::1:2"), uint16(dhcp6.ClientPort), uint16(dhcp6.ServerPort)
	kinds := []dhcp6.Type{dhcp6.Solicit, dhcp6.Request, dhcp6.Renew, dhcp6.Rebind, dhcp6.Release, dhcp6.Confirm, dhcp6.Decline, dhcp6.InformationRequest}
	if server {
		from, to, fromPort, toPort, kinds = router, host, toPort, fromPort, []dhcp6.Type{dhcp6.Advertise, dhcp6.Reply}
	}
	lease := func(p string) []dhcp6.IA {
		return []dhcp6.IA{{ID: [4]byte{3: 1}, Leases: []dhcp6.Lease{{Prefix: netip.MustParsePrefix(p), Preferred: time.Hour, Valid: 2 * time.Hour}}}}
	}
	for _, kind := range kinds {
		b, err := (&dhcp6.Message{
			Type: kind, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}, ServerID: []byte{0, 2, 0, 0, 0xff, 0xff}, RapidCommit: true, Addresses: lease("2001:db8:3::5/128"), Prefixes: lease("2001:db8:9::/56"),
			DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Search: []string{"example.net", "a.example.net"},
		}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		data(wireppp.IPv6, ipv6.MarshalUDP(from, to, fromPort, toPort, b))
	}
	source := &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: []byte{2, 0, 0, 0, 0, 5}}
	for _, m := range []ndp.Message{&ndp.RouterSolicitation{Options: []ndp.Option{source}}, &ndp.RouterAdvertisement{RouterLifetime: time.Hour, Options: []ndp.Option{
		&ndp.PrefixInformation{PrefixLength: 64, AutonomousAddressConfiguration: true, ValidLifetime: time.Hour, PreferredLifetime: time.Hour, Prefix: netip.MustParseAddr("2001:db8:3::")},
		&ndp.RecursiveDNSServer{Lifetime: time.Hour, Servers: []netip.Addr{netip.MustParseAddr("2001:db8::53")}}, ndp.NewMTU(1400),
	}}} {
		b, err := ndp.MarshalMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		data(wireppp.IPv6, ipv6.Packet{From: from, To: netip.MustParseAddr("ff02::2"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: b}.Marshal(2))
	}
	data(wireppp.IPv4, ping4(netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("8.8.8.8"), 100))
	for _, kind := range []wirel2tp.MessageType{wirel2tp.SCCRQ, wirel2tp.SCCCN, wirel2tp.StopCCN, wirel2tp.Hello, wirel2tp.OCRQ, wirel2tp.ICRQ, wirel2tp.ICCN, wirel2tp.CDN, wirel2tp.WEN, wirel2tp.SLI} {
		m := wirel2tp.New(kind).AddUint16(wirel2tp.AssignedSessionID, 7).AddUint16(wirel2tp.AssignedTunnelID, 9).Add(wirel2tp.CallErrors, make([]byte, 26)).
			Option(wirel2tp.LastSentLCP, []byte{3, 4, 0xc0, 0x23}).Option(wirel2tp.LastReceivedLCP, []byte{1, 4, 5, 180}).AddUint16(wirel2tp.ProxyAuthenType, 3).
			Add(wirel2tp.ProxyAuthenName, []byte("bob")).Add(wirel2tp.ProxyAuthenResponse, []byte("builder"))
		list = append(list, wirel2tp.Control{Body: m.Marshal()}.Marshal())
	}
	return list
}

// victim is a client and a server with a session, one of which is attacked in it.
func victim(t *testing.T, r *rand.Rand, server bool) mutator.Machine {
	d := newPeerPair(t)
	s := testServer()
	s.Methods = []ppp.Method{ppp.MethodCHAP, ppp.MethodPAP, ppp.MethodMSCHAPv2}
	d.start(s, testClient())
	d.up()
	mine, theirs := d.client, d.server
	if server {
		mine, theirs = theirs, mine
	}
	aim := func(b []byte) {
		for range 3 { // it logs in again
			if len(mine.engine.sessions) > 0 {
				break
			}
			d.pass(2 * time.Minute)
		}
		mine.aim(r, b)
	}
	return mutator.Machine{Aim: aim, Receive: func(b []byte) {
		mine.engine.Receive(mine.addr, theirs.addr, b, d.now)
		d.now = d.now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
		d.settle()
		for _, one := range d.sides() { // what a daemon does with it
			one.asked, one.delivered, one.accounts = nil, nil, nil
			_, _ = one.engine.Logins()
		}
		if r.IntN(256) == 0 {
			d.readAll()
		}
	}}
}

// aim puts the numbers of a session, and those that come next, into most of the messages.
func (s *side) aim(r *rand.Rand, b []byte) {
	if len(b) < 12 || r.IntN(8) == 0 {
		return
	}
	var one *session
	for _, x := range s.engine.sessions {
		if one == nil || x.local < one.local {
			one = x
		}
	}
	if one == nil || one.tunnel == nil {
		return
	}
	k := one.tunnel.Status()
	if b[0]&0x80 == 0 {
		binary.BigEndian.PutUint16(b[2:], k.Local)
		binary.BigEndian.PutUint16(b[4:], one.local)
		return
	}
	binary.BigEndian.PutUint16(b[4:], k.Local)
	if r.IntN(2) == 0 {
		binary.BigEndian.PutUint16(b[6:], one.local)
	}
	binary.BigEndian.PutUint16(b[8:], k.Nr)
	binary.BigEndian.PutUint16(b[10:], k.Ns)
}

func TestMutatedSubscriber(t *testing.T) {
	mutator.Run(t, mutator.Parser{
		Name: "lns", Seeds: spoken(t, false), Format: mutator.Tunnelled(), Seal: mutator.SealTunnelled,
		New: func(r *rand.Rand) mutator.Machine { return victim(t, r, true) },
	})
}

func TestMutatedServerOfAClient(t *testing.T) {
	mutator.Run(t, mutator.Parser{
		Name: "l2tp_client", Seeds: spoken(t, true), Format: mutator.Tunnelled(), Seal: mutator.SealTunnelled,
		New: func(r *rand.Rand) mutator.Machine { return victim(t, r, false) },
	})
}

// TestMutatedPackets sends subscribers what the stack forwards to them.
func TestMutatedPackets(t *testing.T) {
	var seeds [][]byte
	for _, p := range []struct{ from, to string }{{"8.8.8.8", "203.0.113.1"}, {"203.0.113.1", "8.8.8.8"}} {
		seeds = append(seeds, ping4(netip.MustParseAddr(p.from), netip.MustParseAddr(p.to), 100), ping4(netip.MustParseAddr(p.from), netip.MustParseAddr(p.to), 1500))
	}
	six := ipv6.Packet{From: netip.MustParseAddr("2001:db8::1"), To: netip.MustParseAddr("2001:db8:1000::5"), NextHeader: 17, HopLimit: 64, Payload: make([]byte, 1400)}
	seeds = append(seeds, six.Marshal(6))
	mutator.Run(t, mutator.Parser{Name: "lns-packets", Seeds: seeds, Format: mutator.IPv6{}, Seal: mutator.SealIP, New: func(r *rand.Rand) mutator.Machine {
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		d.up()
		return mutator.Machine{Receive: func(b []byte) {
			d.client.engine.Transmit("l2tp-home", b)
			d.server.engine.Transmit("lns-isp", b)
			d.now = d.now.Add(time.Duration(r.IntN(20)) * time.Millisecond)
			d.settle()
			for _, one := range d.sides() {
				one.delivered = nil
			}
		}}
	}})
}
