package subscriber

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/addresspool"
	"weft/internal/l2tp"
	"weft/internal/ppp"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// ends returns the reasons in the Stop records of sessions.
func (s *side) ends() (list []Reason) {
	for _, a := range s.accounts {
		if a.Kind == AccountStop {
			list = append(list, a.Reason)
		}
	}
	return list
}

func TestTunnelsGoOverIPv6(t *testing.T) {
	d := newPeerPairAt(t, "[2001:db8:a::7]:40000", "[2001:db8:b::1]:1701")
	s, c := testServer(), testClient()
	s.Listen = []netip.AddrPort{netip.MustParseAddrPort("[2001:db8:b::1]:1701")}
	s.LACs[0].Address, s.LACs[0].Hide, c.Hide = netip.MustParsePrefix("2001:db8:a::/48"), true, true
	s.MRU, c.MRU, c.Server = 1440, 1440, "2001:db8:b::1"
	d.start(s, c)
	l := d.up()
	one := d.server.only()
	got := d.server.tunnels[one.tunnel.Local()]
	if got.LocalAddr != d.server.addr || got.Peer != d.client.addr || l.MTU != 1440 || d.server.sessions[one.local].MSS != 1400 {
		t.Errorf("the datapath has %+v, the client %+v", got, l)
	}
	there := netip.MustParseAddr("8.8.8.8")
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 100))
	d.server.engine.Transmit("lns-isp", ping4(there, l.IPv4, 1440))
	d.settle()
	if len(d.server.delivered) != 1 || len(d.client.delivered) != 1 {
		t.Errorf("%d and %d packets arrived", len(d.server.delivered), len(d.client.delivered))
	}
}

func TestASessionsTimeIsOver(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Default.SessionTimeout = 10 * time.Minute
	d.start(s, testClient())
	d.up()
	first := d.server.only().id
	d.pass(9*time.Minute + 50*time.Second)
	if got := d.server.only(); got.id != first || len(d.server.ends()) != 0 {
		t.Fatalf("it ended early: %v", d.server.ends())
	}
	d.pass(time.Minute)
	if ends := d.server.ends(); len(ends) != 1 || ends[0] != ReasonSession {
		t.Fatalf("it ended for %v, want its time", ends)
	}
	d.up() // the client begins another one
	if d.server.only().id == first {
		t.Error("the session goes on")
	}
	// a subscriber's own limit comes before the section's
	d = newPeerPair(t)
	s.Users[0].Profile.SessionTimeout = time.Hour
	d.start(s, testClient())
	d.up()
	if d.pass(30 * time.Minute); len(d.server.ends()) != 0 {
		t.Errorf("a session of an hour ended for %v", d.server.ends())
	}
	// an order may make it shorter than it is already
	short := 20 * time.Minute
	if n := d.server.engine.Change(Match{Login: "alice"}, Change{SessionTimeout: &short}, d.now); n != 1 {
		t.Errorf("%d sessions were changed", n)
	}
	d.settle()
	if ends := d.server.ends(); len(ends) != 1 || ends[0] != ReasonSession {
		t.Errorf("it ended for %v, want its time", ends)
	}
}

func TestWhoSendsNothingIsEnded(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Default.IdleTimeout = 5 * time.Minute
	d.start(s, testClient())
	l := d.up()
	e, id := d.server.engine, d.server.only().local
	if list := e.Idling(); len(list) != 1 || list[0] != id {
		t.Fatalf("%v may end, want %d", list, id)
	}
	look := func(packets uint64) {
		e.Silent(id, packets, d.now)
		d.settle()
	}
	look(10)
	d.pass(4 * time.Minute)
	look(11) // the datapath counted one
	d.pass(4 * time.Minute)
	look(11)
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, netip.MustParseAddr("8.8.8.8"), 100)) // and the slow path one
	d.settle()
	look(11)
	d.pass(4 * time.Minute)
	look(11)
	if len(d.server.ends()) != 0 {
		t.Fatalf("it ended for %v although it was there", d.server.ends())
	}
	d.pass(time.Minute)
	look(11)
	if ends := d.server.ends(); len(ends) != 1 || ends[0] != ReasonIdle {
		t.Errorf("it ended for %v, want its silence", ends)
	}
}

func TestTheWalledGarden(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.WalledGarden = []netip.Prefix{netip.MustParsePrefix("192.0.2.80/32")}
	s.Users[0].Profile.WalledGarden = true
	d.start(s, testClient())
	l := d.up()
	inside, outside := netip.MustParseAddr("192.0.2.80"), netip.MustParseAddr("8.8.8.8")
	exchange := func() (up, down int) {
		d.client.delivered, d.server.delivered = nil, nil
		for _, far := range []netip.Addr{inside, outside} {
			d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, far, 100))
			d.server.engine.Transmit("lns-isp", ping4(far, l.IPv4, 100))
		}
		d.settle()
		return len(d.server.delivered), len(d.client.delivered)
	}
	id := d.server.only().local
	if up, down := exchange(); !d.server.sessions[id].WalledGarden || up != 1 || down != 1 || d.server.engine.Stats().WalledGarden != 2 {
		t.Errorf("in the garden %d and %d packets arrived, want the one from and to it; the datapath has %+v", up, down, d.server.sessions[id])
	}
	out := false
	d.server.engine.Change(Match{Address: l.IPv4}, Change{WalledGarden: &out}, d.now)
	d.settle()
	if up, down := exchange(); d.server.sessions[id].WalledGarden || up != 2 || down != 2 {
		t.Errorf("outside of it %d and %d packets arrived; the datapath has %+v", up, down, d.server.sessions[id])
	}
	in := true
	d.server.engine.Change(Match{Session: id}, Change{WalledGarden: &in}, d.now)
	d.settle()
	if up, down := exchange(); !d.server.sessions[id].WalledGarden || up != 1 || down != 1 {
		t.Errorf("back in the garden %d and %d packets arrived", up, down)
	}
	if got := d.client.engine.Learned()["home"]; !got.Equal(l) {
		t.Errorf("the subscriber's session changed: %+v", got)
	}
}

// Of who has only a hash of the password here, others compare it, and only PAP
// will do.
func TestWhoHasAHashIsComparedElsewhere(t *testing.T) {
	s, c := testServer(), testClient()
	s.Methods, s.Users[0] = []ppp.Method{ppp.MethodPAP}, User{Login: "alice", Hash: "a hash", Profile: Profile{Down: 5e6}}
	d := newPeerPair(t)
	d.start(s, c)
	d.settle()
	if len(d.server.asked) != 1 || d.server.asked[0].Hash != "a hash" || d.server.asked[0].Password != "wonder" || d.server.asked[0].Profile.Down != 5e6 {
		t.Fatalf("asked is %+v", d.server.asked)
	}
	if !d.server.engine.Waits(d.server.asked[0]) {
		t.Error("no session waits for the answer")
	}
	d.server.engine.Answer(d.server.asked[0], AuthReply{Accept: true, Profile: *d.server.asked[0].Profile}, d.now)
	d.settle()
	d.up()
	if d.server.engine.Waits(d.server.asked[0]) {
		t.Error("a session waits for an answer that was given")
	}
	s.Methods = []ppp.Method{ppp.MethodCHAP}
	d = newPeerPair(t)
	d.start(s, c)
	d.pass(5 * time.Second)
	if len(d.server.asked) != 0 || d.client.engine.Learned()["home"].Up {
		t.Errorf("with CHAP asked is %+v", d.server.asked)
	}
}

// Who has waited too long for an answer does not wait for it any more.
func TestNobodyWaitsWhenTheSubscriberIsGone(t *testing.T) {
	s, c := testServer(), testClient()
	s.Users, s.Remote = nil, true
	d := newPeerPair(t)
	d.start(s, c)
	d.settle()
	if len(d.server.asked) == 0 || !d.server.engine.Waits(d.server.asked[0]) {
		t.Fatalf("asked is %+v", d.server.asked)
	}
	d.pass(time.Minute + time.Second)
	if d.server.engine.Waits(d.server.asked[0]) {
		t.Error("a session waits after a minute")
	}
}

func TestASecondLogin(t *testing.T) {
	for _, mode := range []Duplicates{DuplicatesRefuse, DuplicatesReplace, DuplicatesAllow} {
		s := testServer()
		s.Duplicates, s.Methods = mode, []ppp.Method{ppp.MethodPAP}
		c := newCarrier(t, s) // alice is there, by the client
		first := c.server.engine.find(Match{Login: "alice"})[0]
		m := agreed(ppp.MethodPAP, 1400).AddUint16(wirel2tp.ProxyAuthenType, l2tp.ProxyPAP).Add(wirel2tp.ProxyAuthenName, []byte("alice")).
			AddUint16(wirel2tp.ProxyAuthenID, 5).Add(wirel2tp.ProxyAuthenResponse, []byte("wonder"))
		c.connect(m)
		_, let := c.has(wireppp.PAP, wireppp.PAPAck)
		ends := c.server.ends()
		switch mode {
		case DuplicatesRefuse:
			if let || !first.up() || c.server.engine.Stats().Duplicates != 1 {
				t.Errorf("refuse: let in %v, the first is in state %d", let, first.l2tp.State())
			}
		case DuplicatesReplace:
			if !let || !first.gone() || len(ends) != 1 || ends[0] != ReasonReplaced {
				t.Errorf("replace: let in %v, the first is in state %d, ended %v", let, first.l2tp.State(), ends)
			}
		case DuplicatesAllow:
			if !let || !first.up() || first.given.IPv4 == c.session.given.IPv4 || len(ends) != 0 {
				t.Errorf("allow: let in %v, the first is in state %d", let, first.l2tp.State())
			}
		}
	}
}

// A login that returns gets its previous addresses, also from another process; no other
// login gets them as long as others are free.
func TestALoginKeepsItsAddresses(t *testing.T) {
	settings := ServerSettings{
		Name: "isp", IPv6: true, Bits: 56, Pools: []addresspool.Pool{{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}}},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/58")}, Delegate: []netip.Prefix{netip.MustParsePrefix("2001:db8:2::/50")},
	}
	e := NewEngine(nil, nil, func([]byte) {})
	e.Set([]ServerSettings{settings}, nil, time.Unix(0, 0))
	srv := e.servers["isp"]
	login := func(srv *server, e *Engine, name string) *session {
		s := &session{engine: e, login: name}
		if srv.assign(s, Profile{}) != "" {
			t.Fatalf("%s gets nothing", name)
		}
		return s
	}
	had := map[string]addresspool.Lease{}
	var all []*session
	for _, name := range []string{"a", "b", "c"} {
		s := login(srv, e, name)
		had[name] = s.given
		all = append(all, s)
	}
	kept := e.Take().Leases
	for _, s := range all {
		srv.release(s)
	}
	// another process; others come first
	e = NewEngine(nil, nil, func([]byte) {})
	e.Set([]ServerSettings{settings}, nil, time.Unix(0, 0))
	e.RestoreLeases(kept)
	srv = e.servers["isp"]
	for _, name := range []string{"x", "y", "c", "b", "a"} {
		s := login(srv, e, name)
		if want, ok := had[name]; ok && s.given != want {
			t.Errorf("%s gets %v, and had %v", name, s.given, want)
		}
		for other, g := range had {
			if other != name && g.IPv4 == s.given.IPv4 {
				t.Errorf("%s gets what was %s's", name, other)
			}
		}
	}
	// all 6 addresses but one are in use: the address of an offline login is given away last
	srv.release(all[0])
	last := login(srv, e, "z")
	if !last.given.IPv4.IsValid() || held4(srv) != 6 {
		t.Errorf("the sixth gets %v", last.given)
	}
}

// held4 counts the IPv4 addresses that are held.
func held4(s *server) (n int) {
	s.pools.Held(func(_ *session, a netip.Addr, _ netip.Prefix) {
		if a.IsValid() {
			n++
		}
	})
	return n
}
