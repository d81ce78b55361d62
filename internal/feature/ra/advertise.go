package ra

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"
)

// dnsLifetime is how long name servers and search domains hold: three
// intervals, so that two advertisements may be lost (RFC 8106 section 5.1).
func (s Settings) dnsLifetime() time.Duration { return 3 * s.Interval }

// pref64Lifetime likewise (RFC 8781 section 4.1): in units of eight seconds,
// rounded up, at most 65528 seconds.
func (s Settings) pref64Lifetime() time.Duration {
	const unit, most = 8 * time.Second, 65528 * time.Second
	return min((3*s.Interval+unit-1)/unit*unit, most)
}

// Message is the advertisement (RFC 4861 section 4.2). deprecated are prefixes
// that the link had until lately.
func (s Settings) Message(deprecated []AnnouncedPrefix) *ndp.RouterAdvertisement {
	m := &ndp.RouterAdvertisement{
		CurrentHopLimit: uint8(s.HopLimit), ManagedConfiguration: s.Managed, OtherConfiguration: s.Other,
		RouterLifetime: s.Lifetime, RouterSelectionPreference: preference(s.Preference),
	}
	if s.Lifetime == 0 {
		m.RouterSelectionPreference = ndp.Medium // RFC 4191 section 2.2
	}
	if s.MAC != [6]byte{} { // a point-to-point link has no such addresses
		m.Options = append(m.Options, &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: s.MAC[:]})
	}
	if s.MTU != 0 {
		m.Options = append(m.Options, ndp.NewMTU(uint32(s.MTU)))
	}
	for _, p := range append(append([]AnnouncedPrefix{}, s.Prefixes...), deprecated...) {
		m.Options = append(m.Options, &ndp.PrefixInformation{
			PrefixLength: uint8(p.Prefix.Bits()), Prefix: p.Prefix.Addr(), OnLink: p.OnLink,
			AutonomousAddressConfiguration: p.Autonomous, PreferredLifetime: p.Preferred, ValidLifetime: p.Valid,
		})
	}
	for _, r := range s.Routes {
		m.Options = append(m.Options, &ndp.RouteInformation{
			PrefixLength: uint8(r.Prefix.Bits()), Prefix: r.Prefix.Addr(), Preference: preference(r.Preference), RouteLifetime: r.Lifetime,
		})
	}
	if len(s.DNS) > 0 {
		m.Options = append(m.Options, &ndp.RecursiveDNSServer{Lifetime: s.dnsLifetime(), Servers: s.DNS})
	}
	if len(s.Search) > 0 {
		m.Options = append(m.Options, &ndp.DNSSearchList{Lifetime: s.dnsLifetime(), DomainNames: s.Search})
	}
	for _, p := range s.PREF64 {
		m.Options = append(m.Options, &ndp.PREF64{Lifetime: s.pref64Lifetime(), Prefix: p})
	}
	if s.Portal != "" {
		m.Options = append(m.Options, &ndp.CaptivePortal{URI: s.Portal})
	}
	return m
}

// Farewell is the last advertisement of a router that ceases to be one
// (RFC 4861 section 6.2.5): nothing of what it said holds any longer. Addresses
// stay valid for the hosts' connections, but no new ones begin from them.
func (s Settings) Farewell(now time.Time) *ndp.RouterAdvertisement {
	m := s.at(now).Message(nil)
	m.RouterLifetime, m.RouterSelectionPreference = 0, ndp.Medium
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.PrefixInformation:
			o.PreferredLifetime = 0
		case *ndp.RouteInformation:
			o.RouteLifetime = 0
		case *ndp.RecursiveDNSServer:
			o.Lifetime = 0
		case *ndp.DNSSearchList:
			o.Lifetime = 0
		case *ndp.PREF64:
			o.Lifetime = 0
		}
	}
	return m
}

func preference(p Preference) ndp.Preference {
	switch p {
	case PreferenceLow:
		return ndp.Low
	case PreferenceHigh:
		return ndp.High
	}
	return ndp.Medium
}

// Inconsistent lists what another router of the link says otherwise (RFC 4861
// section 6.2.7, RFC 8106 section 5.3.4 leaves servers to each router). What
// one of the two leaves unsaid is no contradiction.
func (s Settings) Inconsistent(other *ndp.RouterAdvertisement) []string {
	var list []string
	differ := func(what string, theirs, ours any) {
		list = append(list, fmt.Sprintf("%s is %v there and %v here", what, theirs, ours))
	}
	if a, b := int(other.CurrentHopLimit), s.HopLimit; a != 0 && b != 0 && a != b {
		differ("hop limit", a, b)
	}
	if other.ManagedConfiguration != s.Managed {
		differ("flag M", other.ManagedConfiguration, s.Managed)
	}
	if other.OtherConfiguration != s.Other {
		differ("flag O", other.OtherConfiguration, s.Other)
	}
	for _, o := range other.Options {
		switch o := o.(type) {
		case *ndp.MTU:
			if s.MTU != 0 && int(o.MTU) != s.MTU {
				differ("MTU", o.MTU, s.MTU)
			}
		case *ndp.PrefixInformation:
			p := netip.PrefixFrom(o.Prefix, int(o.PrefixLength)).Masked()
			for _, q := range s.Prefixes {
				if p != q.Prefix || s.bounded(p) { // lifetimes that count down differ by the moment
					continue
				}
				if o.PreferredLifetime != q.Preferred {
					differ("preferred lifetime of "+p.String(), o.PreferredLifetime, q.Preferred)
				}
				if o.ValidLifetime != q.Valid {
					differ("valid lifetime of "+p.String(), o.ValidLifetime, q.Valid)
				}
			}
		}
	}
	return list
}
