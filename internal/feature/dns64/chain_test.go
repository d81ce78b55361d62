package dns64

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func rr(s string) dns.RR {
	r, err := dns.NewRR(s)
	if err != nil {
		panic(err)
	}
	return r
}

func records(list ...string) (out []dns.RR) {
	for _, s := range list {
		out = append(out, rr(s))
	}
	return out
}

// aliasesInARow is so many CNAMEs, from n0.example. on, and an address at their end.
func aliasesInARow(n int) (list []dns.RR) {
	for i := range n {
		list = append(list, rr(fmt.Sprintf("n%d.example. 60 IN CNAME n%d.example.", i, i+1)))
	}
	return append(list, rr(fmt.Sprintf("n%d.example. 60 IN A 192.0.2.1", n)))
}

func TestWhichRecordsAnswerAQuestion(t *testing.T) {
	reversed := aliasesInARow(16)
	slices.Reverse(reversed)
	long := strings.Repeat("a", 62)
	for name, c := range map[string]struct {
		typ     uint16
		records []dns.RR
		kept    int
		fails   bool
	}{
		"16 aliases":                           {dns.TypeA, aliasesInARow(16), 17, false},
		"16 aliases, the last first":           {dns.TypeA, reversed, 17, false},
		"17 aliases":                           {dns.TypeA, aliasesInARow(17), 0, true},
		"an alias to itself":                   {dns.TypeA, records("n0.example. 60 IN CNAME n0.example."), 0, true},
		"a circle":                             {dns.TypeA, records("n0.example. 60 IN CNAME n1.example.", "n1.example. 60 IN CNAME n0.example."), 0, true},
		"the alias itself is asked for":        {dns.TypeCNAME, aliasesInARow(3), 1, false},
		"unrelated records":                    {dns.TypeA, records("n0.example. 60 IN A 192.0.2.1", "other.example. 60 IN A 192.0.2.2", "bank.test. 60 IN A 192.0.2.3"), 1, false},
		"two aliases of one name, the first":   {dns.TypeA, records("n0.example. 60 IN CNAME a.example.", "n0.example. 60 IN CNAME b.example.", "a.example. 60 IN A 192.0.2.1", "b.example. 60 IN A 192.0.2.2"), 3, false},
		"DNAME without its CNAME":              {dns.TypeA, records("example. 60 IN DNAME test.", "n0.test. 60 IN A 192.0.2.1"), 2, false},
		"DNAME of the root":                    {dns.TypeA, records(". 60 IN DNAME test.", "n0.example.test. 60 IN A 192.0.2.1"), 0, true},
		"DNAME into itself":                    {dns.TypeA, records("example. 60 IN DNAME a.example."), 0, true},
		"DNAME that makes the name too long":   {dns.TypeA, records("example. 60 IN DNAME a" + strings.Repeat(long+".", 4)), 0, true},
		"DNAME at the name does not apply":     {dns.TypeDNAME, records("n0.example. 60 IN DNAME test.", "n0.example. 60 IN A 192.0.2.1"), 2, false},
		"the nearest DNAME":                    {dns.TypeA, records("example. 60 IN DNAME far.test.", "n0.far.test. 60 IN A 192.0.2.1"), 2, false},
		"a name that only ends like its owner": {dns.TypeA, records("0.example. 60 IN DNAME test.", "n0.example. 60 IN A 192.0.2.1"), 1, false},
	} {
		kept, ok := chain(question{name: "n0.example.", typ: c.typ, class: dns.ClassINET}, c.records)
		if ok == c.fails || len(kept) != c.kept {
			t.Errorf("%s: %d kept, %v: %v", name, len(kept), ok, kept)
		}
	}
}

// hostile are answers of about 64 KB that are to cost much.
func hostile() map[string]func() *dns.Msg {
	answer := func(list []dns.RR) *dns.Msg {
		m := new(dns.Msg)
		m.SetQuestion("n0.example.", dns.TypeA)
		m.Response, m.Answer = true, list
		return m
	}
	deep := strings.Repeat("a.", 100)
	return map[string]func() *dns.Msg{
		"CNAMEs, the last first": func() *dns.Msg {
			list := aliasesInARow(1900)
			slices.Reverse(list)
			return answer(list)
		},
		"CNAMEs and DNAMEs": func() *dns.Msg {
			list := aliasesInARow(900)
			for i := range 900 {
				list = append(list, rr(fmt.Sprintf("d%d.example. 60 IN DNAME d%d.example.", i, i+1)))
			}
			slices.Reverse(list)
			return answer(list)
		},
		"DNAMEs that lengthen the name": func() *dns.Msg {
			var list []dns.RR
			for range 1900 {
				list = append(list, rr("example. 60 IN DNAME a.example."))
			}
			return answer(list)
		},
		"deep names": func() *dns.Msg {
			var list []dns.RR
			for i := range 16 {
				list = append(list, rr(fmt.Sprintf("n%d.example. 60 IN CNAME %sn%d.example.", i, deep, i+1)), rr(fmt.Sprintf("%sn%d.example. 60 IN CNAME n%d.example.", deep, i+1, i+1)))
			}
			return answer(list)
		},
		"more records than any answer": func() *dns.Msg { return answer(aliasesInARow(5000)) },
		"signatures of DNAMEs": func() *dns.Msg {
			var list []dns.RR
			for i := range 1900 {
				list = append(list, &dns.RRSIG{Hdr: dns.RR_Header{Name: fmt.Sprintf("d%d.example.", i), Rrtype: dns.TypeRRSIG, Class: dns.ClassINET}, TypeCovered: dns.TypeDNAME})
			}
			return answer(list)
		},
		"random": func() *dns.Msg {
			r := rand.New(rand.NewPCG(1, 2))
			list := aliasesInARow(0)
			for range 1900 {
				kind := "CNAME"
				if r.IntN(3) == 0 {
					kind = "DNAME"
				}
				list = append(list, rr(fmt.Sprintf("n%d.example. 60 IN %s n%d.example.", r.IntN(100), kind, r.IntN(100))))
			}
			return answer(list)
		},
	}
}

// What is made of an answer costs at most 1 ms and 1 us a byte.
func TestAHostileAnswerCostsInProportionToItsLength(t *testing.T) {
	for name, make := range hostile() {
		m := make()
		size := m.Len()
		q := question{name: "n0.example.", typ: dns.TypeA, class: dns.ClassINET}
		best := time.Hour
		for range 3 {
			begin := time.Now()
			understand(q, m, false)
			best = min(best, time.Since(begin))
		}
		if most := time.Millisecond + time.Duration(size)*time.Microsecond; best > most {
			t.Errorf("%s: %s for %d bytes", name, best, size)
		}
	}
}

// One that asks too much takes nothing from its neighbours in the /64, however many of
// its addresses it has as long as others ask too.
func TestRatesAreFairWithinASubnet(t *testing.T) {
	now := time.Unix(1000, 0)
	host := func(n int) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%x", n+1))
	}
	for name, c := range map[string]struct {
		loud  func(i int) netip.Addr
		quiet netip.Addr
		want  int // of 20 in a second
	}{
		"a neighbour of one address":   {func(int) netip.Addr { return host(0) }, host(99), 20},
		"another /64 of all addresses": {func(i int) netip.Addr { return host(i) }, netip.MustParseAddr("2001:db8:2::1"), 20},
		"another interface of all link-local addresses": {
			func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fe80::%x%%lan", i+1)) }, netip.MustParseAddr("fe80::1%guest"), 20,
		},
		"a neighbour of one link-local address": {
			func(int) netip.Addr { return netip.MustParseAddr("fe80::1%lan") }, netip.MustParseAddr("fe80::2%lan"), 20,
		},
		"an IPv4 neighbour": {func(int) netip.Addr { return netip.MustParseAddr("192.0.2.1") }, netip.MustParseAddr("192.0.2.2"), 20},
	} {
		l := newLimiter(200)
		allowed, got := 0, 0
		for i := range 2000 * 10 { // 10 seconds
			at := now.Add(time.Duration(i) * 500 * time.Microsecond)
			if l.allow(c.loud(i), at) {
				allowed++
			}
			if i >= 18000 && i%100 == 0 && l.allow(c.quiet, at) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d of 20", name, got)
		}
		if allowed > 24000 {
			t.Errorf("%s: the loud one has %d", name, allowed)
		}
	}
	// all link-local addresses of an interface share one bucket
	l := newLimiter(200)
	allowed := 0
	for i := range 100000 { // one second
		if l.allow(netip.MustParseAddr(fmt.Sprintf("fe80::%x:%x%%lan", i>>16+1, i&0xffff)), now.Add(time.Duration(i)*10*time.Microsecond)) {
			allowed++
		}
	}
	if allowed < 4000 || allowed > 6100 {
		t.Errorf("all link-local addresses together have %d of 100000", allowed)
	}
}
