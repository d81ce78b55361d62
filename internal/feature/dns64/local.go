package dns64

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"weft/internal/translate"
)

// Names that are answered here, without a query to a forwarder.
const (
	ipv4Only    = "ipv4only.arpa."
	localTTL    = 600   // seconds; what is made of the configuration
	localSOA    = 10800 // seconds, RFC 6303 section 3
	reverseRoot = ".ip6.arpa."
)

// ipv4OnlyAddresses are the well-known addresses (RFC 7050 section 8).
func ipv4OnlyAddresses() [2]netip.Addr {
	return [2]netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}
}

// special answers for names that have a meaning of their own; nil if q's has none.
func special(q question, rules []Rule) *answer {
	if a := ipv4OnlyArpa(q, rules); a != nil {
		return a
	}
	switch {
	case within(q.name, "localhost."): // RFC 6761 section 6.3
		return localhost(q)
	case within(q.name, "invalid."), within(q.name, "onion."), within(q.name, "local."): // RFC 6761 6.4, RFC 7686, RFC 6762 22.1
		top := q.name[strings.LastIndexByte(strings.TrimSuffix(q.name, "."), '.')+1:]
		return nothing(dns.RcodeNameError, top)
	case within(q.name, "resolver.arpa."): // RFC 9462 section 6.4: the forwarder's is not the clients'
		return nothing(dns.RcodeSuccess, "resolver.arpa.")
	}
	return nil
}

// within reports whether a canonical name is zone or below it.
func within(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}

// nothing is an answer that there is no such name, or no such record.
func nothing(rcode int, zone string) *answer {
	return &answer{rcode: rcode, ns: []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: localSOA},
		Ns:  zone, Mbox: "hostmaster.invalid.", Serial: 1, Refresh: 3600, Retry: 1200, Expire: 604800, Minttl: localSOA,
	}}}
}

func localhost(q question) *answer {
	switch q.typ {
	case dns.TypeA:
		return &answer{answer: []dns.RR{recordA(q.name, netip.AddrFrom4([4]byte{127, 0, 0, 1}))}}
	case dns.TypeAAAA:
		return &answer{answer: []dns.RR{aaaa(q.name, netip.IPv6Loopback(), localTTL)}}
	}
	return nothing(dns.RcodeSuccess, "localhost.")
}

func recordA(name string, v4 netip.Addr) *dns.A {
	return &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: localTTL}, A: v4.AsSlice()}
}

// ipv4OnlyArpa answers for the name by which clients find the prefixes
// (RFC 7050), as a DNS64 must do by itself (RFC 8880 section 7.2): names below
// it do not exist, and the addresses' reverse names lead back to it. Questions
// about its delegation (DS) belong to the parent.
func ipv4OnlyArpa(q question, rules []Rule) *answer {
	if len(rules) == 0 || q.typ == dns.TypeDS {
		return nil
	}
	for _, v4 := range ipv4OnlyAddresses() {
		if name := reverse4(v4); within(q.name, name) {
			switch {
			case q.name != name:
				return nothing(dns.RcodeNameError, name)
			case q.typ == dns.TypePTR:
				return &answer{answer: []dns.RR{ptr(name, ipv4Only)}}
			}
			return nothing(dns.RcodeSuccess, name)
		}
	}
	switch {
	case !within(q.name, ipv4Only):
		return nil
	case q.name != ipv4Only:
		return nothing(dns.RcodeNameError, ipv4Only)
	}
	a := &answer{}
	for _, v4 := range ipv4OnlyAddresses() {
		switch q.typ {
		case dns.TypeA:
			a.answer = append(a.answer, recordA(ipv4Only, v4))
		case dns.TypeAAAA:
			for _, r := range rules {
				if v6 := translate.Embed(r.Prefix, v4); v6.IsValid() {
					a.answer = append(a.answer, aaaa(ipv4Only, v6, localTTL))
				}
			}
		}
	}
	if len(a.answer) == 0 {
		return nothing(dns.RcodeSuccess, ipv4Only)
	}
	return a
}

func ptr(name, to string) *dns.PTR {
	return &dns.PTR{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: localTTL}, Ptr: to}
}

// reverse4 is the name under in-addr.arpa (RFC 1035 section 3.5).
func reverse4(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa.", b[3], b[2], b[1], b[0])
}

// reversed6 reads a full name under ip6.arpa (RFC 3596 section 2.5).
func reversed6(name string) (netip.Addr, bool) {
	digits, ok := strings.CutSuffix(name, reverseRoot)
	if !ok || len(digits) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		d := strings.IndexByte("0123456789abcdef", digits[62-2*i])
		if d < 0 || i < 31 && digits[61-2*i] != '.' {
			return netip.Addr{}, false
		}
		b[i/2] |= byte(d) << (4 * (1 - i%2))
	}
	return netip.AddrFrom16(b), true
}

// alias gives, for a reverse name under one of the prefixes, the reverse name
// of the IPv4 address (RFC 6147 section 5.3.1).
func alias(name string, rules []Rule) (*dns.CNAME, bool) {
	v6, ok := reversed6(name)
	if !ok {
		return nil, false
	}
	for _, r := range rules {
		v4, under := translate.Extract(r.Prefix, v6)
		if !under || translate.Embed(r.Prefix, v4) != v6 {
			continue
		}
		// the well-known addresses are reached under every prefix (RFC 8880 section 7.2)
		wellKnown := ipv4OnlyAddresses()
		if r.for4(v4) || v4 == wellKnown[0] || v4 == wellKnown[1] {
			return &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: localTTL}, Target: reverse4(v4)}, true
		}
	}
	return nil, false
}
