package dhcp4server

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/wire/dhcp4"
)

// reply answers with an address of the pool; d is the time of the lease.
func (s *Server) reply(r *request, kind dhcp4.Type, e *entry, d time.Duration) {
	m := s.answer(r, kind)
	m.Your = e.Address
	if kind == dhcp4.Ack {
		m.Client = r.Client
	}
	seconds := d.Truncate(time.Second)
	m.Options.Set(dhcp4.Seconds(dhcp4.OptionLeaseTime, seconds), dhcp4.Seconds(dhcp4.OptionRenewal, seconds/2), dhcp4.Seconds(dhcp4.OptionRebinding, seconds*7/8))
	if kind == dhcp4.Ack && r.Type() == dhcp4.Discover {
		m.Options.Set(dhcp4.Bytes(dhcp4.OptionRapidCommit, []byte{}))
	}
	s.configure(m, r, e.pool)
	s.send(m, r)
}

// inform gives a host with an address of its own the rest (RFC 2131 section 4.3.5).
func (s *Server) inform(r *request) {
	a := r.Client
	if !a.IsValid() {
		a = r.from
	}
	for _, p := range s.pools {
		if a.IsValid() && p.subnet.Prefix.Contains(a) {
			m := s.answer(r, dhcp4.Ack)
			m.Client = a
			s.configure(m, r, p)
			r.Client = a
			s.send(m, r)
			return
		}
	}
}

func (s *Server) refuse(r *request, why string) {
	m := s.answer(r, dhcp4.Nak)
	m.Broadcast = m.Broadcast || r.Relay.IsValid() // the relay agent is to broadcast it
	m.Options.Set(dhcp4.Text(dhcp4.OptionMessage, why))
	s.tail(m, r)
	s.send(m, r)
}

func (s *Server) answer(r *request, kind dhcp4.Type) *dhcp4.Message {
	return &dhcp4.Message{
		Op: dhcp4.BootReply, HardwareType: r.HardwareType, Hardware: r.Hardware, Transaction: r.Transaction, Broadcast: r.Broadcast, Relay: r.Relay,
		Options: dhcp4.Options{dhcp4.Uint8(dhcp4.OptionType, uint8(kind)), dhcp4.Addresses(dhcp4.OptionServerID, r.server)},
	}
}

// tail adds what comes back as it came: the client's identifier (RFC 6842), and what the
// relay agent said (RFC 3046).
func (s *Server) tail(m *dhcp4.Message, r *request) {
	for _, code := range []uint8{dhcp4.OptionClientID, dhcp4.OptionRelayAgent} {
		if d := r.Options.Get(code); d != nil {
			m.Options.Set(dhcp4.Bytes(code, d))
		}
	}
}

// own are options that the configuration does not set.
func own(code uint8) bool {
	switch code {
	case dhcp4.OptionType, dhcp4.OptionServerID, dhcp4.OptionLeaseTime, dhcp4.OptionRenewal, dhcp4.OptionRebinding, dhcp4.OptionClientID, dhcp4.OptionRelayAgent,
		dhcp4.OptionOverload, dhcp4.OptionRequested, dhcp4.OptionAddress, dhcp4.OptionMaxSize, dhcp4.OptionRapidCommit, dhcp4.OptionPad, dhcp4.OptionEnd:
		return true
	}
	return false
}

// configure adds what the configuration has for the client: what is reserved for it always,
// the rest if it asks, or if it does not say what it wants.
func (s *Server) configure(m *dhcp4.Message, r *request, p *pool) {
	m.Options.Set(dhcp4.Mask(p.subnet.Prefix.Bits()))
	s.tail(m, r)
	s.boot(m, r)
	res := s.reservation(p, r.key, r.text)
	var all dhcp4.Options
	if res != nil {
		if res.HostName != "" {
			all = append(all, dhcp4.Text(dhcp4.OptionHostName, HostName(res.HostName)))
		}
		for _, o := range res.Options {
			if !own(o.Code) {
				m.Options.Set(o)
			}
		}
	}
	all = append(append(all, p.subnet.Options...), s.config.Options...)
	add := func(o dhcp4.Option) {
		if !own(o.Code) && !m.Options.Has(o.Code) {
			m.Options.Set(o)
		}
	}
	list := r.Options.Get(dhcp4.OptionRequested)
	if list == nil {
		for _, o := range all {
			if o.Code != dhcp4.OptionIPv6Only { // for those that ask, alone (RFC 8925 section 3.3)
				add(o)
			}
		}
		return
	}
	for _, code := range list[:min(len(list), 255)] {
		if i := slices.IndexFunc(all, func(o dhcp4.Option) bool { return o.Code == code }); i >= 0 {
			add(all[i])
		}
	}
}

// boot says where the client boots from, if the configuration has something for it.
func (s *Server) boot(m *dhcp4.Message, r *request) {
	arch, known := r.Options.Uint16(dhcp4.OptionArchitecture)
	classes := r.Options.UserClasses()
	for _, b := range s.config.Boot {
		if len(b.Architectures) > 0 && !(known && slices.Contains(b.Architectures, arch)) || b.UserClass != "" && !slices.Contains(classes, b.UserClass) {
			continue
		}
		m.NextServer = b.Server
		if len(b.File) < 128 {
			m.File = b.File
		}
		if len(b.ServerName) < 64 {
			m.ServerName = b.ServerName
		}
		list := r.Options.Get(dhcp4.OptionRequested)
		if b.File != "" && (slices.Contains(list, dhcp4.OptionBootFile) || len(b.File) >= 128) {
			m.Options.Set(dhcp4.Text(dhcp4.OptionBootFile, b.File))
		}
		if name := b.ServerName; slices.Contains(list, dhcp4.OptionBootServer) && (name != "" || b.Server.IsValid()) {
			if name == "" {
				name = b.Server.String()
			}
			m.Options.Set(dhcp4.Text(dhcp4.OptionBootServer, name))
		}
		if strings.HasPrefix(r.Options.Text(dhcp4.OptionVendorClass), "HTTPClient") { // UEFI wants it back
			m.Options.Set(dhcp4.Text(dhcp4.OptionVendorClass, "HTTPClient"))
		}
		return
	}
}

// send sends a reply to where the client receives it (RFC 2131 section 4.1).
func (s *Server) send(m *dhcp4.Message, r *request) {
	size, _ := r.Options.Uint16(dhcp4.OptionMaxSize)
	b, _, err := m.Marshal(min(dhcp4.SizeFor(size), 1472))
	if err != nil {
		return // a configuration that no message can hold
	}
	kind := m.Type()
	s.stats.Sent[kind]++
	all := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	out := Reply{Message: b, To: netip.AddrPortFrom(all, dhcp4.ClientPort)}
	switch {
	case r.Relay.IsValid():
		out.To = netip.AddrPortFrom(r.Relay, dhcp4.ServerPort)
	case kind == dhcp4.Nak:
	case r.Client.IsValid():
		out.To = netip.AddrPortFrom(r.Client, dhcp4.ClientPort)
	case !r.Broadcast && len(r.Hardware) == 6:
		out.To, out.Hardware = netip.AddrPortFrom(m.Your, dhcp4.ClientPort), r.Hardware
	}
	s.out.Replies = append(s.out.Replies, out)
}
