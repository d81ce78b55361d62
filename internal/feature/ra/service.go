package ra

import (
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ndp"
)

// Constants of RFC 4861 section 10.
const (
	maxInitialInterval   = 16 * time.Second
	maxInitial           = 3
	minDelayBetween      = 3 * time.Second
	maxSolicitationDelay = 500 * time.Millisecond
)

// answersMax is the number of hosts that wait for a unicast answer at once; if there are
// more, one multicast advertisement answers all.
const answersMax = 32

// deprecatedFor is how long a prefix that was taken away is announced as one
// that should not be used any more; two hours is also the least that hosts
// accept for what they have heard before (RFC 4862 section 5.5.3).
const deprecatedFor = 2 * time.Hour

// Advertiser decides when advertisements go out on one link. It is fed events
// and the time, and is used by one goroutine.
type Advertiser struct {
	settings   Settings
	random     func(time.Duration) time.Duration // up to this long
	deprecated []Deprecated
	next       time.Time // of the next one to everybody
	last       time.Time // time of the last multicast advertisement
	initial    int       // how many of the first, quick ones are left
	answers    map[netip.Addr]time.Time
	received   map[netip.Addr][]string
	stats      Stats
}

// Deprecated is a prefix that the link had; it is advertised with preferred lifetime 0 for a time.
type Deprecated struct {
	Prefix AnnouncedPrefix `json:"prefix"`
	Until  time.Time       `json:"until"`
	Valid  time.Time       `json:"valid,omitzero"` // the end of its valid lifetime; Until, if that is earlier
}

// Stats is what an Advertiser did.
type Stats struct {
	Sent      uint64 `json:"sent"`      // to everybody
	Answered  uint64 `json:"answered"`  // to one host
	Solicited uint64 `json:"solicited"` // questions
	Ignored   uint64 `json:"ignored"`   // questions that are not valid
	Others    uint64 `json:"others"`    // advertisements of other routers
}

// Send is an advertisement and whom it goes to.
type Send struct {
	Message *ndp.RouterAdvertisement
	To      netip.Addr
}

// NewAdvertiser begins to advertise at now. random gives a time between zero
// and its argument.
func NewAdvertiser(s Settings, deprecated []Deprecated, random func(time.Duration) time.Duration, now time.Time) *Advertiser {
	a := &Advertiser{settings: s, random: random, answers: map[netip.Addr]time.Time{}, received: map[netip.Addr][]string{}}
	for _, d := range deprecated {
		if d.Until.After(now) && !s.has(d.Prefix.Prefix) {
			a.deprecated = append(a.deprecated, d)
		}
	}
	a.begin(now)
	return a
}

func (s Settings) has(p netip.Prefix) bool {
	return slices.ContainsFunc(s.Prefixes, func(q AnnouncedPrefix) bool { return q.Prefix == p })
}

// begin sends the next ones soon, so that a change is known soon (RFC 4861
// section 6.2.4).
func (a *Advertiser) begin(now time.Time) {
	a.initial = maxInitial
	a.next = a.notBefore(now)
}

func (a *Advertiser) notBefore(t time.Time) time.Time {
	if earliest := a.last.Add(minDelayBetween); !a.last.IsZero() && t.Before(earliest) {
		return earliest
	}
	return t
}

// Update changes what is said. Prefixes that are no more among it are announced
// as deprecated from now on (RFC 9096 section 3.5).
func (a *Advertiser) Update(s Settings, now time.Time) {
	if equal(a.settings.at(now), s.at(now)) {
		a.settings = s // ends that are still far away may be others
		return
	}
	for _, p := range a.settings.Prefixes {
		if !s.has(p.Prefix) {
			a.deprecated = append(a.deprecated, a.settings.Deprecate(p, now))
		}
	}
	a.deprecated = slices.DeleteFunc(a.deprecated, func(d Deprecated) bool { return s.has(d.Prefix.Prefix) })
	a.settings = s
	clear(a.received)
	a.begin(now)
}

func equal(a, b Settings) bool {
	x, errA := ndp.MarshalMessage(a.Message(nil))
	y, errB := ndp.MarshalMessage(b.Message(nil))
	return errA == nil && errB == nil && slices.Equal(x, y)
}

// Settings returns what is said now.
func (a *Advertiser) Settings() Settings { return a.settings }

// Deprecated returns the prefixes that the link had.
func (a *Advertiser) Deprecated() []Deprecated { return slices.Clone(a.deprecated) }

// Stats returns what was done so far.
func (a *Advertiser) Stats() Stats { return a.stats }

// Next is when Tick has something to do.
func (a *Advertiser) Next() time.Time {
	next := a.next
	for _, at := range a.answers {
		if at.Before(next) {
			next = at
		}
	}
	return next
}

// Tick returns what is to be sent at now.
func (a *Advertiser) Tick(now time.Time) []Send {
	var out []Send
	if !now.Before(a.next) {
		out = append(out, Send{a.message(now), netip.IPv6LinkLocalAllNodes()})
		a.stats.Sent++
		clear(a.answers) // they have heard it too
		a.last = now
		a.next = now.Add(a.interval())
		return out
	}
	for to, at := range a.answers {
		if !now.Before(at) {
			out = append(out, Send{a.message(now), to})
			a.stats.Answered++
			delete(a.answers, to)
		}
	}
	return out
}

func (a *Advertiser) interval() time.Duration {
	a.initial = max(a.initial-1, 0)
	return a.settings.wait(a.initial, a.random)
}

// wait is how long it is to the next one to everybody; quick are those that are
// to come soon (RFC 4861 section 6.2.4).
func (s Settings) wait(quick int, random func(time.Duration) time.Duration) time.Duration {
	least := max(s.Interval/3, minDelayBetween)
	d := least + random(max(s.Interval-least, 0))
	if quick > 0 {
		d = min(d, maxInitialInterval)
	}
	return d
}

func (a *Advertiser) message(now time.Time) *ndp.RouterAdvertisement {
	a.deprecated = slices.DeleteFunc(a.deprecated, func(d Deprecated) bool { return !d.Until.After(now) })
	var gone []AnnouncedPrefix
	for _, d := range a.deprecated {
		p := d.Prefix
		end := d.Until
		if !d.Valid.IsZero() && d.Valid.Before(end) {
			end = d.Valid
		}
		p.Preferred, p.Valid = 0, max(end.Sub(now).Truncate(time.Second), 0)
		gone = append(gone, p)
	}
	return a.settings.at(now).Message(gone)
}

// Solicit handles a host's question (RFC 4861 section 6.2.6). A host with an
// address gets an answer of its own, others one that goes to everybody.
func (a *Advertiser) Solicit(from netip.Addr, m *ndp.RouterSolicitation, hopLimit int, now time.Time) {
	if !validSolicitation(from, m, hopLimit) {
		a.stats.Ignored++
		return
	}
	a.stats.Solicited++
	from = from.WithZone("")
	at := now.Add(a.random(maxSolicitationDelay))
	if !from.IsUnspecified() && len(a.answers) < answersMax {
		if _, waits := a.answers[from]; !waits {
			a.answers[from] = at
		}
		return
	}
	if at = a.notBefore(at); at.Before(a.next) {
		a.next = at
	}
}

// validSolicitation is RFC 4861 section 6.1.1, less what the kernel and the
// codec have checked.
func validSolicitation(from netip.Addr, m *ndp.RouterSolicitation, hopLimit int) bool {
	if hopLimit != ndp.HopLimit {
		return false
	}
	for _, o := range m.Options {
		if l, is := o.(*ndp.LinkLayerAddress); is && l.Direction == ndp.Source && from.IsUnspecified() {
			return false
		}
	}
	return from.IsUnspecified() || from.Is6() && !from.IsMulticast()
}

// othersMax is how many other routers are listened to.
const othersMax = 16

// Hear handles another router's advertisement. It gives what contradicts this
// one's, the first time that it does.
func (a *Advertiser) Receive(from netip.Addr, m *ndp.RouterAdvertisement, hopLimit int) []string {
	if hopLimit != ndp.HopLimit || !from.IsLinkLocalUnicast() || slices.Contains(a.settings.Own, from.WithZone("")) {
		return nil
	}
	a.stats.Others++
	said, known := a.received[from]
	if !known && len(a.received) >= othersMax {
		return nil
	}
	var fresh []string
	for _, f := range a.settings.Inconsistent(m) {
		if !slices.Contains(said, f) && len(said)+len(fresh) < 32 {
			fresh = append(fresh, f)
		}
	}
	a.received[from] = append(said, fresh...)
	return fresh
}
