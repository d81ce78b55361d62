package l2tp

import (
	"net/netip"
	"testing"
	"time"

	"weft/wire/l2tp"
)

// accepted sets up a tunnel in which the peer, whose id is 99, has a call with the id 7.
func (l *lab) accepted() (*Tunnel, *Session) {
	l.t.Helper()
	l.config = Config{Owner: l, HostName: "lns"}
	e := l.endpoint
	e.Receive(here(), peer(), l2tp.Control{Body: sccrq(99).Marshal()}.Marshal())
	list := e.Tunnels()
	if len(list) != 1 {
		l.t.Fatalf("there are %d tunnels", len(list))
	}
	t := list[0]
	for _, m := range []*l2tp.Message{l2tp.New(l2tp.SCCCN), l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, 7).AddUint32(l2tp.CallSerialNumber, 1)} {
		l.control(t, 0, m)
	}
	if len(l.sessions) != 1 {
		l.t.Fatalf("there are %d sessions", len(l.sessions))
	}
	s := l.sessions[0]
	l.control(t, s.local, l2tp.New(l2tp.ICCN).AddUint32(l2tp.TxConnectSpeed, 1e6).AddUint32(l2tp.FramingType, 1))
	if t.state != TunnelUp || s.state != SessionUp {
		l.t.Fatalf("the tunnel is %s, the session in state %d", t.state, s.state)
	}
	return t, s
}

// control has the endpoint receive the next control message in a tunnel.
func (l *lab) control(t *Tunnel, session uint16, m *l2tp.Message) {
	l.endpoint.Receive(here(), peer(), l2tp.Control{Tunnel: t.local, Session: session, Ns: t.channel.nr, Nr: t.channel.ns, Body: m.Marshal()}.Marshal())
}

func TestFramesReachTheSession(t *testing.T) {
	l := newLab(t)
	tunnel, s := l.accepted()
	l.endpoint.Receive(here(), peer(), l2tp.AppendData(nil, tunnel.local, s.local, []byte{0xff, 3, 0, 0x21}))
	l.endpoint.Receive(here(), here(), l2tp.AppendData(nil, tunnel.local, s.local, []byte{0xff, 3, 0, 0x21}))
	l.endpoint.Receive(here(), peer(), l2tp.AppendData(nil, tunnel.local, s.local+1, []byte{0xff, 3, 0, 0x21}))
	if n := l.endpoint.Stats(); l.frames != 1 || n.WrongPeer != 1 || n.Unknown != 1 {
		t.Errorf("%d frames have come, and counted is %+v", l.frames, n)
	}
}

// Ids of what has ended are not used again until the datapath has removed it.
func TestIdsWaitUntilTheDatapathHasForgottenThem(t *testing.T) {
	l := newLab(t)
	tunnel, s := l.accepted()
	e := l.endpoint
	id, of := s.local, tunnel.local
	tunnel.Close(l2tp.Result{Code: l2tp.StopShutDown}, ReasonTunnel)
	e.clock.Tick(e.clock.Now().Add(2 * closingTime))
	if c := e.TakeChanges(); len(l.ended) != 1 || len(c.Gone) != 1 || c.Gone[0] != of || c.Stored[of] || len(e.tunnels) != 0 {
		t.Fatalf("%v have ended, %+v is gone", l.ended, c)
	}
	next := func() (s, t uint16) {
		s, _ = freeID(id, e.sessions, e.leavingS)
		t, _ = freeID(of, e.tunnels, e.leavingT)
		return s, t
	}
	if s, x := next(); s == id || x == of {
		t.Errorf("session %d and tunnel %d are there for others, and in the datapath", s, x)
	}
	e.Released([]uint16{of}, []uint16{id})
	if s, x := next(); s != id || x != of {
		t.Errorf("session %d and tunnel %d are removed, and not there for others", id, of)
	}
}

// A call that the peer asks for, and does not go on with, ends (RFC 2661 section 7.4).
func TestACallThatIsNotSetUpInTimeEnds(t *testing.T) {
	l := newLab(t)
	tunnel, _ := l.accepted()
	l.control(tunnel, 0, l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, 8).AddUint32(l2tp.CallSerialNumber, 2))
	s := l.sessions[1]
	l.control(tunnel, 0, l2tp.New(l2tp.Hello))
	l.clock.Tick(l.clock.Now().Add(handshakeTime - time.Second))
	if l.control(tunnel, 0, l2tp.New(l2tp.Hello)); s.state != SessionWaitConnect {
		t.Fatalf("too early it is in state %d", s.state)
	}
	if l.clock.Tick(l.clock.Now().Add(2 * time.Second)); s.state != SessionGone || len(l.ended) != 1 || l.ended[0] != ReasonTimeout {
		t.Errorf("it is in state %d, ended because of %v", s.state, l.ended)
	}
}

// A Connected is read as it was written.
func TestProxyAVPsAreReadAsTheyWereWritten(t *testing.T) {
	for _, c := range []Connected{
		{Tx: 1, Rx: 2, Group: "isp", Sequencing: true, LCP: &ProxyLCP{[]byte{1, 4, 5, 0}, []byte{5, 6, 1, 2, 3, 4}, []byte{1, 4, 5, 0}}, Auth: &ProxyAuth{Type: ProxyCHAP, Name: []byte("alice"), ID: 9, Challenge: []byte("abc"), Response: []byte("0123456789abcdef")}},
		{Tx: 1, LCP: &ProxyLCP{nil, []byte{}, []byte{}}, Auth: &ProxyAuth{Type: ProxyPAP, Name: []byte("alice"), ID: 5, Response: []byte{}}},
	} {
		m, err := l2tp.ParseMessage(c.message().Marshal(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := parseConnected(m)
		if got.Tx != c.Tx || got.Rx != c.Rx || got.Group != c.Group || got.Sequencing != c.Sequencing || got.LCP == nil || string(got.LCP.Initial) != string(c.LCP.Initial) ||
			string(got.LCP.Sent) != string(c.LCP.Sent) || string(got.LCP.Received) != string(c.LCP.Received) || got.Auth.Type != c.Auth.Type ||
			string(got.Auth.Name) != string(c.Auth.Name) || got.Auth.ID != c.Auth.ID || string(got.Auth.Challenge) != string(c.Auth.Challenge) ||
			string(got.Auth.Response) != string(c.Auth.Response) || got.Auth.Response == nil {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

// FuzzEndpoint: whatever datagrams come, before and behind a tunnel with a session, ids
// and maps stay consistent, and all can be closed.
func FuzzEndpoint(f *testing.F) {
	f.Add(l2tp.Control{Body: sccrq(5).Marshal()}.Marshal(), []byte{0, 2})
	f.Add(l2tp.AppendData(nil, 1, 1, []byte{0xff, 3}), l2tp.New(l2tp.CDN).AddResult(l2tp.Result{Code: l2tp.CallCarrierLost}).AddUint16(l2tp.AssignedSessionID, 7).Marshal())
	f.Add([]byte{}, l2tp.New(l2tp.StopCCN).AddResult(l2tp.Result{Code: l2tp.StopRequested}).AddUint16(l2tp.AssignedTunnelID, 99).Marshal())
	f.Add([]byte{0xc8, 2}, l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, 7).AddUint32(l2tp.CallSerialNumber, 2).Marshal())
	f.Fuzz(func(t *testing.T, datagram, body []byte) {
		l := newLab(t)
		tunnel, s := l.accepted()
		e := l.endpoint
		for _, session := range []uint16{0, s.local} {
			e.Receive(here(), peer(), l2tp.Control{Tunnel: tunnel.local, Session: session, Ns: tunnel.channel.nr, Nr: tunnel.channel.ns, Body: body}.Marshal())
		}
		e.Receive(here(), peer(), datagram)
		for id, s := range e.sessions {
			if s.local != id || s.state == SessionGone || s.tunnel.sessions[id] != s || e.tunnels[s.tunnel.local] != s.tunnel {
				t.Fatalf("session %d is %+v", id, s)
			}
		}
		for _, one := range e.Tunnels() {
			one.Close(l2tp.Result{Code: l2tp.StopShutDown}, ReasonTunnel)
		}
		for range 20 {
			l.clock.Tick(l.clock.Now().Add(10 * time.Second))
		}
		if len(e.sessions)+len(e.tunnels)+len(e.byPeer)+l.clock.Len() > 0 {
			t.Fatalf("%d sessions, %d tunnels, %d timers are left", len(e.sessions), len(e.tunnels), l.clock.Len())
		}
	})
}

// An id does not tell the next one.
func TestIdsCannotBeGuessed(t *testing.T) {
	l := newLab(t)
	e := l.endpoint
	beside := 0
	last := uint16(0)
	for i := range 200 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 1701)
		tunnel, ok := e.Connect(netip.MustParseAddrPort("198.51.100.1:1701"), at, Config{Owner: l})
		if !ok {
			t.Fatal("no id is free")
		}
		if d := tunnel.local - last; d < 16 || -d < 16 {
			beside++
		}
		last = tunnel.local
	}
	if beside > 5 {
		t.Errorf("%d of 200 ids are beside the one before", beside)
	}
}
