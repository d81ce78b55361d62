package dnsio

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/feature/dns64"
	"weft/internal/mutator"
)

// forwarder answers queries with the message that a test gives it, as overUDP reads it.
type forwarder struct {
	reply []byte
	aimed bool // the sender knows identifier and name of the query
}

func (f *forwarder) Ask(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(f.reply); err != nil {
		return nil, err
	}
	if f.aimed {
		m.Id, m.Question = q.Id, q.Question
	}
	if !matches(q, m, true) {
		return nil, errors.New("the answer does not match the question")
	}
	_, _ = validationFailed(m), rejectsEDNS(m)
	return m, nil
}

// nameServer is a DNS64 server whose time does not pass by itself.
func nameServer(f *forwarder, now *time.Time) *Server {
	after := make(chan time.Time)
	settings := dns64.Settings{
		Rules: []dns64.Rule{{Prefix: netip.MustParsePrefix("2001:db8:64::/96")}}, Clients: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/64")},
		Exclude: []netip.Prefix{netip.MustParsePrefix("2001:db8:bad::/48")}, PTR: true, TrustAD: true,
		Cache: dns64.CacheSettings{Entries: 100, Max: time.Hour, NegativeMax: time.Hour},
	}
	r := dns64.NewResolver(dns64.Outside{
		Upstream: f, Now: func() time.Time { return *now }, After: func(time.Duration) <-chan time.Time { return after },
		Start: func(task func(context.Context)) { go task(context.Background()) }, // it is waited for
	}, settings)
	return NewServer(r.Handle, func(a netip.Addr) bool { return settings.Clients[0].Contains(a) })
}

func packed(t *testing.T, name string, kind uint16, records ...string) []byte {
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	m.SetEdns0(1232, true)
	for i, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Response = true
		if i%4 < 3 {
			m.Answer = append(m.Answer, rr)
		} else {
			m.Ns = append(m.Ns, rr)
		}
	}
	m.Compress = true
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var client = netip.MustParseAddr("2001:db8:1::2")

// TestMutatedDNSQuery is what clients ask, and strangers.
func TestMutatedDNSQuery(t *testing.T) {
	answer := packed(t, "www.example.", dns.TypeA, "www.example. 60 IN A 192.0.2.6")
	seeds := [][]byte{
		packed(t, "www.example.", dns.TypeAAAA), packed(t, "www.example.", dns.TypeA), packed(t, "1.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", dns.TypePTR),
		packed(t, "6.0.2.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", dns.TypePTR), packed(t, "ipv4only.arpa.", dns.TypeAAAA), packed(t, "example.", dns.TypeANY),
	}
	mutator.Run(t, mutator.Parser{Name: "dns-query", Seeds: seeds, Format: mutator.DNS{}, Beside: true, New: func(r *rand.Rand) mutator.Machine {
		now := time.Unix(1e9, 0)
		s := nameServer(&forwarder{reply: answer, aimed: true}, &now)
		return mutator.Machine{Receive: func(b []byte) {
			now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			from := client
			if r.IntN(16) == 0 {
				from = netip.MustParseAddr("2001:db8:2::2")
			}
			udp := r.IntN(4) > 0
			if !udp && len(b) > queryMost {
				return // as readQuestion does
			}
			if answer := s.answer(context.Background(), from, b[:min(len(b), queryMost)], udp); udp && len(answer) > 1232 {
				t.Fatalf("%d bytes over UDP", len(answer))
			}
			if s.Fault() != nil {
				t.Fatal(s.Fault())
			}
		}}
	}})
}

// TestMutatedDNSAnswer is what forwarders answer, and who pretends to be one.
func TestMutatedDNSAnswer(t *testing.T) {
	seeds := [][]byte{
		packed(t, "www.example.", dns.TypeA, "www.example. 60 IN CNAME a.example.", "a.example. 60 IN CNAME b.example.", "b.example. 60 IN A 192.0.2.6", "example. 60 IN NS ns.example."),
		packed(t, "www.example.", dns.TypeAAAA, "www.example. 60 IN AAAA 2001:db8::6", "www.example. 60 IN AAAA 2001:db8:bad::6"),
		packed(t, "www.example.", dns.TypeAAAA, "example. 60 IN DNAME example.net.", "www.example. 60 IN CNAME www.example.net.", "www.example.net. 60 IN A 192.0.2.7", "example.net. 60 IN SOA ns.example. h.example. 1 2 3 4 300"),
		packed(t, "www.example.", dns.TypeA), packed(t, "6.2.0.192.in-addr.arpa.", dns.TypePTR, "6.2.0.192.in-addr.arpa. 60 IN PTR www.example."),
		packed(t, "www.example.", dns.TypeTXT, `www.example. 60 IN TXT "a" "b"`, "www.example. 60 IN MX 10 a.example.", "www.example. 60 IN SRV 1 2 3 a.example.", `www.example. 60 IN SVCB 1 . alpn="h2" ipv4hint=192.0.2.1`),
	}
	kinds := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypePTR, dns.TypeTXT, dns.TypeMX}
	mutator.Run(t, mutator.Parser{Name: "dns-answer", Seeds: seeds, Format: mutator.DNS{}, Beside: true, New: func(r *rand.Rand) mutator.Machine {
		now := time.Unix(1e9, 0)
		f := &forwarder{}
		s := nameServer(f, &now)
		var queries [][]byte
		for _, name := range []string{"www.example.", "6.0.2.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa."} {
			for _, kind := range kinds {
				queries = append(queries, packed(t, name, kind))
			}
		}
		return mutator.Machine{Receive: func(b []byte) {
			now = now.Add(time.Duration(r.IntN(100_000)) * time.Millisecond)
			f.reply, f.aimed = b, r.IntN(8) > 0
			_ = s.answer(context.Background(), client, queries[r.IntN(len(queries))], r.IntN(2) == 0)
			if s.Fault() != nil {
				t.Fatal(s.Fault())
			}
		}}
	}})
}
