package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/miekg/dns"
)

// Zone is a small part of the DNS, from which NameServer answers like a resolver.
type Zone struct {
	soa     dns.RR
	records map[string][]dns.RR
}

// ReadZone reads a zone file (RFC 1035 section 5). It needs an SOA record.
func ReadZone(r io.Reader) (*Zone, error) {
	z := &Zone{records: map[string][]dns.RR{}}
	p := dns.NewZoneParser(r, ".", "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		if rr.Header().Rrtype == dns.TypeSOA {
			z.soa = rr
		}
		name := dns.CanonicalName(rr.Header().Name)
		z.records[name] = append(z.records[name], rr)
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("read zone: %w", err)
	}
	if z.soa == nil {
		return nil, fmt.Errorf("read zone: it has no SOA record")
	}
	return z, nil
}

// answer follows aliases inside the zone.
func (z *Zone) answer(q *dns.Msg) *dns.Msg {
	r := new(dns.Msg)
	r.SetReply(q)
	r.RecursionAvailable = true
	if opt := q.IsEdns0(); opt != nil {
		r.SetEdns0(1232, opt.Do())
	}
	if len(q.Question) != 1 {
		return r.SetRcode(q, dns.RcodeFormatError)
	}
	name := dns.CanonicalName(q.Question[0].Name)
	for range 8 {
		records, known := z.records[name]
		if !known {
			records, known = z.wildcard(name)
		}
		if !known {
			r.Rcode, r.Ns = dns.RcodeNameError, []dns.RR{z.soa}
			return r
		}
		next := ""
		for _, rr := range records {
			if alias, is := rr.(*dns.CNAME); is {
				next = dns.CanonicalName(alias.Target)
				r.Answer = append(r.Answer, rr)
			} else if rr.Header().Rrtype == q.Question[0].Qtype {
				r.Answer = append(r.Answer, rr)
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	if len(r.Answer) == 0 || r.Answer[len(r.Answer)-1].Header().Rrtype != q.Question[0].Qtype {
		r.Ns = []dns.RR{z.soa}
	}
	return r
}

// wildcard returns the records of the wildcard that a name matches (RFC 4592), as its own.
func (z *Zone) wildcard(name string) (list []dns.RR, known bool) {
	next, end := dns.NextLabel(name, 0)
	if end {
		return nil, false
	}
	records, known := z.records["*."+name[next:]]
	for _, rr := range records {
		own := dns.Copy(rr)
		own.Header().Name = name
		list = append(list, own)
	}
	return list, known
}

// ServeNames answers on an address over UDP and TCP until ctx ends. ready is
// called once it does.
func ServeNames(ctx context.Context, address string, z *Zone, ready func()) error {
	packet, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("listen for questions: %w", err)
	}
	stream, err := net.Listen("tcp", address)
	if err != nil {
		packet.Close()
		return fmt.Errorf("listen for questions: %w", err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		r := z.answer(q)
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			r.Truncate(1232)
		}
		// who asked may have gone
		_ = w.WriteMsg(r)
	})
	var started, tasks sync.WaitGroup
	servers := []*dns.Server{{PacketConn: packet, Handler: handler}, {Listener: stream, Handler: handler}}
	started.Add(len(servers))
	for _, s := range servers {
		s.NotifyStartedFunc = started.Done
		tasks.Go(func() { _ = s.ActivateAndServe() }) // ends when it is shut down
	}
	started.Wait()
	ready()
	<-ctx.Done()
	for _, s := range servers {
		_ = s.Shutdown()
	}
	tasks.Wait()
	return nil
}
