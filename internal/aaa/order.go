package aaa

import (
	"net/netip"
	"slices"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc3576"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/rfc6911"
	"layeh.com/radius/vendors/wispr"
)

// carryOut does what is ordered, and says why it could not; 0: it could.
func carryOut(p *radius.Packet, self NAS, orders Orders) rfc3576.ErrorCause {
	if !self.meant(p) {
		return rfc3576.ErrorCause_Value_NASIdentificationMismatch
	}
	if !sound(p) {
		return invalidValue
	}
	m := matchOf(p)
	if m.Empty() {
		return rfc3576.ErrorCause_Value_MissingAttribute
	}
	if kind, err := rfc2865.ServiceType_Lookup(p); err == nil && kind == authorizeOnly {
		return rfc3576.ErrorCause_Value_UnsupportedService // section 3.2
	}
	if !understood(p) {
		return rfc3576.ErrorCause_Value_UnsupportedAttribute
	}
	done := 0
	if p.Code == radius.CodeDisconnectRequest {
		done = orders.Disconnect(m)
	} else {
		c := changeOf(p)
		if c == (Change{}) {
			return rfc3576.ErrorCause_Value_MissingAttribute
		}
		done = orders.Change(m, c)
	}
	if done == 0 {
		return rfc3576.ErrorCause_Value_SessionContextNotFound
	}
	return 0
}

// invalidValue is Invalid Attribute Value (RFC 5176 section 3.5).
const invalidValue rfc3576.ErrorCause = 407

// sound reports whether what an order says has the lengths that it must have:
// what cannot be read would else be as if it were not there, and the order be
// about other sessions.
func sound(p *radius.Packet) bool {
	for _, a := range p.Attributes {
		n := len(a.Attribute)
		switch a.Type {
		case rfc2865.FramedIPAddress_Type, rfc2865.NASIPAddress_Type, rfc2865.NASPort_Type, rfc2865.ServiceType_Type, rfc2865.SessionTimeout_Type,
			rfc2865.IdleTimeout_Type, rfc2869.AcctInterimInterval_Type, rfc2869.EventTimestamp_Type:
			if n != 4 {
				return false
			}
		case rfc3162.NASIPv6Address_Type, rfc6911.FramedIPv6Address_Type:
			if n != 16 {
				return false
			}
		case rfc3162.FramedInterfaceID_Type:
			if n != 8 {
				return false
			}
		case rfc3162.FramedIPv6Prefix_Type:
			if !prefix(rfc3162.FramedIPv6Prefix_Get(p)).IsValid() {
				return false
			}
		case rfc4818.DelegatedIPv6Prefix_Type:
			if !prefix(rfc4818.DelegatedIPv6Prefix_Get(p)).IsValid() {
				return false
			}
		}
	}
	n, err := rfc2865.NASPort_Lookup(p)
	return err != nil || n < 1<<16 // no session has such a number
}

// authorizeOnly asks the router to ask for a session's attributes itself.
const authorizeOnly = rfc2865.ServiceType(17)

// meant reports whether an order that names a router names this one.
func (n NAS) meant(p *radius.Packet) bool {
	if name, err := rfc2865.NASIdentifier_LookupString(p); err == nil && !slices.Contains(n.Names, name) {
		return false
	}
	for _, get := range []func(*radius.Packet) (netip.Addr, bool){
		func(p *radius.Packet) (netip.Addr, bool) { return address(rfc2865.NASIPAddress_Get(p)) },
		func(p *radius.Packet) (netip.Addr, bool) { return address(rfc3162.NASIPv6Address_Get(p)) },
	} {
		if a, ok := get(p); ok && !slices.Contains(n.Addresses, a) {
			return false
		}
	}
	return true
}

// understood reports whether all that an order says can be carried out: one part
// of it is not enough (RFC 5176 section 3). What only describes the session, or
// is for those on the way, is passed over.
func understood(p *radius.Packet) bool {
	change := p.Code == radius.CodeCoARequest
	for _, a := range p.Attributes {
		switch a.Type {
		case rfc2865.UserName_Type, rfc2866.AcctSessionID_Type, rfc2865.FramedIPAddress_Type, rfc2865.NASPort_Type,
			rfc3162.FramedIPv6Prefix_Type, rfc3162.FramedInterfaceID_Type, rfc4818.DelegatedIPv6Prefix_Type, rfc6911.FramedIPv6Address_Type,
			rfc2865.CallingStationID_Type, rfc2865.CalledStationID_Type:
		case rfc2865.NASIPAddress_Type, rfc3162.NASIPv6Address_Type, rfc2865.NASIdentifier_Type, rfc2865.NASPortType_Type, rfc2869.NASPortID_Type:
		case rfc2869.EventTimestamp_Type, rfc2869.MessageAuthenticator_Type, rfc2865.ProxyState_Type, rfc2865.State_Type, rfc2865.Class_Type,
			rfc2865.ReplyMessage_Type, rfc2865.ServiceType_Type, rfc2865.FramedProtocol_Type, rfc2866.AcctTerminateCause_Type, rfc2866.AcctMultiSessionID_Type:
		case rfc2865.FilterID_Type, rfc2865.SessionTimeout_Type, rfc2865.IdleTimeout_Type, rfc2869.AcctInterimInterval_Type:
			if !change {
				return false
			}
		case rfc2865.VendorSpecific_Type:
			if !change || !rates(a.Attribute) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// Numbers of the rate limits among the attributes of the WISPr dictionary.
const (
	wisprVendor = 14122
	wisprMaxUp  = 7
	wisprMaxDn  = 8
)

// rates reports whether a vendor's attributes are rate limits and nothing else.
func rates(a radius.Attribute) bool {
	vendor, b, err := radius.VendorSpecific(a)
	if err != nil || vendor != wisprVendor {
		return false
	}
	for len(b) > 0 {
		if len(b) < 2 || b[1] != 6 || len(b) < 6 || b[0] != wisprMaxUp && b[0] != wisprMaxDn {
			return false
		}
		b = b[6:]
	}
	return true
}

// matchOf reads which sessions are meant (section 3).
func matchOf(p *radius.Packet) Match {
	m := Match{
		ID: rfc2866.AcctSessionID_GetString(p), Login: rfc2865.UserName_GetString(p),
		Calling: rfc2865.CallingStationID_GetString(p), Called: rfc2865.CalledStationID_GetString(p),
		Prefix: prefix(rfc3162.FramedIPv6Prefix_Get(p)), Delegated: prefix(rfc4818.DelegatedIPv6Prefix_Get(p)),
	}
	if a, ok := address(rfc2865.FramedIPAddress_Get(p)); ok {
		m.Address = a
	}
	if a, ok := address(rfc6911.FramedIPv6Address_Get(p)); ok {
		m.IPv6 = a
	}
	if id := rfc3162.FramedInterfaceID_Get(p); len(id) == 8 {
		m.InterfaceID = [8]byte(id)
	}
	if n, err := rfc2865.NASPort_Lookup(p); err == nil {
		m.Session = uint16(n)
	}
	return m
}

func changeOf(p *radius.Packet) Change {
	var c Change
	if n, err := wispr.WISPrBandwidthMaxUp_Lookup(p); err == nil {
		v := uint64(n)
		c.RateUp = &v
	}
	if n, err := wispr.WISPrBandwidthMaxDown_Lookup(p); err == nil {
		v := uint64(n)
		c.RateDown = &v
	}
	if text, err := rfc2865.FilterID_LookupString(p); err == nil {
		v := text == WalledGardenFilter
		c.WalledGarden = &v
	}
	seconds := func(n uint32) *time.Duration {
		d := time.Duration(n) * time.Second
		return &d
	}
	if n, err := rfc2865.SessionTimeout_Lookup(p); err == nil {
		c.SessionTimeout = seconds(uint32(n))
	}
	if n, err := rfc2865.IdleTimeout_Lookup(p); err == nil {
		c.IdleTimeout = seconds(uint32(n))
	}
	if n, err := rfc2869.AcctInterimInterval_Lookup(p); err == nil {
		c.Interim = seconds(uint32(n))
	}
	return c
}
