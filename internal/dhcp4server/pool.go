package dhcp4server

import (
	"container/list"
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"net/netip"
	"time"

	"weft/internal/limit"
	"weft/internal/timer"
	"weft/wire/dhcp4"
)

// entry is an address that is not free.
type entry struct {
	Lease
	server  *Server
	pool    *pool
	key     string // which client it is; "": none
	slot    timer.Slot
	element *list.Element  // in the list of its state
	pending *dhcp4.Message // a DISCOVER that waits for the answer of a probe
	tries   int            // addresses that were probed for it
	until   time.Time      // of an offer or a probe
	probed  time.Time      // when no host had it
	asked   limit.Bucket   // messages of its client
}

// Due is when something happens to the address by itself.
func (e *entry) Due() time.Time {
	switch e.State {
	case Offered:
		return e.until
	case Bound, Declined:
		return e.Ends
	}
	return time.Time{}
}

// Slot is the place of the entry in the server's queue.
func (e *entry) Slot() *timer.Slot { return &e.slot }

// Tick does what is due.
func (e *entry) Tick(now time.Time) {
	switch {
	case e.State == Offered && e.pending != nil:
		e.server.Probed(e.Address, false, now) // the link does not answer
	case e.State == Bound:
		e.server.end(e, Expired, now)
	default:
		e.server.free(e)
	}
}

// pool is the addresses of a subnet. Each address in a range has a bit, which is set while
// it is not free.
type pool struct {
	subnet   *Subnet
	spans    []span
	size     int // addresses in ranges that any client may get
	taken    int // of them
	bound    int // leases in force, of all addresses
	clients  map[string]*entry
	ports    map[string]int
	reserved map[netip.Addr]*Reservation
	lists    map[State]*list.List // offers, what can be given again, what is in quarantine; oldest first
	rate     limit.Bucket         // new clients while there is pressure
}

type span struct {
	first uint32
	n     uint32
	bits  []uint64
}

func number(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }

func addressOf(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func newPool(c *Config, subnet *Subnet) *pool {
	p := &pool{
		subnet: subnet, clients: map[string]*entry{}, ports: map[string]int{}, reserved: map[netip.Addr]*Reservation{},
		lists: map[State]*list.List{Offered: list.New(), Expired: list.New(), Declined: list.New()},
	}
	for _, r := range subnet.Ranges {
		if !r.First.Is4() || !r.Last.Is4() || r.Last.Less(r.First) || !subnet.Prefix.Contains(r.First) || !subnet.Prefix.Contains(r.Last) {
			continue // the configuration refuses it
		}
		n := number(r.Last) - number(r.First) + 1
		p.spans = append(p.spans, span{number(r.First), n, make([]uint64, (int(n)+63)/64)})
		p.size += int(n)
	}
	never := []netip.Addr{c.Address}
	if first := subnet.Prefix.Masked().Addr(); subnet.Prefix.Bits() < 31 { // the network, and its broadcast address
		never = append(never, first, addressOf(number(first)|(1<<(32-subnet.Prefix.Bits())-1)))
	}
	for i := range c.Reservations {
		if r := &c.Reservations[i]; r.Address.IsValid() && subnet.Prefix.Contains(r.Address) {
			p.reserved[r.Address] = r
			never = append(never, r.Address)
		}
	}
	for _, a := range never {
		if w, mask, ok := p.bit(a); ok && *w&mask == 0 {
			*w |= mask
			p.size--
		}
	}
	return p
}

// bit is where the bit of an address is.
func (p *pool) bit(a netip.Addr) (word *uint64, mask uint64, ok bool) {
	if !a.Is4() {
		return nil, 0, false
	}
	for i := range p.spans {
		if x := &p.spans[i]; number(a)-x.first < x.n {
			at := number(a) - x.first
			return &x.bits[at/64], 1 << (at % 64), true
		}
	}
	return nil, 0, false
}

// gives reports whether the pool has the address for any client or for one.
func (p *pool) gives(a netip.Addr) bool {
	_, _, in := p.bit(a)
	return in || p.reserved[a] != nil
}

// search returns a free address, from that on which a client's key chooses: it gets the
// same again where it can.
func (p *pool) search(key string) (netip.Addr, bool) {
	if p.taken >= p.size {
		return netip.Addr{}, false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	start := int(h.Sum32())
	for i := range p.spans {
		x := &p.spans[(start+i)%len(p.spans)]
		words := len(x.bits)
		begin := start % int(x.n) // of the first word, the bits before it come last
		for k := range words + 1 {
			w := (begin/64 + k) % words
			free := ^x.bits[w]
			switch k {
			case 0:
				free &= ^uint64(0) << (begin % 64)
			case words:
				free &= 1<<(begin%64) - 1
			}
			if w == words-1 && x.n%64 != 0 {
				free &= 1<<(x.n%64) - 1
			}
			if free != 0 {
				return addressOf(x.first + uint32(w*64+bits.TrailingZeros64(free))), true
			}
		}
	}
	return netip.Addr{}, false
}

// offersMost is how many offers may be open: those of a flood take no more.
func (p *pool) offersMost() int { return max(8, p.size/4) }

// quarantineMost is how many addresses clients can decline at once.
func (p *pool) quarantineMost() int { return max(1, p.size/4) }

// allocate finds an address for a client that has none: a free one, then that of a lease
// that has ended, the one that ended first, then one that was in quarantine longest, then
// the oldest offer that no client has accepted.
func (s *Server) allocate(p *pool, key string, now time.Time) *entry {
	if o := p.lists[Offered]; o.Len() >= p.offersMost() {
		return s.recycle(o, key, now)
	}
	if len(s.at) < s.config.MostLeases {
		if a, ok := p.search(key); ok {
			return s.claim(p, a, key, now)
		}
	}
	for _, state := range []State{Expired, Declined, Offered} {
		if e := s.recycle(p.lists[state], key, now); e != nil {
			return e
		}
	}
	s.stats.Exhausted++
	return nil
}

func (s *Server) recycle(l *list.List, key string, now time.Time) *entry {
	for x := l.Front(); x != nil; x = x.Next() {
		old := x.Value.(*entry)
		if old.pool.reserved[old.Address] != nil {
			continue
		}
		p, a, probed := old.pool, old.Address, old.probed
		s.free(old)
		e := s.claim(p, a, key, now)
		e.probed = probed
		return e
	}
	return nil
}

// claim makes an offer of an address that is free.
func (s *Server) claim(p *pool, a netip.Addr, key string, now time.Time) *entry {
	e := &entry{Lease: Lease{Address: a, State: Offered, Since: now, Key: []byte(key)}, server: s, pool: p, key: key, until: now.Add(offerTime)}
	s.add(e)
	return e
}

// add puts an entry into all tables.
func (s *Server) add(e *entry) {
	p := e.pool
	s.at[e.Address] = e
	if w, mask, ok := p.bit(e.Address); ok && p.reserved[e.Address] == nil {
		*w |= mask
		p.taken++
	}
	if e.key != "" {
		p.clients[e.key] = e
	}
	s.enlist(e)
}

// enlist puts an entry into the list of its state, last, and into the queue.
func (s *Server) enlist(e *entry) {
	state := e.State
	if state == Released {
		state = Expired
	}
	if l := e.pool.lists[state]; l != nil {
		e.element = l.PushBack(e)
	}
	if e.State == Bound {
		e.pool.bound++
		e.pool.ports[e.port()]++
	}
	s.timers.Arm(e)
}

// delist takes an entry out of the list of its state.
func (s *Server) delist(e *entry) {
	if e.element != nil {
		for _, l := range e.pool.lists {
			l.Remove(e.element) // which does nothing in another list
		}
		e.element = nil
	}
	if e.State == Bound {
		e.pool.bound--
		if n := e.port(); e.pool.ports[n] <= 1 {
			delete(e.pool.ports, n)
		} else {
			e.pool.ports[n]--
		}
	}
	if e.pending != nil {
		e.pending = nil
		s.probing--
	}
}

// port is the port of the client, as its relay agent names it.
func (e *entry) port() string {
	if len(e.Circuit)+len(e.Remote) == 0 {
		return ""
	}
	return string(e.Remote) + "\x00" + string(e.Circuit)
}

// set changes the state of an entry, and what the store holds of it.
func (s *Server) set(e *entry, state State) {
	s.delist(e)
	e.State = state
	s.enlist(e)
	s.changed(e)
}

func (s *Server) changed(e *entry) {
	if e.State != Offered {
		s.out.Changes = append(s.out.Changes, e.Lease)
	}
}

// free forgets an entry.
func (s *Server) free(e *entry) {
	p := e.pool
	s.unname(e)
	kept := e.State != Offered
	s.delist(e)
	s.timers.Disarm(e)
	if s.at[e.Address] == e {
		delete(s.at, e.Address)
		if w, mask, ok := p.bit(e.Address); ok && p.reserved[e.Address] == nil {
			*w &^= mask
			p.taken--
		}
	}
	if p.clients[e.key] == e {
		delete(p.clients, e.key)
	}
	if e.State = Free; kept {
		s.changed(e)
	}
}

// end ends a lease; its client is remembered.
func (s *Server) end(e *entry, state State, now time.Time) {
	s.unname(e)
	e.Ends = now
	s.set(e, state)
}

// quarantine keeps an address that a host has without a lease.
func (s *Server) quarantine(e *entry, now time.Time) {
	s.stats.Conflicts++
	p := e.pool
	s.unname(e)
	if p.clients[e.key] == e {
		delete(p.clients, e.key)
	}
	s.delist(e)
	e.State = Free // no lease of a client any more
	e.Lease = Lease{Address: e.Address, State: Declined, Since: now, Ends: now.Add(quarantineTime), Key: []byte{}}
	e.key, e.probed = "", time.Time{}
	s.enlist(e)
	s.changed(e)
	if l := p.lists[Declined]; l.Len() > p.quarantineMost() {
		s.free(l.Front().Value.(*entry))
	}
}
