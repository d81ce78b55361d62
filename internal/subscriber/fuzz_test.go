package subscriber

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weft/internal/ppp"
	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// The operations on a server and a client that have a session: each byte selects one, the
// two bytes behind it are the length of its argument.
const (
	doDatagram    = iota // from the client's address, as it comes
	doFrame              // of PPP, in the session
	doControl            // a message's attributes, in the tunnel, with the right numbers
	doCall               // the same, about the session
	doAnswerFrame        // the server's side of all this, to the client
	doAnswerControl
	doTransmit // an IP packet from the stack, to both
	doWait     // some seconds
	doMany
)

func step(what byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{what}, uint16(len(b))), b...)
}

// FuzzSessions: whatever comes in a tunnel and a session that stand, nothing
// panics, what ends gives all back that it had, and another login gets in.
func FuzzSessions(f *testing.F) {
	lcp := func(p wireppp.Packet) []byte { return wireppp.AppendFrame(nil, wireppp.LCP, p.Marshal()) }
	again := lcp(wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 9, Data: wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptMRU, Data: []byte{5, 180}}})})
	f.Add(step(doFrame, again))
	f.Add(append(step(doFrame, again), step(doFrame, lcp(wireppp.Packet{Code: wireppp.TerminateRequest, ID: 3}))...))
	f.Add(append(step(doFrame, again), step(doWait, []byte{40})...))
	f.Add(step(doFrame, lcp(wireppp.Packet{Code: wireppp.ProtocolReject, ID: 3, Data: []byte{0x80, 0x57}})))
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.PAP, wireppp.Packet{Code: wireppp.PAPRequest, ID: 1, Data: wireppp.MarshalPAP("x@far", "p")}.Marshal())))
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.CHAP, wireppp.Packet{Code: wireppp.CHAPResponse, ID: 1, Data: wireppp.MarshalCHAP(make([]byte, 16), "x@far")}.Marshal())))
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.IPCP, wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 1, Data: []byte{3, 6, 0, 0, 0, 0, 129, 6, 0, 0, 0, 0}}.Marshal())))
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.IPV6CP, wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 1, Data: []byte{1, 10, 0, 0, 0, 0, 0, 0, 0, 0}}.Marshal())))
	solicit := []byte{1, 1, 2, 3, 0, 1, 0, 4, 0, 3, 0, 1, 0, 25, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.IPv6, ipv6.MarshalUDP(netip.MustParseAddr("fe80::5"), netip.MustParseAddr("ff02::1:2"), 546, 547, solicit))))
	f.Add(step(doFrame, wireppp.AppendFrame(nil, wireppp.IPv6, ipv6.Packet{From: netip.MustParseAddr("fe80::5"), To: netip.MustParseAddr("ff02::2"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: []byte{133, 0, 0, 0, 0, 0, 0, 0}}.Marshal(2))))
	for _, kind := range []wirel2tp.MessageType{wirel2tp.SCCRQ, wirel2tp.SCCCN, wirel2tp.StopCCN, wirel2tp.Hello, wirel2tp.OCRQ, wirel2tp.ICRQ, wirel2tp.ICCN, wirel2tp.CDN, wirel2tp.WEN, wirel2tp.SLI} {
		m := wirel2tp.New(kind).AddUint16(wirel2tp.AssignedSessionID, 7).Add(wirel2tp.CallErrors, make([]byte, 26)).
			Option(wirel2tp.LastSentLCP, []byte{3, 4, 0xc0, 0x23}).Option(wirel2tp.LastReceivedLCP, []byte{1, 4, 5, 180}).AddUint16(wirel2tp.ProxyAuthenType, 3).
			Add(wirel2tp.ProxyAuthenName, []byte("bob")).Add(wirel2tp.ProxyAuthenResponse, []byte("builder"))
		f.Add(step(doControl, m.Marshal()))
		f.Add(step(doCall, m.Marshal()))
		f.Add(step(doAnswerControl, m.Marshal()))
		f.Add(step(doDatagram, wirel2tp.Control{Body: m.Marshal()}.Marshal()))
	}
	f.Add(step(doAnswerFrame, again))
	f.Add(step(doTransmit, ping4(netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("203.0.113.77"), 1500)))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newPeerPair(t)
		d.beyond = newSide(d, "192.0.2.99:1701", 3)
		s := testServer()
		s.Methods = []ppp.Method{ppp.MethodCHAP, ppp.MethodPAP, ppp.MethodMSCHAPv2}
		s.Forward = []Forward{{Realm: "far", Server: "192.0.2.99"}}
		d.start(s, testClient())
		d.up()
		for range 16 {
			if len(b) < 3 {
				break
			}
			n := min(int(binary.BigEndian.Uint16(b[1:])), len(b)-3)
			d.do(b[0]%doMany, b[3:3+n])
			b = b[3+n:]
		}
		d.sound()
		d.readAll()
		// all of it ends, and leaves nothing
		d.server.engine.Set(nil, nil, d.now)
		d.client.engine.Set(nil, nil, d.now)
		d.pass(2 * time.Minute)
		for _, one := range d.sides() {
			if e := one.engine; len(e.sessions)+e.clock.Len()+len(one.sessions)+len(one.store) > 0 {
				t.Fatalf("%d sessions, %d timers, %d in the datapath, %d stored are left", len(e.sessions), e.clock.Len(), len(one.sessions), len(one.store))
			}
		}
		d.server.engine.Set([]ServerSettings{testServer()}, nil, d.now)
		d.client.engine.Set(nil, []ClientSettings{testClient()}, d.now)
		d.pass(time.Minute)
		d.up()
	})
}

func (d *peerPair) do(what byte, b []byte) {
	client, server := d.client.engine, d.server.engine
	var mine, theirs *session
	for _, s := range client.sessions {
		mine = s
	}
	if mine != nil {
		theirs = server.sessions[mine.l2tp.Remote()]
	}
	switch {
	case what == doDatagram:
		server.Receive(d.server.addr, d.client.addr, b, d.now)
	case what == doTransmit:
		client.Transmit("l2tp-home", b)
		server.Transmit("lns-isp", b)
	case what == doWait:
		if len(b) > 0 {
			d.pass(time.Duration(b[0]) * time.Second)
		}
	case theirs == nil:
	case what == doFrame:
		server.Receive(d.server.addr, d.client.addr, wirel2tp.AppendData(nil, theirs.tunnel.Local(), theirs.local, b), d.now)
	case what == doAnswerFrame:
		client.Receive(d.client.addr, d.server.addr, wirel2tp.AppendData(nil, mine.tunnel.Local(), mine.local, b), d.now)
	case what == doAnswerControl:
		c := mine.tunnel.Status()
		client.Receive(d.client.addr, d.server.addr, wirel2tp.Control{Tunnel: mine.tunnel.Local(), Session: mine.local, Ns: c.Nr, Nr: c.Ns, Body: b}.Marshal(), d.now)
	default:
		c, about := theirs.tunnel.Status(), uint16(0)
		if what == doCall {
			about = theirs.local
		}
		server.Receive(d.server.addr, d.client.addr, wirel2tp.Control{Tunnel: theirs.tunnel.Local(), Session: about, Ns: c.Nr, Nr: c.Ns, Body: b}.Marshal(), d.now)
	}
	d.settle()
}

// readAll reads all that can be shown of sessions and tunnels: much of it comes from peers.
func (d *peerPair) readAll() {
	for _, one := range d.sides() {
		e := one.engine
		for id := range e.sessions {
			_, _ = e.Details(Match{Session: id, Clients: true})
		}
		for _, login := range []string{"alice", "bob", "l2tp_client.home"} {
			_, _ = e.Details(Match{Login: login, Clients: true})
		}
		for _, row := range e.Tunnels() {
			_ = e.TunnelDetails(row.Section)
		}
		_, _ = e.Clients(), e.Subscribers()
	}
}

// sound compares what a server says that it has given with who is there.
func (d *peerPair) sound() {
	d.t.Helper()
	for _, one := range d.sides() {
		e := one.engine
		for id, s := range e.sessions {
			if s.local != id || s.gone() || e.l2tp.Session(id) != s.l2tp || s.l2tp.Tunnel() != s.tunnel.Tunnel || e.l2tp.Tunnel(s.tunnel.Local()) != s.tunnel.Tunnel {
				d.t.Fatalf("session %d is %+v", id, s)
			}
		}
		for _, srv := range e.servers {
			there := func(s *session) bool { return e.sessions[s.local] == s && s.tunnel.server == srv }
			n := 0
			for _, s := range e.sessions {
				if s.tunnel.server == srv {
					n++
				}
			}
			if n != srv.count {
				d.t.Fatalf("%d sessions are counted, %d are there", srv.count, n)
			}
			srv.pools.Held(func(s *session, a netip.Addr, p netip.Prefix) {
				if !there(s) || a.IsValid() && s.given.IPv4 != a {
					d.t.Fatalf("%s %s is held by a session that is gone", a, p)
				}
			})
			for p, s := range srv.destined.All() {
				if !there(s) {
					d.t.Fatalf("%s leads to no session", p)
				}
			}
			for login, list := range srv.logins {
				for _, s := range list {
					if !there(s) || s.login != login {
						d.t.Fatalf("login %q has no session", login)
					}
				}
			}
		}
		for _, s := range one.sessions {
			if e.sessions[s.Local] == nil {
				d.t.Fatalf("only the datapath has session %d", s.Local)
			}
		}
	}
}

// FuzzRestore: a store that is damaged does no harm.
func FuzzRestore(f *testing.F) {
	d := newPeerPair(&testing.T{})
	d.start(testServer(), testClient())
	var tunnels, sessions [][]byte
	for key, value := range d.server.store {
		if key[0] == 't' {
			tunnels = append(tunnels, value)
		} else {
			sessions = append(sessions, value)
		}
	}
	f.Add(tunnels[0], sessions[0])
	f.Add([]byte(`{"local":1,"server":"isp"}`), []byte(`{"local":1,"tunnel":1,"link":{"v4":true,"v6":true}}`))
	f.Add([]byte(`{"local":1,"server":"stranger"}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, tunnel, session []byte) {
		d := newPeerPair(t)
		d.server.engine.Set([]ServerSettings{testServer()}, nil, d.now)
		_ = d.server.engine.Restore([]Stored{{"tunnel/1", tunnel}, {"session/1", session}, {"session/2", session}}, d.now)
		_ = d.server.engine.Subscribers()
		d.settle()
		d.pass(3 * time.Minute)
		d.sound()
	})
}
