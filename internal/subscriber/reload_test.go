package subscriber

import (
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/wire/ipv6"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

func TestAnotherFileChangesSessionsThatAreThere(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Default.Up, s.Default.SessionTimeout = 1e6, 10*time.Hour
	d.start(s, testClient())
	before := d.up()
	id := d.server.only().local
	reload := func(change func(*ServerSettings)) {
		t.Helper()
		s.Users = append([]User{}, s.Users...)
		change(&s)
		d.server.engine.Set([]ServerSettings{s}, nil, d.now)
		d.settle()
	}
	rates := func() (up, down uint64) { return d.server.sessions[id].Up, d.server.sessions[id].Down }
	if up, down := rates(); up != 1e6 || down != 0 {
		t.Fatalf("the rates are %d and %d", up, down)
	}
	reload(func(s *ServerSettings) { s.Default.Up, s.Default.Down = 2e6, 3e6 })
	if up, down := rates(); up != 2e6 || down != 3e6 {
		t.Errorf("the section's rates became %d and %d", up, down)
	}
	reload(func(s *ServerSettings) { s.Users[0].Profile.Down, s.Users[0].Profile.WalledGarden = 9e6, true })
	if up, down := rates(); up != 2e6 || down != 9e6 || !d.server.sessions[id].WalledGarden {
		t.Errorf("the user's own became %d and %d, %+v", up, down, d.server.sessions[id])
	}
	ordered := uint64(5e6)
	d.server.engine.Change(Match{Login: "alice"}, Change{Down: &ordered}, d.now)
	d.settle()
	reload(func(s *ServerSettings) { s.Users[0].Profile.Down = 7e6 })
	if _, down := rates(); down != 5e6 {
		t.Errorf("what was ordered became %d", down)
	}
	reload(func(s *ServerSettings) { s.Default.SessionTimeout = time.Hour })
	d.pass(59 * time.Minute)
	after := d.up()
	after.Preferred, after.Valid = before.Preferred, before.Valid // it was renewed meanwhile
	if !after.Equal(before) || d.server.only().local != id {
		t.Error("the session changed otherwise too")
	}
	d.pass(2 * time.Minute)
	if ends := d.server.ends(); len(ends) != 1 || ends[0] != ReasonSession {
		t.Errorf("it ended for %v", ends)
	}
}

// The slow path holds to the rates, and a change holds at once.
func TestTheSlowPathHoldsToTheRates(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Users[0].Profile.Down, s.Users[0].Profile.Up = 8e6, 4e6 // bit/s: 1 and 0.5 MB/s
	d.start(s, testClient())
	l := d.up()
	there := netip.MustParseAddr("8.8.8.8")
	flood := func() (up, down int) {
		d.client.delivered, d.server.delivered = nil, nil
		for range 1000 { // a second: 1.4 MB each way
			d.now = d.now.Add(time.Millisecond)
			d.client.engine.Tick(d.now)
			d.server.engine.Tick(d.now)
			d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 1400))
			d.server.engine.Transmit("lns-isp", ping4(there, l.IPv4, 1400))
			d.settle()
		}
		for _, b := range d.server.delivered {
			up += len(b)
		}
		for _, b := range d.client.delivered {
			down += len(b)
		}
		return up, down
	}
	within := func(what string, got, rate int) {
		t.Helper()
		if most := rate + rate/10 + 64<<10 + 3000; got > most || got < rate-3000 {
			t.Errorf("%s %d bytes passed in a second at %d bytes a second", what, got, rate)
		}
	}
	up, down := flood()
	within("up", up, 5e5)
	within("down", down, 1e6)
	r := d.server.engine.Subscribers()[0]
	if r.SlowDrops[0] == 0 || r.SlowDrops[1] == 0 {
		t.Errorf("dropped are %v", r.SlowDrops)
	}
	d.now = d.now.Add(time.Second)
	slower, none := uint64(2e6), uint64(0)
	d.server.engine.Change(Match{Login: "alice"}, Change{Up: &none, Down: &slower}, d.now)
	up, down = flood()
	within("down", down, 25e4)
	if up != 1_400_000 {
		t.Errorf("without a limit %d bytes passed", up)
	}
}

func TestSubscribersAreToldOfTranslators(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	p := netip.MustParsePrefix("64:ff9b::/96")
	var adverts []*ndp.RouterAdvertisement
	d.start(s, testClient())
	d.up()
	d.server.engine.Watch(Match{Login: "alice"}, func(f Frame) {
		protocol, b, err := wireppp.ParseFrame(f.PPP)
		if err != nil || protocol != wireppp.IPv6 || f.Up {
			return
		}
		if m, err := ndp.ParseMessage(b[ipv6.HeaderLen:]); err == nil {
			if r, ok := m.(*ndp.RouterAdvertisement); ok {
				adverts = append(adverts, r)
			}
		}
	}, d.now)
	d.pass(time.Minute)
	adverts = nil
	s.PREF64 = []netip.Prefix{p}
	d.server.engine.Set([]ServerSettings{s}, nil, d.now)
	d.pass(advertSoon)
	if len(adverts) == 0 {
		t.Fatal("no host got the change")
	}
	for _, o := range adverts[0].Options {
		if x, ok := o.(*ndp.PREF64); ok && x.Prefix == p && x.Lifetime >= 30*time.Minute {
			return
		}
	}
	t.Errorf("it says %+v", adverts[0].Options)
}

// All sessions that forward packets are given again, and nothing else.
func TestSessionsAreToldAgain(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	e := d.server.engine
	one := d.server.sessions[d.server.only().local]
	e.PutAgain()
	if b := e.Take(); len(b.Sessions) != 1 || b.Sessions[0].Local != one.Local || b.Sessions[0].IPv4 != one.IPv4 || len(b.Accounts)+len(b.GoneSessions) > 0 {
		t.Errorf("given is %+v", b)
	}
	tunnel := d.client.only().tunnel
	d.inject(d.client, tunnel, 0, wirel2tp.New(wirel2tp.ICRQ).AddUint16(wirel2tp.AssignedSessionID, 4711).AddUint32(wirel2tp.CallSerialNumber, 9)) // one that is not up yet
	d.settle()
	e.PutAgain()
	if b := e.Take(); len(b.Sessions) != 1 {
		t.Errorf("with a call that is not up yet given is %+v", b)
	}
}
