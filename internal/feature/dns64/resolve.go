package dns64

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Upstream queries a recursive resolver. The question is complete but for its id; the
// answer must belong to that question. An error means that no server answered.
type Upstream interface {
	Ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error)
}

// Resolver answers questions. It is safe for concurrent use.
type Resolver struct {
	upstream Upstream
	now      func() time.Time
	after    func(time.Duration) <-chan time.Time
	start    func(task func(ctx context.Context))
	settings atomic.Pointer[Settings]
	cache    *cache
	limit    *limiter
	stats    stats

	mu      sync.Mutex
	flights map[question]*flight
}

// Outside is what a Resolver needs of the world.
type Outside struct {
	Upstream Upstream
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	Start    func(task func(ctx context.Context)) // runs a task beside the caller
}

// NewResolver makes a resolver with an empty cache.
func NewResolver(o Outside, s Settings) *Resolver {
	r := &Resolver{
		upstream: o.Upstream, now: o.Now, after: o.After, start: o.Start,
		cache: newCache(s.Cache), limit: newLimiter(s.Rate), flights: map[question]*flight{},
	}
	r.settings.Store(&s)
	return r
}

// Update changes the settings; what the cache holds stays.
func (r *Resolver) Update(s Settings) {
	r.settings.Store(&s)
	r.cache.set(s.Cache)
	r.limit.set(s.Rate)
}

// Cached returns how many answers are kept.
func (r *Resolver) Cached() int { return r.cache.len() }

// flight is a question that is being asked; everybody who wants the same waits
// for the one answer, which also ends circles of forwarders.
type flight struct {
	done   chan struct{}
	answer *answer
}

const (
	flightsMax = 2000 // questions that are open at once
	// askTimeout is the longest that one question may take, all forwarders
	// together; stub resolvers give up after about five seconds.
	askTimeout = 4500 * time.Millisecond
	// staleAfter is when a stale answer is given while forwarders are still
	// being asked (RFC 8767 section 5).
	staleAfter = 1800 * time.Millisecond
)

var errBusy = errors.New("too many questions are open")

// lookup finds the answer to one question: in the cache, or by asking.
func (r *Resolver) lookup(ctx context.Context, q question) *answer {
	f, ok := r.cache.get(q, r.now())
	if ok && !f.stale {
		r.stats.count(evHit)
		if f.renew {
			r.stats.count(evPrefetched)
			// it is good for a while without this
			_, _ = r.fly(q)
		}
		return f.answer
	}
	r.stats.count(evMiss)
	flying, err := r.fly(q)
	if err != nil {
		r.stats.count(evBusy)
		return r.orStale(f, &answer{rcode: dns.RcodeServerFailure})
	}
	var patience <-chan time.Time
	if f.stale {
		patience = r.after(staleAfter)
	}
	select {
	case <-flying.done:
		return r.orStale(f, flying.answer)
	case <-patience:
		return r.orStale(f, &answer{rcode: dns.RcodeServerFailure})
	case <-ctx.Done():
		return r.orStale(f, &answer{rcode: dns.RcodeServerFailure})
	}
}

// orStale gives a, or what the cache still had if a is a failure.
func (r *Resolver) orStale(f found, a *answer) *answer {
	if !f.stale || !a.failed() {
		return a
	}
	r.stats.count(evStale)
	b := *f.answer
	b.ede = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer} // RFC 8767 section 4
	return &b
}

// fly joins the flight for q, or begins it.
func (r *Resolver) fly(q question) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.flights[q]; ok {
		r.stats.count(evJoined)
		return f, nil
	}
	if len(r.flights) >= flightsMax {
		return nil, errBusy
	}
	f := &flight{done: make(chan struct{}), answer: &answer{rcode: dns.RcodeServerFailure}}
	r.flights[q] = f
	r.start(func(ctx context.Context) {
		defer func() {
			r.mu.Lock()
			delete(r.flights, q)
			r.mu.Unlock()
			close(f.done)
		}()
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		f.answer = r.ask(ctx, q)
		r.cache.put(q, f.answer, r.now())
	})
	return f, nil
}

// ednsSize is what fits into one packet on any link (RFC 9715).
const ednsSize = 1232

// ask puts a question to the forwarders.
func (r *Resolver) ask(ctx context.Context, q question) *answer {
	m := new(dns.Msg)
	m.RecursionDesired, m.CheckingDisabled = true, q.cd
	m.AuthenticatedData = r.settings.Load().TrustAD // we would understand it (RFC 6840 section 5.7)
	m.Question = []dns.Question{{Name: q.name, Qtype: q.typ, Qclass: q.class}}
	m.SetEdns0(ednsSize, q.do)
	reply, err := r.upstream.Ask(ctx, m)
	if err != nil {
		return &answer{rcode: dns.RcodeServerFailure} // RFC 6147 section 5.1.3
	}
	return understand(q, reply, r.settings.Load().TrustAD)
}

// resolve answers a client's question; rules are those for the client.
func (r *Resolver) resolve(ctx context.Context, q question, rules []Rule, s *Settings) *answer {
	if a := special(q, rules); a != nil {
		r.stats.count(evLocal)
		return a
	}
	switch {
	case q.typ == dns.TypeAAAA && len(rules) > 0 && !(q.do && q.cd): // RFC 6147 section 5.5, case 3
		return r.resolveAAAA(ctx, q, rules, s)
	case q.typ == dns.TypePTR && s.PTR:
		if to, ok := alias(q.name, rules); ok {
			r.stats.count(evReverse)
			return r.follow(ctx, q, to, rules, s)
		}
	}
	return r.lookup(ctx, q)
}

// follow answers with an alias and what it leads to.
func (r *Resolver) follow(ctx context.Context, q question, to *dns.CNAME, rules []Rule, s *Settings) *answer {
	q.name = to.Target
	a := r.resolve(ctx, q, rules, s)
	b := a.copyWith(append([]dns.RR{to}, a.answer...))
	b.ad = false
	return b
}

// resolveAAAA is RFC 6147 section 5.1.
func (r *Resolver) resolveAAAA(ctx context.Context, q question, rules []Rule, s *Settings) *answer {
	six := r.lookup(ctx, q)
	switch {
	case six.rcode == dns.RcodeNameError: // 5.1.2: there is no such name
		return six
	case six.failed() && six.bogus(): // 5.5: what does not validate fails
		return six
	case !six.failed():
		kept, any := natives(six, s.Exclude) // 5.1.1, 5.1.4
		if kept != six {
			r.stats.count(evExcluded)
		}
		if any {
			r.stats.count(evNative)
			return kept
		}
		six = kept
	}
	// any other error, and no answer in time, count as an empty answer (5.1.2, 5.1.3)
	asked := q
	asked.typ = dns.TypeA
	four := r.lookup(ctx, asked)
	if made := synthesize(four, six, rules); made != nil && !four.failed() {
		r.stats.count(evSynthesized)
		return made
	}
	if !six.failed() {
		return six
	}
	if four.failed() || !four.empty() { // the A records were not for these rules
		return six
	}
	return four
}

// bogus reports whether the forwarder failed because DNSSEC did (RFC 8914
// section 4: 5 to 12).
func (a *answer) bogus() bool {
	return a.ede != nil && a.ede.InfoCode >= dns.ExtendedErrorCodeDNSSECIndeterminate && a.ede.InfoCode <= dns.ExtendedErrorCodeNSECMissing
}

// Allowed reports whether a client may ask.
func (r *Resolver) Allowed(client netip.Addr) bool { return allowed(r.settings.Load(), client) }

// allowed reports whether a client may ask.
func allowed(s *Settings, client netip.Addr) bool {
	a := client.Unmap().WithZone("")
	return a.IsLoopback() || holds(s.Clients, a)
}
