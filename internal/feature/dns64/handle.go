package dns64

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"
)

// Handle answers one message of a client's, nil if it gets no answer. Over UDP
// the answer fits what the client can take.
func (r *Resolver) Handle(ctx context.Context, client netip.Addr, m *dns.Msg, udp bool) *dns.Msg {
	s := r.settings.Load()
	client = client.Unmap()
	if udp {
		r.stats.count(evQueriesUDP)
	} else {
		r.stats.count(evQueriesTCP)
	}
	if !allowed(s, client) {
		r.stats.count(evRefused)
		if s.Ignore {
			return nil
		}
		return refuse(m, dns.RcodeRefused)
	}
	if !r.limit.allow(client, r.now()) {
		r.stats.count(evLimited)
		return nil
	}
	if reply, e := unfit(m); reply != nil {
		r.stats.count(e)
		return reply
	}
	asked, opt := m.Question[0], m.IsEdns0()
	q := ask(asked.Name, asked.Qtype, opt != nil && opt.Do(), m.CheckingDisabled)
	a := r.resolve(ctx, q, rulesFor(s.Rules, client), s)
	switch a.rcode {
	case dns.RcodeServerFailure:
		r.stats.count(evServfail)
	case dns.RcodeNameError:
		r.stats.count(evNXDomain)
	}
	reply := compose(m, a, asked.Name)
	if udp {
		reply.Truncate(udpSize(opt))
		if reply.Truncated {
			r.stats.count(evTruncated)
		}
	} else {
		reply.Truncate(dns.MaxMsgSize)
	}
	return reply
}

// unfit returns the answer to what is not a question that is answered here.
func unfit(m *dns.Msg) (*dns.Msg, event) {
	opt := m.IsEdns0()
	switch {
	case m.Opcode != dns.OpcodeQuery:
		return refuse(m, dns.RcodeNotImplemented), evMalformed
	case len(m.Question) != 1 || m.Response:
		return refuse(m, dns.RcodeFormatError), evMalformed
	case opt != nil && opt.Version() != 0: // RFC 6891 section 6.1.3
		reply := refuse(m, dns.RcodeBadVers)
		return reply, evMalformed
	case !m.RecursionDesired, m.Question[0].Qclass != dns.ClassINET: // do not reveal the content of the cache
		return refuse(m, dns.RcodeRefused), evRefused
	}
	switch m.Question[0].Qtype {
	case dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILA, dns.TypeMAILB, dns.TypeTKEY, dns.TypeTSIG, dns.TypeOPT:
		return refuse(m, dns.RcodeRefused), evRefused
	}
	return nil, 0
}

// refuse answers with no more than a code.
func refuse(m *dns.Msg, rcode int) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetRcode(m, rcode&0xf)
	if rcode == dns.RcodeFormatError && len(m.Question) > 1 {
		reply.Question = nil
	}
	reply.RecursionAvailable = true
	if m.IsEdns0() != nil {
		reply.SetEdns0(ednsSize, false)
		reply.Rcode = rcode
	}
	return reply
}

// compose makes the message (RFC 6147 section 5.4). name is as the client wrote it.
func compose(m *dns.Msg, a *answer, name string) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(m)
	reply.Rcode, reply.RecursionAvailable, reply.Compress = a.rcode, true, true
	reply.CheckingDisabled = m.CheckingDisabled
	reply.Answer, reply.Ns, reply.Extra = a.answer, a.ns, a.extra
	opt := m.IsEdns0()
	// AD is for those who understand it (RFC 6840 section 5.8)
	reply.AuthenticatedData = a.ad && !a.failed() && (m.AuthenticatedData || opt != nil && opt.Do())
	if opt == nil {
		if a.rcode > 0xf {
			reply.Rcode = dns.RcodeServerFailure
		}
		return reply
	}
	reply.Extra = append(reply.Extra[:len(reply.Extra):len(reply.Extra)], answerOPT(opt, a))
	return reply
}

func answerOPT(asked *dns.OPT, a *answer) *dns.OPT {
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(ednsSize)
	if asked.Do() {
		opt.SetDo()
	}
	if a.ede != nil {
		opt.Option = append(opt.Option, a.ede)
	}
	return opt
}

// udpSize is the largest answer that a client takes over UDP (RFC 6891 section
// 6.2.3), and never so large that it would be fragmented.
func udpSize(opt *dns.OPT) int {
	if opt == nil {
		return dns.MinMsgSize
	}
	return min(max(int(opt.UDPSize()), dns.MinMsgSize), ednsSize)
}
