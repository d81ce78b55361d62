package subscriber

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/ppp"
)

// A subscriber that negotiates LCP again and logs in as another: the account of the first
// ends as the first's, and the second has its own, with its own id and its own time.
func TestAnotherLoginInTheSameCallHasItsOwnAccount(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Users[1].Profile.SessionTimeout = 10 * time.Minute
	d.start(s, testClient())
	d.up()
	one := d.server.only()
	first := one.id
	d.pass(time.Minute)
	one.slow = Traffic{UpBytes: 1000}
	d.server.accounts = nil
	one.authenticate(ppp.Credentials{Method: ppp.MethodPAP, Login: "bob", Password: "builder"})
	one.networkChanged()
	d.server.take()
	if n := len(d.server.accounts); n != 2 {
		t.Fatalf("%d accounts", n)
	}
	stop, start := d.server.accounts[0], d.server.accounts[1]
	if stop.Kind != AccountStop || stop.Login != "alice" || stop.ID != first || stop.Slow.UpBytes != 1000 || stop.Next == nil || stop.Base != nil {
		t.Errorf("the first one's end is %+v", stop)
	}
	if start.Kind != AccountStart || start.Login != "bob" || start.ID == first || start.Base != stop.Next || start.Slow != (Traffic{}) || !start.Started.Equal(d.now) {
		t.Errorf("the second one's beginning is %+v", start)
	}
	if want := d.now.Add(10 * time.Minute); !one.endsAt.Equal(want) {
		t.Errorf("the second one's time is over at %v, want %v", one.endsAt, want)
	}
	// a refused login ends the account of the one before all the same
	d.server.accounts = nil
	one.authenticate(ppp.Credentials{Method: ppp.MethodPAP, Login: "mallory", Password: "x"})
	d.settle()
	if n := len(d.server.accounts); n == 0 || d.server.accounts[0].Kind != AccountStop || d.server.accounts[0].Login != "bob" || d.server.accounts[0].ID != start.ID {
		t.Errorf("after a refused login: %+v", d.server.accounts)
	}
}

// The log has who came, who was refused and who went, and why; a flood of them is counted.
func TestLoginsAreForTheLog(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	list, _ := d.server.engine.Logins()
	if len(list) != 1 || list[0].Kind != LoggedIn || list[0].Login != "alice" || list[0].IPv4 != l.IPv4 || list[0].LAC != d.client.addr || list[0].LNS != "isp" {
		t.Fatalf("after a login: %+v", list)
	}
	d.pass(time.Hour)
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	list, _ = d.server.engine.Logins()
	if len(list) != 1 || list[0].Kind != LoggedOut || list[0].Reason != "ended by the operator" || list[0].Lasted < time.Hour || list[0].IPv4 != l.IPv4 {
		t.Errorf("after its end: %+v", list)
	}
	c := testClient()
	c.Password = "guess"
	d = newPeerPair(t)
	d.start(testServer(), c)
	list, _ = d.server.engine.Logins()
	if len(list) != 1 || list[0].Kind != LoginRefused || list[0].Login != "alice" || list[0].Reason != "Login incorrect" {
		t.Errorf("after a refusal: %+v", list)
	}
	// what the client's log says of it is whole
	found := false
	for _, e := range d.client.engine.ended {
		for _, m := range e.history.Messages() {
			found = found || strings.Contains(m.Text, "the server refuses login and password: Login incorrect")
		}
	}
	if !found {
		t.Errorf("the last messages say not why: %+v", d.client.engine.ended[0].history.Messages())
	}
	one := &session{engine: d.server.engine, tunnel: &tunnel{server: newServer(testServer())}}
	for range 5000 {
		one.noteLogin(LoginRefused, "x")
	}
	if list, omitted := d.server.engine.Logins(); len(list) > int(loginLines.Burst) || len(list)+omitted != 5000 {
		t.Errorf("%d are logged, %d omitted", len(list), omitted)
	}
}

// RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f: errors are limited, for each session.
func TestErrorsOfTheSlowPathAreLimited(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	big := ping4(netip.MustParseAddr("8.8.8.8"), l.IPv4, 1480)
	big[6] |= 0x40 // don't fragment
	for range 10000 {
		d.server.engine.Transmit("lns-isp", big)
	}
	if n := len(d.server.delivered); n == 0 || n > int(sessionErrors.Burst) {
		t.Errorf("%d errors are sent", n)
	}
	d.server.delivered = nil
	d.server.engine.Tick(d.now.Add(time.Second))
	if d.server.engine.Transmit("lns-isp", big); len(d.server.delivered) == 0 {
		t.Error("a second later none is sent")
	}
}

// A client whose login was changed while weft did not run logs in by the new one.
func TestAChangedLoginIsTakenOverAfterARestart(t *testing.T) {
	for _, login := range []string{"alice", "bob"} {
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		d.up()
		store := d.client.store
		next := newSide(d, d.client.addr.String(), 99)
		next.other, d.server.other, d.client = d.server, next, next
		c := testClient()
		if login == "bob" {
			c.Login, c.Password = "bob", "builder"
		}
		next.engine.Set(nil, []ClientSettings{c}, d.now)
		var kept []Stored
		for k, v := range store {
			kept = append(kept, Stored{k, v})
		}
		// tunnels first, as the store gives them: session/ comes before tunnel/
		if err := next.engine.Restore(kept, d.now); err != nil {
			t.Fatal(err)
		}
		before := d.server.only().id
		d.settle()
		d.pass(5 * time.Second)
		d.up()
		if one := d.server.only(); one.login != login || (one.id == before) != (login == "alice") {
			t.Errorf("the server has %q, another session: %v; want %q", one.login, one.id != before, login)
		}
	}
}
