package subscriber

import (
	"net/netip"
	"time"

	"weft/internal/limit"
)

// LoginKind is what became of a login.
type LoginKind uint8

const (
	LoggedIn LoginKind = iota
	LoginRefused
	LoggedOut
)

// Login is what an operator's log says of a subscriber.
type Login struct {
	Kind      LoginKind
	LNS       string
	Login     string
	Calling   string // number of the line, if the LAC gives it (RFC 2661 section 4.4.5)
	LAC       netip.AddrPort
	IPv4      netip.Addr
	Prefix    netip.Prefix
	Delegated netip.Prefix
	Session   string // Acct-Session-Id
	Reason    string // of a refusal or an end
	Lasted    time.Duration
}

// loginLines bounds the lines of the log: a peer that tries passwords, or a storm, makes
// any number of them. What is left out is counted.
var loginLines = limit.Rate{PerSecond: 100, Burst: 2000}

// logins are for the log.
type logins struct {
	bucket  limit.Bucket
	list    []Login
	omitted int
}

func (s *session) noteLogin(kind LoginKind, reason string) {
	l, now := &s.engine.logins, s.engine.clock.Now()
	if !l.bucket.Take(1, loginLines, now) {
		l.omitted++
		return
	}
	one := Login{
		Kind: kind, LNS: s.tunnel.server.Name, Login: s.login, Calling: s.call.Calling, LAC: s.call.LAC,
		IPv4: s.given.IPv4, Prefix: s.given.Prefix, Delegated: s.given.Delegated, Session: s.id, Reason: reason,
	}
	if kind == LoggedOut {
		one.Lasted = now.Sub(s.since)
	}
	l.list = append(l.list, one)
}

// Logins returns what became of logins since the last time, and how many more there were.
func (e *Engine) Logins() (list []Login, omitted int) {
	list, omitted = e.logins.list, e.logins.omitted
	e.logins.list, e.logins.omitted = nil, 0
	return list, omitted
}

// another ends the account of a login whose subscriber negotiates LCP again and logs in by
// another one: what follows has an account of its own (RFC 2866 section 5.5: an
// Acct-Session-Id is of one session).
func (s *session) another(login string) {
	if !s.online || login == s.login {
		return
	}
	s.account(AccountStop, ReasonRequested) // with the base so far
	s.base = &Traffic{}
	s.engine.pending.accounts[len(s.engine.pending.accounts)-1].Next = s.base
	s.noteLogin(LoggedOut, "the subscriber logs in as another")
	s.online, s.id, s.since, s.slow = false, s.engine.identity(), s.engine.clock.Now(), Traffic{}
	s.endsAt, s.interim = time.Time{}, time.Time{}
	s.engine.pending.stored[s.local] = true
}

// Counted says that Account.Next of a session was set.
func (e *Engine) Counted(session uint16) {
	if e.sessions[session] != nil {
		e.pending.stored[session] = true
	}
}
