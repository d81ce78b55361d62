package dhcp6client

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/internal/state"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
)

// link joins a client to a server that answers at once, and has a clock that a test moves.
type link struct {
	t       *testing.T
	now     time.Time
	client  *Client
	server  state.HostLink
	silent  bool            // no router advertisements
	sent    []dhcp6.Message // by the client
	inbox   []ipv6.Packet   // for the client
	changes int
}

func routerAddr() netip.Addr { return netip.MustParseAddr("fe80::1") }

func testConfig() Config {
	r := rand.New(rand.NewPCG(1, 1))
	return Config{Identity: "weft-home-alice", InterfaceID: [8]byte{7: 2}, Prefix: true, Random: func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}}
}

// newLink makes a link whose client has all that the server gives.
func newLink(t *testing.T) *link {
	l := &link{t: t, now: time.Unix(1_000_000, 0), server: state.HostLink{
		Server: "weft-isp", MTU: 1460, Prefix: netip.MustParsePrefix("2001:db8:1::/64"), Delegated: netip.MustParsePrefix("2001:db8:2000::/56"),
		DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")},
	}}
	l.client = New(testConfig(), l, l.now)
	l.settle()
	return l
}

func (l *link) Changed() { l.changes++ }

func (l *link) SendIPv6(b []byte) {
	p, err := ipv6.Parse(b)
	if err != nil {
		l.t.Fatal(err)
	}
	payload, _, ok := p.Datagram(dhcp6.ServerPort)
	if !ok {
		if p.NextHeader == ipv6.ICMPv6 && p.Payload[0] == 133 && !l.silent {
			body, err := (ra.Links{}).Advertisement(l.server)
			if err != nil {
				l.t.Fatal(err)
			}
			l.reply(ipv6.Packet{From: routerAddr(), To: p.From, NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: body}.Marshal(2))
		}
		return
	}
	m, err := dhcp6.Parse(payload)
	if err != nil {
		l.t.Fatal(err)
	}
	l.sent = append(l.sent, *m)
	if answer := (ra.Links{}).Answer(l.server, payload, !p.To.IsMulticast()); answer != nil {
		l.reply(ipv6.MarshalUDP(routerAddr(), p.From, dhcp6.ServerPort, dhcp6.ClientPort, answer))
	}
}

func (l *link) reply(b []byte) {
	p, err := ipv6.Parse(b)
	if err != nil {
		l.t.Fatal(err)
	}
	l.inbox = append(l.inbox, p)
}

// settle lets everything happen that needs no time.
func (l *link) settle() {
	for range 1000 {
		due := l.client.Due()
		switch {
		case len(l.inbox) > 0:
			p := l.inbox[0]
			l.inbox = l.inbox[1:]
			l.client.Receive(p, l.now)
		case !due.IsZero() && !due.After(l.now):
			l.client.Tick(l.now)
		default:
			return
		}
	}
	l.t.Fatal("client and server do not come to an end")
}

// pass lets time pass.
func (l *link) pass(d time.Duration) {
	for end := l.now.Add(d); ; l.settle() {
		due := l.client.Due()
		if due.IsZero() || due.After(end) {
			l.now = end
			return
		}
		l.now = due
	}
}

func TestAClientHasWhatTheServerGives(t *testing.T) {
	l := newLink(t)
	got := l.client.Lease()
	if len(got.Addresses) != 1 || got.Addresses[0] != netip.MustParsePrefix("2001:db8:1::2/64") || got.Delegated != l.server.Delegated || !got.Router ||
		len(got.DNS) != 1 || l.changes == 0 || l.client.phase != bound {
		t.Errorf("it has %+v in phase %d after %d changes", got, l.client.phase, l.changes)
	}
}

// A server that knows nothing of what the client wants to renew is asked for it again at
// once (RFC 8415 section 18.2.10.1), so that hosts are not without IPv6 for minutes.
func TestAServerThatForgotWhatItGave(t *testing.T) {
	none := dhcp6.NoBinding
	for name, c := range map[string]struct {
		phase phase
		reply dhcp6.Message
		next  dhcp6.Type
	}{
		"renewing, and nothing is known":  {renewing, dhcp6.Message{Prefixes: []dhcp6.IA{{ID: [4]byte{3: 1}, Status: &none}}}, dhcp6.Request},
		"rebinding, and nothing is known": {rebinding, dhcp6.Message{Prefixes: []dhcp6.IA{{ID: [4]byte{3: 1}, Status: &none}}}, dhcp6.Request},
		"renewing, and it is taken away": {renewing, dhcp6.Message{Prefixes: []dhcp6.IA{{ID: [4]byte{3: 1}, Leases: []dhcp6.Lease{{
			Prefix: netip.MustParsePrefix("2001:db8:2000::/56"),
		}}}}}, dhcp6.Solicit},
	} {
		l := newLink(t)
		was := l.client.Lease()
		l.sent = nil
		v := l.client
		v.phase = c.phase
		c.reply.Type, c.reply.Transaction, c.reply.ClientID, c.reply.ServerID = dhcp6.Reply, v.transaction, v.duid(), v.server
		v.answered(&c.reply, l.now)
		l.settle()
		if len(l.sent) == 0 || l.sent[0].Type != c.next {
			t.Errorf("%s: it sends %+v, want %s", name, l.sent, c.next)
		}
		if got := l.client.Lease(); got.Delegated != was.Delegated || v.phase != bound {
			t.Errorf("%s: it has %v, had %v", name, got.Delegated, was.Delegated)
		}
	}
}

// A Reply to a Solicit without Rapid Commit is discarded (RFC 8415 section 18.2.10).
func TestAReplyThatIsNotRapid(t *testing.T) {
	l := newLink(t)
	v := l.client
	v.begin(soliciting, l.now)
	m := &dhcp6.Message{Type: dhcp6.Reply, Transaction: v.transaction, ClientID: v.duid(), ServerID: v.server}
	if v.answered(m, l.now); v.phase != soliciting || v.sendAt != l.now {
		t.Errorf("it is taken: %d", v.phase)
	}
}

// A server that gives prefixes and never advertises itself as a router is the router all
// the same; one that advertises that it is none is none.
func TestARouterThatDoesNotAdvertise(t *testing.T) {
	l := newLink(t)
	l.client.advertised(&ndp.RouterAdvertisement{}, l.now)
	if l.pass(time.Second); l.client.Lease().Router {
		t.Error("a router of no time is one")
	}
	l.silent = true
	l.client = New(testConfig(), l, l.now)
	l.settle()
	if got := l.client.Lease(); got.Router || !got.Delegated.IsValid() {
		t.Fatalf("at first the client has %+v", got)
	}
	if l.pass(15 * time.Second); !l.client.Lease().Router {
		t.Errorf("after 15 seconds the client has %+v", l.client.Lease())
	}
}

// FuzzClient: whatever a server says to a client in router advertisements and DHCPv6, the
// client takes what makes sense and nothing else, and goes on.
func FuzzClient(f *testing.F) {
	lease := func(text string) []dhcp6.IA {
		return []dhcp6.IA{{ID: [4]byte{3: 1}, Leases: []dhcp6.Lease{{Prefix: netip.MustParsePrefix(text), Preferred: time.Hour, Valid: 2 * time.Hour}}}}
	}
	for _, kind := range []dhcp6.Type{dhcp6.Advertise, dhcp6.Reply} {
		b, err := (&dhcp6.Message{
			Type: kind, ServerID: []byte{0, 3, 0, 1, 2}, RapidCommit: true, DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")},
			Addresses: lease("2001:db8:3::5/128"), Prefixes: lease("2001:db8:9::/56"),
		}).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, byte(30))
	}
	advert, err := ndp.MarshalMessage(&ndp.RouterAdvertisement{RouterLifetime: time.Hour, Options: []ndp.Option{
		&ndp.PrefixInformation{PrefixLength: 64, AutonomousAddressConfiguration: true, ValidLifetime: time.Hour, PreferredLifetime: time.Hour, Prefix: netip.MustParseAddr("2001:db8:3::")},
		&ndp.RecursiveDNSServer{Lifetime: time.Hour, Servers: []netip.Addr{netip.MustParseAddr("2001:db8::53")}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(advert, byte(200))
	f.Fuzz(func(t *testing.T, b []byte, wait byte) {
		l := newLink(t)
		v := l.client
		for range 2 { // bound, and asking again
			if m, err := dhcp6.Parse(b); err == nil { // it knows what was asked, and by whom
				m.Transaction, m.ClientID = v.transaction, v.duid()
				v.answered(m, l.now)
			}
			packets := [][]byte{ipv6.MarshalUDP(routerAddr(), netip.MustParseAddr("fe80::2"), dhcp6.ServerPort, dhcp6.ClientPort, b)}
			if len(b) >= 4 { // there is room for a checksum
				packets = append(packets, ipv6.Packet{From: routerAddr(), To: netip.MustParseAddr("ff02::1"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: bytes.Clone(b)}.Marshal(2))
			}
			for _, p := range packets {
				if one, err := ipv6.Parse(p); err == nil {
					v.Receive(one, l.now)
				}
			}
			l.settle()
			v.begin(requesting, l.now)
		}
		l.pass(time.Duration(wait) * time.Second)
		if g := v.Lease(); g.Delegated.IsValid() && (g.Delegated != g.Delegated.Masked() || g.Delegated.Bits() > 64) || len(g.DNS) > 16 || len(g.Addresses) > 16 {
			t.Fatalf("it has %+v", g)
		}
	})
}

// RFC 8415 section 18.2.10: what is asked of one server is answered by that server. A reply
// with another DUID changes nothing, whatever else of it is right.
func TestAReplyWithAForeignDUIDChangesNothing(t *testing.T) {
	for _, p := range []phase{requesting, renewing} {
		l := newLink(t)
		was, v := l.client.Lease(), l.client
		v.phase = p
		none := dhcp6.NoBinding
		for name, m := range map[string]dhcp6.Message{
			"another prefix": {Prefixes: []dhcp6.IA{{ID: [4]byte{3: 1}, Leases: []dhcp6.Lease{{Prefix: netip.MustParsePrefix("2001:db8:bad::/56"), Preferred: time.Hour, Valid: time.Hour}}}}},
			"no binding":     {Prefixes: []dhcp6.IA{{ID: [4]byte{3: 1}, Status: &none}}},
		} {
			m.Type, m.Transaction, m.ClientID, m.ServerID = dhcp6.Reply, v.transaction, v.duid(), []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 9}
			v.answered(&m, l.now)
			if got := v.Lease(); got.Delegated != was.Delegated || got.Ends != was.Ends || v.phase != p {
				t.Errorf("phase %d, %s: it has %+v in phase %d, had %+v", p, name, got, v.phase, was)
			}
		}
	}
}

// The ends of a delegation are known, count from its last renewal, and outlive the process.
func TestTheEndsOfADelegationAreKnown(t *testing.T) {
	l := newLink(t)
	ends := l.client.Lease().Ends
	if !ends.Preferred.After(l.now) || ends.Valid.Before(ends.Preferred) {
		t.Fatalf("at %v the ends are %+v", l.now, ends)
	}
	if k := Restore(l.client.Snapshot(), testConfig(), l, l.now).Lease().Ends; k != ends {
		t.Errorf("after a restart they are %+v, were %+v", k, ends)
	}
	l.pass(ends.Preferred.Sub(l.now))
	if later := l.client.Lease().Ends; !later.Valid.After(ends.Valid) {
		t.Errorf("after a renewal they are %+v, were %+v", later, ends)
	}
}
