package lnsrun

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/internal/addresspool"
	"weft/internal/feature/ra"
	"weft/internal/paths"
	"weft/internal/ppp"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// moment is a message, and what the datapath knew when it was sent.
type moment struct {
	bytes []byte
	known []state.L2TPSession
}

// ledger is a datapath, a socket and a device that note what comes in which order.
type ledger struct {
	mu       sync.Mutex
	sessions map[uint16]state.L2TPSession
	retired  []uint16
	removed  []uint16
	sent     []moment
	in       chan []byte
	from     netip.AddrPort
}

func (l *ledger) known() (list []state.L2TPSession) {
	for _, s := range l.sessions {
		list = append(list, s)
	}
	return list
}

func (l *ledger) Put(_ []state.L2TPTunnel, sessions []state.L2TPSession) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range sessions {
		l.sessions[s.Local] = s
	}
	return nil
}

func (l *ledger) Retire(sessions []uint16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range sessions {
		delete(l.sessions, id)
		l.retired = append(l.retired, id)
	}
}

func (l *ledger) Remove(_, sessions []uint16) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removed = append(l.removed, sessions...)
	return nil
}

func (*ledger) Counters([]uint16) ([]state.LNSCounters, error) { return nil, nil }
func (*ledger) Sequence(uint16) uint16                         { return 0 }
func (*ledger) List() ([]state.L2TPTunnel, []state.L2TPSession, error) {
	return nil, nil, nil
}

// socket is the server's.
type socket struct {
	*ledger
	here netip.AddrPort
}

func (s socket) LocalAddr() netip.AddrPort { return s.here }
func (s socket) Close() error              { close(s.in); return nil }
func (s socket) Send(b []byte, _ netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, moment{slices.Clone(b), s.known()})
	return true
}

func (s socket) Receive(b []byte) (int, netip.AddrPort, error) {
	one, open := <-s.in
	if !open {
		return 0, s.from, errors.New("closed")
	}
	return copy(b, one), s.from, nil
}

// until waits for something that comes sooner or later.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// take returns what was sent since the last time.
func (l *ledger) take() []moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.sent
	l.sent = nil
	return list
}

// peer is a client's engine.
type peer struct {
	out   [][]byte
	dials int
}

func (p *peer) Send(_, _ netip.AddrPort, b []byte) { p.out = append(p.out, slices.Clone(b)) }
func (*peer) Deliver(int, []byte)                  {}
func (*peer) Reply(int, []byte)                    {}
func (*peer) Number(uint16) (uint16, bool)         { return 0, false }
func (*peer) Authenticate(subscriber.AuthRequest)  {}
func (p *peer) Dial(string)                        { p.dials++ }

// servesAlice has the loop serve a section with one user, over l.
func servesAlice(s *subscribers, l *ledger, here netip.AddrPort) {
	s.begun, s.path, s.swept = true, l, true
	s.covered = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	s.engine.Set([]subscriber.ServerSettings{{
		Name: "isp", ID: 1, Device: "lns-isp", Listen: []netip.AddrPort{here}, HostName: "lns", MRU: 1460,
		LACs:    []subscriber.LAC{{Address: netip.MustParsePrefix("198.51.100.0/24")}},
		Methods: []ppp.Method{ppp.MethodPAP}, Users: []subscriber.User{{Login: "alice", Password: "wonder"}},
		Pools: []addresspool.Pool{{Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}},
	}}, nil, time.Now())
	s.kept[here] = true
	s.take(s.ctx, socket{l, here})
}

// When a peer receives the message that its session is up, the datapath has the
// session; when it receives the message that it is over, the datapath has it no more.
func TestTheDatapathKnowsBeforeThePeerDoes(t *testing.T) {
	here, there := netip.MustParseAddrPort("192.0.2.1:1701"), netip.MustParseAddrPort("198.51.100.7:40000")
	l := &ledger{sessions: map[uint16]state.L2TPSession{}, in: make(chan []byte, 1000), from: there}
	r := start(t.Context(), runner.Doors{Log: slog.New(slog.DiscardHandler), Paths: paths.Dirs{Run: t.TempDir()}, Replan: func() {}}, ra.Links{})
	t.Cleanup(func() { _ = r.Close() })
	asked := r.box.Ask(t.Context(), func(s *subscribers) { servesAlice(s, l, here) })
	if asked != nil {
		t.Fatal(asked)
	}
	p := &peer{}
	e := subscriber.NewEngine(p, ra.Links{}, func(b []byte) {
		for i := range b {
			b[i] = byte(i*7 + 3)
		}
	})
	e.Set(nil, []subscriber.ClientSettings{{
		Name: "home", Device: "l2tp-home", Server: "192.0.2.1", HostName: "home", Login: "alice", Password: "wonder",
		Methods: []ppp.Method{ppp.MethodPAP}, IPv4: true, MRU: 1460, Retry: time.Minute,
	}}, time.Now())
	// turn has the client take what was sent, and gives what the datapath knew when it
	// came up or down
	turn := func() (at []state.L2TPSession, changed bool) {
		e.Tick(time.Now())
		for ; p.dials > 0; p.dials-- {
			e.Dialed("home", there, here, time.Now())
		}
		for _, b := range p.out {
			l.in <- b
		}
		p.out = nil
		for _, m := range l.take() {
			was := e.Learned()["home"].IPv4.IsValid()
			e.Receive(there, here, m.bytes, time.Now())
			if is := e.Learned()["home"].IPv4.IsValid(); is != was && !changed {
				at, changed = m.known, true
			}
		}
		return at, changed
	}
	wait := func(what string) (at []state.L2TPSession) {
		t.Helper()
		changed := false
		until(t, what, func() bool { at, changed = turn(); return changed })
		return at
	}
	known := wait("the session is up")
	address := e.Learned()["home"].IPv4
	if len(known) != 1 || known[0].IPv4 != address {
		t.Fatalf("the peer learns that it has %s, and the datapath knows %+v", address, known)
	}

	one := known[0]
	if n := r.Disconnect(t.Context(), subscriber.Match{Login: "alice"}); n != 1 {
		t.Fatalf("%d sessions were ended", n)
	}
	if known := wait("the session is down"); len(known) != 0 {
		t.Errorf("the peer learns that session %d is over, and the datapath knows %+v", one.Local, known)
	}
	until(t, "it is removed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(l.removed, one.Local)
	})
}
