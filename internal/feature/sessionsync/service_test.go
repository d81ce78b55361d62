package sessionsync_test

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/feature/sessionsync"
	"weft/internal/state"
	wire "weft/wire/sessionsync"
)

// table is a router's sessions in memory, by port.
type table struct {
	sessions map[uint16]*state.ListedSession
	changes  []state.SessionChange
	lost     uint64
	chunk    int // sessions that a listing gives at a time; 0: all
}

func newTable() *table { return &table{sessions: map[uint16]*state.ListedSession{}} }

func session(port uint16, left time.Duration) state.Shared {
	return state.Shared{
		Translator: 4, Protocol: 17, State: state.SessionActive,
		IPv6: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::2"), port), IPv4: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port),
		Remote6: netip.MustParseAddr("64:ff9b::1"), Remote4: netip.MustParseAddrPort("0.0.0.1:53"), Left: left,
	}
}

// make opens a session of its own, as a packet would.
func (t *table) make(ports ...uint16) {
	for _, p := range ports {
		s := session(p, time.Hour)
		t.sessions[p] = &state.ListedSession{Shared: s}
		t.changes = append(t.changes, state.SessionChange{Shared: s})
	}
}

// end ends one.
func (t *table) end(port uint16) {
	t.changes = append(t.changes, state.SessionChange{Shared: t.sessions[port].Shared, Ended: true})
	delete(t.sessions, port)
}

func (t *table) Changes(most int, see func(state.SessionChange)) (int, error) {
	n := min(most, len(t.changes))
	for _, c := range t.changes[:n] {
		see(c)
	}
	t.changes = t.changes[n:]
	return n, nil
}

func (t *table) Lost() (uint64, error) { return t.lost, nil }

func (t *table) List() func(func(state.ListedSession)) (bool, error) {
	rest := slices.Sorted(maps.Keys(t.sessions))
	return func(see func(state.ListedSession)) (bool, error) {
		n := len(rest)
		if t.chunk > 0 {
			n = min(n, t.chunk)
		}
		for _, p := range rest[:n] {
			if s := t.sessions[p]; s != nil {
				see(*s)
			}
		}
		more := n > 0
		rest = rest[n:]
		return more, nil
	}
}

func (t *table) Import(list []state.Import) (r [state.ImportResults]uint64, err error) {
	for _, a := range list {
		was := t.sessions[a.IPv4.Port()]
		now := state.ListedSession{Shared: a.Shared, Remote: true, Owner: a.Owner, Round: a.Round}
		switch {
		case a.Translator != 4:
			return r, errors.New("another translator's number")
		case a.Want == state.ImportEnd && was != nil && was.Remote:
			delete(t.sessions, a.IPv4.Port())
			r[state.ImportEnded]++
		case a.Want == state.ImportEnd, a.Want == state.ImportMark && was == nil:
			r[state.ImportKept]++
		case was == nil:
			t.sessions[a.IPv4.Port()] = &now
			r[state.ImportMade]++
		case a.Want == state.ImportPut && (was.Remote || a.Left > was.Left+time.Second):
			t.sessions[a.IPv4.Port()] = &now
			r[state.ImportRenewed]++
		case was.Remote && was.Owner == a.Owner:
			was.Round = a.Round
			r[state.ImportKept]++
		default:
			r[state.ImportKept]++
		}
	}
	return r, nil
}

// router is a service with its table and its stream.
type router struct {
	*sessionsync.Service
	*table
	name   string
	sent   [][]byte
	asked  []string
	broken bool
	behind float64 // the slowest reader
	inSync int
}

func (r *router) Behind() float64 { return r.behind }

func (r *router) Publish(m []byte) error {
	if r.broken {
		return errors.New("the stream is broken")
	}
	r.sent = append(r.sent, m)
	return nil
}

func (r *router) Ask(peer string) error {
	r.asked = append(r.asked, peer)
	return nil
}

func start(name string, t *table, fresh bool, peers ...string) *router {
	r := &router{table: t, name: name}
	r.Service = sessionsync.NewService(sessionsync.Options{
		Name: name, Peers: peers, Translators: map[string]int{"main": 4}, Table: t, Stream: r,
		Fresh: fresh, InSync: func() { r.inSync++ },
	})
	return r
}

// clock is a test's time.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// pass lets time pass for routers that read each other.
func (c *clock) pass(d time.Duration, routers ...*router) {
	for end := c.now.Add(d); c.now.Before(end); c.now = c.now.Add(100 * time.Millisecond) {
		for _, r := range routers {
			r.Tick(c.now)
		}
		for _, r := range routers {
			sent, asked := r.sent, r.asked
			r.sent, r.asked = nil, nil
			for _, other := range routers {
				if other == r {
					continue
				}
				for _, m := range sent {
					other.Received(r.name, m, false, 0, c.now)
				}
				if slices.Contains(asked, other.name) {
					other.Asked(r.name)
				}
			}
		}
	}
}

// connect has routers read each other.
func (c *clock) connect(routers ...*router) {
	for _, r := range routers {
		r.Opened()
		for _, other := range routers {
			if other != r {
				r.Joined(other.name, false, c.now)
			}
		}
	}
}

func (r *router) has(t *testing.T, why string, want ...uint16) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(r.sessions)); !slices.Equal(got, want) {
		t.Errorf("%s: %s has %v, want %v", why, r.name, got, want)
	}
}

func (r *router) peer(name string) sessionsync.Received {
	for _, p := range r.Status().Peers {
		if p.Peer == name {
			return p
		}
	}
	return sessionsync.Received{}
}

func TestWhatOneMakesTheOtherHas(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), true, "b"), start("b", newTable(), true, "a")
	a.make(1, 2) // before anybody listens
	c.connect(a, b)
	c.pass(5*time.Second, a, b)
	b.has(t, "listed", 1, 2)
	if a.inSync != 1 || b.inSync != 1 || a.Status().Fresh {
		t.Errorf("settled %d and %d times", a.inSync, b.inSync)
	}
	a.make(3)
	c.pass(100*time.Millisecond, a, b)
	b.has(t, "made", 1, 2, 3)
	a.end(2)
	c.pass(100*time.Millisecond, a, b)
	b.has(t, "ended", 1, 3)
	if p := b.peer("a"); p.Made != 3 || p.Ended != 1 || !p.Connected {
		t.Errorf("counted %+v", p)
	}
	// b does not send sessions that it has received as its own
	dumps := b.Status().Sent.Dumps
	sessions := b.Status().Sent.Sessions
	a.make(4)
	c.pass(time.Second, a, b)
	if s := b.Status().Sent; s.Sessions != sessions || s.Dumps != dumps {
		t.Errorf("b sent %+v", s)
	}
}

func TestANewcomerGetsBackWhatItHadAndWhatTheOtherMade(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), true, "b"), start("b", newTable(), true, "a")
	c.connect(a, b)
	a.make(1, 2, 3)
	c.pass(5*time.Second, a, b)

	// a loses its power; b goes on with 1, ends 2 and makes 4
	b.Left("a", errors.New("gone"), c.now)
	b.sessions[1].Remote = false
	b.Import([]state.Import{{Shared: session(2, 0), Want: state.ImportEnd}})
	b.make(4)
	c.pass(5*time.Second, b)
	b.has(t, "without a", 1, 3, 4)

	a = start("a", newTable(), true, "b")
	c.connect(a, b)
	c.pass(10*time.Second, a, b)
	a.has(t, "back", 1, 3, 4)
	b.has(t, "nothing is taken from b, because a has forgotten it", 1, 3, 4)
	// and whatever else is listed later
	for _, r := range []*router{a, b, a} {
		r.lost++
		c.pass(5*time.Second, a, b)
		a.has(t, "listed again", 1, 3, 4)
		b.has(t, "listed again", 1, 3, 4)
	}
}

func TestADaemonThatRestartsIsNoNewcomer(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), true, "b"), start("b", newTable(), true, "a")
	c.connect(a, b)
	a.make(1, 2)
	b.make(9)
	c.pass(5*time.Second, a, b)
	kept := a.table
	kept.end(1) // while no daemon looks
	kept.changes = nil
	a = start("a", kept, false, "b")
	c.connect(a, b)
	c.pass(5*time.Second, a, b)
	a.has(t, "restarted", 2, 9)
	b.has(t, "the other learns that one has ended", 2, 9)
	if b.peer("a").Swept != 1 {
		t.Errorf("counted %+v", b.peer("a"))
	}
}

func TestLostChangesAreHealedByAListing(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), false, "b"), start("b", newTable(), false, "a")
	c.connect(a, b)
	a.make(1, 2)
	c.pass(5*time.Second, a, b)
	dumps := a.Status().Sent.Dumps
	a.make(3)
	a.end(1)
	a.changes, a.lost = nil, 2 // the ring was full
	c.pass(5*time.Second, a, b)
	b.has(t, "healed", 2, 3)
	if s := a.Status().Sent; s.Lost != 2 || s.Dumps != dumps+1 {
		t.Errorf("sent %+v", s)
	}
}

func TestAGapInTheStreamIsAskedAbout(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), false, "b"), start("b", newTable(), false, "a")
	c.connect(a, b)
	a.make(1, 2)
	c.pass(5*time.Second, a, b)
	a.make(3)
	a.end(1)
	a.Tick(c.now)
	a.sent = nil // fell out of the stream
	a.make(4)
	a.Tick(c.now)
	b.Received("a", a.sent[0], true, 7, c.now)
	a.sent = nil
	if p := b.peer("a"); p.Gaps != 1 || p.Behind != 7 {
		t.Errorf("counted %+v", p)
	}
	c.pass(5*time.Second, a, b)
	b.has(t, "after a request", 2, 3, 4)
}

func TestAListingThatIsTornEndsNothing(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), false, "b"), start("b", newTable(), false, "a")
	a.chunk = 1
	c.connect(a, b)
	a.make(1, 2, 3)
	c.pass(5*time.Second, a, b)
	b.has(t, "listed by parts", 1, 2, 3)
	a.lost++
	c.now = c.now.Add(time.Minute)
	for range 10 {
		a.Tick(c.now)
	}
	for i, m := range a.sent { // one part is missing
		if i != 2 {
			b.Received("a", m, i == 3, 0, c.now)
		}
	}
	b.Tick(c.now)
	b.Tick(c.now)
	b.has(t, "torn", 1, 2, 3)
}

func TestWhileItsStreamIsBrokenARouterGoesOnAndThenTellsAll(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), false, "b"), start("b", newTable(), false, "a")
	c.connect(a, b)
	c.pass(5*time.Second, a, b)
	a.broken = true
	a.make(1)
	c.pass(10*time.Second, a, b)
	if s := a.Status().Sent; s.Unsent == 0 || s.Error == "" {
		t.Errorf("sent %+v", s)
	}
	a.broken = false
	a.Opened()
	c.pass(5*time.Second, a, b)
	b.has(t, "sent when the connection was restored", 1)
	if s := a.Status().Sent; s.Error != "" {
		t.Errorf("sent %+v", s)
	}
}

func TestThreeRoutersTellEachOtherOnce(t *testing.T) {
	c := newClock()
	a, b, d := start("a", newTable(), true, "b", "d"), start("b", newTable(), true, "a", "d"), start("d", newTable(), true, "a", "b")
	c.connect(a, b, d)
	a.make(1)
	b.make(2)
	d.make(3)
	c.pass(10*time.Second, a, b, d)
	for _, r := range []*router{a, b, d} {
		r.has(t, "three", 1, 2, 3)
		for port, s := range r.sessions {
			if s.Remote == (r.name == map[uint16]string{1: "a", 2: "b", 3: "d"}[port]) {
				t.Errorf("%s has %d as remote %v", r.name, port, s.Remote)
			}
		}
	}
	a.end(1)
	c.pass(10*time.Second, a, b, d)
	for _, r := range []*router{a, b, d} {
		r.has(t, "ended", 2, 3)
	}
}

func TestWhatIsNotUnderstoodIsCountedAndTouchesNothing(t *testing.T) {
	c := newClock()
	b := start("b", newTable(), false, "a")
	c.connect(b)
	b.Joined("a", true, c.now)
	b.Received("a", []byte("nonsense"), false, 0, c.now)
	m := wire.Message{Kind: wire.Live, Records: []wire.Record{{What: wire.Put, Translator: "other", Shared: session(1, time.Hour)}}}
	text, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Received("a", text, false, 0, c.now)
	b.Received("stranger", text, false, 0, c.now)
	b.Asked("stranger")
	b.has(t, "nothing")
	if p := b.peer("a"); p.Refused != 1 || p.Foreign != 1 || p.Error == "" {
		t.Errorf("counted %+v", p)
	}
}

func TestManySessionsAreSentInMessagesOfBoundedSize(t *testing.T) {
	c := newClock()
	a := start("a", newTable(), false, "b")
	a.Opened()
	for i := range uint16(5000) {
		a.make(i)
	}
	a.Tick(c.now)
	total := 0
	for _, text := range a.sent {
		m, err := wire.Parse(text)
		if err != nil || len(text) > 32<<10 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		total += len(m.Records)
	}
	if total != 10000 { // as changes, and in the first listing
		t.Errorf("%d records", total)
	}
}

var _ sessionsync.Table = (*table)(nil)

// A table that is larger than the stream is listed as fast as it is read, and
// news do not wait for that.
func TestAListingWaitsForWhoReadsIt(t *testing.T) {
	c := newClock()
	a, b := start("a", newTable(), true, "b"), start("b", newTable(), true, "a")
	for port := uint16(1); port <= 100; port++ {
		a.make(port)
	}
	a.changes, a.chunk = nil, 10
	a.behind = 0.9
	c.connect(a, b)
	c.pass(5*time.Second, a, b)
	b.has(t, "nothing is read")
	a.make(200)
	c.pass(200*time.Millisecond, a, b)
	b.has(t, "news come all the same", 200)
	a.behind = 0.1
	c.pass(time.Second, a, b)
	a.behind = 0.9
	if n := len(b.sessions); n <= 1 || n > 101 {
		t.Errorf("%d have come", n)
	}
	a.behind = 0
	c.pass(5*time.Second, a, b)
	if len(b.sessions) != 101 || b.Status().Fresh {
		t.Errorf("%d of 101 have come: %+v", len(b.sessions), b.Status())
	}
	// a peer that receives a dump does not request it again and again
	if n := a.Status().Sent.Dumps; n > 2 {
		t.Errorf("all was listed %d times", n)
	}
}
