package dns64_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/feature/dns64"
)

// One answer out of the cache, without the network.
func BenchmarkCached(b *testing.B) {
	s := settings()
	up := &zone{data: map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}}, ad: map[string]bool{}}
	at := time.Unix(1e9, 0)
	r := dns64.NewResolver(dns64.Outside{Upstream: up, Now: func() time.Time { return at }, After: time.After, Start: func(task func(context.Context)) { go task(context.Background()) }}, s)
	m := new(dns.Msg)
	m.SetQuestion("h.example.", dns.TypeAAAA)
	client := netip.MustParseAddr(member)
	for b.Loop() {
		if reply := r.Handle(context.Background(), client, m, true); len(reply.Answer) != 1 {
			b.Fatal(reply)
		}
	}
}
