package subscriber

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/ppp"
	"weft/internal/subscriber/history"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

func texts(list []ControlMessage) string {
	var b strings.Builder
	for _, m := range list {
		way := "<"
		if m.Sent {
			way = ">"
		}
		b.WriteString(way + " " + m.Text + "\n")
	}
	return b.String()
}

func TestTheDetailsOfASession(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Default.SessionTimeout, s.Default.Interim = time.Hour, 10*time.Minute
	d.start(s, testClient())
	l := d.up()
	for name, m := range map[string]Match{"login": {Login: "alice"}, "address": {Address: l.IPv4}, "session": {Session: d.server.only().local}} {
		list, ended := d.server.engine.Details(m)
		if len(list) != 1 || len(ended) != 0 {
			t.Fatalf("by %s: %d sessions and %d that ended", name, len(list), len(ended))
		}
		x := list[0]
		if n := x.Negotiated; n.MRU != 1460 || n.PeerMRU != 1460 || n.Magic == "" || n.PeerMagic == "" || n.Gateway != s.Gateway ||
			!slices.Equal(n.DNS, s.DNS) || len(n.InterfaceID) != 16 {
			t.Errorf("by %s: it negotiated %+v", name, n)
		}
		if x.Login != "alice" || x.State != "up" || x.TunnelRow.Host != "home" || x.Limits.SessionTimeout != time.Hour {
			t.Errorf("by %s: %+v", name, x)
		}
		want := []string{"router advertisement", "LCP echo", "interim accounting", "session timeout"}
		var got []string
		for _, one := range x.Timers {
			got = append(got, one.What)
			if !one.At.After(d.now) {
				t.Errorf("%s was due at %s", one.What, one.At)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %s: it waits for %q, want %q", name, got, want)
		}
		said := texts(x.Messages)
		for _, want := range []string{
			"< L2TP ICRQ", "> L2TP ICRP", "< L2TP ICCN", "authentication chap", "> CHAP Challenge", "< CHAP Response", "> CHAP Success",
			"> IPCP Configure-Nak", "address " + l.IPv4.String(), "name server 192.0.2.53", "< ICMPv6 router solicitation", "> ICMPv6 router advertisement",
			"< DHCPv6 SOLICIT", "> DHCPv6 REPLY",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("by %s: %q is not among\n%s", name, want, said)
			}
		}
	}
	// echoes do not push the rest out
	before, _ := d.server.engine.Details(Match{Login: "alice"})
	d.pass(5 * time.Minute)
	after, _ := d.server.engine.Details(Match{Login: "alice"})
	if texts(before[0].Messages) == "" || strings.Contains(texts(after[0].Messages), "Echo") {
		t.Errorf("after a while the last messages are\n%s", texts(after[0].Messages))
	}
	if list := d.server.engine.TunnelDetails("home"); len(list) != 1 || !strings.Contains(texts(list[0].Messages), "< L2TP SCCRQ\n> L2TP SCCRP\n< L2TP SCCCN") || !list[0].Secret {
		t.Errorf("the tunnel is %+v", list)
	}
	if list := d.server.engine.TunnelDetails("stranger"); len(list) != 0 {
		t.Errorf("the tunnel of an unknown peer is %+v", list)
	}
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	d.settle()
	if _, ended := d.server.engine.Details(Match{Login: "alice"}); len(ended) != 1 || ended[0].Reason != ReasonAdmin || !strings.Contains(texts(ended[0].Messages), "> L2TP CDN, result 3 (administrative): ended") {
		t.Errorf("what is over: %+v", ended)
	}
}

// Passwords and responses are not shown.
func TestPasswordsAreNotRemembered(t *testing.T) {
	d := newPeerPair(t)
	s, c := testServer(), testClient()
	s.Methods, c.Password = []ppp.Method{ppp.MethodPAP}, "guess-me"
	d.start(s, c)
	d.pass(5 * time.Second)
	_, ended := d.server.engine.Details(Match{Login: "alice"})
	if len(ended) == 0 || ended[0].Reason != ReasonRefused || ended[0].Text != "Login incorrect" {
		t.Fatalf("the refused login: %+v", ended)
	}
	for _, x := range ended {
		if strings.Contains(string(x.history.Raw()), "guess") {
			t.Errorf("%x holds the password", x.history.Raw())
		}
		if said := texts(x.Messages); !strings.Contains(said, "< PAP Authenticate-Request 1\n> PAP Authenticate-Nak 1\n") {
			t.Errorf("what was said is\n%s", said)
		}
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	var h history.Log
	now := time.Unix(1000, 0)
	for i := range 100 {
		h.PPP(i%2 == 0, wireppp.LCP, wireppp.Packet{Code: wireppp.ConfigureRequest, ID: uint8(i)}.Marshal(), now.Add(time.Duration(i)*time.Millisecond))
	}
	list := h.Messages()
	if len(list) != history.Most || list[0].Text != "LCP Configure-Request 72" || list[history.Most-1].Text != "LCP Configure-Request 99" {
		t.Errorf("%d messages, from %q to %q", len(list), list[0].Text, list[len(list)-1].Text)
	}
	for i, m := range list {
		if want := now.Add(time.Duration(i+72) * time.Millisecond); !m.At.Equal(want) || m.Sent != (i%2 == 0) {
			t.Errorf("message %d is of %s and not of %s, sent %v", i, m.At, want, m.Sent)
		}
	}
	h = history.Log{}
	for _, b := range [][]byte{nil, {1}, {1, 2, 0}, {1, 2, 0, 4, 1}, {1, 2, 0, 9, 1, 4}, {200, 1}} {
		for _, p := range []wireppp.Protocol{wireppp.LCP, wireppp.IPCP, wireppp.IPV6CP, wireppp.PAP, wireppp.CHAP, wireppp.IPv6, 0x80fd} {
			h.PPP(true, p, b, now)
			_ = h.Messages()
		}
	}
}

func TestErrorsOfTheLineAreShown(t *testing.T) {
	c := newCarrier(t, testServer())
	c.connect(showPAP(agreed(ppp.MethodPAP, 1400), "builder"))
	b := make([]byte, 26)
	for i := range 6 {
		binary.BigEndian.PutUint32(b[2+4*i:], uint32(i+1))
	}
	c.inject(c.client, c.client.only().tunnel, c.session.local, wirel2tp.New(wirel2tp.WEN).Add(wirel2tp.CallErrors, b))
	c.inject(c.client, c.client.only().tunnel, c.session.local, wirel2tp.New(wirel2tp.SLI).Add(wirel2tp.ACCM, make([]byte, 10)))
	list, _ := c.server.engine.Details(Match{Login: "bob"})
	if len(list) != 1 || list[0].Line == nil || *list[0].Line != (LineErrors{1, 2, 3, 4, 5, 6, 1}) {
		t.Errorf("the line: %+v", list)
	}
}

func TestASessionIsWatched(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	e, one := d.server.engine, d.server.only()
	var up, down, lcp int
	id, now := e.Watch(Match{Login: "alice"}, func(f Frame) {
		p, _, err := wireppp.ParseFrame(f.PPP)
		switch {
		case err != nil || f.Session != one.local:
			t.Errorf("%+v: %v", f, err)
		case p == wireppp.IPv6:
		case p == wireppp.LCP:
			lcp++
		case f.Up:
			up++
		default:
			down++
		}
	}, d.now)
	d.settle()
	if len(now) != 1 || now[0] != one.local || !d.server.sessions[one.local].Capture || !e.Watched(id, one.local) {
		t.Fatalf("watched are %v, the datapath has %+v", now, d.server.sessions[one.local])
	}
	there := netip.MustParseAddr("8.8.8.8")
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 100))
	e.Transmit("lns-isp", ping4(there, l.IPv4, 100))
	d.pass(45 * time.Second) // an echo each way
	if up != 1 || down != 1 || lcp < 2 {
		t.Errorf("%d packets up, %d down, %d of LCP", up, down, lcp)
	}
	e.Unwatch(id, d.now)
	d.settle()
	before := up + down + lcp
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 100))
	d.pass(time.Minute)
	if up+down+lcp != before || d.server.sessions[one.local].Capture {
		t.Errorf("it is watched on: %+v", d.server.sessions[one.local])
	}
	// who is not there yet is watched as soon as it is known
	e.Kick(Match{Login: "alice"}, d.now)
	d.settle()
	_, none := e.Watch(Match{Login: "alice"}, func(Frame) { up++ }, d.now)
	before = up
	d.pass(time.Minute)
	d.up()
	if len(none) != 0 || up == before || !d.server.sessions[d.server.only().local].Capture {
		t.Errorf("the next session: %v, %d frames", none, up-before)
	}
}

// A client's own session is looked at, watched and ended by its name, its
// address or its number; orders of RADIUS do not touch it.
func TestAClientsOwnSession(t *testing.T) {
	d := newPeerPair(t)
	e := d.client.engine
	var frames []Frame
	id, now := e.Watch(Match{Login: "l2tp_client.home", Clients: true}, func(f Frame) { frames = append(frames, f) }, d.now)
	if len(now) != 0 {
		t.Fatalf("sessions %v are there", now)
	}
	d.start(testServer(), testClient())
	l := d.up()
	if len(frames) < 10 || frames[0].Up == frames[1].Up || !d.client.sessions[d.client.only().local].Capture {
		t.Errorf("%d frames were seen of its beginning", len(frames))
	}
	for name, m := range map[string]Match{
		"name": {Login: "home"}, "section": {Login: "l2tp_client.home"}, "device": {Login: "l2tp-home"}, "address": {Address: l.IPv4},
		"IPv6 address": {Address: l.Addresses[0].Addr()}, "delegated prefix": {Address: l.Delegated.Addr().Next()}, "number": {Session: d.client.only().local},
	} {
		if list, _ := e.Details(m); len(list) != 0 {
			t.Errorf("by %s a request for another session matches it", name)
		}
		m.Clients = true
		list, _ := e.Details(m)
		if len(list) != 1 {
			t.Fatalf("by %s: %d sessions", name, len(list))
		}
		x := list[0]
		if x.Client != "home" || x.LNS != "" || x.State != "up" || x.IPv4 != l.IPv4 || x.Delegated != l.Delegated || x.Negotiated.Gateway != l.Gateway ||
			!slices.Equal(x.Negotiated.DNS, l.DNS) || len(x.Negotiated.InterfaceID) != 16 || x.TunnelRow.Host != "lns" {
			t.Errorf("by %s: %+v", name, x)
		}
		said := texts(x.Messages)
		for _, want := range []string{"> L2TP ICRQ", "< L2TP ICRP", "< CHAP Challenge", "> ICMPv6 router solicitation"} {
			if !strings.Contains(said, want) {
				t.Errorf("it did not say %q:\n%s", want, said)
			}
		}
	}
	if list, _ := e.Details(Match{Login: "alice", Clients: true}); len(list) != 0 {
		t.Error("a login is no client")
	}
	if !e.Watched(id, d.client.only().local) {
		t.Error("it is not watched")
	}
	e.Unwatch(id, d.now)
	d.settle()
	if d.client.sessions[d.client.only().local].Capture {
		t.Error("it is watched for ever")
	}
	if n := e.Kick(Match{Login: "home"}, d.now); n != 0 {
		t.Errorf("an order ended %d", n)
	}
	if n := e.Change(Match{Login: "home", Clients: true}, Change{Up: new(uint64)}, d.now); n != 0 {
		t.Errorf("%d changed", n)
	}
	first := d.client.only().id
	if n := e.Kick(Match{Login: "home", Clients: true}, d.now); n != 1 {
		t.Errorf("the operator ended %d", n)
	}
	d.pass(10 * time.Second)
	d.up()
	if d.client.only().id == first {
		t.Error("it is the same session")
	}
	if _, ended := e.Details(Match{Login: "home", Clients: true}); len(ended) != 1 || ended[0].Client != "home" || ended[0].Reason != ReasonAdmin || len(ended[0].Messages) == 0 {
		t.Errorf("what is said of the end: %+v", ended)
	}
	if _, ended := e.Details(Match{Login: "home"}); len(ended) != 0 {
		t.Errorf("what is said of the end: %+v", ended)
	}
}
