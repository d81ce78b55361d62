package subscriber

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weft/internal/dhcp6client"
	"weft/internal/l2tp"
	"weft/internal/ppp"
	"weft/internal/state"
	"weft/internal/timer"
	wirel2tp "weft/wire/l2tp"
)

// ClientSettings is an L2TP client, as its section of weft.toml says.
type ClientSettings struct {
	Name      string
	ID        int // for the datapath
	Device    string
	Server    string
	Secret    string
	Hide      bool
	HostName  string
	Login     string
	Password  string
	Methods   []ppp.Method
	IPv4      bool
	IPv6      bool
	Prefix    bool
	MRU       int
	Keepalive time.Duration
	Retry     time.Duration
}

// Learned is what a client has got from its server.
type Learned = state.L2TPClient

// client is one section at work.
type client struct {
	ClientSettings
	engine  *Engine
	tunnel  *tunnel
	session *session
	dialing bool
	retryAt time.Time
	pause   time.Duration
	slot    timer.Slot
	fault   string // why there is no session now
	tries   uint64
	learned Learned
	calls   uint32
	own     [8]byte // its interface identifier, the same in the next session
}

func (c *client) Slot() *timer.Slot { return &c.slot }

func (c *client) Due() time.Time {
	if c.dialing || c.tunnel != nil {
		return time.Time{}
	}
	return c.retryAt
}

// same reports whether a session of the old settings may go on.
func (c *client) same(n ClientSettings) bool {
	o := c.ClientSettings
	return o.Server == n.Server && o.Secret == n.Secret && o.Login == n.Login && o.Password == n.Password && o.HostName == n.HostName &&
		o.IPv4 == n.IPv4 && o.IPv6 == n.IPv6 && o.Prefix == n.Prefix && o.MRU == n.MRU && slices.Equal(o.Methods, n.Methods) && o.Hide == n.Hide
}

// mark tells settings for which same holds from others, and reveals none of them.
func (c *client) mark() string {
	o := c.ClientSettings
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %t %t %t %d %q %t", o.Server, o.Secret, o.Login, o.Password, o.HostName, o.IPv4, o.IPv6, o.Prefix, o.MRU, o.Methods, o.Hide))
	return hex.EncodeToString(sum[:16])
}

// renew ends the session, and begins another one at once: the settings are others.
func (c *client) renew() {
	t := c.tunnel
	c.session.hangUp(ReasonAdmin, "the settings have changed")
	t.Close(wirel2tp.Result{Code: wirel2tp.StopRequested, Text: "the settings have changed"}, l2tp.Reason(ReasonAdmin))
	if c.tunnel == nil {
		c.pause, c.retryAt = 0, c.engine.clock.Now()
		c.engine.clock.Arm(c)
	}
}

func (c *client) Tick(now time.Time) {
	if c.dialing || c.tunnel != nil {
		return
	}
	c.dialing = true
	c.tries++
	c.engine.backend.Dial(c.Name)
}

// Dialed says that there is a socket to a client's server.
func (e *Engine) Dialed(name string, here, peer netip.AddrPort, now time.Time) {
	e.clock.Set(now)
	if o := e.switches[name]; o != nil && o.tunnel == nil {
		o.dialed(here, peer)
		return
	}
	c := e.clients[name]
	if c == nil || !c.dialing {
		return
	}
	c.dialing = false
	t := &tunnel{engine: e, client: c}
	c.tunnel = t
	if !t.connect(here, peer, l2tp.Config{HostName: c.HostName, Secret: c.Secret, Hide: c.Hide && c.Secret != "", Hello: c.Keepalive}) {
		c.tunnel = nil
		c.later("no tunnel is free")
	}
}

// NotDialed says why there is none.
func (e *Engine) NotDialed(name, why string, now time.Time) {
	e.clock.Set(now)
	if o := e.switches[name]; o != nil && o.tunnel == nil {
		o.over(why)
		return
	}
	if c := e.clients[name]; c != nil && c.dialing {
		c.dialing = false
		c.later(why)
	}
}

// tunnelUp asks for the session.
func (c *client) tunnelUp(t *tunnel) {
	s := t.newSession()
	if s == nil {
		t.Close(wirel2tp.Result{Code: wirel2tp.StopRequested, Text: "no session id is free"}, l2tp.ReasonError)
		return
	}
	c.session = s
	c.calls++
	s.l2tp.Request(c.calls, "", "")
}

// replied is a client's: the server takes the call.
func (s *session) replied() {
	c := s.tunnel.client
	s.l2tp.Connect(l2tp.Connected{})
	s.begin(ppp.Config{
		MRU: c.MRU, Auth: c.Methods, Echo: c.Keepalive, Login: c.Login, Password: c.Password, IPv4: c.IPv4, IPv6: c.IPv6,
		Name: c.HostName, InterfaceID: c.own, Random: s.engine.random,
	})
	s.engine.rewatch(s)
	s.link.Start(s.engine.clock.Now())
}

// networkChanged: the session's protocols went up or down.
func (c *client) networkChanged(s *session, v4, v6 bool) {
	l := Learned{Up: v4 || v6}
	if l.Up {
		l.MTU = s.mtu()
		c.pause, c.fault = 0, ""
	}
	if v4 {
		var dns []netip.Addr
		l.IPv4, l.Gateway, dns = s.link.Addresses()
		for _, a := range dns {
			if a.IsValid() && !a.IsUnspecified() {
				l.DNS = append(l.DNS, a)
			}
		}
	}
	if v6 {
		c.own, _ = s.link.InterfaceIDs()
		l.LinkLocal = ppp.LinkLocal(c.own)
		if s.v6 == nil {
			s.v6 = dhcp6client.New(c.ipv6Client(s), ipv6Link{s}, c.engine.clock.Now())
		}
		learnIPv6(&l, s.v6.Lease())
	} else {
		s.v6 = nil
	}
	c.learned = l
}

// sessionDown: try again later. Without a session the tunnel is of no use.
func (c *client) sessionDown(s *session, why Reason, text string) {
	if c.session != s {
		return
	}
	c.session, c.learned = nil, Learned{}
	c.fault = text
	if t := c.tunnel; t != nil && t.State() != l2tp.Closing {
		t.Close(wirel2tp.Result{Code: wirel2tp.StopRequested, Text: text}, l2tp.Reason(why))
	}
}

func (c *client) tunnelDown(t *tunnel, text string) {
	if c.tunnel != t {
		return
	}
	c.tunnel = nil
	c.later(text)
}

// later waits before the next attempt: twice as long each time, and never
// quite as long as others do.
func (c *client) later(why string) {
	c.fault = why
	c.pause = min(max(2*c.pause, time.Second), max(c.Retry, time.Second))
	var b [1]byte
	c.engine.random(b[:])
	c.retryAt = c.engine.clock.Now().Add(c.pause - c.pause*time.Duration(b[0])/1024)
	if c.engine.clients[c.Name] == c {
		c.engine.clock.Arm(c)
	}
}

// Learned returns what each client has got.
func (e *Engine) Learned() map[string]Learned {
	m := map[string]Learned{}
	for name, c := range e.clients {
		m[name] = c.learned
	}
	return m
}
