package ppp

import (
	"bytes"
	"net/netip"

	"weft/wire/ppp"
)

// ipcp negotiates IPv4 (RFC 1332) and its name servers (RFC 1877).
type ipcp struct {
	automaton
	link *Link

	local  netip.Addr // server: our end; client: what we were assigned
	peer   netip.Addr // server: what the peer is to have; client: the server's end
	dns    []netip.Addr
	noDNS  [2]bool // client: not asked for any more
	noAddr bool    // the peer does not want to hear our address
	hinted int     // how often a peer that asks for no address was asked to
}

func (c *ipcp) request() []ppp.Option {
	var list []ppp.Option
	address := func(kind uint8, a netip.Addr) {
		if !a.IsValid() {
			a = netip.IPv4Unspecified()
		}
		list = append(list, ppp.Option{Type: kind, Data: a.AsSlice()})
	}
	// a server without an address of its own has nothing to say; a client asks
	if !c.noAddr && (c.local.IsValid() || !c.link.Server) {
		address(ppp.OptAddress, c.local)
	}
	if !c.link.Server {
		for i, kind := range []uint8{ppp.OptPrimaryDNS, ppp.OptSecondaryDNS} {
			if !c.noDNS[i] {
				address(kind, c.server(i))
			}
		}
	}
	return list
}

// server returns the i-th name server, not valid if there is none.
func (c *ipcp) server(i int) netip.Addr {
	if i < len(c.dns) {
		return c.dns[i]
	}
	return netip.Addr{}
}

func (c *ipcp) judge(theirs []ppp.Option) (ppp.Code, []ppp.Option) {
	var naks, rejects []ppp.Option
	asked := false
	for _, o := range theirs {
		a, is4 := address4(o.Data)
		var want netip.Addr
		switch {
		case o.Type == ppp.OptAddress && is4 && !c.link.Server:
			c.peer = a // the server's end is what it says
			continue
		case o.Type == ppp.OptAddress && is4:
			want, asked = c.peer, true
		case o.Type == ppp.OptPrimaryDNS && is4 && c.link.Server:
			want = c.server(0)
		case o.Type == ppp.OptSecondaryDNS && is4 && c.link.Server:
			want = c.server(1)
		}
		switch {
		case !want.IsValid():
			rejects = append(rejects, o)
		case a != want:
			naks = append(naks, ppp.Option{Type: o.Type, Data: want.AsSlice()})
		}
	}
	if len(rejects) > 0 {
		return ppp.ConfigureReject, rejects
	}
	if c.link.Server && !asked && c.hinted < 2 {
		c.hinted++ // section 5.1: Nak with the option asks for it
		naks = append(naks, ppp.Option{Type: ppp.OptAddress, Data: c.peer.AsSlice()})
	}
	if len(naks) > 0 {
		return ppp.ConfigureNak, naks
	}
	return ppp.ConfigureAck, theirs
}

func address4(b []byte) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(b)
	return a, ok && a.Is4()
}

func (c *ipcp) refused(code ppp.Code, theirs []ppp.Option) bool {
	for _, o := range theirs {
		a, is4 := address4(o.Data)
		reject := code == ppp.ConfigureReject
		switch {
		case o.Type == ppp.OptAddress && reject:
			if !c.link.Server {
				return false // it does not give us an address
			}
			c.noAddr = true
		case o.Type == ppp.OptAddress && is4 && !c.link.Server:
			c.local = a
		case o.Type == ppp.OptPrimaryDNS || o.Type == ppp.OptSecondaryDNS:
			i := int(o.Type-ppp.OptPrimaryDNS) / 2
			if reject || !is4 {
				c.noDNS[i] = true
				continue
			}
			for len(c.dns) <= i {
				c.dns = append(c.dns, netip.Addr{})
			}
			c.dns[i] = a
		}
	}
	return true
}

func (c *ipcp) opened() {
	if !c.link.Server && (!c.local.IsValid() || c.local.IsUnspecified()) {
		c.giveUp() // it opened without an address for us
		return
	}
	c.link.carrier.Event(NetworkChanged{})
}
func (c *ipcp) closed()   { c.link.carrier.Event(NetworkChanged{}) }
func (c *ipcp) agreed()   { c.link.carrier.Event(NetworkAgreed{}) }
func (c *ipcp) finished() { c.link.networkFinished() }

// ipv6cp negotiates IPv6's interface identifiers (RFC 5072 section 4.1).
type ipv6cp struct {
	automaton
	link *Link

	local, peer [8]byte
	assigned    [8]byte // server: what the peer is to have, if not zero
	hinted      int     // how often a peer that names none was asked to
}

func (c *ipv6cp) request() []ppp.Option {
	return []ppp.Option{{Type: ppp.OptInterfaceID, Data: bytes.Clone(c.local[:])}}
}

func (c *ipv6cp) judge(theirs []ppp.Option) (ppp.Code, []ppp.Option) {
	var rejects []ppp.Option
	var id [8]byte
	has := false
	for _, o := range theirs {
		if o.Type != ppp.OptInterfaceID || len(o.Data) != 8 {
			rejects = append(rejects, o)
			continue
		}
		has, id = true, [8]byte(o.Data)
	}
	if len(rejects) > 0 {
		return ppp.ConfigureReject, rejects
	}
	if !has {
		// section 4.1: Nak with the option asks for it; who does not want one has none
		if c.hinted++; c.hinted > 2 {
			c.peer = [8]byte{}
			return ppp.ConfigureAck, theirs
		}
	}
	want := id
	switch none := ([8]byte{}); {
	case c.link.Server && c.assigned != none:
		want = c.assigned
	case !has || id == none || id == c.local:
		want = c.another()
	}
	if want != id {
		return ppp.ConfigureNak, []ppp.Option{{Type: ppp.OptInterfaceID, Data: want[:]}}
	}
	c.peer = id
	return ppp.ConfigureAck, theirs
}

// another makes up an identifier that neither side has, without the bit of a
// unique one.
func (c *ipv6cp) another() [8]byte {
	var id [8]byte
	for {
		c.link.Random(id[:])
		id[0] &^= 0x02
		if id != ([8]byte{}) && id != c.local {
			return id
		}
	}
}

func (c *ipv6cp) refused(code ppp.Code, theirs []ppp.Option) bool {
	for _, o := range theirs {
		if o.Type != ppp.OptInterfaceID || len(o.Data) != 8 {
			continue
		}
		if code == ppp.ConfigureReject {
			return false
		}
		if id := [8]byte(o.Data); !c.link.Server && id != ([8]byte{}) {
			c.local = id
		} else {
			c.local = c.another()
		}
	}
	return true
}

func (c *ipv6cp) opened()   { c.link.carrier.Event(NetworkChanged{}) }
func (c *ipv6cp) closed()   { c.link.carrier.Event(NetworkChanged{}) }
func (c *ipv6cp) agreed()   { c.link.carrier.Event(NetworkAgreed{}) }
func (c *ipv6cp) finished() { c.link.networkFinished() }

// networkFinished: a network protocol is over. The link ends only when none is
// left that could carry anything.
func (l *Link) networkFinished() {
	over := func(wanted bool, a *automaton) bool {
		return !wanted || a.state == StateStopped || a.state == StateClosed
	}
	if !l.Server && over(l.IPv4, &l.v4.automaton) && over(l.IPv6, &l.v6.automaton) {
		l.end(ReasonPeer, "the server gives no address")
	}
}
