package ra_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weft/internal/feature/ra"
	"weft/internal/timer/timertest"
	"weft/wire/dhcp6"
)

// memory is a Store.
type memory struct {
	kept map[ra.Binding]ra.Lease
	full bool
}

func (m *memory) Put(l ra.Lease) error {
	if m.full {
		return errors.New("disk full")
	}
	m.kept[l.Binding] = l
	return nil
}
func (m *memory) Delete(l ra.Lease) error { delete(m.kept, l.Binding); return nil }

func (m *memory) all() (list []ra.Lease) {
	for _, l := range m.kept {
		list = append(list, l)
	}
	return list
}

func stateful() ra.Settings {
	s := basic()
	s.DHCPv6 = ra.DHCPStateful
	s.Pool, s.Delegate, s.DelegateBits = []netip.Prefix{prefix("2001:db8:1::d:0/112")}, []netip.Prefix{prefix("2001:db8:100::/48")}, 56
	s.Preferred, s.Valid = time.Hour, 2*time.Hour
	s.DNS, s.Search = []netip.Addr{addr("2001:db8:1::1")}, []string{"example.net"}
	return s
}

type client struct {
	t      *testing.T
	d      *ra.DHCP
	id     []byte
	server []byte
	now    time.Time
	last   []ra.Change
}

func newClient(t *testing.T, d *ra.DHCP, n int) *client {
	return &client{t: t, d: d, id: []byte{0, 3, 0, 1, 2, 0, 0, 0, byte(n >> 8), byte(n)}, now: start}
}

func one(id byte, leases ...dhcp6.Lease) []dhcp6.IA {
	return []dhcp6.IA{{ID: [4]byte{0, 0, 0, id}, Leases: leases}}
}

// say sends a message; the server's name is in it from the moment it is known.
func (c *client) say(typ dhcp6.Type, addresses, prefixes []dhcp6.IA, change ...func(*dhcp6.Message)) *dhcp6.Message {
	c.t.Helper()
	m := &dhcp6.Message{Type: typ, Transaction: [3]byte{1, 2, byte(typ)}, ClientID: c.id, Addresses: addresses, Prefixes: prefixes}
	switch typ {
	case dhcp6.Request, dhcp6.Renew, dhcp6.Release, dhcp6.Decline:
		m.ServerID = c.server
	}
	for _, f := range change {
		f(m)
	}
	reply, changes := c.d.Handle(m, addr("fe80::2").WithZone("lan"), c.now)
	c.last = changes
	if reply == nil {
		return nil
	}
	if reply.Transaction != m.Transaction || string(reply.ClientID) != string(c.id) || len(reply.ServerID) == 0 {
		c.t.Errorf("the answer is not to this client's question: %+v", reply)
	}
	if _, err := reply.Marshal(); err != nil {
		c.t.Error(err)
	}
	c.server = reply.ServerID
	return reply
}

func lease(t *testing.T, list []dhcp6.IA) dhcp6.Lease {
	t.Helper()
	if len(list) != 1 || len(list[0].Leases) == 0 || list[0].Status != nil {
		t.Fatalf("no lease: %+v", list)
	}
	return list[0].Leases[0]
}

func code(list []dhcp6.IA) string {
	if len(list) != 1 || list[0].Status == nil {
		return "none"
	}
	return fmt.Sprint(uint16(*list[0].Status))
}

func TestFourMessagesGiveAnAddressAndAPrefix(t *testing.T) {
	store := &memory{kept: map[ra.Binding]ra.Lease{}}
	c := newClient(t, ra.NewDHCP(stateful(), store, nil, time.Now()), 1)
	offer := c.say(dhcp6.Solicit, one(1), one(1))
	if offer.Type != dhcp6.Advertise || len(c.last) != 0 || len(store.kept) != 0 {
		t.Errorf("%+v; %v", offer, c.last)
	}
	got := c.say(dhcp6.Request, one(1, lease(t, offer.Addresses)), one(1, lease(t, offer.Prefixes)))
	a, p := lease(t, got.Addresses), lease(t, got.Prefixes)
	if a.Prefix != lease(t, offer.Addresses).Prefix || !prefix("2001:db8:1::d:0/112").Contains(a.Prefix.Addr()) || a.Preferred != time.Hour || a.Valid != 2*time.Hour {
		t.Errorf("%+v", a)
	}
	if p.Prefix.Bits() != 56 || !prefix("2001:db8:100::/48").Contains(p.Prefix.Addr()) {
		t.Errorf("%+v", p)
	}
	if ia := got.Addresses[0]; ia.T1 != 30*time.Minute || ia.T2 != 48*time.Minute {
		t.Errorf("%+v", ia)
	}
	if len(got.DNS) != 1 || len(got.Search) != 1 || len(c.last) != 2 || c.last[1].Lease.Peer != addr("fe80::2") || len(store.kept) != 2 {
		t.Errorf("%+v %v", got, c.last)
	}
	// renewed, it is the same, and nothing changes but the time
	c.now = c.now.Add(time.Hour)
	again := c.say(dhcp6.Renew, one(1, a), one(1, p))
	if lease(t, again.Addresses).Prefix != a.Prefix || len(c.last) != 0 {
		t.Errorf("%+v %v", again, c.last)
	}
	// the time runs from there, and then it is gone
	c.now = c.now.Add(2*time.Hour - time.Second)
	if gone := c.d.Expire(c.now); len(gone) != 0 {
		t.Error(gone)
	}
	if gone := c.d.Expire(c.now.Add(time.Second)); len(gone) != 2 || !gone[0].Gone || len(store.kept) != 0 {
		t.Error(gone)
	}
	// who comes back gets the same
	if back := c.say(dhcp6.Solicit, one(1), nil); lease(t, back.Addresses).Prefix != a.Prefix {
		t.Errorf("%+v", back)
	}
}

func TestRapidCommitTakesTwoMessages(t *testing.T) {
	c := newClient(t, ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now()), 1)
	got := c.say(dhcp6.Solicit, one(1), nil, func(m *dhcp6.Message) { m.RapidCommit = true })
	if got.Type != dhcp6.Reply || !got.RapidCommit || len(c.last) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestWishesAreGrantedIfTheyCan(t *testing.T) {
	d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	wish := dhcp6.Lease{Prefix: prefix("2001:db8:1::d:99/128")}
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	if got := c.say(dhcp6.Request, one(1, wish), nil); lease(t, got.Addresses).Prefix != wish.Prefix {
		t.Errorf("%+v", got)
	}
	if got := newClient(t, d, 2).say(dhcp6.Solicit, one(1, wish), nil); lease(t, got.Addresses).Prefix == wish.Prefix {
		t.Error("it is another's")
	}
	outside := dhcp6.Lease{Prefix: prefix("2001:db8:1::99/128")}
	if got := newClient(t, d, 3).say(dhcp6.Solicit, one(1, outside), nil); lease(t, got.Addresses).Prefix == outside.Prefix {
		t.Error("it is not in the pool")
	}
}

func TestNobodySharesAndAnEmptyPoolSaysSo(t *testing.T) {
	s := stateful()
	s.Pool = []netip.Prefix{prefix("2001:db8:1::/125")} // 8, less the subnet's and the router's own
	s.Own = append(s.Own, addr("2001:db8:1::1"))
	d := ra.NewDHCP(s, &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	seen := map[netip.Prefix]bool{}
	for i := range 6 {
		c := newClient(t, d, i)
		c.say(dhcp6.Solicit, one(1), nil)
		l := lease(t, c.say(dhcp6.Request, one(1), nil).Addresses)
		if seen[l.Prefix] || l.Prefix.Addr() == addr("2001:db8:1::1") || l.Prefix.Addr() == addr("2001:db8:1::") {
			t.Errorf("%v is given out", l.Prefix)
		}
		seen[l.Prefix] = true
	}
	if got := newClient(t, d, 7).say(dhcp6.Solicit, one(1), nil); code(got.Addresses) != "2" {
		t.Errorf("%+v", got)
	}
}

func TestOneClientCannotTakeItAll(t *testing.T) {
	d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	for i := range 20 {
		c.say(dhcp6.Request, one(byte(i)), nil)
	}
	if n := len(d.Leases()); n != 8 {
		t.Errorf("it has %d", n)
	}
}

func TestWhatCannotBeKeptIsNotPromised(t *testing.T) {
	d := ra.NewDHCP(stateful(), &memory{full: true}, nil, time.Now())
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	if got := c.say(dhcp6.Request, one(1), nil); got != nil || len(d.Leases()) != 0 || d.Stats().Unkept != 1 {
		t.Errorf("%+v", got)
	}
}

func TestLeasesOutliveTheServer(t *testing.T) {
	store := &memory{kept: map[ra.Binding]ra.Lease{}}
	wish := dhcp6.Lease{Prefix: prefix("2001:db8:1::d:99/128")}
	c := newClient(t, ra.NewDHCP(stateful(), store, nil, time.Now()), 1)
	c.say(dhcp6.Solicit, one(1), nil)
	c.say(dhcp6.Request, one(1, wish), nil)
	c.d = ra.NewDHCP(stateful(), store, store.all(), time.Now())
	if got := c.say(dhcp6.Renew, one(1, wish), nil); lease(t, got.Addresses).Prefix != wish.Prefix {
		t.Errorf("%+v", got)
	}
	// a server that forgot grants it again if it is free, and not if it is not
	c.d = ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	if got := c.say(dhcp6.Rebind, one(1, wish), nil); lease(t, got.Addresses).Prefix != wish.Prefix {
		t.Errorf("%+v", got)
	}
	other := newClient(t, c.d, 2)
	other.server = c.server
	if got := other.say(dhcp6.Renew, one(1, wish), nil); code(got.Addresses) != "3" {
		t.Errorf("%+v", got)
	}
	// what is not of this link ends at once
	foreign := dhcp6.Lease{Prefix: prefix("2001:db8:7::1/128")}
	if got := other.say(dhcp6.Rebind, one(1, foreign), nil); code(got.Addresses) != "3" || len(got.Addresses[0].Leases) != 1 || got.Addresses[0].Leases[0].Valid != 0 {
		t.Errorf("%+v", got)
	}
}

func TestReleaseAndDecline(t *testing.T) {
	d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	a := lease(t, c.say(dhcp6.Request, one(1), nil).Addresses)
	if got := c.say(dhcp6.Release, one(1, a), one(9, a)); *got.Status != dhcp6.Success || code(got.Prefixes) != "3" || len(c.last) != 1 || !c.last[0].Gone {
		t.Errorf("%+v %v", got, c.last)
	}
	b := lease(t, c.say(dhcp6.Request, one(1), nil).Addresses)
	c.say(dhcp6.Decline, one(1, b), nil)
	if next := lease(t, c.say(dhcp6.Request, one(1, b), nil).Addresses); next.Prefix == b.Prefix {
		t.Error("what is in use is given out again")
	}
}

func TestConfirm(t *testing.T) {
	c := newClient(t, ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now()), 1)
	here, there := dhcp6.Lease{Prefix: prefix("2001:db8:1::7/128")}, dhcp6.Lease{Prefix: prefix("2001:db8:7::7/128")}
	if got := c.say(dhcp6.Confirm, one(1, here), nil); *got.Status != dhcp6.Success {
		t.Errorf("%+v", got)
	}
	if got := c.say(dhcp6.Confirm, one(1, here, there), nil); *got.Status != dhcp6.NotOnLink {
		t.Errorf("%+v", got)
	}
	if got := c.say(dhcp6.Confirm, nil, nil); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestStatelessGivesInformationOnly(t *testing.T) {
	s := stateful()
	s.DHCPv6 = ra.DHCPStateless
	c := newClient(t, ra.NewDHCP(s, &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now()), 1)
	if got := c.say(dhcp6.Solicit, one(1), nil); got != nil {
		t.Errorf("%+v", got)
	}
	got := c.say(dhcp6.InformationRequest, nil, nil, func(m *dhcp6.Message) { m.Requested = []uint16{23} })
	if len(got.DNS) != 1 || len(got.Search) != 0 || got.Refresh != 4*time.Hour {
		t.Errorf("%+v", got)
	}
}

func TestMessagesThatAreNotValidAreDiscarded(t *testing.T) {
	d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	for name, m := range map[string]*dhcp6.Message{
		"a Solicit to one server":      {Type: dhcp6.Solicit, ClientID: c.id, ServerID: c.server},
		"a Solicit without DUID":       {Type: dhcp6.Solicit},
		"a Request to another server":  {Type: dhcp6.Request, ClientID: c.id, ServerID: []byte{0, 9}},
		"a Request to no server":       {Type: dhcp6.Request, ClientID: c.id},
		"a Rebind to one server":       {Type: dhcp6.Rebind, ClientID: c.id, ServerID: c.server},
		"a Renew to another server":    {Type: dhcp6.Renew, ClientID: c.id, ServerID: []byte{0, 9}},
		"an Information-request of IA": {Type: dhcp6.InformationRequest, Addresses: one(1)},
		"a server's Advertise":         {Type: dhcp6.Advertise, ClientID: c.id, ServerID: c.server},
		"a server's Reply":             {Type: dhcp6.Reply, ClientID: c.id, ServerID: c.server},
	} {
		if got, _ := d.Handle(m, addr("fe80::2"), start); got != nil {
			t.Errorf("%s is answered: %+v", name, got)
		}
	}
	if n := d.Stats().Discarded; n != 9 {
		t.Errorf("%d counted", n)
	}
}

// Leases of a file go on for their time when the wall clock is set.
func TestLeasesLastWhenTheClockIsSet(t *testing.T) {
	const years = 20 * 365 * 24 * time.Hour
	now := time.Now()
	for _, jump := range []time.Duration{years, -years} {
		kept := []ra.Lease{{Binding: ra.Binding{Client: "client"}, Prefix: prefix("2001:db8:1::d:99/128"), Until: now.Round(0).Add(time.Hour)}}
		d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, kept, now)
		if gone := d.Expire(timertest.Jumped(now.Add(59*time.Minute), jump)); len(gone) != 0 || len(d.Leases()) != 1 {
			t.Errorf("set by %s: before its time %v ended", jump, gone)
		}
		if gone := d.Expire(timertest.Jumped(now.Add(61*time.Minute), jump)); len(gone) != 1 || len(d.Leases()) != 0 {
			t.Errorf("set by %s: after its time %v ended", jump, gone)
		}
	}
}
