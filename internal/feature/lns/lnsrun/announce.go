package lnsrun

import (
	"context"
	"net/netip"
	"time"

	"weft/internal/aaa"
	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/subscriber"
	"weft/wire/l2tp"
)

// begunKey is the prefix of the store's keys for sections that have sent
// Accounting-On. The store lives as long as sessions can: until the machine stops.
const begunKey = "begun/"

// announce sends Accounting-On to the RADIUS servers of sections that are new, so that
// the servers close sessions that were open before a reboot (RFC 2866 section 5.1). A
// restart of weft sends none, because sessions continue.
func (s *subscribers) announce(ctx context.Context, f *config.File, now time.Time) {
	for _, name := range f.Names("lns") {
		client := s.accounts.clients[name]
		if client == nil || s.begunHere[name] || !s.keeps {
			continue
		}
		for _, at := range lns.From(f, name).Listen {
			client.Begun(ctx, aaa.Accounting{Section: name, ID: "on-" + name, At: now, Call: aaa.Call{LNS: netip.AddrPortFrom(at, l2tp.Port)}})
		}
		s.begunHere[name] = true
		s.unkept = append(s.unkept, subscriber.Stored{Key: begunKey + name, Value: []byte{1}})
	}
}
