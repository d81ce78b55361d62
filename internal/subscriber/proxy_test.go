package subscriber

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"weft/internal/l2tp"
	"weft/internal/ppp"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// carrier is a LAC that has spoken with the subscriber already: it says so when
// the call stands (RFC 2661 section 4.4.5), and sends what a test makes up.
type carrier struct {
	*peerPair
	tunnel  *tunnel
	session *session
	frames  []frame // that the server sent to the subscriber
}

type frame struct {
	protocol wireppp.Protocol
	packet   wireppp.Packet
}

// theirCall is the carrier's id of the call.
const theirCall = 7777

func newCarrier(t *testing.T, s ServerSettings) *carrier {
	t.Helper()
	c := &carrier{peerPair: newPeerPair(t)}
	c.start(s, testClient())
	for _, c.tunnel = range c.server.engine.tunnels() {
	}
	if c.tunnel == nil || c.tunnel.State() != l2tp.TunnelUp {
		t.Fatal("there is no tunnel")
	}
	c.lose = func(from *side, b []byte) bool {
		h, rest, err := wirel2tp.Parse(b)
		if err != nil || h.Control || h.Session != theirCall {
			return false
		}
		protocol, b, err := wireppp.ParseFrame(rest)
		if err != nil {
			t.Fatal(err)
		}
		p, err := wireppp.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		c.frames = append(c.frames, frame{protocol, p})
		return true
	}
	c.inject(c.client, c.client.only().tunnel, 0, wirel2tp.New(wirel2tp.ICRQ).AddUint16(wirel2tp.AssignedSessionID, theirCall).AddUint32(wirel2tp.CallSerialNumber, 1))
	for _, one := range c.server.engine.sessions {
		if one.l2tp.Remote() == theirCall {
			c.session = one
		}
	}
	if c.session == nil {
		t.Fatal("the call was not taken")
	}
	return c
}

// connect is the call's last message, with what the carrier has negotiated.
func (c *carrier) connect(m *wirel2tp.Message) {
	c.inject(c.client, c.client.only().tunnel, c.session.local, m.AddUint32(wirel2tp.TxConnectSpeed, 1e6).AddUint32(wirel2tp.FramingType, 1))
	c.settle()
}

// has reports whether a packet of this protocol and code came, and gives the first.
func (c *carrier) has(p wireppp.Protocol, code wireppp.Code) (wireppp.Packet, bool) {
	for _, f := range c.frames {
		if f.protocol == p && f.packet.Code == code {
			return f.packet, true
		}
	}
	return wireppp.Packet{}, false
}

func (c *carrier) names() (list []string) {
	for _, f := range c.frames {
		list = append(list, f.protocol.String())
	}
	return list
}

// agreed is the LCP that a carrier and a subscriber have agreed on.
func agreed(m ppp.Method, mru int) *wirel2tp.Message {
	magic := func(n uint32) wireppp.Option {
		return wireppp.Option{Type: wireppp.OptMagic, Data: binary.BigEndian.AppendUint32(nil, n)}
	}
	return wirel2tp.New(wirel2tp.ICCN).
		Add(wirel2tp.LastSentLCP, wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptAuth, Data: m.Option()}, magic(0x11111111)})).
		Add(wirel2tp.LastReceivedLCP, wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptMRU, Data: binary.BigEndian.AppendUint16(nil, uint16(mru))}, magic(0x22222222)}))
}

func showPAP(m *wirel2tp.Message, password string) *wirel2tp.Message {
	return m.AddUint16(wirel2tp.ProxyAuthenType, l2tp.ProxyPAP).Add(wirel2tp.ProxyAuthenName, []byte("bob")).
		AddUint16(wirel2tp.ProxyAuthenID, 5).Add(wirel2tp.ProxyAuthenResponse, []byte(password))
}

func showCHAP(m *wirel2tp.Message, password string) *wirel2tp.Message {
	challenge := []byte("sixteen bytes ..")
	return m.AddUint16(wirel2tp.ProxyAuthenType, l2tp.ProxyCHAP).Add(wirel2tp.ProxyAuthenName, []byte("bob")).AddUint16(wirel2tp.ProxyAuthenID, 9).
		Add(wirel2tp.ProxyAuthenChallenge, challenge).Add(wirel2tp.ProxyAuthenResponse, wireppp.CHAPDigest(9, []byte(password), challenge))
}

func TestWhatTheLACAgreedOnIsTakenOver(t *testing.T) {
	for name, one := range map[string]struct {
		m        *wirel2tp.Message
		protocol wireppp.Protocol
		code     wireppp.Code
		id       uint8
	}{
		"PAP":  {showPAP(agreed(ppp.MethodPAP, 1400), "builder"), wireppp.PAP, wireppp.PAPAck, 5},
		"CHAP": {showCHAP(agreed(ppp.MethodCHAP, 1400), "builder"), wireppp.CHAP, wireppp.CHAPSuccess, 9},
	} {
		c := newCarrier(t, testServer())
		c.connect(one.m)
		if p, ok := c.has(one.protocol, one.code); !ok || p.ID != one.id {
			t.Errorf("%s: the subscriber gets %v, want the answer to its own %d", name, c.frames, one.id)
		}
		if _, ok := c.has(wireppp.LCP, wireppp.ConfigureRequest); ok {
			t.Errorf("%s: LCP is renegotiated: %v", name, c.names())
		}
		_, v4 := c.has(wireppp.IPCP, wireppp.ConfigureRequest)
		_, v6 := c.has(wireppp.IPV6CP, wireppp.ConfigureRequest)
		if !v4 || !v6 || c.session.login != "bob" || c.session.given.IPv4 != netip.MustParseAddr("203.0.113.77") {
			t.Errorf("%s: IPCP %v, IPV6CP %v, login %q, %v", name, v4, v6, c.session.login, c.session.given)
		}
		if c.session.mtu() != 1400 {
			t.Errorf("%s: packets to it have up to %d bytes, and its MRU is 1400", name, c.session.mtu())
		}
		// its LCP is the carrier's: the magic number too (RFC 1661 section 5.8)
		c.frames = nil
		c.session.link.Receive(wireppp.LCP, wireppp.Packet{Code: wireppp.EchoRequest, ID: 1, Data: []byte{0x22, 0x22, 0x22, 0x22}}.Marshal(), c.now)
		if p, ok := c.has(wireppp.LCP, wireppp.EchoReply); !ok || binary.BigEndian.Uint32(p.Data) != 0x11111111 {
			t.Errorf("%s: an echo is answered with %v", name, c.frames)
		}
	}
}

func TestWhatTheLACSaysIsNotBelievedBlindly(t *testing.T) {
	only := testServer()
	only.Methods = []ppp.Method{ppp.MethodCHAP}
	noMRU := agreed(ppp.MethodPAP, 100)
	for name, one := range map[string]struct {
		s        ServerSettings
		m        *wirel2tp.Message
		protocol wireppp.Protocol
		code     wireppp.Code
	}{
		"a wrong PAP password":          {testServer(), showPAP(agreed(ppp.MethodPAP, 1400), "guess"), wireppp.PAP, wireppp.PAPNak},
		"a wrong CHAP answer":           {testServer(), showCHAP(agreed(ppp.MethodCHAP, 1400), "guess"), wireppp.CHAP, wireppp.CHAPFailure},
		"PAP where CHAP is asked for":   {only, showPAP(agreed(ppp.MethodPAP, 1400), "builder"), wireppp.LCP, wireppp.ConfigureRequest},
		"no authentication":             {testServer(), showPAP(agreed("", 1400), "builder"), wireppp.LCP, wireppp.ConfigureRequest},
		"an MRU of no use":              {testServer(), showPAP(noMRU, "builder"), wireppp.LCP, wireppp.ConfigureRequest},
		"LCP that is garbage":           {testServer(), wirel2tp.New(wirel2tp.ICCN).Add(wirel2tp.LastSentLCP, []byte{1}).Add(wirel2tp.LastReceivedLCP, []byte{1, 1}), wireppp.LCP, wireppp.ConfigureRequest},
		"CHAP without the subscriber's": {testServer(), agreed(ppp.MethodCHAP, 1400), wireppp.CHAP, wireppp.CHAPChallenge},
		"the other method's proof":      {testServer(), showPAP(agreed(ppp.MethodCHAP, 1400), "builder"), wireppp.CHAP, wireppp.CHAPChallenge},
	} {
		c := newCarrier(t, one.s)
		c.connect(one.m)
		if _, ok := c.has(one.protocol, one.code); !ok {
			t.Errorf("%s: it sends %v, want %s %d", name, c.frames, one.protocol, one.code)
		}
		if _, ok := c.has(wireppp.IPCP, wireppp.ConfigureRequest); ok || c.session.given.IPv4.IsValid() {
			t.Errorf("%s: it is let in: %v", name, c.names())
		}
	}
}

// A subscriber that renegotiates LCP must authenticate again, with the same login.
func TestWhoBeginsAnewIsAskedAnew(t *testing.T) {
	s := testServer()
	s.Methods, s.Duplicates = []ppp.Method{ppp.MethodPAP}, DuplicatesRefuse
	s.Users = append(s.Users, User{Login: "carol", Password: "c"})
	c := newCarrier(t, s)
	c.connect(showPAP(agreed(ppp.MethodPAP, 1400), "builder"))
	again := func(login, password string) {
		l := c.session.link
		c.frames = nil
		l.Receive(wireppp.LCP, wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 40}.Marshal(), c.now)
		if l.LCP() == ppp.StateOpened || l.IPCP() == ppp.StateOpened {
			t.Fatal("it stays authenticated")
		}
		ask, ok := c.has(wireppp.LCP, wireppp.ConfigureRequest)
		if !ok {
			t.Fatalf("LCP is not renegotiated: %v", c.frames)
		}
		l.Receive(wireppp.LCP, wireppp.Packet{Code: wireppp.ConfigureAck, ID: ask.ID, Data: ask.Data}.Marshal(), c.now)
		l.Receive(wireppp.PAP, wireppp.Packet{Code: wireppp.PAPRequest, ID: 41, Data: wireppp.MarshalPAP(login, password)}.Marshal(), c.now)
		c.settle()
	}
	again("carol", "c")
	if _, ok := c.has(wireppp.PAP, wireppp.PAPAck); !ok || c.session.login != "carol" {
		t.Fatalf("carol is not let in: %v", c.frames)
	}
	srv := c.server.engine.servers["isp"]
	if n := len(srv.logins["bob"]); n != 0 || len(srv.logins["carol"]) != 1 {
		t.Errorf("bob is logged in %d times, carol %d times", n, len(srv.logins["carol"]))
	}
	c.server.engine.Kick(Match{Session: c.session.local}, c.now)
	if len(srv.logins["bob"])+len(srv.logins["carol"]) != 0 || held4(srv) != 1 {
		t.Errorf("after the end logins are %v, and %d addresses are held", srv.logins, held4(srv))
	}
}
