package subscriber

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/ppp"
	"weft/internal/state"
	wirel2tp "weft/wire/l2tp"
)

// trio is a subscriber, a server that sends its realm on, and the server that
// it belongs to.
func trio(t *testing.T, method ppp.Method, forward bool, change ...func(*ServerSettings)) *peerPair {
	d := newPeerPair(t)
	d.trio(method, forward, change...)
	return d
}

func (d *peerPair) trio(method ppp.Method, forward bool, change ...func(*ServerSettings)) {
	d.beyond = newSide(d, "192.0.2.99:1701", 3)
	far := testServer()
	far.Name, far.Device, far.Listen = "far", "lns-far", []netip.AddrPort{d.beyond.addr}
	far.LACs = []LAC{{Name: "carrier", Address: netip.MustParsePrefix("192.0.2.0/24"), Secret: "between them", HostName: "carrier"}}
	far.Methods, far.Users = []ppp.Method{method}, []User{{Login: "alice@far", Password: "wonder"}}
	d.beyond.engine.Set([]ServerSettings{far}, nil, d.now)
	near, home := testServer(), testClient()
	near.Methods, near.Users, home.Login = []ppp.Method{method}, nil, "alice@far"
	if forward {
		near.Forward = []Forward{{Realm: "FAR", Server: "192.0.2.99", Secret: "between them", HostName: "carrier"}}
	} else {
		near.Remote = true
	}
	for _, f := range change {
		f(&near)
	}
	d.start(near, home)
}

func (d *peerPair) switched(t *testing.T, what string) {
	t.Helper()
	l := d.up()
	far := d.beyond.only()
	if far.login != "alice@far" || far.given.IPv4 != l.IPv4 || l.Delegated != far.given.Delegated || far.call.LACName != "carrier" {
		t.Fatalf("%s: the subscriber has %+v, the far server gave %+v to %s", what, l, far.given, far.login)
	}
	rows := d.server.engine.Subscribers()
	if len(rows) != 1 || rows[0].State != "switched" || rows[0].SwitchedTo != "192.0.2.99" || rows[0].IPv4.IsValid() {
		t.Errorf("%s: the near server shows %+v", what, rows)
	}
	there := netip.MustParseAddr("8.8.8.8")
	d.client.delivered, d.beyond.delivered = nil, nil
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 100))
	d.beyond.engine.Transmit("lns-far", ping4(there, l.IPv4, 1460))
	d.settle()
	if len(d.client.delivered) != 1 || len(d.beyond.delivered) != 1 || len(d.server.delivered) != 0 {
		t.Errorf("%s: %d, %d and %d packets arrived", what, len(d.client.delivered), len(d.server.delivered), len(d.beyond.delivered))
	}
}

func TestARealmBelongsToAnotherServer(t *testing.T) {
	for _, method := range []ppp.Method{ppp.MethodPAP, ppp.MethodCHAP, ppp.MethodMSCHAPv2} {
		d := trio(t, method, true)
		d.switched(t, string(method))
		if d.pass(10 * time.Minute); d.server.engine.Subscribers()[0].Slow.UpPackets == 0 {
			t.Errorf("%s: nothing is counted", method)
		}
		d.switched(t, string(method)+", after a while") // hellos and echoes
		if n := len(d.server.accounts); n != 1 || d.server.accounts[0].Kind != AccountStart || d.server.accounts[0].Login != "alice@far" {
			t.Errorf("%s: accounting got %+v", method, d.server.accounts)
		}
		// an end on either side is one on both
		d.beyond.engine.Kick(Match{Login: "alice@far"}, d.now)
		d.settle()
		if len(d.server.engine.sessions) != 0 || d.client.engine.Learned()["home"].Up {
			t.Errorf("%s: %d sessions are left", method, len(d.server.engine.sessions))
		}
		d.pass(5 * time.Second)
		d.switched(t, string(method)+", once more")
		d.server.engine.Kick(Match{Login: "alice@far"}, d.now)
		d.settle()
		if len(d.beyond.engine.sessions)+len(d.server.engine.sessions) != 0 {
			t.Errorf("%s: %d and %d sessions are left", method, len(d.server.engine.sessions), len(d.beyond.engine.sessions))
		}
		if ends := d.server.ends(); len(ends) != 2 {
			t.Errorf("%s: accounting heard of the ends %v", method, ends)
		}
	}
}

// With hide_avps only the other server can read the subscriber's credentials; without it
// any host on the path can.
func TestWhatGoesOnIsHidden(t *testing.T) {
	for _, hide := range []bool{false, true} {
		d := newPeerPair(t)
		shown, inTheClear := false, 0
		d.lose = func(from *side, b []byte) bool {
			if from == d.server && d.beyond != nil && len(d.beyond.engine.tunnels()) > 0 && b[0]&0x80 != 0 {
				shown = true
				for _, secret := range []string{"wonder", "alice@far"} {
					if bytes.Contains(b, []byte(secret)) {
						inTheClear++
					}
				}
			}
			return false
		}
		d.trio(ppp.MethodPAP, true, func(s *ServerSettings) { s.Forward[0].Hide = hide })
		d.switched(t, "hidden")
		if !shown || (inTheClear == 0) != hide {
			t.Errorf("hide %v: in the clear are %d of what the subscriber showed, seen %v", hide, inTheClear, shown)
		}
		d.restart(t, d.near(), nil)
		if hide { // it stays so in the next process
			for _, x := range d.server.engine.tunnels() {
				if x.toServer != nil && !x.Status().Hidden {
					t.Error("the next process does not hide")
				}
			}
		}
		d.switched(t, "hidden, after a restart")
	}
}

// RADIUS says where to (RFC 2868).
func TestRADIUSSendsASessionOn(t *testing.T) {
	d := trio(t, ppp.MethodCHAP, false)
	if len(d.server.asked) != 1 {
		t.Fatalf("asked is %+v", d.server.asked)
	}
	p := Profile{SwitchTo: SwitchTarget{Server: "192.0.2.99", Secret: "between them", Name: "carrier"}, Up: 8e5}
	d.server.engine.Answer(d.server.asked[0], AuthReply{Accept: true, Profile: p}, d.now)
	d.settle()
	d.switched(t, "by RADIUS")
	if r := d.server.engine.Subscribers()[0]; r.Up != 8e5 {
		t.Errorf("its rate is %d", r.Up)
	}
}

func TestTheOtherServerIsNotThere(t *testing.T) {
	d := newPeerPair(t)
	near, home := testServer(), testClient()
	near.Methods, home.Login = []ppp.Method{ppp.MethodPAP}, "alice@far"
	near.Forward = []Forward{{Realm: "far", Server: "192.0.2.99"}}
	d.start(near, home)
	d.pass(time.Second)
	if d.client.engine.Learned()["home"].Up || len(d.server.engine.sessions) != 0 || len(d.server.engine.switches) != 0 {
		t.Errorf("%d sessions, %d tunnels onward", len(d.server.engine.sessions), len(d.server.engine.switches))
	}
	_, ended := d.server.engine.Details(Match{Login: "alice@far"})
	if len(ended) == 0 || ended[0].Text != "the server that it belongs to cannot be reached: no such host" {
		t.Errorf("the end is shown as %+v", ended)
	}
	// it does not answer
	d = trio(t, ppp.MethodPAP, true)
	d.beyond.engine.Set(nil, nil, d.now)
	d.pass(time.Minute)
	if d.client.engine.Learned()["home"].Up {
		t.Error("it is up although its server is gone")
	}
}

// restart puts a successor in the place of the server's process, with what was
// kept and passes through keep.
func (d *peerPair) restart(t *testing.T, near []ServerSettings, keep func(key string) bool) {
	t.Helper()
	next := newSide(d, d.server.addr.String(), 99)
	var kept []Stored
	for k, v := range d.server.store {
		if keep == nil || keep(k) {
			kept = append(kept, Stored{k, v})
		}
		next.store[k] = v
	}
	slices.SortFunc(kept, func(a, b Stored) int { return -cmp.Compare(a.Key, b.Key) }) // tunnels first
	next.other, d.client.other, d.beyond.other, d.server = d.client, next, next, next
	next.engine.Set(near, nil, d.now)
	if err := next.engine.Restore(kept, d.now); err != nil {
		t.Fatal(err)
	}
	d.settle()
}

func (d *peerPair) near() []ServerSettings {
	near := testServer()
	near.Users = nil
	near.Forward = []Forward{{Realm: "FAR", Server: "192.0.2.99", Secret: "between them", HostName: "carrier"}}
	return []ServerSettings{near}
}

// both returns what the programs have of a session that goes on.
func (d *peerPair) both(t *testing.T) (subscriber, away state.L2TPSession) {
	t.Helper()
	if len(d.server.sessions) != 2 || len(d.server.tunnels) != 2 {
		t.Fatalf("the programs have %+v in %+v", d.server.sessions, d.server.tunnels)
	}
	for _, s := range d.server.sessions {
		if s.Trusted {
			away = s
		} else {
			subscriber = s
		}
	}
	return subscriber, away
}

// Neither side notices that the daemon between them is another one.
func TestSessionsThatGoOnOutliveTheProcess(t *testing.T) {
	d := trio(t, ppp.MethodCHAP, true)
	d.switched(t, "at first")
	s, x := d.both(t)
	home, far := d.client.only(), d.beyond.only()
	if s.SwitchedTo != x.Local || x.SwitchedTo != s.Local || s.Remote != home.local || x.Remote != far.local || s.LNS != x.LNS || s.Tunnel == x.Tunnel {
		t.Errorf("the programs have %+v and %+v", s, x)
	}
	ids := d.server.engine.Subscribers()[0].ID
	for range 3 {
		d.restart(t, d.near(), nil)
		if a, b := d.both(t); a.Local != s.Local || b.Local != x.Local || a.Remote != s.Remote || b.Remote != x.Remote || a.SwitchedTo != b.Local || b.SwitchedTo != a.Local {
			t.Fatalf("the programs have %+v and %+v, had %+v and %+v", a, b, s, x)
		}
		d.switched(t, "after a restart")
		d.pass(10 * time.Minute) // hellos to both sides, echoes through
		d.switched(t, "and a while")
		if len(d.server.accounts) != 0 || d.server.engine.Subscribers()[0].ID != ids || d.client.only() != home || d.beyond.only() != far {
			t.Fatalf("the session changed: %+v", d.server.accounts)
		}
	}
	// another one of the realm takes the same tunnel, with a serial number of its own
	if len(d.server.engine.switches) != 1 || d.server.engine.switches[SwitchTarget{Server: "192.0.2.99", Secret: "between them", Name: "carrier"}.key()].calls != 1 {
		t.Errorf("the tunnels onward are %+v", d.server.engine.switches)
	}
	d.beyond.engine.Kick(Match{Login: "alice@far"}, d.now)
	d.settle()
	if len(d.server.engine.sessions)+len(d.server.sessions) != 0 || len(d.server.accounts) != 1 || d.server.accounts[0].Kind != AccountStop {
		t.Errorf("%d sessions are left, accounting heard %+v", len(d.server.engine.sessions), d.server.accounts)
	}
	d.pass(5 * time.Second)
	d.switched(t, "once more")
}

func TestHalfOfASessionThatGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		near func(d *peerPair) []ServerSettings
		keep func(d *peerPair) func(key string) bool
	}{
		"the section is no more": {func(*peerPair) []ServerSettings { return nil }, nil},
		"the subscriber's side is not kept": {nil, func(d *peerPair) func(string) bool {
			s, _ := d.both(t)
			return func(k string) bool { return k != sessionKey(s.Local) }
		}},
		"the server's side is not kept": {nil, func(d *peerPair) func(string) bool {
			_, x := d.both(t)
			return func(k string) bool { return k != sessionKey(x.Local) }
		}},
		"the tunnel onward is not kept": {nil, func(d *peerPair) func(string) bool {
			_, x := d.both(t)
			return func(k string) bool { return k != tunnelKey(x.Tunnel) }
		}},
	} {
		d := trio(t, ppp.MethodPAP, true)
		d.switched(t, name)
		near, keep := d.near(), func(string) bool { return true }
		if c.near != nil {
			near = c.near(d)
		}
		if c.keep != nil {
			keep = c.keep(d)
		}
		d.restart(t, near, keep)
		if n := len(d.server.engine.sessions) + len(d.server.sessions); n != 0 {
			t.Errorf("%s: %d sessions are left", name, n)
		}
		if c.near != nil {
			continue
		}
		d.pass(3 * time.Minute) // a side that got the end reconnects; one whose tunnel is unknown times out
		d.switched(t, name+", after a while")
	}
}

// The other server says whether data has numbers (section 5.4).
func TestTheServerDecidesAboutNumbers(t *testing.T) {
	d := trio(t, ppp.MethodPAP, true)
	l := d.up()
	there := netip.MustParseAddr("8.8.8.8")
	next := uint16(0)
	send := func(numbered bool) {
		t.Helper()
		d.change = func(from *side, b []byte) []byte {
			h, frame, err := wirel2tp.Parse(b)
			if from != d.beyond || err != nil || h.Control {
				return b
			}
			if !numbered {
				return wirel2tp.AppendData(nil, h.Tunnel, h.Session, frame)
			}
			next++
			return wirel2tp.AppendSequenced(nil, h.Tunnel, h.Session, next-1, frame)
		}
		d.client.delivered = nil
		d.beyond.engine.Transmit("lns-far", ping4(there, l.IPv4, 100))
		d.settle()
		if len(d.client.delivered) != 1 {
			t.Fatalf("numbered %v: %d packets came", numbered, len(d.client.delivered))
		}
		s, x := d.both(t)
		if x.Sequence != numbered || x.Numbered != numbered || s.Sequence {
			t.Errorf("numbered %v: the programs have %+v and %+v", numbered, s, x)
		}
	}
	send(false)
	send(true)
	d.restart(t, d.near(), nil)
	if _, x := d.both(t); !x.Sequence || !x.Numbered {
		t.Errorf("after a restart the programs have %+v", x)
	}
	send(false)
}

// What the section says of rates and times holds for those who go on, too.
func TestTheSectionsLimitsHoldOnward(t *testing.T) {
	d := trio(t, ppp.MethodPAP, true, func(s *ServerSettings) {
		s.Default = Profile{Up: 1e6, Down: 2e6, Interim: time.Minute, SessionTimeout: time.Hour}
	})
	d.switched(t, "with limits")
	s, x := d.both(t)
	if s.Up != 1e6 || s.Down != 2e6 || x.Up+x.Down != 0 {
		t.Errorf("the programs have %+v and %+v", s, x)
	}
	d.pass(3*time.Minute + time.Second)
	if n := len(d.server.accounts); n != 4 || d.server.accounts[3].Kind != AccountInterim {
		t.Errorf("accounting heard %+v", d.server.accounts)
	}
	walledGarden := true
	d.server.engine.Change(Match{Login: "alice@far"}, Change{WalledGarden: &walledGarden}, d.now)
	d.settle()
	if s, _ := d.both(t); !s.WalledGarden {
		t.Errorf("the programs have %+v", s)
	}
	before := d.server.engine.Stats().WalledGarden
	d.client.engine.Transmit("l2tp-home", ping4(d.up().IPv4, netip.MustParseAddr("8.8.8.8"), 100))
	d.settle()
	if d.server.engine.Stats().WalledGarden != before+1 {
		t.Error("the walled garden let it pass")
	}
	if d.pass(2 * time.Hour); d.server.ends()[0] != ReasonSession {
		t.Errorf("it ended by %v", d.server.ends())
	}
}
