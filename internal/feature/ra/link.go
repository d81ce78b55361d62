package ra

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/state"
	"weft/wire/dhcp6"
)

// Links answers the hosts on links that other packages own, like subscribers' sessions:
// router solicitations and DHCPv6. It keeps no state: each link has one address, one
// advertised and one delegated prefix, for any host on it.
type Links struct{}

// linkSettings are those of a link: what [ra.NAME] has by default.
func linkSettings(l state.HostLink) Settings {
	c := defaults("")
	s := Settings{
		Lifetime: c.Lifetime, Interval: c.MaxInterval, Preference: c.Preference, HopLimit: c.HopLimit,
		Managed: l.Address.IsValid(), Other: true, MTU: max(l.MTU, 1280), DNS: l.DNS, Search: l.Search, PREF64: l.PREF64,
		DHCPv6: DHCPStateful, Preferred: c.Preferred, Valid: c.Valid,
	}
	s.Portal = l.Portal
	for _, p := range l.Routes {
		s.Routes = append(s.Routes, Route{Prefix: p, Preference: PreferenceMedium, Lifetime: c.Lifetime})
	}
	if l.Prefix.IsValid() {
		// not on link: what the subscriber does not have itself is behind the router
		s.Prefixes = []AnnouncedPrefix{{Prefix: l.Prefix, Autonomous: l.Prefix.Bits() == 64, Preferred: c.Preferred, Valid: c.Valid}}
	}
	return s
}

// Advertisement returns the ICMPv6 message, its checksum left open.
func (Links) Advertisement(l state.HostLink) ([]byte, error) {
	b, err := ndp.MarshalMessage(linkSettings(l).Message(nil))
	if err != nil {
		return nil, fmt.Errorf("write router advertisement: %w", err)
	}
	return b, nil
}

// Again is how long to wait after the n-th advertisement, from 1.
func (Links) Again(n int, random func(time.Duration) time.Duration) time.Duration {
	return linkSettings(state.HostLink{}).wait(maxInitial-n, random)
}

// Answer answers a DHCPv6 message; nil: no answer. unicast: the client sent it to the
// router's unicast address, although no Server Unicast option allows it (RFC 8415
// section 18.4).
func (Links) Answer(l state.HostLink, message []byte, unicast bool) []byte {
	m, err := dhcp6.Parse(message)
	if err != nil {
		return nil
	}
	// DUID-EN (RFC 8415 section 11.3)
	id := append([]byte{0, 2, 0, 0, 0xff, 0xff}, l.Server...)
	if !valid(m, id) {
		return nil
	}
	reply := &dhcp6.Message{Type: dhcp6.Reply, Transaction: m.Transaction, ClientID: m.ClientID, ServerID: id}
	x := exchange{settings: linkSettings(l), bindings: &ownOf{link: l}, m: m, reply: reply}
	if unicast {
		if !x.toAll() {
			return nil
		}
	} else if !x.answer() {
		return nil
	}
	b, err := reply.Marshal()
	if err != nil {
		return nil
	}
	return b
}

// ownOf gives out what a link has, to the first association of a message that
// asks for it.
type ownOf struct {
	link  state.HostLink
	given [2]bool
}

func (o *ownOf) has(kind Kind) netip.Prefix {
	if kind == KindPrefix {
		return o.link.Delegated
	}
	if a := o.link.Address; a.IsValid() {
		return netip.PrefixFrom(a, 128)
	}
	return netip.Prefix{}
}

func (o *ownOf) take(kind Kind, none dhcp6.Status) (netip.Prefix, dhcp6.Status) {
	i := 0
	if kind == KindPrefix {
		i = 1
	}
	p := o.has(kind)
	if !p.IsValid() || o.given[i] {
		return netip.Prefix{}, none
	}
	o.given[i] = true
	return p, dhcp6.Success
}

func (o *ownOf) offer(b Binding, _ dhcp6.IA) (netip.Prefix, dhcp6.Status) {
	if b.Kind == KindPrefix {
		return o.take(b.Kind, dhcp6.NoPrefixAvail)
	}
	return o.take(b.Kind, dhcp6.NoAddrsAvail)
}

func (o *ownOf) extend(b Binding, _ dhcp6.IA) (netip.Prefix, dhcp6.Status) {
	return o.take(b.Kind, dhcp6.NoBinding)
}

func (o *ownOf) fits(kind Kind, p netip.Prefix) bool { return p.IsValid() && p == o.has(kind) }

func (o *ownOf) commit(Binding, netip.Prefix) bool { return true }

// giveBack: what a link has stays its own until the link ends.
func (o *ownOf) giveBack(b Binding, list []dhcp6.Lease) bool {
	for _, l := range list {
		if o.fits(b.Kind, l.Prefix) {
			return true
		}
	}
	return false
}
