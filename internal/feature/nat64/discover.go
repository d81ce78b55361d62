package nat64

import (
	"net/netip"
	"slices"
	"time"

	"weft/internal/translate"
)

// Discovery finds the prefix of the network's translator. It handles router
// advertisements, DNS answers and the time. Only one goroutine may use it.
type Discovery struct {
	by       Discover
	received map[announcement]time.Time // until when it holds
	servers  map[netip.Addr]time.Time
	dns      []netip.Prefix
	chosen   netip.Prefix
	ask      time.Time
	failed   int
}

type announcement struct {
	router netip.Addr
	prefix netip.Prefix
}

// announcementsMax bounds the number of prefixes and of name servers that are stored.
const announcementsMax = 64

// How long to wait between two questions for ipv4only.arpa: after failures
// more and more, and never longer than this, whatever the TTL.
const (
	askFirst = time.Second
	askLeast = 30 * time.Second
	askMost  = time.Hour
)

// NewDiscovery starts with the prefix that was last known; it stays valid until another
// one is found.
func NewDiscovery(by Discover, before netip.Prefix, now time.Time) *Discovery {
	return &Discovery{by: by, received: map[announcement]time.Time{}, servers: map[netip.Addr]time.Time{}, chosen: before, ask: now}
}

// Hear handles a PREF64 option (RFC 8781 section 5); lifetime 0 withdraws the prefix.
func (d *Discovery) Receive(router netip.Addr, prefix netip.Prefix, lifetime time.Duration, now time.Time) {
	if d.by == DiscoverDNS || !legalLength(prefix.Bits()) {
		return
	}
	a := announcement{router, prefix.Masked()}
	if lifetime == 0 {
		delete(d.received, a)
		d.withdrawn(a.prefix)
		return
	}
	if _, known := d.received[a]; known || len(d.received) < announcementsMax {
		d.received[a] = now.Add(lifetime)
	}
}

// ReceiveServer handles a name server of a router advertisement.
func (d *Discovery) ReceiveServer(server netip.Addr, lifetime time.Duration, now time.Time) {
	if lifetime == 0 {
		delete(d.servers, server)
		return
	}
	if _, known := d.servers[server]; known || len(d.servers) < announcementsMax {
		if len(d.servers) == 0 {
			d.ask = now // the first server is known
		}
		d.servers[server] = now.Add(lifetime)
	}
}

// Servers returns the name servers of router advertisements.
func (d *Discovery) Servers(now time.Time) []netip.Addr {
	var list []netip.Addr
	for s, until := range d.servers {
		if until.After(now) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// AskAt is the time of the next query for ipv4only.arpa; false: none.
func (d *Discovery) AskAt() (time.Time, bool) { return d.ask, d.by != DiscoverPREF64 }

// Answered takes the AAAA records of ipv4only.arpa. None says that the network
// has no DNS64 (RFC 7050 section 3).
func (d *Discovery) Answered(addresses []netip.Addr, ttl time.Duration, now time.Time) {
	d.dns, d.failed = PrefixesIn(addresses), 0
	d.ask = now.Add(min(max(ttl, askLeast), askMost))
}

// Failed handles a query without an answer: the known prefix stays valid.
func (d *Discovery) Failed(now time.Time) {
	d.ask = now.Add(min(askFirst<<min(d.failed, 12), askMost))
	d.failed++
}

// Prefix returns the prefix that holds at now. Advertisements count more than
// the DNS (RFC 8781 section 5.1 leaves it to the host; they are closer), and
// the one that is in use more than others of its kind.
func (d *Discovery) Prefix(now time.Time) netip.Prefix {
	var list []netip.Prefix
	expired := false
	for a, until := range d.received {
		if !until.After(now) {
			delete(d.received, a)
			expired = true
			continue
		}
		list = append(list, a.prefix)
	}
	if len(list) == 0 {
		list = slices.Clone(d.dns)
	}
	switch {
	case slices.Contains(list, d.chosen):
	case len(list) > 0:
		slices.SortFunc(list, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		d.chosen = list[0]
	case expired || d.dns != nil:
		d.chosen = netip.Prefix{}
	}
	return d.chosen
}

// withdrawn says that a router took a prefix back.
func (d *Discovery) withdrawn(prefix netip.Prefix) {
	if d.chosen != prefix {
		return
	}
	for a := range d.received {
		if a.prefix == d.chosen {
			return // another router still has it
		}
	}
	if !slices.Contains(d.dns, d.chosen) {
		d.chosen = netip.Prefix{}
	}
}

// PrefixesIn finds the prefixes in the addresses of ipv4only.arpa: where the
// well-known IPv4 addresses stand in them (RFC 7050 section 3, RFC 6052
// section 2.2). An address that could be read in two ways is no help.
func PrefixesIn(addresses []netip.Addr) []netip.Prefix {
	list := []netip.Prefix{}
	known := []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 0, 170}), netip.AddrFrom4([4]byte{192, 0, 0, 171})}
	for _, a := range addresses {
		if !a.Is6() || a.Is4In6() {
			continue
		}
		var fits []netip.Prefix
		for _, bits := range []int{96, 64, 56, 48, 40, 32} {
			p := netip.PrefixFrom(a, bits).Masked()
			if v4, ok := translate.Extract(p, a); ok && slices.Contains(known, v4) {
				fits = append(fits, p)
			}
		}
		if len(fits) == 1 && !slices.Contains(list, fits[0]) {
			list = append(list, fits[0])
		}
	}
	return list
}
