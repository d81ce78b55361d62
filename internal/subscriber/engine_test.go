package subscriber

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/addresspool"
	"weft/internal/feature/ra"
	"weft/internal/ppp"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
	wirel2tp "weft/wire/l2tp"
)

// duet is a client's engine and a server's with a wire between them, and a
// clock that a test moves.
type peerPair struct {
	t              *testing.T
	now            time.Time
	client, server *side
	lose           func(from *side, b []byte) bool
	change         func(from *side, b []byte) []byte // nil: datagrams arrive as they were sent
	beyond         *side                             // the server behind the server; nil: there is none
}

type side struct {
	peerPair  *peerPair
	engine    *Engine
	other     *side
	addr      netip.AddrPort
	inbox     []datagram
	asked     []AuthRequest
	delivered [][]byte
	dials     []string
	// as the datapath would have it
	tunnels  map[uint16]state.L2TPTunnel
	sessions map[uint16]state.L2TPSession
	accounts []*Account
	store    map[string][]byte
	sent     int
}

type datagram struct {
	here, from netip.AddrPort
	b          []byte
}

func (s *side) Send(here, peer netip.AddrPort, b []byte) {
	s.sent++
	if s.peerPair.lose != nil && s.peerPair.lose(s, b) {
		return
	}
	if s.peerPair.change != nil {
		b = s.peerPair.change(s, b)
	}
	to := s.other
	if x := s.peerPair.beyond; x != nil && (peer == x.addr || s == x) {
		if to = x; s == x {
			to = s.peerPair.server
		}
	}
	to.inbox = append(to.inbox, datagram{peer, here, slices.Clone(b)})
}
func (s *side) Deliver(_ int, ip []byte)     { s.delivered = append(s.delivered, slices.Clone(ip)) }
func (s *side) Reply(n int, ip []byte)       { s.Deliver(n, ip) }
func (s *side) Number(uint16) (uint16, bool) { return 0, false }
func (s *side) Authenticate(q AuthRequest)   { s.asked = append(s.asked, q) }
func (s *side) Dial(name string)             { s.dials = append(s.dials, name) }

func randomBytes(seed uint64) func([]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
}

func newSide(d *peerPair, addr string, seed uint64) *side {
	s := &side{peerPair: d, addr: netip.MustParseAddrPort(addr), tunnels: map[uint16]state.L2TPTunnel{}, sessions: map[uint16]state.L2TPSession{}, store: map[string][]byte{}}
	s.engine = NewEngine(s, ra.Links{}, randomBytes(seed))
	return s
}

func newPeerPair(t *testing.T) *peerPair {
	return newPeerPairAt(t, "198.51.100.7:40000", "192.0.2.1:1701")
}

func newPeerPairAt(t *testing.T, client, server string) *peerPair {
	d := &peerPair{t: t, now: time.Unix(1_000_000, 0)}
	d.client, d.server = newSide(d, client, 1), newSide(d, server, 2)
	d.client.other, d.server.other = d.server, d.client
	return d
}

func testServer() ServerSettings {
	return ServerSettings{
		Name: "isp", ID: 1, Device: "lns-isp", Listen: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1701")}, HostName: "lns",
		LACs:  []LAC{{Name: "homes", Address: netip.MustParsePrefix("198.51.100.0/24"), Secret: "between us"}},
		Hello: time.Minute, Echo: 30 * time.Second, MRU: 1460, Methods: []ppp.Method{ppp.MethodCHAP, ppp.MethodPAP},
		Users:   []User{{Login: "alice", Password: "wonder"}, {Login: "bob", Password: "builder", Profile: Profile{IPv4: netip.MustParseAddr("203.0.113.77")}}},
		Gateway: netip.MustParseAddr("192.0.2.1"),
		Pools:   []addresspool.Pool{{Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}},
		IPv6:    true, Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:1000::/48")}, Delegate: []netip.Prefix{netip.MustParsePrefix("2001:db8:2000::/40")}, Bits: 56,
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}, Duplicates: DuplicatesReplace,
	}
}

func testClient() ClientSettings {
	return ClientSettings{
		Name: "home", Device: "l2tp-home", Server: "192.0.2.1", Secret: "between us", HostName: "home", Login: "alice", Password: "wonder",
		Methods: []ppp.Method{ppp.MethodCHAP, ppp.MethodMSCHAPv2, ppp.MethodPAP}, IPv4: true, IPv6: true, Prefix: true, MRU: 1460, Keepalive: 30 * time.Second, Retry: time.Minute,
	}
}

func (d *peerPair) start(s ServerSettings, c ClientSettings) {
	d.server.engine.Set([]ServerSettings{s}, nil, d.now)
	d.client.engine.Set(nil, []ClientSettings{c}, d.now)
	d.settle()
}

func (d *peerPair) sides() []*side {
	if d.beyond != nil {
		return []*side{d.client, d.server, d.beyond}
	}
	return []*side{d.client, d.server}
}

// inject has the other side receive a control message in a sender's tunnel, as the next
// one that it expects there.
func (d *peerPair) inject(from *side, t *tunnel, session uint16, m *wirel2tp.Message) {
	d.t.Helper()
	to := from.other
	there := to.engine.l2tp.Tunnel(t.Remote())
	if there == nil {
		d.t.Fatalf("the other side has no tunnel %d", t.Remote())
	}
	k := there.Status()
	to.engine.Receive(to.addr, from.addr, wirel2tp.Control{Tunnel: k.Local, Session: session, Ns: k.Nr, Nr: k.Ns, Body: m.Marshal()}.Marshal(), d.now)
}

// settle lets everything happen that needs no time.
func (d *peerPair) settle() {
	for range 10000 {
		busy := false
		for _, s := range d.sides() {
			if at := s.engine.Due(); !at.IsZero() && !at.After(d.now) {
				s.engine.Tick(d.now)
				busy = true
			}
			for len(s.dials) > 0 {
				name := s.dials[0]
				s.dials = s.dials[1:]
				if _, switched := SwitchServer(name); !switched {
					s.engine.Dialed(name, s.addr, s.other.addr, d.now)
				} else if d.beyond != nil {
					s.engine.Dialed(name, netip.AddrPortFrom(s.addr.Addr(), 50000), d.beyond.addr, d.now)
				} else {
					s.engine.NotDialed(name, "no such host", d.now)
				}
				busy = true
			}
			for len(s.inbox) > 0 {
				m := s.inbox[0]
				s.inbox = s.inbox[1:]
				s.engine.Receive(m.here, m.from, m.b, d.now)
				for i := range m.b { // a socket's buffer is used again
					m.b[i] = 0xe2
				}
				busy = true
			}
			s.take()
		}
		if !busy {
			return
		}
	}
	d.t.Fatal("it never comes to rest")
}

func (s *side) take() {
	b := s.engine.Take()
	for _, t := range b.Tunnels {
		s.tunnels[t.Local] = t
	}
	for _, one := range b.Sessions {
		s.sessions[one.Local] = one
	}
	for _, id := range b.GoneSessions {
		delete(s.sessions, id)
	}
	for _, id := range b.GoneTunnels {
		delete(s.tunnels, id)
	}
	s.engine.Left(b.GoneTunnels, b.GoneSessions)
	s.accounts = append(s.accounts, b.Accounts...)
	for _, k := range b.Store {
		if delete(s.store, k.Key); k.Value != nil {
			s.store[k.Key] = k.Value
		}
	}
}

// pass lets time pass.
func (d *peerPair) pass(t time.Duration) {
	end := d.now.Add(t)
	for {
		next := end
		for _, s := range d.sides() {
			if at := s.engine.Due(); !at.IsZero() && at.Before(next) && at.After(d.now) {
				next = at
			}
		}
		d.now = next
		d.settle()
		if !next.Before(end) {
			return
		}
	}
}

func (s *side) only() *session {
	s.peerPair.t.Helper()
	if len(s.engine.sessions) != 1 {
		s.peerPair.t.Fatalf("there are %d sessions", len(s.engine.sessions))
	}
	for _, one := range s.engine.sessions {
		return one
	}
	return nil
}

func (d *peerPair) up() Learned {
	d.t.Helper()
	l := d.client.engine.Learned()["home"]
	if !l.Up {
		d.t.Fatalf("the client has no session: %+v, client %q, tunnels %v", l, d.client.engine.clients["home"].fault, d.client.engine.Tunnels())
	}
	return l
}

func TestAClientAndAServerAgree(t *testing.T) {
	for _, method := range []ppp.Method{ppp.MethodPAP, ppp.MethodCHAP, ppp.MethodMSCHAPv2} {
		for _, hide := range []bool{false, true} {
			d := newPeerPair(t)
			s, c := testServer(), testClient()
			s.Methods, s.LACs[0].Hide, c.Hide = []ppp.Method{method}, hide, hide
			d.start(s, c)
			l := d.up()
			if !s.Pools[0].Addresses[0].Contains(l.IPv4) || l.Gateway != s.Gateway || l.MTU != 1460 {
				t.Errorf("%s: the client has %+v", method, l)
			}
			if len(l.Addresses) != 1 || !s.Prefixes[0].Contains(l.Addresses[0].Addr()) {
				t.Errorf("%s: its IPv6 addresses are %v", method, l.Addresses)
			}
			if l.Delegated.Bits() != 56 || !s.Delegate[0].Contains(l.Delegated.Addr()) || !l.Router {
				t.Errorf("%s: it was delegated %v, router %v", method, l.Delegated, l.Router)
			}
			if !slices.Equal(l.DNS, s.DNS) {
				t.Errorf("%s: its name servers are %v", method, l.DNS)
			}
			one := d.server.only()
			want := state.L2TPSession{
				Local: one.local, Remote: d.client.only().local, Tunnel: one.tunnel.Local(), LNS: 1, IPv4: l.IPv4, MTU: 1460, MSS: 1420,
				Prefixes: []netip.Prefix{one.given.Prefix, l.Delegated},
			}
			got := d.server.sessions[one.local]
			if got.Local != want.Local || got.Remote != want.Remote || got.Tunnel != want.Tunnel || got.LNS != 1 || got.IPv4 != want.IPv4 || got.MTU != want.MTU || !slices.Equal(got.Prefixes, want.Prefixes) {
				t.Errorf("%s: the datapath has\n%+v, want\n%+v", method, got, want)
			}
			if len(d.server.accounts) != 1 || d.server.accounts[0].Kind != AccountStart || d.server.accounts[0].Login != "alice" {
				t.Errorf("%s: accounting got %+v", method, d.server.accounts)
			}
		}
	}
}

func ping4(from, to netip.Addr, size int) []byte {
	b := make([]byte, size)
	b[0], b[8], b[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	f, t := from.As4(), to.As4()
	copy(b[12:], f[:])
	copy(b[16:], t[:])
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:20]))
	return b
}

func TestPacketsPassWithoutADatapath(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	there := netip.MustParseAddr("8.8.8.8")
	d.client.engine.Transmit("l2tp-home", ping4(l.IPv4, there, 100))
	d.server.engine.Transmit("lns-isp", ping4(there, l.IPv4, 1460))
	d.settle()
	if len(d.server.delivered) != 1 || len(d.client.delivered) != 1 || len(d.client.delivered[0]) != 1460 {
		t.Fatalf("%d and %d packets arrived", len(d.server.delivered), len(d.client.delivered))
	}
	// a packet with another subscriber's source address is dropped
	d.client.engine.Transmit("l2tp-home", ping4(netip.MustParseAddr("203.0.113.200"), there, 100))
	d.settle()
	if len(d.server.delivered) != 1 || d.server.engine.Stats().Spoofed != 1 {
		t.Errorf("a spoofed packet: %d delivered, %d counted", len(d.server.delivered), d.server.engine.Stats().Spoofed)
	}
	// what is too large is cut, or refused
	d.server.engine.Transmit("lns-isp", ping4(there, l.IPv4, 3000))
	d.settle()
	if len(d.client.delivered) != 4 {
		t.Errorf("3000 bytes came in %d pieces, want 3", len(d.client.delivered)-1)
	}
	whole := ping4(there, l.IPv4, 1500)
	whole[6] = 0x40
	d.server.engine.Transmit("lns-isp", whole)
	answer := d.server.delivered[len(d.server.delivered)-1]
	if answer[9] != 1 || answer[20] != 3 || answer[21] != 4 || binary.BigEndian.Uint16(answer[26:]) != 1460 || checksumtest.Of(answer[20:]) != 0 || checksumtest.Of(answer[:20]) != 0 {
		t.Errorf("the answer to a packet that is too large: %x", answer[:28])
	}
}

// A process that is killed and its successor: the peer notices nothing.
func TestSessionsOutliveTheProcess(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	before := d.server.only()
	id, peer := before.local, d.client.only()
	// the successor reads what was kept
	next := newSide(d, d.server.addr.String(), 99)
	var kept []Stored
	for k, v := range d.server.store {
		kept = append(kept, Stored{k, v})
	}
	slices.SortFunc(kept, func(a, b Stored) int { return -cmp.Compare(a.Key, b.Key) }) // tunnels first
	next.other, d.client.other, d.server = d.client, next, next
	next.engine.Set([]ServerSettings{testServer()}, nil, d.now)
	if err := next.engine.Restore(kept, d.now); err != nil {
		t.Fatal(err)
	}
	d.settle()
	if got := next.only(); got.local != id || got.given.IPv4 != l.IPv4 || next.sessions[id].IPv4 != l.IPv4 {
		t.Fatalf("the session is %+v", got)
	}
	if len(next.accounts) != 0 {
		t.Errorf("accounting heard of it: %+v", next.accounts)
	}
	d.pass(5 * time.Minute) // hellos and echoes both ways
	if d.client.only() != peer || !d.client.engine.Learned()["home"].Equal(l) {
		t.Errorf("the client noticed: %+v", d.client.engine.Learned()["home"])
	}
	if n := next.engine.Kick(Match{Login: "alice"}, d.now); n != 1 {
		t.Errorf("%d sessions were ended", n)
	}
}

func TestLostMessagesComeAgain(t *testing.T) {
	d := newPeerPair(t)
	chance := rand.New(rand.NewPCG(7, 7))
	d.lose = func(*side, []byte) bool { return chance.IntN(5) == 0 }
	d.start(testServer(), testClient())
	for range 120 {
		if d.pass(time.Second); d.client.engine.Learned()["home"].Up {
			return
		}
	}
	t.Fatal("one message in five was lost, and the session never came up")
}

func TestWhoIsNotLetIn(t *testing.T) {
	for name, c := range map[string]func(*ServerSettings, *ClientSettings){
		"wrong password":      func(_ *ServerSettings, c *ClientSettings) { c.Password = "guess" },
		"unknown login":       func(_ *ServerSettings, c *ClientSettings) { c.Login = "stranger" },
		"wrong tunnel secret": func(_ *ServerSettings, c *ClientSettings) { c.Secret = "guess" },
		"unknown LAC":         func(s *ServerSettings, _ *ClientSettings) { s.LACs[0].Address = netip.MustParsePrefix("192.0.2.0/24") },
		"method not allowed": func(s *ServerSettings, c *ClientSettings) {
			s.Methods, c.Methods = []ppp.Method{ppp.MethodPAP}, []ppp.Method{ppp.MethodCHAP}
		},
	} {
		d := newPeerPair(t)
		s, cl := testServer(), testClient()
		c(&s, &cl)
		d.start(s, cl)
		d.pass(20 * time.Second)
		if d.client.engine.Learned()["home"].Up || len(d.server.sessions) > 0 {
			t.Errorf("%s: it was let in", name)
		}
	}
}

func TestTheSilentPeerIsGivenUp(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	d.lose = func(*side, []byte) bool { return true }
	d.pass(10 * time.Minute)
	if len(d.server.engine.sessions) != 0 || len(d.server.sessions) != 0 {
		t.Errorf("%d sessions are left, %d in the datapath", len(d.server.engine.sessions), len(d.server.sessions))
	}
	d.lose = nil
	d.pass(10 * time.Minute)
	d.up() // the client comes back by itself
}
