package access

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// frames calls look for each control frame of PPP that a side sends; true loses it.
func (d *duet) frames(t *testing.T, look func(from *side, protocol ppp.Protocol, p ppp.Packet) bool) {
	t.Helper()
	d.lose = func(from *side, b []byte) bool {
		h, rest, err := l2tp.Parse(b)
		if err != nil || h.Control {
			return false
		}
		protocol, b, err := ppp.ParseFrame(rest)
		if err != nil || protocol < 0x4000 {
			return false
		}
		p, err := ppp.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		return look(from, protocol, p)
	}
}

// A peer numbers each request of PAP anew (RFC 1334 section 2.2.1): a server that
// takes its time, and an answer that is lost, keep nobody out.
func TestPAPIsAskedAgain(t *testing.T) {
	slow := func() (*duet, *[]uint8, *[]uint8) {
		d := newDuet(t)
		var asked, answered []uint8
		d.frames(t, func(from *side, protocol ppp.Protocol, p ppp.Packet) bool {
			switch {
			case protocol == ppp.PAP && p.Code == ppp.PAPRequest:
				asked = append(asked, p.ID)
			case protocol == ppp.PAP:
				answered = append(answered, p.ID)
				return len(answered) == 1 && from.engine.servers["isp"].Remote == false
			}
			return false
		})
		return d, &asked, &answered
	}
	d, asked, answered := slow()
	s, c := testServer(), testClient()
	s.Methods, s.Remote, c.Login = []Method{MethodPAP}, true, "carol"
	d.start(s, c)
	d.pass(7 * time.Second)
	if len(d.server.asked) != 1 || len(*asked) < 3 {
		t.Fatalf("%d questions after requests %v", len(d.server.asked), *asked)
	}
	d.server.engine.Answer(d.server.asked[0], Verdict{Accept: true}, d.now)
	d.settle()
	d.up()
	if last := (*asked)[len(*asked)-1]; len(*answered) != 1 || (*answered)[0] != last {
		t.Errorf("requests %v are answered with %v, want the last one's number", *asked, *answered)
	}

	d, asked, answered = slow()
	s, c = testServer(), testClient()
	s.Methods = []Method{MethodPAP}
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

// An Ack that says yes to something else is none (RFC 1661 section 5.2).
func TestAnAckOfSomethingElse(t *testing.T) {
	d := newDuet(t)
	d.frames(t, func(from *side, protocol ppp.Protocol, p ppp.Packet) bool {
		return from == d.client && protocol == ppp.LCP && p.Code == ppp.ConfigureAck
	})
	d.start(testServer(), testClient())
	l := d.server.only().link
	if l.lcp.state != phaseAckSent {
		t.Fatalf("LCP is %s", l.lcp.state)
	}
	ack := func(data []byte) { l.lcp.receive(ppp.Packet{Code: ppp.ConfigureAck, ID: l.lcp.id, Data: data}, d.now) }
	right := ppp.MarshalOptions(l.lcp.request())
	for name, data := range map[string][]byte{"nothing": nil, "without the last option": right[:len(right)-6], "more": append(bytes.Clone(right), 7, 2)} {
		if ack(data); l.lcp.state != phaseAckSent {
			t.Errorf("%s: LCP is %s", name, l.lcp.state)
		}
	}
	if ack(right); l.lcp.state != phaseOpened {
		t.Errorf("the right one: LCP is %s", l.lcp.state)
	}
}

// silentAbout asks for nothing.
type silentAbout struct{ options }

func (silentAbout) request() []ppp.Option { return nil }

// A peer that names no interface identifier, and does not want to when it is
// told one, still gets IPv6 (RFC 5072 section 4.1).
func TestAPeerWithoutAnInterfaceIdentifier(t *testing.T) {
	d := newDuet(t)
	once := false
	d.frames(t, func(from *side, protocol ppp.Protocol, p ppp.Packet) bool {
		if from == d.client && protocol == ppp.CHAP && !once {
			once = true
			a := &d.client.only().link.v6.automaton
			a.options = silentAbout{a.options}
		}
		return false
	})
	d.start(testServer(), testClient())
	if one := d.server.only(); !once || one.link.v6.state != phaseOpened {
		t.Errorf("IPV6CP is %s", one.link.v6.state)
	}
}

// What of LCP's options the LAC agreed to that this router does not have, the
// subscriber would make use of: LCP begins anew.
func TestALACThatAgreedToMultilink(t *testing.T) {
	c := newCarrier(t, testServer())
	m := agreed(MethodPAP, 1400)
	sent, _ := m.Get(l2tp.LastSentLCP)
	for i := range m.AVPs {
		if m.AVPs[i].Attribute == l2tp.LastSentLCP {
			m.AVPs[i].Value = append(bytes.Clone(sent), ppp.MarshalOptions([]ppp.Option{{Type: ppp.OptMRRU, Data: binary.BigEndian.AppendUint16(nil, 1500)}})...)
		}
	}
	c.connect(showPAP(m, "builder"))
	if _, ok := c.has(ppp.LCP, ppp.ConfigureRequest); !ok {
		t.Errorf("LCP is taken over: %v", c.names())
	}
}

// A peer that knows no echo is there all the same.
func TestAPeerThatKnowsNoEcho(t *testing.T) {
	d := newDuet(t)
	d.start(testServer(), testClient())
	d.up()
	d.frames(t, func(from *side, protocol ppp.Protocol, p ppp.Packet) bool {
		if from != d.server || protocol != ppp.LCP || p.Code != ppp.EchoRequest {
			return false
		}
		d.client.only().sendFrame(ppp.LCP, ppp.Packet{Code: ppp.CodeReject, ID: 1, Data: p.Marshal()}.Marshal())
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
	d := newDuet(t)
	asked := 0
	d.frames(t, func(from *side, protocol ppp.Protocol, p ppp.Packet) bool {
		if from == d.server && protocol == ppp.IPCP && p.Code == ppp.ConfigureRequest && len(p.Data) > 0 {
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

// A network protocol that was closed when the process ended can be opened again
// with the next one.
func TestANetworkProtocolComesBackAfterARestart(t *testing.T) {
	for _, one := range []func(*link) *automaton{func(l *link) *automaton { return &l.v4.automaton }, func(l *link) *automaton { return &l.v6.automaton }} {
		d := newDuet(t)
		d.start(testServer(), testClient())
		was := d.up()
		mine := func() *automaton { return one(d.client.only().link) }
		mine().close(d.now)
		d.client.engine.arm(d.client.only())
		d.pass(10 * time.Second)
		if s := one(d.server.only().link); s.state != phaseStopped || mine().state != phaseClosed {
			t.Fatalf("it is %s at the server and %s at the client", s.state, mine().state)
		}
		next := newSide(d, d.server.addr.String(), 99)
		var kept []Stored
		for k, v := range d.server.store {
			kept = append(kept, Stored{k, v})
		}
		slices.SortFunc(kept, func(a, b Stored) int { return -cmp.Compare(a.Key, b.Key) }) // tunnels first
		next.other, d.client.other, d.server = d.client, next, next
		next.engine.Set([]ServerSettings{testServer()}, nil, d.now)
		if err := next.engine.Restore(kept, d.now); err != nil {
			t.Fatal(err)
		}
		d.settle()
		mine().open(d.now)
		d.client.engine.arm(d.client.only())
		d.pass(10 * time.Second)
		if l := d.up(); one(next.only().link).state != phaseOpened || l.IPv4 != was.IPv4 || l.Delegated != was.Delegated {
			t.Errorf("it is %s, and the client has %+v", one(next.only().link).state, l)
		}
	}
}
