package session

import (
	"fmt"
	"net/netip"

	"weft/internal/state"
)

// IPv4 protocol numbers of the transports that RFC 6146 translates.
const (
	ICMP = 1
	TCP  = 6
	UDP  = 17
)

// Ticks are the unit of time; how long one is does not matter here.
type Ticks uint32

// Timers are the lifetimes of idle sessions (RFC 6146 section 4).
type Timers struct{ UDP, ICMP, Established, Transitory Ticks }

// Rules are what a translator binds by.
type Rules struct {
	Prefix         netip.Prefix // RFC 6052
	Embed          func(v4 netip.Addr) netip.Addr
	Pools          []state.Pool
	Timers         Timers
	Filtering      state.Filtering
	SubscriberBits int
	PortsMax       int // of one subscriber; 0: no limit
	SubscriberMax  int // sessions of one subscriber; 0: no limit
	SessionsMax    int // of all
	Static         []state.StaticBinding
}

// Packet is what the state needs of a packet. The port of an echo is its
// identifier, at both ends.
type Packet struct {
	Protocol uint8
	From, To netip.AddrPort // as the packet has them
	Flags    uint8          // TCP; for an echo 1 is a request
}

// Session is one entry of the session table, known by its IPv4 side.
type Session struct {
	State         State
	Expires       Ticks
	Client        netip.AddrPort // IPv6
	Remote6       netip.Addr
	Pool, Remote4 netip.AddrPort
	Protocol      uint8
}

type end struct {
	protocol uint8
	at       netip.AddrPort
}

type link struct {
	protocol     uint8
	pool, remote netip.AddrPort
}

type binding struct {
	pool     netip.AddrPort
	sessions int
}

type subscriber struct{ ports, sessions int }

// Table holds bindings (BIB) and sessions.
type Table struct {
	rules       Rules
	bindings    map[end]*binding // by client
	owners      map[end]netip.AddrPort
	sessions    map[link]*Session
	subscribers map[netip.Prefix]*subscriber
}

// New makes an empty table.
func New(r Rules) *Table {
	return &Table{
		rules: r, bindings: map[end]*binding{}, owners: map[end]netip.AddrPort{},
		sessions: map[link]*Session{}, subscribers: map[netip.Prefix]*subscriber{},
	}
}

// Counts returns how many bindings and sessions there are.
func (t *Table) Counts() (bindings, sessions int) { return len(t.bindings), len(t.sessions) }

// Sessions calls yield for each session.
func (t *Table) Sessions(yield func(Session)) {
	for _, s := range t.sessions {
		yield(*s)
	}
}

// Expire ends the sessions whose time is up, and the bindings that only they
// held (RFC 6146 section 3.1).
func (t *Table) Expire(now Ticks) {
	for k, s := range t.sessions {
		if int32(s.Expires-now) <= 0 {
			delete(t.sessions, k)
			t.release(s)
		}
	}
}

func (t *Table) release(s *Session) {
	who := t.subscriberOf(s.Client.Addr())
	t.subscribers[who].sessions--
	key := end{s.Protocol, s.Client}
	b := t.bindings[key]
	if b.sessions--; b.sessions == 0 {
		delete(t.bindings, key)
		delete(t.owners, end{s.Protocol, b.pool})
		t.subscribers[who].ports--
	}
	if *t.subscribers[who] == (subscriber{}) {
		delete(t.subscribers, who)
	}
}

func (t *Table) subscriberOf(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(t.rules.SubscriberBits)
	return p
}

// Outbound takes a packet from IPv6 to the IPv4 address to. Where a new binding
// is made, chosen is the pool's address and port that it gets. It gives the
// source that the packet leaves with.
func (t *Table) Outbound(now Ticks, p Packet, to netip.AddrPort, chosen netip.AddrPort) (netip.AddrPort, state.Outcome, error) {
	t.Expire(now)
	b := t.bindings[end{p.Protocol, p.From}]
	if b != nil {
		if s := t.sessions[linkOf(p.Protocol, b.pool, to)]; s != nil {
			t.touch(now, s, p, true)
			return b.pool, state.OutcomeNone, nil
		}
	}
	switch {
	case t.rules.Prefix.Contains(p.From.Addr()):
		return netip.AddrPort{}, state.DropIllegalAddress, nil
	case opens(p):
		return t.open(now, p, session{client: p.From, remote6: p.To.Addr(), remote4: to, from6: true}, chosen)
	case b == nil:
		return netip.AddrPort{}, state.DropNoBinding, nil
	}
	return b.pool, state.OutcomeNone, nil
}

// Inbound takes a packet from IPv4 to an address of the pools. It gives the
// addresses that the packet goes on with.
func (t *Table) Inbound(now Ticks, p Packet) (from, to netip.AddrPort, o state.Outcome, err error) {
	t.Expire(now)
	if s := t.sessions[linkOf(p.Protocol, p.To, p.From)]; s != nil {
		t.touch(now, s, p, false)
		return netip.AddrPortFrom(s.Remote6, p.From.Port()), s.Client, state.OutcomeNone, nil
	}
	remote6 := t.rules.Embed(p.From.Addr())
	from = netip.AddrPortFrom(remote6, p.From.Port())
	client, bound := t.owners[end{p.Protocol, p.To}]
	static, fixed := t.static4(p.Protocol, p.To)
	if !bound {
		client = static
	}
	switch {
	case !bound && !fixed:
		return from, to, state.DropNoBinding, nil
	case !fixed && !t.letsIn(p):
		if p.Protocol == TCP && opens(p) {
			return from, to, state.SlowSyn, nil
		}
		return from, to, state.DropFiltered, nil
	case opens(p):
		_, o, err := t.open(now, p, session{client: client, remote6: remote6, remote4: p.From}, p.To)
		return from, client, o, err
	case !bound:
		return from, to, state.DropNoBinding, nil
	}
	return from, client, state.OutcomeNone, nil
}

// letsIn reports whether a binding's filter accepts a packet that belongs to no
// session (RFC 6146 section 3.5).
func (t *Table) letsIn(p Packet) bool {
	switch t.rules.Filtering {
	case state.FilterNone:
		return true
	case state.FilterAddress:
		for k := range t.sessions {
			if k.protocol == p.Protocol && k.pool == p.To && k.remote.Addr() == p.From.Addr() {
				return true
			}
		}
	}
	return false
}

// opens reports whether a packet may begin a session.
func opens(p Packet) bool {
	switch p.Protocol {
	case TCP:
		return p.Flags&(SYN|RST) == SYN
	case ICMP:
		return p.Flags == 1
	}
	return true
}

func linkOf(protocol uint8, pool, remote netip.AddrPort) link {
	if protocol == ICMP {
		remote = netip.AddrPortFrom(remote.Addr(), pool.Port())
	}
	return link{protocol, pool, remote}
}

func (t *Table) static4(protocol uint8, pool netip.AddrPort) (netip.AddrPort, bool) {
	for _, s := range t.rules.Static {
		if s.Protocol == protocol && s.IPv4 == pool {
			return s.IPv6, true
		}
	}
	return netip.AddrPort{}, false
}

func (t *Table) static6(protocol uint8, client netip.AddrPort) (netip.AddrPort, bool) {
	for _, s := range t.rules.Static {
		if s.Protocol == protocol && s.IPv6 == client {
			return s.IPv4, true
		}
	}
	return netip.AddrPort{}, false
}

// session is what open makes one from.
type session struct {
	client  netip.AddrPort
	remote6 netip.Addr
	remote4 netip.AddrPort
	from6   bool
}

// open makes a session, and the binding if there is none.
func (t *Table) open(now Ticks, p Packet, s session, chosen netip.AddrPort) (netip.AddrPort, state.Outcome, error) {
	who := t.subscriberOf(s.client.Addr())
	u := t.subscribers[who]
	if u == nil {
		u = &subscriber{}
	}
	if t.rules.SubscriberMax != 0 && u.sessions >= t.rules.SubscriberMax {
		return chosen, state.DropSubscriberLimit, nil
	}
	key := end{p.Protocol, s.client}
	b, made := t.bindings[key], false
	if b == nil {
		made = true
		if t.rules.PortsMax != 0 && u.ports >= t.rules.PortsMax {
			return chosen, state.DropSubscriberLimit, nil
		}
		if !t.free(p.Protocol, s.client) {
			return chosen, state.DropPoolExhausted, nil
		}
		if len(t.sessions) >= t.rules.SessionsMax {
			return chosen, state.DropTableFull, nil
		}
		if err := t.legal(p.Protocol, s.client, chosen); err != nil {
			return chosen, state.OutcomeNone, err
		}
		b = &binding{pool: chosen}
	}
	if !s.from6 && b.pool != p.To {
		return chosen, state.DropNoBinding, nil
	}
	if len(t.sessions) >= t.rules.SessionsMax {
		return chosen, state.DropTableFull, nil
	}
	if made {
		t.bindings[key], t.owners[end{p.Protocol, b.pool}] = b, s.client
		u.ports++
	}
	b.sessions++
	u.sessions++
	t.subscribers[who] = u
	entry := &Session{
		Client: s.client, Remote6: s.remote6, Pool: b.pool, Remote4: s.remote4, Protocol: p.Protocol,
		Expires: now + lifetime(t.rules.Timers.UDP),
	}
	switch p.Protocol {
	case ICMP:
		entry.Expires = now + lifetime(t.rules.Timers.ICMP)
	case TCP: // RFC 5382 REQ-5
		entry.Expires, entry.State = now+t.rules.Timers.Transitory, V4Init
		if s.from6 {
			entry.State = V6Init
		}
	}
	k := linkOf(p.Protocol, b.pool, s.remote4)
	entry.Remote4 = k.remote
	t.sessions[k] = entry
	return b.pool, state.OutcomeNone, nil
}

// SlackMax is how much longer than its timer a session may live, at most: it is
// touched when it has less than its timer left, and then gets a 16th more.
const SlackMax = 240

func lifetime(timer Ticks) Ticks { return timer + min(timer/16, SlackMax) }

func (t *Table) touch(now Ticks, s *Session, p Packet, from6 bool) {
	next, start := s.State, udp
	switch p.Protocol {
	case TCP:
		next, start = nextTCP(s.State, from6, p.Flags)
	case ICMP:
		start = icmp
	}
	timers := t.rules.Timers
	var timer, life Ticks
	switch start {
	case keep:
		s.State = next
		return
	case udp:
		timer, life = timers.UDP, lifetime(timers.UDP)
	case icmp:
		timer, life = timers.ICMP, lifetime(timers.ICMP)
	case established:
		timer, life = timers.Established, lifetime(timers.Established)
	case transitory:
		timer, life = timers.Transitory, timers.Transitory
	}
	if next == s.State && int32(s.Expires-now) >= int32(timer) {
		return
	}
	s.State, s.Expires = next, now+life
}

// free reports whether any legal port is left for client.
func (t *Table) free(protocol uint8, client netip.AddrPort) bool {
	if pool, ok := t.static6(protocol, client); ok {
		_, taken := t.owners[end{protocol, pool}]
		return !taken
	}
	for _, p := range t.rules.Pools {
		for a := p.Prefix.Masked().Addr(); p.Prefix.Contains(a); a = a.Next() {
			for port := int(p.Low); port <= int(p.High); port++ {
				if t.legal(protocol, client, netip.AddrPortFrom(a, uint16(port))) == nil {
					return true
				}
			}
		}
	}
	return false
}

// legal returns why a new binding of client may not have a port.
func (t *Table) legal(protocol uint8, client, chosen netip.AddrPort) error {
	if pool, ok := t.static6(protocol, client); ok {
		if pool != chosen {
			return fmt.Errorf("%s has the static binding %s, not %s", client, pool, chosen)
		}
		return nil
	}
	if _, taken := t.owners[end{protocol, chosen}]; taken {
		return fmt.Errorf("%s is taken", chosen)
	}
	if _, fixed := t.static4(protocol, chosen); fixed {
		return fmt.Errorf("%s is a static binding's", chosen)
	}
	for _, p := range t.rules.Pools {
		if p.Prefix.Contains(chosen.Addr()) && chosen.Port() >= p.Low && chosen.Port() <= p.High {
			// RFC 4787 REQ-3 b: high ports stay high
			if protocol != ICMP && p.Low < 1024 && p.High >= 1024 && client.Port() >= 1024 && chosen.Port() < 1024 {
				return fmt.Errorf("%d became %d", client.Port(), chosen.Port())
			}
			return nil
		}
	}
	return fmt.Errorf("%s is in no pool", chosen)
}
