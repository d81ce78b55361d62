package ra

import (
	"net/netip"
	"slices"
	"time"

	"weft/wire/dhcp6"
)

// bindings is where leases come from: pools, or what a link has once and for all.
type bindings interface {
	// offer finds what a client gets; extend what it may keep.
	offer(b Binding, ia dhcp6.IA) (netip.Prefix, dhcp6.Status)
	extend(b Binding, ia dhcp6.IA) (netip.Prefix, dhcp6.Status)
	// fits tells whether p is something that this link gives out.
	fits(kind Kind, p netip.Prefix) bool
	// commit makes p the client's; false: it cannot be promised.
	commit(b Binding, p netip.Prefix) bool
	// giveBack takes what a client releases or declines; false: it has nothing.
	giveBack(b Binding, list []dhcp6.Lease) bool
}

// exchange is one message and its answer (RFC 8415 section 18.3), wherever the
// leases come from.
type exchange struct {
	settings Settings
	bindings
	m, reply *dhcp6.Message
	now      time.Time
}

func status(s dhcp6.Status) *dhcp6.Status { return &s }

// answer fills the reply; false sends none.
func (x *exchange) answer() bool {
	if !x.lease() {
		return false
	}
	x.inform()
	return true
}

// toAll tells a client that its message was to go to all servers (section 18.4);
// false: of such messages nothing is said.
func (x *exchange) toAll() bool {
	switch x.m.Type {
	case dhcp6.Request, dhcp6.Renew, dhcp6.Release, dhcp6.Decline:
		x.reply.Status = status(dhcp6.UseMulticast)
		return true
	}
	return false
}

func (x *exchange) lease() bool {
	switch x.m.Type {
	case dhcp6.InformationRequest:
		return true
	case dhcp6.Solicit:
		if !x.m.RapidCommit {
			x.reply.Type = dhcp6.Advertise
			return x.assign(false, x.offer)
		}
		x.reply.RapidCommit = true
		return x.assign(true, x.offer)
	case dhcp6.Request:
		return x.assign(true, x.offer)
	case dhcp6.Renew, dhcp6.Rebind:
		return x.assign(true, x.extend)
	case dhcp6.Confirm:
		return x.confirm()
	}
	return x.giveThemBack()
}

// assign answers each identity association with what choose finds for it.
func (x *exchange) assign(commit bool, choose func(Binding, dhcp6.IA) (netip.Prefix, dhcp6.Status)) bool {
	each := func(kind Kind, list []dhcp6.IA) (out []dhcp6.IA, ok bool) {
		for _, ia := range list {
			b := Binding{string(x.m.ClientID), ia.ID, kind}
			if x.elsewhere(kind, ia) {
				out = append(out, dhcp6.IA{ID: ia.ID, Status: status(dhcp6.NotOnLink)})
				continue
			}
			p, code := choose(b, ia)
			if code != dhcp6.Success {
				out = append(out, dhcp6.IA{ID: ia.ID, Status: status(code), Leases: x.over(kind, ia, code)})
				continue
			}
			if commit && !x.commit(b, p) {
				return nil, false
			}
			out = append(out, x.granted(ia, p))
		}
		return out, true
	}
	var ok4, ok6 bool
	x.reply.Addresses, ok4 = each(KindAddress, x.m.Addresses)
	x.reply.Prefixes, ok6 = each(KindPrefix, x.m.Prefixes)
	return ok4 && ok6
}

// elsewhere reports whether a client requests addresses of another link (section
// 18.3.2).
func (x *exchange) elsewhere(kind Kind, ia dhcp6.IA) bool {
	return x.m.Type == dhcp6.Request && kind == KindAddress && slices.ContainsFunc(ia.Leases, func(l dhcp6.Lease) bool {
		return l.Prefix.IsValid() && !l.Prefix.Addr().IsUnspecified() && !x.onLink(l.Prefix)
	})
}

func (x *exchange) onLink(p netip.Prefix) bool {
	return x.fits(KindAddress, p) || slices.ContainsFunc(x.settings.Prefixes, func(q AnnouncedPrefix) bool { return q.Prefix.Contains(p.Addr()) })
}

// granted is the answer that gives p, with what the client still has and
// should not use any more at lifetime zero.
func (x *exchange) granted(ia dhcp6.IA, p netip.Prefix) dhcp6.IA {
	preferred, valid := x.settings.bound(p, x.settings.Preferred, x.settings.Valid, x.now)
	out := dhcp6.IA{ID: ia.ID, T1: preferred / 2, T2: preferred * 4 / 5, Leases: []dhcp6.Lease{{Prefix: p, Preferred: preferred, Valid: valid}}}
	if x.m.Type == dhcp6.Renew || x.m.Type == dhcp6.Rebind {
		for _, l := range ia.Leases {
			if l.Prefix.IsValid() && l.Prefix != p && !l.Prefix.Addr().IsUnspecified() {
				out.Leases = append(out.Leases, dhcp6.Lease{Prefix: l.Prefix})
			}
		}
	}
	return out
}

// over tells a client that rebinds that what it has is not for this link
// (section 18.3.5).
func (x *exchange) over(kind Kind, ia dhcp6.IA, code dhcp6.Status) []dhcp6.Lease {
	var list []dhcp6.Lease
	if x.m.Type != dhcp6.Rebind && x.m.Type != dhcp6.Renew || code == dhcp6.NoBinding && x.m.Type == dhcp6.Renew {
		return nil
	}
	for _, l := range ia.Leases {
		if l.Prefix.IsValid() && !x.fits(kind, l.Prefix) {
			list = append(list, dhcp6.Lease{Prefix: l.Prefix})
		}
	}
	return list
}

// confirm tells a client that came back whether its addresses are of this link
// (section 18.3.3).
func (x *exchange) confirm() bool {
	code, asked := dhcp6.Success, false
	for _, ia := range x.m.Addresses {
		for _, l := range ia.Leases {
			asked = true
			if !x.onLink(l.Prefix) {
				code = dhcp6.NotOnLink
			}
		}
	}
	x.reply.Status = status(code)
	return asked
}

// giveThemBack is RFC 8415 sections 18.3.7 and 18.3.8.
func (x *exchange) giveThemBack() bool {
	each := func(kind Kind, list []dhcp6.IA) (unknown []dhcp6.IA) {
		for _, ia := range list {
			if !x.giveBack(Binding{string(x.m.ClientID), ia.ID, kind}, ia.Leases) {
				unknown = append(unknown, dhcp6.IA{ID: ia.ID, Status: status(dhcp6.NoBinding)})
			}
		}
		return unknown
	}
	x.reply.Addresses = each(KindAddress, x.m.Addresses)
	if x.m.Type == dhcp6.Release {
		x.reply.Prefixes = each(KindPrefix, x.m.Prefixes)
	}
	x.reply.Status = status(dhcp6.Success)
	return true
}

// inform adds what the client asked for, or all if it does not say.
func (x *exchange) inform() {
	wants := func(o uint16) bool { return len(x.m.Requested) == 0 || slices.Contains(x.m.Requested, o) }
	if wants(dhcp6.OptionDNS) {
		x.reply.DNS = x.settings.DNS
	}
	if wants(dhcp6.OptionSearch) {
		x.reply.Search = x.settings.Search
	}
	if wants(dhcp6.OptionPortal) {
		x.reply.Portal = x.settings.Portal
	}
	if x.m.Type == dhcp6.InformationRequest {
		x.reply.Refresh = refresh
	}
}
