package ppp

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weft/wire/ppp"
)

// pair is a client's and a server's end of a link, and a clock that a test moves.
type pair struct {
	t              *testing.T
	now            time.Time
	client, server *end
	lose           func(from *end, protocol ppp.Protocol, p ppp.Packet) bool
}

// end is one end, and what it has said of itself.
type end struct {
	pair   *pair
	link   *Link
	other  *end
	inbox  []frame
	over   Reason
	accept bool
}

type frame struct {
	protocol ppp.Protocol
	b        []byte
}

func (e *end) SendFrame(protocol ppp.Protocol, b []byte) {
	if p, err := ppp.ParsePacket(b); err == nil && e.pair.lose != nil && e.pair.lose(e, protocol, p) {
		return
	}
	e.other.inbox = append(e.other.inbox, frame{protocol, bytes.Clone(b)})
}

func (e *end) Authenticate(c Credentials) {
	if !e.accept || c.Method == MethodCHAP && !ppp.CHAPValid(c.ID, []byte("wonder"), c.Challenge, c.Response) || c.Method == MethodPAP && c.Password != "wonder" {
		e.link.Reject("Login incorrect", e.pair.now)
		return
	}
	e.link.Accept("Welcome", Network{
		IPv4: true, IPv6: true, Local: netip.MustParseAddr("192.0.2.1"), Peer: netip.MustParseAddr("203.0.113.5"),
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")},
	}, e.pair.now)
}

func (e *end) Event(event Event) {
	if over, ok := event.(Ended); ok {
		e.over = over.Reason
	}
}

func random(seed uint64) func([]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
}

func clientConfig() Config {
	return Config{MRU: 1460, Auth: []Method{MethodCHAP, MethodPAP}, Echo: 30 * time.Second, Login: "alice", Password: "wonder", IPv4: true, IPv6: true, Random: random(1)}
}

func serverConfig() Config {
	return Config{
		Server: true, Name: "lns", MRU: 1460, Auth: []Method{MethodCHAP, MethodPAP}, Echo: 30 * time.Second, IPv4: true, IPv6: true,
		InterfaceID: [8]byte{7: 1}, Random: random(2),
	}
}

func newPair(t *testing.T) *pair {
	d := &pair{t: t, now: time.Unix(1_000_000, 0)}
	d.client, d.server = &end{pair: d}, &end{pair: d, accept: true}
	d.client.other, d.server.other = d.server, d.client
	d.client.link, d.server.link = New(clientConfig(), d.client), New(serverConfig(), d.server)
	return d
}

func (d *pair) start() {
	d.client.link.Start(d.now)
	d.server.link.Start(d.now)
	d.settle()
}

// settle delivers all frames.
func (d *pair) settle() {
	for range 1000 {
		idle := true
		for _, e := range []*end{d.client, d.server} {
			if len(e.inbox) > 0 {
				f := e.inbox[0]
				e.inbox = e.inbox[1:]
				e.link.Receive(f.protocol, f.b, d.now)
				idle = false
			}
		}
		if idle {
			return
		}
	}
	d.t.Fatal("the two ends do not come to an end")
}

// pass lets time pass.
func (d *pair) pass(t time.Duration) {
	for until := d.now.Add(t); ; {
		next := until
		for _, e := range []*end{d.client, d.server} {
			if due := e.link.Due(); !due.IsZero() && due.Before(next) {
				next = due
			}
		}
		if d.now = next; !next.Before(until) {
			return
		}
		d.client.link.Tick(d.now)
		d.server.link.Tick(d.now)
		d.settle()
	}
}

// up fails unless both network protocols are open at both ends.
func (d *pair) up() {
	d.t.Helper()
	for name, e := range map[string]*end{"client": d.client, "server": d.server} {
		if l := e.link; l.LCP() != StateOpened || l.IPCP() != StateOpened || l.IPV6CP() != StateOpened || l.Ended() {
			d.t.Fatalf("%s: LCP is %s, IPCP %s, IPV6CP %s, ended %v", name, l.LCP(), l.IPCP(), l.IPV6CP(), l.Ended())
		}
	}
}

func TestTwoEndsAgree(t *testing.T) {
	d := newPair(t)
	d.start()
	d.up()
	local, peer, dns := d.client.link.Addresses()
	if local.String() != "203.0.113.5" || peer.String() != "192.0.2.1" || len(dns) == 0 || dns[0].String() != "192.0.2.53" {
		t.Errorf("the client has %s, the server %s, and the name servers are %v", local, peer, dns)
	}
	own, other := d.client.link.InterfaceIDs()
	if own2, other2 := d.server.link.InterfaceIDs(); own != other2 || other != own2 || own == other {
		t.Errorf("interface identifiers are %x and %x at the client, %x and %x at the server", own, other, own2, other2)
	}
	if d.client.link.Method() != MethodCHAP || d.server.link.MTU() != 1460 {
		t.Errorf("method %q, MTU %d", d.client.link.Method(), d.server.link.MTU())
	}
}

func TestALoginThatIsRefusedEndsTheLink(t *testing.T) {
	d := newPair(t)
	d.server.accept = false
	d.start()
	if d.client.over != ReasonRefused || d.client.link.IPCP() == StateOpened {
		t.Errorf("the client's link is over because of %q, IPCP is %s", d.client.over, d.client.link.IPCP())
	}
}

// An Ack of other options than were asked for is discarded (RFC 1661 section 5.2).
func TestAnAckOfSomethingElse(t *testing.T) {
	d := newPair(t)
	d.lose = func(from *end, protocol ppp.Protocol, p ppp.Packet) bool {
		return from == d.client && protocol == ppp.LCP && p.Code == ppp.ConfigureAck
	}
	d.start()
	l := d.server.link
	if l.lcp.state != StateAckSent {
		t.Fatalf("LCP is %s", l.lcp.state)
	}
	ack := func(data []byte) {
		l.Receive(ppp.LCP, ppp.Packet{Code: ppp.ConfigureAck, ID: l.lcp.id, Data: data}.Marshal(), d.now)
	}
	right := ppp.MarshalOptions(l.lcp.request())
	for name, data := range map[string][]byte{"nothing": nil, "without the last option": right[:len(right)-6], "more": append(bytes.Clone(right), 7, 2)} {
		if ack(data); l.lcp.state != StateAckSent {
			t.Errorf("%s: LCP is %s", name, l.lcp.state)
		}
	}
	if ack(right); l.lcp.state != StateOpened {
		t.Errorf("the right one: LCP is %s", l.lcp.state)
	}
}

// silentAbout asks for nothing.
type silentAbout struct{ options }

func (silentAbout) request() []ppp.Option { return nil }

// A peer that names no interface identifier, and does not want to when it is given one,
// still gets IPv6 (RFC 5072 section 4.1).
func TestAPeerWithoutAnInterfaceIdentifier(t *testing.T) {
	d := newPair(t)
	a := &d.client.link.v6.automaton
	a.options = silentAbout{a.options}
	if d.start(); d.server.link.IPV6CP() != StateOpened {
		t.Errorf("IPV6CP is %s", d.server.link.IPV6CP())
	}
}

// A network protocol that was closed when the process ended can be opened again with the
// next one.
func TestANetworkProtocolComesBackAfterARestart(t *testing.T) {
	for _, one := range []func(*Link) *automaton{func(l *Link) *automaton { return &l.v4.automaton }, func(l *Link) *automaton { return &l.v6.automaton }} {
		d := newPair(t)
		d.start()
		d.up()
		was, _, _ := d.client.link.Addresses()
		mine := one(d.client.link)
		mine.close(d.now)
		d.settle()
		d.pass(10 * time.Second)
		if s := one(d.server.link); s.state != StateStopped || mine.state != StateClosed {
			t.Fatalf("it is %s at the server and %s at the client", s.state, mine.state)
		}
		d.server.link = Restore(d.server.link.Snapshot(), serverConfig(), d.server, d.now)
		d.settle()
		mine.open(d.now)
		d.settle()
		d.pass(10 * time.Second)
		d.up()
		if is, _, _ := d.client.link.Addresses(); is != was {
			t.Errorf("the client has %s, and had %s", is, was)
		}
	}
}

// FuzzLink: whatever frames come, before and after the link is up, nothing breaks, and the
// link can still be closed.
func FuzzLink(f *testing.F) {
	f.Add(uint16(ppp.LCP), ppp.Packet{Code: ppp.ConfigureRequest, ID: 1, Data: []byte{1, 4, 5, 0xdc}}.Marshal(), true)
	f.Add(uint16(ppp.LCP), ppp.Packet{Code: ppp.ProtocolReject, ID: 1, Data: []byte{0x80, 0x21}}.Marshal(), true)
	f.Add(uint16(ppp.PAP), ppp.Packet{Code: ppp.PAPRequest, ID: 1, Data: ppp.MarshalPAP("alice", "wonder")}.Marshal(), false)
	f.Add(uint16(ppp.IPV6CP), ppp.Packet{Code: ppp.ConfigureNak, ID: 1, Data: []byte{1, 10, 0, 0, 0, 0, 0, 0, 0, 1}}.Marshal(), true)
	f.Fuzz(func(t *testing.T, protocol uint16, b []byte, up bool) {
		d := newPair(t)
		if up {
			d.start()
		}
		for _, e := range []*end{d.client, d.server} {
			e.link.Receive(ppp.Protocol(protocol), b, d.now)
		}
		d.settle()
		d.pass(10 * time.Second)
		for _, e := range []*end{d.client, d.server} {
			e.link.Close(d.now)
		}
		d.settle()
		d.pass(2 * time.Minute)
		for name, e := range map[string]*end{"client": d.client, "server": d.server} {
			if l := e.link; up && (l.IPCP() == StateOpened || l.IPV6CP() == StateOpened) {
				t.Fatalf("%s: IPCP is %s, IPV6CP %s", name, l.IPCP(), l.IPV6CP())
			}
		}
	})
}
