package nat64

import (
	"net/netip"
	"sync/atomic"

	"weft/internal/config"
	"weft/internal/state"
	"weft/internal/translate"
)

// Slow is the slow path of one translator: the Go translator, fed with the
// packets that the programs hand up. It keeps count of what became of them.
type Slow struct {
	Name   string
	Device string

	current atomic.Pointer[slowConfig]
	counts  [state.OutcomeCount]atomic.Uint64
	limit   *limiter
	now     func() int64

	parts *translate.Reassembler
	syns  *syns
}

type slowConfig struct {
	translate *translate.Config
	local     map[netip.Addr]bool
	bindings  translate.Bindings // nil: stateless
	nodes     []netip.Prefix     // of a CLAT: the only sources there may be
}

// NewSlow makes the slow path of [nat64.NAME]. now tells the time; identification
// gives random numbers; bindings is the state of stateful translators.
func NewSlow(name string, now func() int64, identification func() uint32, bindings translate.Bindings, f *config.File, facts state.Facts) *Slow {
	s := &Slow{Name: name, Device: From(f, name).Device, limit: &limiter{now: now}, now: now, parts: translate.NewReassembler(), syns: newSYNs()}
	s.Update(identification, bindings, f, facts)
	return s
}

// SendAllErrors takes the limit off ICMP errors, for a trace that is to show
// every one.
func (s *Slow) SendAllErrors() { s.limit.off = true }

// Images returns what a translated packet has in the place of the address a.
func (s *Slow) Images(a netip.Addr) []netip.Addr {
	table := s.current.Load().translate.Table
	to := table.To4
	if a.Is4() {
		to = table.To6
	}
	if image, ok := to(a); ok {
		return []netip.Addr{image}
	}
	return nil
}

// Update changes to another configuration between two packets.
func (s *Slow) Update(identification func() uint32, bindings translate.Bindings, f *config.File, facts state.Facts) {
	c := effective(f, facts, s.Name)
	t := c.Reference(f, facts)
	t.Identification = identification
	local := map[netip.Addr]bool{}
	for _, l := range facts.Links {
		for _, a := range l.Addresses {
			local[a.Addr()] = true
		}
	}
	if c.Mode != StatefulMode {
		bindings = nil
	}
	s.limit.perSecond.Store(int64(c.ErrorsPerSecond))
	s.current.Store(&slowConfig{t, local, bindings, c.nodes4()})
}

// Reference returns the Go translator that does what the section says. The
// stack routes before or after it, so it counts no TTL down.
func (c *Config) Reference(f *config.File, facts state.Facts) *translate.Config {
	var mappings []translate.Mapping
	for _, m := range c.Mappings {
		mappings = append(mappings, translate.Mapping{IPv6: m.IPv6, IPv4: m.IPv4, IPv4Nodes: m.ofIPv4Nodes()})
	}
	t := &translate.Config{
		Table:          translate.NewTable(c.Prefix, mappings),
		Prefixes:       c.prefixes(),
		Translatable:   c.Nodes(f),
		LowestIPv6MTU:  lowestMTU(f, facts, c),
		MTU6:           largestMTU(f, facts, c),
		ComputeUDPZero: c.ComputesUDPZero(),
		CopyTOS:        c.CopyTrafficClass,
		ClampMSS:       c.TCPMSSClamp,
		GlobalOnly:     c.Prefix == wellKnown(),
		ErrorSource4:   c.ErrorSource,
	}
	if c.TCPMSSClamp {
		t.MaxMSS = c.maxMSS(f, facts)
	}
	t.Router4, t.Router6 = routerAddresses(f, facts, c)
	return t
}

// routerAddresses returns the addresses that errors come from: the first global
// ones of the interfaces that the translator serves.
func routerAddresses(f *config.File, facts state.Facts, c *Config) (v4, v6 netip.Addr) {
	for _, name := range c.Interfaces {
		i := f.Interface(name)
		l, _ := facts.Link(i.Device)
		for _, a := range append(append([]netip.Prefix{}, i.Addresses...), l.Addresses...) {
			addr := a.Addr()
			switch {
			case addr.IsLinkLocalUnicast():
			case addr.Is4() && !v4.IsValid():
				v4 = addr
			case addr.Is6() && !v6.IsValid():
				v6 = addr
			}
		}
	}
	return v4, v6
}

// Answer is a packet that the slow path sends.
type Answer struct {
	Bytes []byte
	Local bool // its source is an address of this host
	Back  int  // index of an interface at which it is to arrive once more, or 0
}

// Handle translates one packet that the programs handed up, and says what is
// to be sent.
func (s *Slow) Handle(ip []byte, how state.Arrival) []Answer {
	if how.Why == state.SlowBeforeStack {
		if normalised, ok := translate.Normalise4(ip); ok {
			s.count(state.PassNormalised)
			return []Answer{{Bytes: normalised, Back: how.Index}}
		}
	}
	c := s.current.Load()
	r := s.translate4or6(c, ip, how)
	// A packet that passes before the stack does not pass the FORWARD chain, which could
	// limit it. Its answer is an ICMP error from an address that no host has, and is limited
	// like other ICMP errors.
	if r.Out != nil && how.Why == state.SlowBeforeStack && !s.limit.allow() {
		r = translate.Result{Outcome: state.DropSlowLimit}
	}
	s.count(r.Outcome)
	var answers []Answer
	for _, out := range r.Out {
		answers = append(answers, Answer{Bytes: out, Local: c.local[source(out)]})
	}
	// ICMP errors are rate-limited, RFC 4443 2.4 (f), RFC 1812 4.3.2.8
	if r.Reply != nil && s.limit.allow() {
		answers = append(answers, Answer{Bytes: r.Reply, Local: c.local[source(r.Reply)]})
	}
	return answers
}

// translate4or6 translates one packet, knowing how it came.
func (s *Slow) translate4or6(c *slowConfig, ip []byte, how state.Arrival) translate.Result {
	t := *c.translate
	stateful := translate.Stateful{Bindings: c.bindings, Parts: s.parts}
	switch {
	case c.outsider(ip):
		return translate.Result{Outcome: state.DropSourceUnmapped}
	case len(ip) > 0 && ip[0]>>4 == 4:
		t.MTU4 = how.MTUIn
		if how.MTUOut != 0 {
			t.MTU6 = how.MTUOut
		}
		// the stack has routed it, unless it was taken before that or made here
		t.DecrementTTL = how.Why == state.SlowBeforeStack
		t.RestoreTTL = !t.DecrementTTL && how.Index != 0
		if c.bindings != nil {
			return s.keepSYN(stateful.Translate4(&t, s.now(), ip), ip)
		}
		return t.Translate4(ip)
	case len(ip) > 0 && ip[0]>>4 == 6:
		t.MTU4 = how.MTUOut
		if how.MTUIn != 0 {
			t.MTU6 = how.MTUIn
		}
		if c.bindings != nil {
			return stateful.Translate6(&t, s.now(), ip)
		}
		return t.Translate6(ip)
	}
	return translate.Result{Outcome: state.PassNotIp}
}

func (s *Slow) count(o state.Outcome) {
	if int(o) < len(s.counts) {
		s.counts[o].Add(1)
	}
}

// Counts returns what became of the packets, by outcome.
func (s *Slow) Counts() map[state.Outcome]uint64 {
	m := map[state.Outcome]uint64{}
	for o := range s.counts {
		if n := s.counts[o].Load(); n > 0 {
			m[state.Outcome(o)] = n
		}
	}
	return m
}

// source returns the source address of an IP packet.
func source(ip []byte) netip.Addr {
	if len(ip) >= 20 && ip[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(ip[12:16]))
	}
	if len(ip) >= 40 && ip[0]>>4 == 6 {
		return netip.AddrFrom16([16]byte(ip[8:24]))
	}
	return netip.Addr{}
}
