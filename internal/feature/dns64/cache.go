package dns64

import (
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// question is what an answer is kept under. Answers with DNSSEC records (do)
// and unchecked ones (cd) are others than those without (RFC 4035 section 4.7).
type question struct {
	name  string // canonical: lower case, with its final dot
	typ   uint16
	class uint16
	do    bool
	cd    bool
}

func ask(name string, typ uint16, do, cd bool) question {
	return question{strings.ToLower(dns.Fqdn(name)), typ, dns.ClassINET, do, cd}
}

// answer is a cached answer to a question. Its records belong to the cache: copy one
// before changing it.
type answer struct {
	rcode  int
	answer []dns.RR
	ns     []dns.RR
	extra  []dns.RR // without OPT
	ad     bool     // the forwarder calls it authentic
	ede    *dns.EDNS0_EDE
}

// failed tells that no resolver could say what there is.
func (a *answer) failed() bool {
	return a.rcode != dns.RcodeSuccess && a.rcode != dns.RcodeNameError
}

// copyWith returns the answer with other answer records.
func (a *answer) copyWith(records []dns.RR) *answer {
	b := *a
	b.answer = records
	return &b
}

// largest is the size of an answer beyond which it is not kept, in bytes.
const largest = 4096

// failureTTL is the time for which the failure of all servers is cached: at least a
// second, at most five minutes (RFC 9520 section 3.2).
const failureTTL = 5 * time.Second

// cache keeps answers for as long as their TTLs allow.
type cache struct {
	mu       sync.Mutex
	settings CacheSettings
	entries  *lru[question, *entry]
}

type entry struct {
	answer  *answer
	stored  time.Time
	ttl     time.Duration
	refresh bool // a refresh is in progress
}

func newCache(s CacheSettings) *cache {
	return &cache{settings: s, entries: newLRU[question, *entry](s.Entries)}
}

// set changes the bounds; what fits them is kept.
func (c *cache) set(s CacheSettings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings, c.entries.limit = s, s.Entries
	c.entries.shrink()
}

// found is what the cache says of a question.
type found struct {
	answer *answer
	stale  bool // expired: used only if no server answers
	renew  bool // the caller is the one who is to ask again now
}

// get looks a question up; TTLs are what is left of them (RFC 1035 section 3.2.1).
func (c *cache) get(q question, now time.Time) (found, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.get(q)
	if !ok {
		return found{}, false
	}
	age := now.Sub(e.stored)
	switch {
	case age < 0: // the clock was set back
		c.entries.drop(q)
		return found{}, false
	case age < e.ttl:
		f := found{answer: e.answer.aged(age)}
		if c.settings.Prefetch && !e.refresh && age > e.ttl*9/10 && !e.answer.failed() {
			e.refresh, f.renew = true, true
		}
		return f, true
	case age < e.ttl+c.settings.Stale && !e.answer.failed():
		return found{answer: e.answer.withTTL(staleTTL), stale: true}, true
	}
	c.entries.drop(q)
	return found{}, false
}

// staleTTL is what stale records say (RFC 8767 section 4).
const staleTTL = 30

// put keeps an answer if it may be kept. A failure does not take the place of
// an answer that could still be given as a stale one.
func (c *cache) put(q question, a *answer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ttl := c.lifetime(a)
	if e, ok := c.entries.get(q); ok && a.failed() && !e.answer.failed() && now.Sub(e.stored) < e.ttl+c.settings.Stale {
		e.refresh = false
		return
	}
	if ttl <= 0 || c.settings.Entries == 0 || a.size() > largest {
		c.entries.drop(q)
		return
	}
	c.entries.put(q, &entry{answer: a, stored: now, ttl: ttl})
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries.len()
}

// lifetime is how long an answer may be kept: by its smallest TTL, and for the
// news that there is nothing by the SOA record, without which it is not kept
// (RFC 2308 section 5).
func (c *cache) lifetime(a *answer) time.Duration {
	if a.failed() {
		return failureTTL
	}
	if a.rcode == dns.RcodeNameError || a.empty() {
		ttl, ok := negativeTTL(a.ns)
		if !ok {
			return 0
		}
		return min(seconds(ttl), c.settings.NegativeMax, c.smallest(a))
	}
	return c.smallest(a)
}

func (c *cache) smallest(a *answer) time.Duration {
	ttl := c.settings.Max
	for _, section := range [][]dns.RR{a.answer, a.ns, a.extra} {
		for _, rr := range section {
			ttl = min(ttl, seconds(rr.Header().Ttl))
		}
	}
	return ttl
}

// seconds reads a TTL; one with the highest bit set is zero (RFC 2181 section 8).
func seconds(ttl uint32) time.Duration {
	if ttl > 1<<31-1 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

// empty tells that the answer section has nothing but aliases and signatures.
func (a *answer) empty() bool {
	for _, rr := range a.answer {
		switch rr.Header().Rrtype {
		case dns.TypeCNAME, dns.TypeDNAME, dns.TypeRRSIG:
		default:
			return false
		}
	}
	return true
}

// negativeTTL returns how long it holds that there is nothing: the smaller of the
// SOA record's TTL and its last field (RFC 2308 section 5), in seconds.
func negativeTTL(ns []dns.RR) (ttl uint32, ok bool) {
	for _, rr := range ns {
		if soa, is := rr.(*dns.SOA); is {
			return min(soa.Hdr.Ttl, soa.Minttl), true
		}
	}
	return 0, false
}

func (a *answer) size() int {
	m := dns.Msg{Answer: a.answer, Ns: a.ns, Extra: a.extra}
	return m.Len()
}

func (a *answer) aged(age time.Duration) *answer {
	gone := uint32(age / time.Second)
	return a.eachTTL(func(ttl uint32) uint32 { return ttl - min(ttl, gone) })
}

func (a *answer) withTTL(ttl uint32) *answer {
	return a.eachTTL(func(uint32) uint32 { return ttl })
}

func (a *answer) eachTTL(change func(uint32) uint32) *answer {
	each := func(rrs []dns.RR) []dns.RR {
		out := make([]dns.RR, len(rrs))
		for i, rr := range rrs {
			out[i] = dns.Copy(rr)
			out[i].Header().Ttl = change(rr.Header().Ttl)
		}
		return out
	}
	b := *a
	b.answer, b.ns, b.extra = each(a.answer), each(a.ns), each(a.extra)
	return &b
}
