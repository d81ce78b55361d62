package subscriber

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/wire/dhcp6"
	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// dhcpOf collects the DHCPv6 messages that the client sends.
func (d *peerPair) dhcpOf(t *testing.T) *[]*dhcp6.Message {
	t.Helper()
	var list []*dhcp6.Message
	d.lose = func(from *side, b []byte) bool {
		h, rest, err := wirel2tp.Parse(b)
		if err != nil || h.Control || from != d.client {
			return false
		}
		protocol, b, err := wireppp.ParseFrame(rest)
		if err != nil || protocol != wireppp.IPv6 {
			return false
		}
		p, err := ipv6.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		payload, _, ok := p.Datagram(dhcp6.ServerPort)
		if !ok {
			return false
		}
		m, err := dhcp6.Parse(append([]byte{}, payload...))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
		return false
	}
	return &list
}

// What a client has it gives back when its session is ended on purpose.
func TestAClientGivesBackWhatItHas(t *testing.T) {
	for name, end := range map[string]func(*peerPair){
		"by an order":               func(d *peerPair) { d.client.engine.Kick(Match{Login: "home", Clients: true}, d.now) },
		"as its section is no more": func(d *peerPair) { d.client.engine.Set(nil, nil, d.now) },
		"as its section has changed": func(d *peerPair) {
			c := testClient()
			c.Prefix = false
			d.client.engine.Set(nil, []ClientSettings{c}, d.now)
		},
	} {
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		l := d.up()
		received := d.dhcpOf(t)
		end(d)
		d.settle()
		if len(*received) == 0 || (*received)[0].Type != dhcp6.Release || len((*received)[0].ServerID) == 0 ||
			len((*received)[0].Prefixes) != 1 || len((*received)[0].Prefixes[0].Leases) != 1 || (*received)[0].Prefixes[0].Leases[0].Prefix != l.Delegated {
			t.Errorf("%s: it says %+v", name, *received)
		}
	}
}

// A client is found at the same address after it came back, and after a restart.
func TestAClientKeepsItsInterfaceIdentifier(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	first := d.up()
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	d.pass(5 * time.Second)
	if l := d.up(); len(l.Addresses) != 1 || l.Addresses[0] != first.Addresses[0] {
		t.Errorf("it was %v, and is %v", first.Addresses, l.Addresses)
	}
	d.restartClient(t, testClient())
	d.settle()
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	d.pass(5 * time.Second)
	if l := d.up(); len(l.Addresses) != 1 || l.Addresses[0] != first.Addresses[0] {
		t.Errorf("after a restart it is %v, and was %v", l.Addresses, first.Addresses)
	}
}

// restartClient puts a successor in the place of the client's process.
func (d *peerPair) restartClient(t *testing.T, c ClientSettings) {
	t.Helper()
	next := newSide(d, d.client.addr.String(), 98)
	var kept []Stored
	for k, v := range d.client.store {
		kept = append(kept, Stored{k, v})
		next.store[k] = v
	}
	slices.SortFunc(kept, func(a, b Stored) int { return -cmp.Compare(a.Key, b.Key) }) // tunnels first
	next.other, d.server.other, d.client = d.server, next, next
	next.engine.Set(nil, []ClientSettings{c}, d.now)
	if err := next.engine.Restore(kept, d.now); err != nil {
		t.Fatal(err)
	}
}

// A member's router whose daemon is another one has all that it had: nothing is
// taken from the networks behind it for a moment, and leases are renewed in time.
func TestAClientOutlivesTheProcess(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Addresses6 = []netip.Prefix{netip.MustParsePrefix("2001:db8:3000::/64")}
	d.start(s, testClient())
	d.pass(time.Minute)
	was := d.up()
	if len(was.Addresses) != 2 || !was.Delegated.IsValid() || !was.Router || len(was.DNS) != 2 {
		t.Fatalf("the client has %+v", was)
	}
	lease := d.client.only().v6
	renew, ends := lease.Snapshot().Renew, lease.Snapshot().Ends
	received := d.dhcpOf(t)
	d.restartClient(t, testClient())
	if l := d.up(); !l.Equal(was) {
		t.Errorf("at once it has\n%+v, had\n%+v", l, was)
	}
	d.settle()
	if l := d.up(); !l.Equal(was) || len(*received) != 0 {
		t.Errorf("then it has\n%+v, had\n%+v, and sent %d messages of DHCPv6", l, was, len(*received))
	}
	if k := d.client.only().v6.Snapshot(); !k.Renew.Equal(renew) || !k.Ends.Equal(ends) {
		t.Errorf("it renews at %v, until %v; before it was %v, %v", k.Renew, k.Ends, renew, ends)
	}
	d.pass(renew.Sub(d.now) + time.Second)
	l := d.up()
	if !l.Preferred.After(was.Preferred) || !l.Valid.After(was.Valid) {
		t.Errorf("the renewed prefix ends at %v and %v, before it was %v and %v", l.Preferred, l.Valid, was.Preferred, was.Valid)
	}
	was.Preferred, was.Valid = l.Preferred, l.Valid
	if len(*received) != 1 || (*received)[0].Type != dhcp6.Renew || !l.Equal(was) {
		t.Errorf("at the time to renew it says %+v, and has\n%+v, had\n%+v", *received, l, was)
	}
}

// A server that gives prefixes and never advertises itself as a router is the
// router all the same: there is no other one on the link.
func TestAServerThatDoesNotAdvertise(t *testing.T) {
	d := newPeerPair(t)
	d.lose = func(from *side, b []byte) bool { // router advertisements
		return from == d.server && len(b) > 60 && b[0]&0x80 == 0 && b[8] == 0 && b[9] == 0x57 && b[10+6] == ipv6.ICMPv6 && b[10+40] == 134
	}
	d.start(testServer(), testClient())
	if l := d.up(); l.Router || !l.Delegated.IsValid() {
		t.Fatalf("at first the client has %+v", l)
	}
	d.pass(15 * time.Second)
	l := d.up()
	if !l.Router {
		t.Errorf("after 15 seconds the client has %+v", l)
	}
	d.restartClient(t, testClient())
	d.settle()
	if again := d.up(); !again.Equal(l) {
		t.Errorf("after a restart it has %+v", again)
	}
}
