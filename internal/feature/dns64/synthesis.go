package dns64

import (
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"weft/internal/translate"
)

// ttlWithoutSOA bounds a made record's TTL when the answer that there is no
// AAAA record came without an SOA record (RFC 6147 section 5.1.7).
const ttlWithoutSOA = 600

// for4 reports whether the rule makes an address of v4.
func (r Rule) for4(v4 netip.Addr) bool {
	if r.Prefix == translate.WellKnownPrefix() && !translate.Global(v4) {
		return false
	}
	return (len(r.Mapped) == 0 || holds(r.Mapped, v4)) && !holds(r.Exclude, v4)
}

func holds(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// rulesFor keeps the rules for a client.
func rulesFor(rules []Rule, client netip.Addr) []Rule {
	var list []Rule
	for _, r := range rules {
		if len(r.Clients) == 0 || holds(r.Clients, client.WithZone("")) {
			list = append(list, r)
		}
	}
	return list
}

// natives returns the AAAA answer less what is excluded (RFC 6147 section
// 5.1.4); any is false if no AAAA record is left.
func natives(a *answer, exclude []netip.Prefix) (kept *answer, any bool) {
	var records []dns.RR
	removed := false
	for _, rr := range a.answer {
		if aaaa, is := rr.(*dns.AAAA); is {
			addr, ok := netip.AddrFromSlice(aaaa.AAAA)
			if !ok || addr.Is4() || addr.Is4In6() || holds(exclude, addr) {
				removed = true
				continue
			}
			any = true
		}
		records = append(records, rr)
	}
	if !removed {
		return a, any
	}
	// the signature was over all of the records
	kept = a.copyWith(slices.DeleteFunc(records, signs(dns.TypeAAAA)))
	kept.ad = false
	return kept, any
}

// signs reports whether a record is a signature over records of a type.
func signs(typ uint16) func(dns.RR) bool {
	return func(rr dns.RR) bool {
		sig, is := rr.(*dns.RRSIG)
		return is && sig.TypeCovered == typ
	}
}

// synthesize makes of an answer to the question for A records one for AAAA
// (RFC 6147 sections 5.1.5 to 5.1.7): aliases stay, each A record becomes one
// AAAA record for each rule, signatures over A go. none is the answer that
// there is no AAAA record. It gives nil if no record could be made.
func synthesize(a, none *answer, rules []Rule) *answer {
	most := uint32(ttlWithoutSOA)
	if ttl, ok := negativeTTL(none.ns); ok && !none.failed() {
		most = ttl
	}
	var records []dns.RR
	made := 0
	for _, rr := range a.answer {
		v4, is := rr.(*dns.A)
		switch {
		case !is && !signs(dns.TypeA)(rr):
			records = append(records, rr)
		case is:
			for _, m := range makeAAAA(v4, rules, most) {
				records = append(records, m)
				made++
			}
		}
	}
	if made == 0 {
		return nil
	}
	b := a.copyWith(records)
	b.ad = a.ad && none.ad // RFC 6147 section 5.5, cases 1 and 2
	b.ede = nil
	return b
}

func makeAAAA(a *dns.A, rules []Rule, most uint32) []*dns.AAAA {
	v4, ok := netip.AddrFromSlice(a.A)
	if !ok {
		return nil
	}
	v4 = v4.Unmap()
	var list []*dns.AAAA
	for _, r := range rules {
		if !r.for4(v4) {
			continue
		}
		if v6 := translate.Embed(r.Prefix, v4); v6.IsValid() {
			list = append(list, aaaa(a.Hdr.Name, v6, min(a.Hdr.Ttl, most)))
		}
	}
	return list
}

func aaaa(name string, v6 netip.Addr, ttl uint32) *dns.AAAA {
	return &dns.AAAA{
		Hdr:  dns.RR_Header{Name: name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: ttl},
		AAAA: v6.AsSlice(),
	}
}
