package ra

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"weft/internal/timer"
	"weft/wire/dhcp6"
)

// DHCP answers DHCPv6 on one link (RFC 8415 section 18.3). It is fed messages
// and the time, and is used by one goroutine. Link by link it can serve any
// clients: those of an Ethernet and those behind a tunnel.
type DHCP struct {
	settings Settings
	id       []byte
	leases   *leases
	store    Store
	declined map[netip.Prefix]bool
	resting  []declined // those, the first to be free again first
	stats    DHCPStats
}

// DHCPStats counts messages.
type DHCPStats struct {
	Received  uint64 `json:"received"`
	Answered  uint64 `json:"answered"`
	Discarded uint64 `json:"discarded"` // not valid, or for another server
	Exhausted uint64 `json:"exhausted"` // nothing was free
	Unkept    uint64 `json:"unkept"`    // not answered because the lease could not be kept
}

// Change is a lease that came, changed its peer, or went.
type Change struct {
	Lease Lease
	Gone  bool
}

// declined is an address that a client found in use.
type declined struct {
	prefix netip.Prefix
	until  time.Time
}

// declinedFor is how long an address rests that a client found in use.
const declinedFor = time.Hour

// refresh is when clients without leases should ask again (RFC 8415 section 21.23).
const refresh = 4 * time.Hour

// NewDHCP makes a server with the leases that were kept, whose time goes on from
// now whatever becomes of the wall clock. Its identifier is
// made of the link's own address (DUID-LL, section 11.4).
func NewDHCP(s Settings, store Store, kept []Lease, now time.Time) *DHCP {
	d := &DHCP{leases: newLeases(), store: store, declined: map[netip.Prefix]bool{}}
	d.Update(s)
	for _, l := range kept {
		l.Until = timer.Anchored(l.Until, now)
		d.leases.put(l)
	}
	return d
}

// Update changes what is given out. Leases that are given stay until their
// time is over; they are not renewed if they do not fit.
func (d *DHCP) Update(s Settings) {
	d.settings = s
	d.leases.vacant.reset()
	if d.id == nil {
		d.id = append([]byte{0, 3, 0, 1}, s.MAC[:]...)
	}
}

// Leases returns the leases, those whose time is over too until Expire.
func (d *DHCP) Leases() []Lease { return d.leases.all() }

// Stats returns what was done so far.
func (d *DHCP) Stats() DHCPStats { return d.stats }

// Expire takes leases away whose time is over.
func (d *DHCP) Expire(now time.Time) []Change {
	var changes []Change
	for _, l := range d.leases.expired(now) {
		changes = append(changes, d.forget(l.Binding)...)
	}
	for len(d.resting) > 0 && !d.resting[0].until.After(now) {
		delete(d.declined, d.resting[0].prefix)
		d.leases.vacant.add(d.resting[0].prefix)
		d.resting = d.resting[1:]
	}
	return changes
}

// forget takes a lease away; a store that does not keep up is no harm: the
// lease runs out there too.
func (d *DHCP) forget(b Binding) []Change {
	l, ok := d.leases.drop(b)
	if !ok {
		return nil
	}
	_ = d.store.Delete(l)
	return []Change{{Lease: l, Gone: true}}
}

// Handle answers one message; nil is no answer. peer is the client's
// link-local address.
func (d *DHCP) Handle(m *dhcp6.Message, peer netip.Addr, now time.Time) (*dhcp6.Message, []Change) {
	d.stats.Received++
	if !d.valid(m) || d.settings.DHCPv6 == DHCPStateless && m.Type != dhcp6.InformationRequest {
		d.stats.Discarded++
		return nil, nil
	}
	changes := d.Expire(now)
	reply := &dhcp6.Message{Type: dhcp6.Reply, Transaction: m.Transaction, ClientID: m.ClientID, ServerID: d.id}
	from := pools{DHCP: d, peer: peer.WithZone(""), now: now, changes: changes, message: m.Type}
	x := exchange{settings: d.settings, bindings: &from, m: m, reply: reply, now: now}
	if !x.answer() {
		return nil, from.changes
	}
	d.stats.Answered++
	return reply, from.changes
}

func (d *DHCP) valid(m *dhcp6.Message) bool { return valid(m, d.id) }

// valid is RFC 8415 section 16: which identifiers a message to the server id
// must have.
func valid(m *dhcp6.Message, id []byte) bool {
	client, server := len(m.ClientID) > 0, len(m.ServerID) > 0
	ours := bytes.Equal(m.ServerID, id)
	switch m.Type {
	case dhcp6.Solicit, dhcp6.Confirm, dhcp6.Rebind:
		return client && !server
	case dhcp6.Request, dhcp6.Renew, dhcp6.Release, dhcp6.Decline:
		return client && ours
	case dhcp6.InformationRequest:
		return (!server || ours) && len(m.Addresses) == 0 && len(m.Prefixes) == 0
	}
	return false
}

// pools are the bindings of a link that has pools, for one message.
type pools struct {
	*DHCP
	message dhcp6.Type
	peer    netip.Addr
	now     time.Time
	changes []Change
}

// offer finds what a client gets: what it has, else what it wishes, else what
// is free.
func (x *pools) offer(b Binding, ia dhcp6.IA) (netip.Prefix, dhcp6.Status) {
	none := dhcp6.NoAddrsAvail
	pools, bits := x.settings.Pool, 128
	if b.Kind == KindPrefix {
		none, pools, bits = dhcp6.NoPrefixAvail, x.settings.Delegate, x.settings.DelegateBits
	}
	if has, ok := x.leases.byBinding[b]; ok && x.fits(b.Kind, has.Prefix) {
		return has.Prefix, dhcp6.Success
	}
	if _, known := x.leases.byBinding[b]; !known && (len(x.leases.byBinding) >= leasesMax || x.leases.perClient[b.Client] >= bindingsMax) {
		x.stats.Exhausted++
		return netip.Prefix{}, none
	}
	for _, wish := range ia.Leases {
		if wish.Prefix.IsValid() && x.fits(b.Kind, wish.Prefix) && x.free(wish.Prefix) {
			return wish.Prefix, dhcp6.Success
		}
	}
	p, ok := x.leases.find(pools, bits, b, x.free)
	if !ok {
		x.stats.Exhausted++
		return p, none
	}
	return p, dhcp6.Success
}

// extend renews the lease of a client. A lease that this server has forgotten is granted
// again if no other client has got it meanwhile (RFC 8415 sections 18.3.4 and 18.3.5).
func (x *pools) extend(b Binding, ia dhcp6.IA) (netip.Prefix, dhcp6.Status) {
	if has, ok := x.leases.byBinding[b]; ok && x.fits(b.Kind, has.Prefix) {
		return has.Prefix, dhcp6.Success
	}
	for _, l := range ia.Leases {
		if l.Prefix.IsValid() && x.fits(b.Kind, l.Prefix) && x.free(l.Prefix) && x.leases.perClient[b.Client] < bindingsMax && len(x.leases.byBinding) < leasesMax {
			return l.Prefix, dhcp6.Success
		}
	}
	return netip.Prefix{}, dhcp6.NoBinding
}

// fits reports whether p is something that this link gives out.
func (x *pools) fits(kind Kind, p netip.Prefix) bool {
	pools, bits := x.settings.Pool, 128
	if kind == KindPrefix {
		pools, bits = x.settings.Delegate, x.settings.DelegateBits
	}
	return p.Bits() == bits && p == p.Masked() && slices.ContainsFunc(pools, func(pool netip.Prefix) bool { return within(p, pool) })
}

// free reports whether no client has p. The first address of a subnet is the
// Subnet-Router anycast address (RFC 4291 section 2.6.1).
func (x *pools) free(p netip.Prefix) bool {
	if _, taken := x.leases.byPrefix[p]; taken || slices.Contains(x.settings.Own, p.Addr()) {
		return false
	}
	if x.declined[p] {
		return false
	}
	return p.Bits() != 128 || !slices.ContainsFunc(x.settings.Prefixes, func(l AnnouncedPrefix) bool { return l.Prefix.Addr() == p.Addr() })
}

// commit makes the lease the client's. What cannot be kept is not promised.
func (x *pools) commit(b Binding, p netip.Prefix) bool {
	_, valid := x.settings.bound(p, x.settings.Preferred, x.settings.Valid, x.now)
	l := Lease{Binding: b, Prefix: p, Until: x.now.Add(valid), Peer: x.peer}
	if err := x.store.Put(l); err != nil {
		x.stats.Unkept++
		return false
	}
	was, had := x.leases.byBinding[b]
	if had && was.Prefix != p {
		x.changes = append(x.changes, Change{Lease: was, Gone: true})
	}
	x.leases.put(l)
	if !had || was.Prefix != p || was.Peer != l.Peer {
		x.changes = append(x.changes, Change{Lease: l})
	}
	return true
}

// giveBack takes what a client releases or declines.
func (x *pools) giveBack(b Binding, list []dhcp6.Lease) bool {
	has, ok := x.leases.byBinding[b]
	if ok && slices.ContainsFunc(list, func(l dhcp6.Lease) bool { return l.Prefix == has.Prefix }) {
		x.changes = append(x.changes, x.forget(b)...)
		if x.message == dhcp6.Decline && len(x.declined) < leasesMax {
			x.declined[has.Prefix] = true
			x.resting = append(x.resting, declined{has.Prefix, x.now.Add(declinedFor)})
		}
	}
	return ok
}
