package dnsio

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// IPv6 looks up the IPv6 addresses of a name. A name without any is no error; ttl is
// the lifetime of the answer, zero if no server answered.
func (p *Pool) IPv6(ctx context.Context, name string) (addresses []netip.Addr, ttl time.Duration, err error) {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), dns.TypeAAAA)
	q.SetEdns0(1232, false)
	r, err := p.Ask(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	if r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError {
		return nil, 0, fmt.Errorf("ask for %s: the answer is %s", name, dns.RcodeToString[r.Rcode])
	}
	for _, rr := range r.Answer {
		aaaa, is := rr.(*dns.AAAA)
		if !is {
			continue
		}
		if a, ok := netip.AddrFromSlice(aaaa.AAAA); ok {
			addresses = append(addresses, a)
			ttl = time.Duration(aaaa.Hdr.Ttl) * time.Second
		}
	}
	return addresses, ttl, nil
}
