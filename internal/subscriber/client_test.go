package subscriber

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/ppp"
)

// A client that does not come up shows the reason, in words that say what to check.
func TestTheClientSaysWhyItIsNotUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ServerSettings, *ClientSettings)
		want   string
	}{
		"wrong password":         {func(_ *ServerSettings, c *ClientSettings) { c.Password = "guess" }, "refuses login and password: Login incorrect"},
		"wrong secret":           {func(_ *ServerSettings, c *ClientSettings) { c.Secret = "guess" }, "tunnel authentication failed: the secrets differ"},
		"no secret":              {func(_ *ServerSettings, c *ClientSettings) { c.Secret = "" }, "tunnel authentication failed: the secrets differ"},
		"unknown to the server":  {func(s *ServerSettings, _ *ClientSettings) { s.LACs[0].Address = netip.MustParsePrefix("192.0.2.0/24") }, "unknown peer"},
		"no way to authenticate": {func(_ *ServerSettings, c *ClientSettings) { c.Methods = []ppp.Method{ppp.MethodMSCHAPv2} }, "no agreement on how to authenticate: asked for was chap or pap"},
		"no session id is free": {func(s *ServerSettings, _ *ClientSettings) {
			s.Pools[0].Addresses = nil
			s.Gateway = netip.Addr{}
			s.IPv6 = false
		}, "gives no address"},
		"a server that listens nowhere": {func(s *ServerSettings, _ *ClientSettings) { s.Listen = nil }, "unknown peer"},
	} {
		d := newPeerPair(t)
		s, cl := testServer(), testClient()
		c.change(&s, &cl)
		d.start(s, cl)
		d.pass(20 * time.Second)
		if got := d.client.engine.Clients()[0]; got.Up || !strings.Contains(got.Fault, c.want) {
			t.Errorf("%s: it says %q, want %q", name, got.Fault, c.want)
		}
	}
	d := newPeerPair(t)
	d.lose = func(*side, []byte) bool { return true }
	d.start(testServer(), testClient())
	d.pass(3 * time.Second)
	if got := d.client.engine.Clients()[0]; got.State != "connecting" || !strings.Contains(got.Fault, "the server does not answer") {
		t.Errorf("without an answer it shows %+v", got)
	}
	d.pass(time.Minute)
	if got := d.client.engine.Clients()[0].Fault; !strings.Contains(got, "answer") {
		t.Errorf("after a minute without an answer it says %q", got)
	}
}

// It says why the last attempt failed, not the first one.
func TestTheLastReasonCounts(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	d.settle()
	if got := d.client.engine.Clients()[0].Fault; !strings.Contains(got, "ended by the operator") {
		t.Errorf("at first it says %q", got)
	}
	s := testServer()
	s.LACs[0].Address = netip.MustParsePrefix("192.0.2.0/24")
	d.server.engine.Set([]ServerSettings{s}, nil, d.now)
	d.pass(10 * time.Second)
	if got := d.client.engine.Clients()[0].Fault; !strings.Contains(got, "unknown peer") {
		t.Errorf("then it says %q", got)
	}
}
