package dhcp4server

import (
	"net/netip"
	"slices"
	"time"

	"weft/internal/limit"
	"weft/wire/dhcp4"
)

// hopsMost is how many relay agents a message may have passed (RFC 1542 section 4.1.1).
const hopsMost = 16

// perClient is how often one client that has a lease is answered.
func perClient() limit.Rate { return limit.Rate{PerSecond: 2, Burst: 20} }

// request is a message of a client, and what is known of it.
type request struct {
	*dhcp4.Message
	key    string
	text   string // its hardware address
	agent  dhcp4.RelayAgent
	port   string
	server netip.Addr // by which identifier the client knows the server
	from   netip.Addr
	pools  []*pool // that it may be given addresses of
}

// Receive takes the payload of a datagram that came to the server's port, and where it
// came from.
func (s *Server) Receive(b []byte, from netip.Addr, now time.Time) {
	s.timers.Set(now)
	m, err := dhcp4.Parse(b)
	if err != nil || m.Op != dhcp4.BootRequest || m.Hops > hopsMost || m.Type() < dhcp4.Discover || m.Type() > dhcp4.Inform {
		s.stats.Malformed++
		return
	}
	r := s.request(m, from)
	if r.key == "" {
		s.stats.Malformed++
		return
	}
	s.stats.Received[m.Type()]++
	for _, p := range r.pools {
		if res := s.reservation(p, r.key, r.text); res != nil && res.Ignore {
			return
		}
	}
	if !s.fast(r, now) {
		s.stats.Limited++
		return
	}
	switch m.Type() {
	case dhcp4.Discover:
		s.discover(r, 0, now)
	case dhcp4.Request:
		s.requested(r, now)
	case dhcp4.Decline:
		if e := s.owned(r, m.Options.Address(dhcp4.OptionAddress)); e != nil && (e.State == Bound || e.State == Offered) {
			s.quarantine(e, now)
		}
	case dhcp4.Release:
		if e := s.owned(r, m.Client); e != nil && e.State == Bound {
			s.end(e, Released, now)
		}
	case dhcp4.Inform:
		s.inform(r)
	}
}

func (s *Server) request(m *dhcp4.Message, from netip.Addr) *request {
	r := &request{Message: m, text: dhcp4.HardwareText(m.Hardware), agent: m.Options.RelayAgent(), server: s.config.Address, from: from}
	switch id := m.Options.Get(dhcp4.OptionClientID); {
	case len(id) >= 2 && len(id) <= 255:
		r.key = "i" + string(id)
	case m.Hardware != "":
		r.key = "h" + string(m.HardwareType) + m.Hardware
	}
	r.port = (&entry{Lease: Lease{Circuit: r.agent.Circuit, Remote: r.agent.Remote}}).port()
	if r.agent.Server.IsValid() {
		r.server = r.agent.Server
	}
	where := r.agent.Link
	if !where.IsValid() {
		where = m.Relay
	}
	if !where.IsValid() && m.Client.IsValid() {
		where = m.Client // it renews past its relay agent
	}
	for _, p := range s.pools {
		if where.IsValid() && p.subnet.Prefix.Contains(where) || !where.IsValid() && p.subnet.Local {
			r.pools = append(r.pools, p)
		}
	}
	return r
}

// fast reports whether a message is to be answered: each client that has a lease has a rate
// of its own, and the others share one.
func (s *Server) fast(r *request, now time.Time) bool {
	for _, p := range r.pools {
		if e := p.clients[r.key]; e != nil && e.State != Offered {
			return e.asked.Take(1, perClient(), now)
		}
	}
	n := s.config.NewPerSecond
	return s.fresh.Take(1, limit.Rate{PerSecond: n, Burst: 2 * n}, now)
}

// reservation returns what is reserved for a client in a subnet.
func (s *Server) reservation(p *pool, key, hardware string) *Reservation {
	var whole *Reservation
	for _, r := range slices.Concat(s.reserved["m"+hardware], s.reserved[key]) {
		switch {
		case r.Address.IsValid() && p.subnet.Prefix.Contains(r.Address):
			return r
		case !r.Address.IsValid():
			whole = r
		}
	}
	return whole
}

// owned returns the entry of an address that is the client's.
func (s *Server) owned(r *request, a netip.Addr) *entry {
	if id := r.Options.Address(dhcp4.OptionServerID); id.IsValid() && id != r.server {
		return nil
	}
	if e := s.at[a]; e != nil && e.key == r.key && slices.Contains(r.pools, e.pool) {
		return e
	}
	return nil
}

// discover offers an address. Tried is how many were found in use before.
func (s *Server) discover(r *request, tried int, now time.Time) {
	for _, p := range r.pools {
		e := s.choose(p, r, now)
		if e == nil {
			continue
		}
		if s.probe(e, r, tried, now) {
			return
		}
		s.offer(e, r, now)
		return
	}
}

// choose returns the address that a client gets: its reservation, what it has or had, what
// it asks for, or another.
func (s *Server) choose(p *pool, r *request, now time.Time) *entry {
	if res := s.reservation(p, r.key, r.text); res != nil && res.Address.IsValid() {
		e := s.at[res.Address]
		if e != nil && e.key == r.key {
			return s.touch(e, now)
		}
		if e == nil || e.State != Declined {
			return s.claimFor(p, res.Address, r, now)
		}
	}
	if e := p.clients[r.key]; e != nil {
		if p.reserved[e.Address] == nil {
			return s.touch(e, now)
		}
		s.free(e) // it is reserved for another client now
	}
	if s.config.PerPort > 0 && r.port != "" && p.ports[r.port] >= s.config.PerPort {
		s.stats.Limited++
		return nil
	}
	a := r.Options.Address(dhcp4.OptionAddress)
	if s.usable(p, a) && p.lists[Offered].Len() < p.offersMost() && len(s.at) < s.config.MostLeases {
		return s.claim(p, a, r.key, now)
	}
	return s.allocate(p, r.key, now)
}

// usable reports whether an address of a range is free: no lease, reservation, the
// server's own, the network's or its broadcast.
func (s *Server) usable(p *pool, a netip.Addr) bool {
	w, mask, ok := p.bit(a)
	return ok && *w&mask == 0
}

// touch makes an entry the last that another client would get.
func (s *Server) touch(e *entry, now time.Time) *entry {
	if e.element != nil && e.State != Declined {
		for _, l := range e.pool.lists {
			l.MoveToBack(e.element) // which does nothing in another list
		}
	}
	if e.State == Offered {
		e.until = now.Add(offerTime)
		s.timers.Arm(e)
	}
	return e
}

// claimFor makes an address the client's, whatever client had it, and frees the one that
// it had.
func (s *Server) claimFor(p *pool, a netip.Addr, r *request, now time.Time) *entry {
	if e := s.at[a]; e != nil {
		s.free(e)
	}
	if e := p.clients[r.key]; e != nil {
		s.free(e)
	}
	return s.claim(p, a, r.key, now)
}

// probe asks the link whether a host has the address, unless the client had it, or no host
// had it a moment ago. It reports whether the offer waits for the answer.
func (s *Server) probe(e *entry, r *request, tried int, now time.Time) bool {
	if e.pending != nil {
		e.pending = r.Message // the latest
		return true
	}
	if s.config.NoProbe || e.State != Offered || s.probing >= probingMost || !e.probed.IsZero() && now.Sub(e.probed) < probedTime {
		return false
	}
	e.pending, e.tries, e.until = r.Message, tried, now.Add(probeTime)
	s.probing++
	s.timers.Arm(e)
	s.out.Probes = append(s.out.Probes, e.Address)
	return true
}

// Probed is the answer to a probe: whether a host has the address.
func (s *Server) Probed(a netip.Addr, taken bool, now time.Time) {
	s.timers.Set(now)
	e := s.at[a]
	if e == nil || e.pending == nil {
		return
	}
	r, tried := s.request(e.pending, netip.Addr{}), e.tries+1
	e.pending = nil
	s.probing--
	if taken {
		s.quarantine(e, now)
		if tried < probeTries {
			s.discover(r, tried, now)
		}
		return
	}
	e.probed, e.until = now, now.Add(offerTime)
	s.timers.Arm(e)
	s.offer(e, r, now)
}

func (s *Server) offer(e *entry, r *request, now time.Time) {
	if s.config.RapidCommit && r.Options.Has(dhcp4.OptionRapidCommit) {
		s.commit(e, r, now)
		return
	}
	s.reply(r, dhcp4.Offer, e, s.leaseTime(e, r))
}

// requested gives a client the address that it accepts or has, or refuses it.
func (s *Server) requested(r *request, now time.Time) {
	id, a := r.Options.Address(dhcp4.OptionServerID), r.Options.Address(dhcp4.OptionAddress)
	if id.IsValid() && id != r.server {
		for _, p := range r.pools { // it has chosen another server
			if e := p.clients[r.key]; e != nil && e.State == Offered {
				s.free(e)
			}
		}
		return
	}
	if !a.IsValid() {
		a = r.Client
	}
	i := slices.IndexFunc(r.pools, func(p *pool) bool { return p.subnet.Prefix.Contains(a) })
	if !a.IsValid() || i < 0 {
		if a.IsValid() && (id.IsValid() || s.config.Authoritative) {
			s.refuse(r, "wrong network")
		}
		return
	}
	p, e := r.pools[i], s.at[a]
	own := e != nil && e.key == r.key && e.State != Declined
	res := s.reservation(p, r.key, r.text)
	mine := res != nil && res.Address == a
	switch why := s.why(p, a, e, r, res); {
	case why == "" && own:
		s.commit(e, r, now)
	case why == "" && (id.IsValid() || mine || s.config.Authoritative):
		if s.mayClaim(p, e, r, mine) {
			s.commit(s.claimFor(p, a, r, now), r, now)
		}
	case why != "" && (own || id.IsValid() || s.config.Authoritative):
		s.refuse(r, why)
	}
}

// why says why a client cannot have an address; "": it can.
func (s *Server) why(p *pool, a netip.Addr, e *entry, r *request, res *Reservation) string {
	declined := e != nil && e.State == Declined
	switch {
	case declined:
		return "address is in use by another host"
	case res != nil && res.Address == a:
		return ""
	case res != nil && res.Address.IsValid() && (s.at[res.Address] == nil || s.at[res.Address].State != Declined):
		return "another address is reserved for the client"
	case p.reserved[a] != nil:
		return "address is reserved for another client"
	case e != nil && e.key == r.key:
		return ""
	case !p.gives(a) || e == nil && !s.usable(p, a):
		return "address is not given here"
	case e != nil && e.State != Offered: // the first that accepts an offer has it
		return "address is another client's"
	}
	return ""
}

// mayClaim reports whether a new client may have an address that was not offered to it.
func (s *Server) mayClaim(p *pool, e *entry, r *request, mine bool) bool {
	return mine || e != nil || p.clients[r.key] != nil || len(s.at) < s.config.MostLeases
}

// commit gives a lease, or a longer one.
func (s *Server) commit(e *entry, r *request, now time.Time) {
	p := e.pool
	res := s.reservation(p, r.key, r.text)
	if e.State == Offered && res == nil && !s.admits(p, r.port, r.Hardware, now) {
		s.stats.Limited++
		return
	}
	d := s.leaseTime(e, r)
	s.delist(e)
	if e.State != Bound {
		e.Since = now
	}
	e.State, e.Ends, e.Hardware, e.ClientID = Bound, now.Add(d), r.text, r.Options.Get(dhcp4.OptionClientID)
	e.Vendor, e.Circuit, e.Remote = r.Options.Text(dhcp4.OptionVendorClass), r.agent.Circuit, r.agent.Remote
	s.enlist(e)
	wanted := r.Options.Text(dhcp4.OptionHostName)
	if fqdn := r.Options.Get(dhcp4.OptionFQDN); wanted == "" && len(fqdn) > 3 && fqdn[0]&4 == 0 { // RFC 4702: ASCII
		wanted = string(fqdn[3:])
	}
	if res != nil && res.HostName != "" {
		wanted = res.HostName
	}
	s.name(e, wanted)
	s.changed(e)
	s.reply(r, dhcp4.Ack, e, d)
}

// leaseTime is how long a lease is: what the client asks for, within bounds, and short for
// a new client while many addresses are in use.
func (s *Server) leaseTime(e *entry, r *request) time.Duration {
	d := s.config.LeaseTime
	if n, ok := r.Options.Uint32(dhcp4.OptionLeaseTime); ok {
		d = min(max(time.Duration(n)*time.Second, s.config.ShortestTime), s.config.LongestTime)
	}
	if e.State == Offered && e.pool.pressed() && e.pool.reserved[e.Address] == nil {
		d = min(d, probation)
	}
	return d
}
