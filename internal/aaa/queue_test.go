package aaa

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2866"

	"weft/internal/timer/timertest"
)

// deaf is a server that never answers.
func deaf(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func clientOf(t *testing.T, at netip.AddrPort) *Client {
	t.Helper()
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: at, Accounting: at, Secret: "with RADIUS", Timeout: 20 * time.Millisecond, Tries: 1}})
	c.pause = 5 * time.Millisecond
	t.Cleanup(c.Close)
	return c
}

func note(number uint64, kind Status, id string) *Record {
	return &Record{Number: number, Account: &Accounting{Status: kind, ID: id, Login: "alice", At: time.Now(), Cause: CauseIdleTimeout}}
}

// hear waits for so many accounts.
func receive(t *testing.T, reported <-chan *radius.Packet, many int) (list []string) {
	t.Helper()
	for len(list) < many {
		select {
		case p := <-reported:
			list = append(list, rfc2866.AcctStatusType_Get(p).String()+" "+rfc2866.AcctSessionID_GetString(p))
		case <-time.After(patience):
			t.Fatalf("of %d records these were sent: %q", many, list)
		}
	}
	return list
}

// What no server has taken is not settled, whenever the process ends; what one has
// taken is, and only then.
func TestAccountsThatNobodyTookAreNotSettled(t *testing.T) {
	at := deaf(t)
	for _, many := range []int{1, 3, 600} { // fewer and more than are sent at a time
		c := clientOf(t, at)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range many {
			c.Account(ctx, note(uint64(i+1), StatusStop, fmt.Sprint(i)))
		}
		time.Sleep(time.Duration(many%7) * 10 * time.Millisecond) // some are on their way
		cancel()
		c.Wait()
		if gone := c.Acknowledged(); len(gone) > 0 || c.Waiting() != many {
			t.Errorf("of %d accounts %d wait, settled are %v", many, c.Waiting(), gone)
		}
	}
	reported := make(chan *radius.Packet, 10)
	c := clientOf(t, accounting(t, reported, func(*radius.Packet) bool { return true }))
	woken := make(chan bool, 10)
	c.WhenAcknowledged(func() { woken <- true })
	c.Account(t.Context(), note(7, StatusStop, "a1"))
	if got := receive(t, reported, 1); got[0] != "Stop a1" {
		t.Errorf("sent is %q", got)
	}
	select {
	case <-woken:
	case <-time.After(patience):
		t.Fatal("no signal that it is settled")
	}
	if gone := c.Acknowledged(); !slices.Equal(gone, []uint64{7}) || c.Waiting() != 0 || len(c.Acknowledged()) > 0 {
		t.Errorf("settled are %v, %d wait", gone, c.Waiting())
	}
}

// What is kept of an account is all of it.
func TestARecordIsReadAsItWasWritten(t *testing.T) {
	one := Record{Total: Traffic{InputOctets: 1 << 40}, Account: &Accounting{
		Status: StatusStop, Section: "isp", ID: "a1", Login: "alice", At: time.Now().Round(0), Cause: CauseIdleTimeout, Call: question(Credentials{}).Call,
		Assigned: Assigned{IPv4: netip.MustParseAddr("192.0.2.7"), Delegated: netip.MustParsePrefix("2001:db8::/56"), Class: [][]byte{{1, 2}}},
	}}
	b, err := json.Marshal(one)
	var again Record
	if err == nil {
		err = json.Unmarshal(b, &again)
	}
	if err != nil || !again.Account.At.Equal(one.Account.At) {
		t.Fatalf("%s: %+v, %v", b, again, err)
	}
	if again.Account.At = one.Account.At; !reflect.DeepEqual(again, one) {
		t.Errorf("%+v became %+v", one.Account, again.Account)
	}
}

// Servers receive the Start of a session before its Stop, also after attempts without an
// answer; of several Interim-Updates in between only the last one is sent. Interim-Updates
// without acknowledgement do not pile up.
func TestASessionsAccountsKeepTheirOrder(t *testing.T) {
	reported := make(chan *radius.Packet, 1000)
	open := make(chan struct{})
	c := clientOf(t, accounting(t, reported, func(*radius.Packet) bool {
		select {
		case <-open:
			return true
		default:
			return false
		}
	}))
	const many = 40
	for i := range many {
		c.Account(t.Context(), note(0, StatusStart, fmt.Sprint(i)))
	}
	time.Sleep(30 * time.Millisecond) // some were tried in vain
	for range 5 {
		for i := range many {
			c.Account(t.Context(), note(0, StatusInterim, fmt.Sprint(i)))
		}
	}
	if n := c.Waiting(); n > 3*many {
		t.Errorf("of %d sessions %d accounts wait", many, n)
	}
	for i := range many {
		c.Account(t.Context(), note(0, StatusStop, fmt.Sprint(i)))
	}
	close(open)
	order := map[string]string{}
	for ends := 0; ends < many; {
		kind, id, _ := strings.Cut(receive(t, reported, 1)[0], " ")
		if strings.HasSuffix(order[id], kind+" ") {
			continue // its answer was late
		}
		if order[id] += kind + " "; kind == "Stop" {
			ends++
		}
	}
	for id, got := range order {
		if got != "Start Stop " {
			t.Errorf("of session %s is sent: %s", id, got)
		}
	}
}

// A beginning to which a server objects does not keep it from hearing of the end.
func TestAnEndIsToldThoughTheBeginningIsNotTaken(t *testing.T) {
	reported := make(chan *radius.Packet, 10)
	c := clientOf(t, accounting(t, reported, func(p *radius.Packet) bool {
		return rfc2866.AcctStatusType_Get(p) == rfc2866.AcctStatusType_Value_Stop
	}))
	c.Account(t.Context(), note(1, StatusStart, "a1"))
	c.Account(t.Context(), note(2, StatusStop, "a1"))
	if got := receive(t, reported, 1); got[0] != "Stop a1" {
		t.Errorf("sent is %q", got)
	}
}

// An account to which servers object, while they take others, rests; the end of its
// session does not.
func TestAnAccountThatServersObjectToRests(t *testing.T) {
	reported := make(chan *radius.Packet, 10000)
	var bad atomic.Int32
	c := clientOf(t, accounting(t, reported, func(p *radius.Packet) bool {
		if rfc2866.AcctSessionID_GetString(p) == "bad" && rfc2866.AcctStatusType_Get(p) == rfc2866.AcctStatusType_Value_Start {
			bad.Add(1)
			return false
		}
		return true
	}))
	c.Account(t.Context(), note(1, StatusStart, "bad"))
	rests := func() bool {
		c.queue.mu.Lock()
		defer c.queue.mu.Unlock()
		return c.queue.sessions["bad"].rests
	}
	begun := time.Now()
	for i := 0; !rests(); i++ {
		c.Account(t.Context(), note(0, StatusStart, fmt.Sprint(i)))
		receive(t, reported, 1)
		if time.Since(begun) > patience {
			t.Fatalf("it was tried %d times", bad.Load())
		}
	}
	c.Account(t.Context(), note(0, StatusStop, "x first"))
	for receive(t, reported, 1)[0] != "Stop x first" { // the server has read what was sent before
	}
	tries := bad.Load()
	for i := range 20 {
		c.Account(t.Context(), note(0, StatusStop, fmt.Sprint("x", i)))
		receive(t, reported, 1)
	}
	if n := bad.Load(); n != tries {
		t.Errorf("it was tried %d times more", n-tries)
	}
	c.Account(t.Context(), note(2, StatusStop, "bad"))
	for got := ""; got != "Stop bad"; { // an answer may be late, and a record sent again
		if got = receive(t, reported, 1)[0]; got != "Stop bad" && !strings.HasPrefix(got, "Stop x") {
			t.Fatalf("sent is %q", got)
		}
	}
	for begun := time.Now(); c.Waiting() != 1; time.Sleep(time.Millisecond) { // the beginning
		if time.Since(begun) > patience {
			t.Fatalf("%d wait", c.Waiting())
		}
	}
}

// Of too many that wait the oldest make room, and are counted.
func TestTheOldestAccountsMakeRoom(t *testing.T) {
	c := clientOf(t, deaf(t))
	c.queue.most = 10
	for i := range 25 { // none is on its way
		c.put(note(uint64(i+1), StatusStop, fmt.Sprint(i)))
	}
	var left []string
	for {
		_, one := c.queue.take()
		if one == nil {
			break
		}
		left = append(left, one.Account.ID)
	}
	if want := []string{"15", "16", "17", "18", "19", "20", "21", "22", "23", "24"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if st := c.Stats(); st[0].Lost != 15 || st[0].Waiting != 10 || len(c.Acknowledged()) != 15 {
		t.Errorf("it counts %+v", st[0])
	}
}

// Interim accounts make room for the others, because each later record of their
// session has higher totals; only then is one lost, and health says each step.
func TestInterimAccountsMakeRoomFirst(t *testing.T) {
	c := clientOf(t, deaf(t))
	c.queue.most = 20
	put := func(kind Status, names string, many int) {
		for i := range many { // none is on its way
			c.put(note(0, kind, fmt.Sprint(names, i)))
		}
	}
	fault := func() string { return fmt.Sprint(c.Fault()) }
	put(StatusStart, "early", 5)
	put(StatusInterim, "early", 5)
	put(StatusInterim, "early", 5) // instead of those before
	put(StatusInterim, "long", 5)
	if n := c.Waiting(); n != 15 || fault() != "<nil>" {
		t.Fatalf("%d wait, health: %s", n, fault())
	}
	put(StatusStart, "late", 1)
	if want := "16 of at most 20 accounting records wait"; !strings.Contains(fault(), want) {
		t.Errorf("health: %s, want %s", fault(), want)
	}
	put(StatusStop, "late", 14)
	if n := c.Waiting(); n != 20 || c.Stats()[0].Lost != 0 {
		t.Errorf("%d wait, %d are lost", n, c.Stats()[0].Lost)
	}
	put(StatusStop, "more", 2)
	if lost := c.Stats()[0].Lost; lost != 2 || !strings.Contains(fault(), "2 accounting records were lost") {
		t.Errorf("%d are lost, health: %s", lost, fault())
	}
	if err := c.queue.fault(time.Now().Add(2 * lostFault)); err == nil || strings.Contains(err.Error(), "were lost") {
		t.Errorf("much later: %v", err)
	}
	var left []string
	for {
		p, one := c.queue.take()
		if one == nil {
			break
		}
		for _, r := range p.list {
			if r.Account.Status == StatusInterim {
				t.Errorf("an interim account of %s waits", r.Account.ID)
			}
			left = append(left, r.Account.ID)
		}
	}
	if len(left) != 20 || slices.Contains(left, "early0") || slices.Contains(left, "early1") || !slices.Contains(left, "early2") {
		t.Errorf("left are %q", left)
	}
}

// A hundred thousand records that wait, most of them interim, cost little time each
// when all make room.
func TestALongQueueMakesRoomInLinearTime(t *testing.T) {
	b := &queue{most: accountsMost}
	for i := range accountsMost {
		kind := StatusStart
		if i%2 == 0 {
			kind = StatusInterim
		}
		b.add(note(0, kind, fmt.Sprint(i)))
	}
	lost := 0
	for i := range accountsMost {
		for _, one := range b.add(note(0, StatusStop, fmt.Sprint("stop", i))) {
			if lost++; (one.Account.Status == StatusInterim) != (lost <= accountsMost/2) {
				t.Fatalf("number %d that makes room is a %v", lost, one.Account.Status)
			}
		}
	}
	if lost != accountsMost || b.count != accountsMost || len(b.ages) > 3*accountsMost || len(b.interims) > 3*accountsMost {
		t.Errorf("%d made room, %d wait, lists of %d and %d", lost, b.count, len(b.ages), len(b.interims))
	}
}

func TestServersThatTakeNoAccountsAreAFault(t *testing.T) {
	c := clientOf(t, deaf(t))
	c.Account(t.Context(), note(1, StatusStop, "a"))
	later := func() error { return c.queue.fault(time.Now().Add(unheardTime)) }
	for end := time.Now().Add(patience); later() == nil; time.Sleep(time.Millisecond) { // until it was tried
		if time.Now().After(end) {
			t.Fatal("no fault")
		}
	}
	if err := later(); !strings.Contains(err.Error(), "no RADIUS server has taken an accounting record since") {
		t.Error(err)
	}
	if err := c.Fault(); err != nil {
		t.Errorf("at once: %v", err)
	}
}

// New servers receive the records that wait for the old ones, also outstanding ones.
func TestOtherServersTakeOver(t *testing.T) {
	reported := make(chan *radius.Packet, 1000)
	old := clientOf(t, deaf(t))
	const many = 300
	for i := range many {
		old.Account(t.Context(), note(uint64(i+1), StatusStop, fmt.Sprint(i)))
	}
	time.Sleep(10 * time.Millisecond)
	next := clientOf(t, accounting(t, reported, func(*radius.Packet) bool { return true }))
	next.servers[0].Timeout = 5 * time.Second // three answers that are late on a busy machine are an objection
	old.HandOver(t.Context(), next)
	for received := map[string]bool{}; len(received) < many; { // a record with a late answer is sent twice
		received[receive(t, reported, 1)[0]] = true
	}
	var acknowledged []uint64
	for begun := time.Now(); len(acknowledged) < many && time.Since(begun) < patience; time.Sleep(time.Millisecond) {
		acknowledged = append(acknowledged, next.Acknowledged()...)
	}
	slices.Sort(acknowledged)
	if len(slices.Compact(acknowledged)) != many || len(old.Acknowledged()) > 0 || old.Waiting() != 0 {
		t.Errorf("settled are %d, and %d still wait for the old servers", len(acknowledged), old.Waiting())
	}
	old.Wait() // nothing of it is left behind by a reload, although the context goes on
}

// Each attempt has its own Acct-Delay-Time, and so is another message (RFC 2866
// section 5.2).
func TestALateAccountSaysHowLate(t *testing.T) {
	reported := make(chan *radius.Packet, 10)
	tries := 0
	c := clientOf(t, accounting(t, reported, func(p *radius.Packet) bool {
		tries++
		reported <- p
		return false
	}))
	one := note(1, StatusStop, "a1")
	one.Account.At = time.Now().Add(-time.Hour)
	c.Account(t.Context(), one)
	var seen []*radius.Packet
	for len(seen) < 2 {
		select {
		case p := <-reported:
			seen = append(seen, p)
		case <-time.After(patience):
			t.Fatal("it is not sent again")
		}
	}
	for _, p := range seen {
		if late := rfc2866.AcctDelayTime_Get(p); late < 3600 || late > 3700 {
			t.Errorf("it says that it is %d s late", late)
		}
	}
	if seen[0].Identifier == seen[1].Identifier {
		t.Error("two messages have one identifier")
	}
}

// A client that gets no more records ends when the last one is acknowledged.
func TestAClientThatIsNotNeededAnyMoreEnds(t *testing.T) {
	reported := make(chan *radius.Packet, 10)
	c := clientOf(t, accounting(t, reported, func(*radius.Packet) bool { return true }))
	c.servers[0].Timeout = 5 * time.Second
	c.Account(t.Context(), note(1, StatusStop, "last"))
	c.End()
	c.Wait()
	if len(reported) != 1 || c.Waiting() != 0 {
		t.Errorf("%d are sent, %d wait", len(reported), c.Waiting())
	}
}

// The end of a session is not lost, however long no server answers. What is given up is a
// record that is old and that servers object to while they take others.
func TestAnOldAccountIsGivenUpOnlyIfServersObject(t *testing.T) {
	for name, c := range map[string]struct {
		silent, old, stays bool
	}{
		"no server answers, for a year":  {true, true, true},
		"servers object, since a year":   {false, true, false},
		"servers object, since just now": {false, false, true},
	} {
		b := &queue{most: 10}
		b.add(note(1, StatusStop, "gone"))
		for range deniedAfter + 1 {
			p, one := b.take()
			if one == nil {
				break // it rests
			}
			b.landed(p, one, false, c.old, func() {})
			if !c.silent {
				b.reportedAt = time.Now().Add(time.Second) // another record was taken
			}
		}
		if got := b.count == 1; got != c.stays {
			t.Errorf("%s: it is still to be sent: %t, want %t", name, got, c.stays)
		}
	}
}

// A record says when something was by the clock of when it is sent, and how long a
// session was by the one that cannot be set.
func TestARecordOfBeforeTheClockWasSet(t *testing.T) {
	const years = 20 * 365 * 24 * time.Hour
	began := time.Now()
	c := clientOf(t, deaf(t))
	for _, jump := range []time.Duration{years, -years} {
		now := timertest.Jumped(began, jump)
		if got := happened(began, now); !got.Equal(now.Round(0)) {
			t.Errorf("set by %s: it happened at %s, now is %s", jump, got, now)
		}
		a := &Accounting{Status: StatusStop, ID: "a", Login: "alice", Started: timertest.Jumped(began.Add(-time.Minute), jump), At: began}
		p, err := c.accountingRequest([]byte("x"), a, Traffic{})
		if err != nil {
			t.Fatal(err)
		}
		if n := rfc2866.AcctSessionTime_Get(p); n != 60 {
			t.Errorf("set by %s: the session has lasted %d s", jump, n)
		}
	}
	// of an earlier process, which had another clock: no huge number
	a := &Accounting{Status: StatusStop, ID: "a", Login: "alice", Started: began.Round(0).Add(years), At: began}
	if p, err := c.accountingRequest([]byte("x"), a, Traffic{}); err != nil || rfc2866.AcctSessionTime_Get(p) != 0 {
		t.Errorf("it has lasted %d s, %v", rfc2866.AcctSessionTime_Get(p), err)
	}
}
