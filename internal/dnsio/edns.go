package dnsio

import (
	"time"

	"github.com/miekg/dns"
)

// edns is what is known of a forwarder that does not understand EDNS: it
// rejects the OPT record (RFC 6891 section 7), or drops messages with one.
type edns struct {
	silent int       // times in a row that it answered only the query without EDNS
	until  time.Time // queries have no OPT record until then
}

const (
	ednsSilent = 3               // a lost packet alone proves nothing
	ednsRetry  = 5 * time.Minute // then EDNS is tried again
)

func (p *peer) withoutEDNS(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Before(p.edns.until)
}

// learnEDNS notes which of the two queries was answered.
func (p *peer) learnEDNS(withEDNS bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if withEDNS {
		p.edns = edns{}
	} else if p.edns.silent++; p.edns.silent >= ednsSilent {
		p.edns = edns{until: now.Add(ednsRetry)}
	}
}

func (p *peer) rejectedEDNS(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edns = edns{until: now.Add(ednsRetry)}
}

// rejectsEDNS reports whether a reply is that of a server which does not
// implement EDNS (RFC 6891 section 7).
func rejectsEDNS(reply *dns.Msg) bool {
	return reply.IsEdns0() == nil && (reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented)
}

// plain returns the query without its OPT record, with an identifier of its
// own; nil if it has no such record.
func plain(m *dns.Msg, o Options) *dns.Msg {
	if m.IsEdns0() == nil {
		return nil
	}
	c := m.Copy()
	if c.Id = o.ID(); c.Id == m.Id {
		c.Id++
	}
	c.Extra = nil
	for _, r := range m.Extra {
		if _, opt := r.(*dns.OPT); !opt {
			c.Extra = append(c.Extra, r)
		}
	}
	return c
}
