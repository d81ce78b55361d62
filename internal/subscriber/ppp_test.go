package subscriber

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weft/internal/ppp"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// frames calls look for each control frame of PPP that a side sends; true loses it.
func (d *peerPair) frames(t *testing.T, look func(from *side, protocol wireppp.Protocol, p wireppp.Packet) bool) {
	t.Helper()
	d.lose = func(from *side, b []byte) bool {
		h, rest, err := wirel2tp.Parse(b)
		if err != nil || h.Control {
			return false
		}
		protocol, b, err := wireppp.ParseFrame(rest)
		if err != nil || protocol < 0x4000 {
			return false
		}
		p, err := wireppp.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		return look(from, protocol, p)
	}
}

// Each PAP request of a peer has another identifier (RFC 1334 section 2.2.1): a slow
// server or a lost answer does not reject the peer.
func TestPAPIsAskedAgain(t *testing.T) {
	slow := func() (*peerPair, *[]uint8, *[]uint8) {
		d := newPeerPair(t)
		var asked, answered []uint8
		d.frames(t, func(from *side, protocol wireppp.Protocol, p wireppp.Packet) bool {
			switch {
			case protocol == wireppp.PAP && p.Code == wireppp.PAPRequest:
				asked = append(asked, p.ID)
			case protocol == wireppp.PAP:
				answered = append(answered, p.ID)
				return len(answered) == 1 && from.engine.servers["isp"].Remote == false
			}
			return false
		})
		return d, &asked, &answered
	}
	d, asked, answered := slow()
	s, c := testServer(), testClient()
	s.Methods, s.Remote, c.Login = []ppp.Method{ppp.MethodPAP}, true, "carol"
	d.start(s, c)
	d.pass(7 * time.Second)
	if len(d.server.asked) != 1 || len(*asked) < 3 {
		t.Fatalf("%d questions after requests %v", len(d.server.asked), *asked)
	}
	d.server.engine.Answer(d.server.asked[0], AuthReply{Accept: true}, d.now)
	d.settle()
	d.up()
	if last := (*asked)[len(*asked)-1]; len(*answered) != 1 || (*answered)[0] != last {
		t.Errorf("requests %v are answered with %v, want the last one's number", *asked, *answered)
	}

	d, asked, answered = slow()
	s, c = testServer(), testClient()
	s.Methods = []ppp.Method{ppp.MethodPAP}
	d.start(s, c)
	if d.client.engine.Learned()["home"].Up {
		t.Fatal("the answer was not lost")
	}
	d.pass(10 * time.Second)
	d.up()
	if len(*answered) != 2 || (*answered)[1] != (*asked)[len(*asked)-1] {
		t.Errorf("requests %v are answered with %v", *asked, *answered)
	}
}

// If the LAC agreed to LCP options that this router does not support, the subscriber
// would use them: LCP is renegotiated.
func TestALACThatAgreedToMultilink(t *testing.T) {
	c := newCarrier(t, testServer())
	m := agreed(ppp.MethodPAP, 1400)
	sent, _ := m.Get(wirel2tp.LastSentLCP)
	for i := range m.AVPs {
		if m.AVPs[i].Attribute == wirel2tp.LastSentLCP {
			m.AVPs[i].Value = append(bytes.Clone(sent), wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptMRRU, Data: binary.BigEndian.AppendUint16(nil, 1500)}})...)
		}
	}
	c.connect(showPAP(m, "builder"))
	if _, ok := c.has(wireppp.LCP, wireppp.ConfigureRequest); !ok {
		t.Errorf("LCP is taken over: %v", c.names())
	}
}

// A peer that knows no echo is there all the same.
func TestAPeerThatKnowsNoEcho(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	d.frames(t, func(from *side, protocol wireppp.Protocol, p wireppp.Packet) bool {
		if from != d.server || protocol != wireppp.LCP || p.Code != wireppp.EchoRequest {
			return false
		}
		d.client.only().sendFrame(wireppp.LCP, wireppp.Packet{Code: wireppp.CodeReject, ID: 1, Data: p.Marshal()}.Marshal())
		return true
	})
	before := d.server.only()
	if d.pass(10 * time.Minute); len(d.server.engine.sessions) != 1 || d.server.only() != before {
		t.Error("the session is over")
	}
}

// A server without an address of its own (all come from RADIUS, and there is no
// gateway) says none: 0.0.0.0 would be a question (RFC 1332 section 3.3).
func TestAServerWithoutAnAddress(t *testing.T) {
	d := newPeerPair(t)
	asked := 0
	d.frames(t, func(from *side, protocol wireppp.Protocol, p wireppp.Packet) bool {
		if from == d.server && protocol == wireppp.IPCP && p.Code == wireppp.ConfigureRequest && len(p.Data) > 0 {
			asked++
		}
		return false
	})
	s := testServer()
	s.Gateway = netip.Addr{}
	d.start(s, testClient())
	if l := d.up(); !l.IPv4.IsValid() || l.Gateway.IsValid() || asked > 0 {
		t.Errorf("the client has %+v, and was asked %d times for an address", l, asked)
	}
}
