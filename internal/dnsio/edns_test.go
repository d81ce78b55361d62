package dnsio_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/dnsio"
)

// withEDNS asks a question with an OPT record.
func withEDNS() *dns.Msg {
	m := question()
	m.SetEdns0(1232, false)
	return m
}

func TestAForwarderThatRejectsEDNSIsAskedWithoutIt(t *testing.T) {
	for name, reject := range map[string]func(*dns.Msg) *dns.Msg{
		"FORMERR":               func(m *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(m, dns.RcodeFormatError) },
		"FORMERR, header alone": func(m *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcodeFormatError(m) },
		"NOTIMP":                func(m *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(m, dns.RcodeNotImplemented) },
	} {
		t.Run(name, func(t *testing.T) {
			var rejected atomic.Int64
			s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
				if m.IsEdns0() != nil {
					rejected.Add(1)
					_ = w.WriteMsg(reject(m))
					return
				}
				plain(w, m)
			})
			now := time.Unix(1e9, 0)
			p := pool(t, dnsio.Options{MixCase: true, Now: func() time.Time { return now }}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at})
			for range 5 {
				r, err := p.Ask(t.Context(), withEDNS())
				if err != nil || r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1 {
					t.Fatalf("%v, %v", r, err)
				}
			}
			if n := rejected.Load(); n != 1 {
				t.Errorf("EDNS was tried %d times, want once", n)
			}
			now = now.Add(time.Hour)
			if _, err := p.Ask(t.Context(), withEDNS()); err != nil || rejected.Load() != 2 {
				t.Errorf("%v; EDNS was tried %d times, want again after a time", err, rejected.Load())
			}
		})
	}
}

func TestAForwarderThatDropsEDNSIsAskedWithoutIt(t *testing.T) {
	var dropped atomic.Int64
	s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		if m.IsEdns0() != nil {
			dropped.Add(1)
			return
		}
		plain(w, m)
	})
	p := pool(t, dnsio.Options{OneTry: 400 * time.Millisecond}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at})
	for range 6 {
		if r, err := p.Ask(t.Context(), withEDNS()); err != nil || len(r.Answer) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if n := dropped.Load(); n != 3 {
		t.Errorf("EDNS was tried %d times, want three in a row", n)
	}
}

func TestAFormatErrorOfAServerWithEDNSIsItsAnswer(t *testing.T) {
	s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg).SetRcode(m, dns.RcodeFormatError)
		r.SetEdns0(1232, false)
		_ = w.WriteMsg(r)
	})
	p := pool(t, dnsio.Options{}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at})
	r, err := p.Ask(t.Context(), withEDNS())
	if err != nil || r.Rcode != dns.RcodeFormatError || s.asked.Load() != 1 {
		t.Errorf("%v, %v after %d queries", r, err, s.asked.Load())
	}
}

// Signatures, and the reason of a failure (RFC 8914), come by EDNS alone: silence
// does not make an answer without it good enough.
func TestSilenceCostsNeitherSignaturesNorTheReasonOfAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		do    bool
		rcode int
	}{
		"a validator asks":           {do: true, rcode: dns.RcodeSuccess},
		"the plain query has failed": {rcode: dns.RcodeServerFailure},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
				if m.IsEdns0() == nil {
					_ = w.WriteMsg(new(dns.Msg).SetRcode(m, c.rcode))
				}
			})
			p := pool(t, dnsio.Options{OneTry: 200 * time.Millisecond}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at})
			q := question()
			q.SetEdns0(1232, c.do)
			if r, err := p.Ask(t.Context(), q); err == nil {
				t.Errorf("the reply without EDNS was taken:\n%v", r)
			}
		})
	}
}
