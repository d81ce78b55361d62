package dns64_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/feature/dns64"
)

// raw answers every question with one message.
type raw struct{ m *dns.Msg }

func (r raw) Ask(context.Context, *dns.Msg) (*dns.Msg, error) {
	if r.m == nil {
		return nil, errors.New("no server answered")
	}
	return r.m.Copy(), nil
}

// replace gives the bench a resolver with another upstream.
func (b *bench) replace(u dns64.Upstream) {
	b.Resolver = dns64.NewResolver(dns64.Outside{
		Upstream: u, Now: b.clock.now, After: func(time.Duration) <-chan time.Time { return b.after },
		Start: func(task func(context.Context)) { b.tasks.Go(func() { task(context.Background()) }) },
	}, settings())
}

func FuzzForwarder(f *testing.F) {
	for _, s := range []string{"192.0.2.53", "[2001:db8::1]:53", "tls://9.9.9.9#dns.example", "tcp://[fe80::1%eth0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to, what, _ := dns64.ParseForwarder(s)
		if what != "" {
			return
		}
		if again, what, _ := dns64.ParseForwarder(to.String()); what != "" || again != to {
			t.Errorf("%q is %v, and again %v (%s)", s, to, again, what)
		}
	})
}
