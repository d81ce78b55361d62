package aaa

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2868"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/rfc6911"
	"layeh.com/radius/vendors/microsoft"
	"layeh.com/radius/vendors/wispr"
)

// Authenticate asks who a subscriber is.
func (c *Client) Authenticate(ctx context.Context, q Request) (Reply, error) {
	answer, asked, err := c.exchange(ctx, c.asking, func(s Server) netip.AddrPort { return s.Auth }, func(secret []byte) (*radius.Packet, error) {
		p := radius.New(radius.CodeAccessRequest, secret)
		err := errors.Join(
			rfc2865.UserName_SetString(p, q.Login), prove(p, q.Credentials), c.describe(p, q.Session, q.Call),
		)
		if err != nil {
			return nil, fmt.Errorf("write Access-Request: %w", err)
		}
		return p, nil
	})
	if err != nil {
		return Reply{}, err
	}
	return replyOf(answer, asked, q)
}

// replyOf reads what a server says to a question.
func replyOf(answer, asked *radius.Packet, q Request) (Reply, error) {
	text := rfc2865.ReplyMessage_GetString(answer)
	if answer.Code != radius.CodeAccessAccept {
		if text == "" {
			text = "Login incorrect"
		}
		return Reply{Text: text}, nil
	}
	v := Reply{Accept: true, Text: text, Login: rfc2865.UserName_GetString(answer)}
	if q.Method == MethodMSCHAPv2 {
		proof := microsoft.MSCHAP2Success_Get(answer)
		if len(proof) < 2 {
			return Reply{}, errors.New("the Access-Accept has no MS-CHAP2-Success")
		}
		v.Text = string(proof[1:])
	}
	profile, err := profileOf(answer, asked)
	if err != nil {
		return Reply{}, err
	}
	v.Profile = profile
	return v, nil
}

// prove puts in what the subscriber showed.
func prove(p *radius.Packet, c Credentials) error {
	switch c.Method {
	case MethodPAP:
		return rfc2865.UserPassword_SetString(p, c.Password)
	case MethodCHAP:
		return errors.Join(
			rfc2865.CHAPPassword_Set(p, append([]byte{c.ID}, c.Response...)), rfc2865.CHAPChallenge_Set(p, c.Challenge),
		)
	case MethodMSCHAPv2:
		if len(c.Response) != 49 {
			return errors.New("the MS-CHAPv2 response has the wrong length")
		}
		// RFC 2548 section 2.3.2: identifier, flags, peer challenge, reserved, response
		value := append([]byte{c.ID, c.Response[48]}, c.Response[:48]...)
		return errors.Join(microsoft.MSCHAPChallenge_Set(p, c.Challenge), microsoft.MSCHAP2Response_Set(p, value))
	}
	return nil
}

// describe returns where the session comes from: the same when asking and when
// accounting (RFC 2865, RFC 2868).
func (c *Client) describe(p *radius.Packet, session uint16, call Call) error {
	err := errors.Join(
		rfc2865.NASIdentifier_SetString(p, c.nas),
		rfc2865.NASPort_Set(p, rfc2865.NASPort(session)),
		rfc2865.NASPortType_Set(p, rfc2865.NASPortType_Value_Virtual),
		rfc2865.ServiceType_Set(p, rfc2865.ServiceType_Value_FramedUser),
		rfc2865.FramedProtocol_Set(p, rfc2865.FramedProtocol_Value_PPP),
		rfc2868.TunnelType_Set(p, 0, rfc2868.TunnelType_Value_L2TP),
		rfc2868.TunnelClientEndpoint_SetString(p, 0, call.LAC.Addr().String()),
		rfc2868.TunnelServerEndpoint_SetString(p, 0, call.LNS.Addr().String()),
	)
	medium := rfc2868.TunnelMediumType_Value_IPv4
	if call.LNS.Addr().Is6() {
		medium = rfc2868.TunnelMediumType_Value_IPv6
	}
	err = errors.Join(err, router(p, call.LNS.Addr()), rfc2868.TunnelMediumType_Set(p, 0, medium))
	if call.LACName != "" {
		err = errors.Join(err, rfc2868.TunnelClientAuthID_SetString(p, 0, call.LACName))
	}
	if call.Group != "" {
		err = errors.Join(err, rfc2868.TunnelPrivateGroupID_SetString(p, 0, call.Group))
	}
	if call.Calling != "" {
		err = errors.Join(err, rfc2865.CallingStationID_SetString(p, call.Calling))
	}
	if call.Called != "" {
		err = errors.Join(err, rfc2865.CalledStationID_SetString(p, call.Called))
	}
	if call.Tx != 0 {
		err = errors.Join(err, rfc2869.ConnectInfo_SetString(p, fmt.Sprintf("%d/%d", call.Tx, call.Rx)))
	}
	return err
}

// router says at which address this router is.
func router(p *radius.Packet, a netip.Addr) error {
	switch {
	case a.Is6():
		return rfc3162.NASIPv6Address_Set(p, a.AsSlice())
	case a.Is4():
		return rfc2865.NASIPAddress_Set(p, a.AsSlice())
	}
	return nil
}

// WalledGardenFilter is the Filter-Id that puts a subscriber into the walled garden.
const WalledGardenFilter = "garden"

// profileOf reads what a subscriber gets.
func profileOf(p, asked *radius.Packet) (Profile, error) {
	var out Profile
	var errs []error
	if a, ok := address(rfc2865.FramedIPAddress_Get(p)); ok && a.Is4() {
		switch a {
		case netip.AddrFrom4([4]byte{255, 255, 255, 254}), netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			// out of the router's pools (RFC 2865 section 5.8)
		default:
			out.IPv4 = a
		}
	}
	out.Pool = rfc2869.FramedPool_GetString(p)
	out.Pools6 = Pools6{
		Prefix: rfc3162.FramedIPv6Pool_GetString(p), Delegated: rfc6911.DelegatedIPv6PrefixPool_GetString(p),
		Address: rfc6911.StatefulIPv6AddressPool_GetString(p),
	}
	if id := rfc3162.FramedInterfaceID_Get(p); len(id) == 8 {
		out.InterfaceID = [8]byte(id)
	}
	var framed, delegated []string
	out.Prefix, framed = prefix6(p, rfc3162.FramedIPv6Prefix_Type, "Framed-IPv6-Prefix")
	out.Delegated, delegated = prefix6(p, rfc4818.DelegatedIPv6Prefix_Type, "Delegated-IPv6-Prefix")
	out.Remarks = append(framed, delegated...)
	if a, ok := address(rfc6911.FramedIPv6Address_Get(p)); ok {
		out.IPv6 = a
	}
	if out.Prefix.IsValid() && out.Prefix.Bits() == 128 {
		out.IPv6, out.Prefix = out.Prefix.Addr(), netip.Prefix{}
	}
	if out.Prefix.IsValid() && out.Prefix.Bits() != 64 {
		out.Remarks = append(out.Remarks, fmt.Sprintf("Framed-IPv6-Prefix %s is no /64: hosts form no addresses in it (RFC 4862 section 5.5.3), unless DHCPv6 gives them", out.Prefix))
	}
	routes, _ := rfc2865.FramedRoute_GetStrings(p)
	routes6, _ := rfc3162.FramedIPv6Route_GetStrings(p)
	for _, text := range append(routes, routes6...) {
		r, err := route(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Routes = append(out.Routes, r)
	}
	networks, _ := rfc6911.RouteIPv6Information_Gets(p)
	for _, n := range networks {
		if r := prefix(n); r.IsValid() {
			out.Advertised = append(out.Advertised, r)
		}
	}
	for _, ip := range []net.IP{microsoft.MSPrimaryDNSServer_Get(p), microsoft.MSSecondaryDNSServer_Get(p)} {
		if a, ok := address(ip); ok && a.Is4() {
			out.DNS = append(out.DNS, a)
		}
	}
	servers, _ := rfc6911.DNSServerIPv6Address_Gets(p)
	for _, ip := range servers {
		if a, ok := address(ip); ok {
			out.DNS = append(out.DNS, a)
		}
	}
	out.RateUp, out.RateDown = uint64(wispr.WISPrBandwidthMaxUp_Get(p)), uint64(wispr.WISPrBandwidthMaxDown_Get(p))
	out.WalledGarden = rfc2865.FilterID_GetString(p) == WalledGardenFilter
	seconds := func(n uint32) time.Duration { return time.Duration(n) * time.Second }
	out.SessionTimeout = seconds(uint32(rfc2865.SessionTimeout_Get(p)))
	out.IdleTimeout = seconds(uint32(rfc2865.IdleTimeout_Get(p)))
	out.Interim = seconds(uint32(rfc2869.AcctInterimInterval_Get(p)))
	classes, _ := rfc2865.Class_Gets(p)
	for _, c := range classes {
		out.Class = append(out.Class, bytes.Clone(c))
	}
	out.Tunnel = tunnelOf(p, asked)
	return out, errors.Join(errs...)
}

// tunnelOf reads where the session goes on to (RFC 2868): of the L2TP tunnels
// that are named, the one that is preferred (section 3.8: the lowest value), else
// the first.
func tunnelOf(p, asked *radius.Packet) Tunnel {
	// each is read once: reading takes the tags of numbers out of the packet
	tags, kinds, _ := rfc2868.TunnelType_Gets(p)
	ranked, ranks, _ := rfc2868.TunnelPreference_Gets(p)
	best, rank := -1, uint32(0)
	for i, kind := range kinds {
		if kind != rfc2868.TunnelType_Value_L2TP {
			continue
		}
		n := uint32(0xffffff) // one without a preference comes last
		if j := slices.Index(ranked, tags[i]); j >= 0 {
			n = uint32(ranks[j])
		}
		if best < 0 || n < rank {
			best, rank = i, n
		}
	}
	if best < 0 {
		return Tunnel{}
	}
	tag := tags[best]
	same := func(tags []byte, values []string, err error) string {
		for _, wanted := range []byte{tag, 0} { // an attribute without a tag is about all tunnels
			if i := slices.Index(tags, wanted); err == nil && i >= 0 {
				return values[i]
			}
		}
		return ""
	}
	o := Tunnel{Server: same(rfc2868.TunnelServerEndpoint_GetStrings(p)), Name: same(rfc2868.TunnelClientAuthID_GetStrings(p))}
	if asked != nil {
		o.Secret = same(rfc2868.TunnelPassword_GetStrings(p, asked))
	}
	return o
}

func address(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok && !a.Unmap().IsUnspecified()
}

func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	length, size := n.Mask.Size()
	if !ok || size != 128 || length == 0 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, length).Masked()
}

// route reads a Framed-Route (RFC 2865 section 5.22) or Framed-IPv6-Route: the
// prefix comes first; gateway and metrics are of no use on a session. Without a
// length it is that of the address's class, as the RFC has it.
func route(text string) (netip.Prefix, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return netip.Prefix{}, errors.New("an empty Framed-Route")
	}
	if p, err := netip.ParsePrefix(fields[0]); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(fields[0])
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("Framed-Route %q: %w", text, err)
	}
	length := a.BitLen()
	if a.Is4() {
		length = 8 * (1 + min(bits.LeadingZeros8(^a.As4()[0]), 2))
	}
	return netip.PrefixFrom(a, length).Masked(), nil
}
