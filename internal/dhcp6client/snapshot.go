package dhcp6client

import (
	"net/netip"
	"time"

	"weft/internal/timer"
)

// Snapshot is what a client knows, for the next process: what the server gave lasts, and
// hosts behind this router notice nothing.
type Snapshot struct {
	Router    time.Time                  `json:"router,omitzero"`
	Received  bool                       `json:"heard,omitempty"`
	Solicits  int                        `json:"solicits,omitempty"`
	Prefixes  map[netip.Prefix]time.Time `json:"prefixes,omitempty"`
	DNS       []netip.Addr               `json:"dns,omitempty"`
	Server    []byte                     `json:"server,omitempty"`
	Delegated netip.Prefix               `json:"delegated,omitzero"`
	Preferred time.Time                  `json:"preferred,omitzero"` // until when Delegated is
	Valid     time.Time                  `json:"valid,omitzero"`
	Address   netip.Addr                 `json:"address,omitzero"`
	Renew     time.Time                  `json:"renew,omitzero"`
	Rebind    time.Time                  `json:"rebind,omitzero"`
	Ends      time.Time                  `json:"ends,omitzero"`
}

// Snapshot returns what the client knows.
func (c *Client) Snapshot() *Snapshot {
	return &Snapshot{
		Router: c.router, Received: c.received, Solicits: c.solicits, Prefixes: c.prefixes, DNS: c.dns, Server: c.server, Delegated: c.delegated,
		Preferred: c.ends.Preferred, Valid: c.ends.Valid, Address: c.address, Renew: c.renewAt, Rebind: c.rebindAt, Ends: c.endsAt,
	}
}

// Restore goes on where the process before has stopped. What was not finished
// begins again; a lease is renewed when it is due.
func Restore(k *Snapshot, config Config, link Link, now time.Time) *Client {
	c := New(config, link, now)
	k = k.anchored(now)
	c.router, c.received, c.dns, c.server, c.delegated, c.address, c.endsAt = k.Router, k.Received, k.DNS, k.Server, k.Delegated, k.Address, k.Ends
	c.ends = Ends{Preferred: k.Preferred, Valid: k.Valid}
	for p, until := range k.Prefixes {
		c.prefixes[p] = until
	}
	if k.Received || k.Solicits > solicitTimes {
		c.solicitAt, c.solicits = time.Time{}, k.Solicits
	}
	if len(k.Server) > 0 && !k.Ends.IsZero() && (k.Delegated.IsValid() || k.Address.IsValid()) {
		c.phase, c.renewAt, c.rebindAt = bound, k.Renew, k.Rebind
	}
	return c
}

// anchored is a copy whose times go on from now, whatever becomes of the wall clock.
func (k *Snapshot) anchored(now time.Time) *Snapshot {
	held := *k
	for _, at := range []*time.Time{&held.Router, &held.Preferred, &held.Valid, &held.Renew, &held.Rebind, &held.Ends} {
		*at = timer.Anchored(*at, now)
	}
	held.Prefixes = map[netip.Prefix]time.Time{}
	for p, until := range k.Prefixes {
		held.Prefixes[p] = timer.Anchored(until, now)
	}
	return &held
}
