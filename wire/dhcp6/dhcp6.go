// Package dhcp6 is DHCPv6 (RFC 8415) as plain values: what a server reads of a
// client's message, and what it answers. The bytes are a library's business.
package dhcp6

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// Ports (RFC 8415 section 7.2).
const (
	ClientPort = 546
	ServerPort = 547
)

// Type is the kind of a message (RFC 8415 section 7.3).
type Type uint8

const (
	Solicit            Type = 1
	Advertise          Type = 2
	Request            Type = 3
	Confirm            Type = 4
	Renew              Type = 5
	Rebind             Type = 6
	Reply              Type = 7
	Release            Type = 8
	Decline            Type = 9
	InformationRequest Type = 11
)

func (t Type) String() string { return dhcpv6.MessageType(t).String() }

// Status is a status code (RFC 8415 section 21.13).
type Status uint16

const (
	Success       Status = 0
	NoAddrsAvail  Status = 2
	NoBinding     Status = 3
	NotOnLink     Status = 4
	UseMulticast  Status = 5
	NoPrefixAvail Status = 6
)

// Options that clients ask for (RFC 3646, RFC 8415 section 21.23, RFC 8910 section 2.2).
const (
	OptionDNS     = 23
	OptionSearch  = 24
	OptionRefresh = 32
	OptionPortal  = 103
)

// Message is one between client and server. A zero field is not there.
type Message struct {
	Type        Type
	Transaction [3]byte
	ClientID    []byte
	ServerID    []byte
	Addresses   []IA // IA_NA
	Prefixes    []IA // IA_PD
	Requested   []uint16
	Elapsed     time.Duration // of clients: since they began to ask
	RapidCommit bool
	Status      *Status
	Preference  *uint8
	DNS         []netip.Addr
	Search      []string
	Refresh     time.Duration
	Portal      string // the captive portal's URI
}

// IA is an identity association: what belongs together for a client.
type IA struct {
	ID     [4]byte
	T1, T2 time.Duration // when to renew, and when to rebind
	Leases []Lease
	Status *Status
}

// Lease is an address (length 128) or a delegated prefix.
type Lease struct {
	Prefix           netip.Prefix
	Preferred, Valid time.Duration
}

// most bounds what one message may hold.
const most = 32

// Parse reads a client's message.
func Parse(b []byte) (*Message, error) {
	raw, err := dhcpv6.MessageFromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("read DHCPv6 message: %w", err)
	}
	m := &Message{Type: Type(raw.MessageType), Transaction: raw.TransactionID}
	if id := raw.Options.ClientID(); id != nil {
		m.ClientID = id.ToBytes()
	}
	if id := raw.Options.ServerID(); id != nil {
		m.ServerID = id.ToBytes()
	}
	if len(m.ClientID) > 130 || len(m.ServerID) > 130 { // section 11.1
		return nil, errors.New("read DHCPv6 message: an identifier is longer than 130 bytes")
	}
	for _, ia := range raw.Options.IANA() {
		n := IA{ID: ia.IaId, T1: ia.T1, T2: ia.T2}
		for _, a := range ia.Options.Addresses() {
			if addr, ok := netip.AddrFromSlice(a.IPv6Addr); ok {
				n.Leases = append(n.Leases, Lease{netip.PrefixFrom(addr, 128), a.PreferredLifetime, a.ValidLifetime})
			}
		}
		if s := ia.Options.Status(); s != nil {
			n.Status = statusOf(s)
		}
		m.Addresses = append(m.Addresses, n)
	}
	for _, ia := range raw.Options.IAPD() {
		n := IA{ID: ia.IaId, T1: ia.T1, T2: ia.T2}
		for _, p := range ia.Options.Prefixes() {
			n.Leases = append(n.Leases, Lease{prefixOf(p), p.PreferredLifetime, p.ValidLifetime})
		}
		if s := ia.Options.Status(); s != nil {
			n.Status = statusOf(s)
		}
		m.Prefixes = append(m.Prefixes, n)
	}
	if len(m.Addresses) > most || len(m.Prefixes) > most {
		return nil, errors.New("read DHCPv6 message: more identity associations than anybody has")
	}
	for _, o := range raw.Options.RequestedOptions() {
		m.Requested = append(m.Requested, uint16(o))
	}
	m.RapidCommit = raw.GetOneOption(dhcpv6.OptionRapidCommit) != nil
	if s := raw.Options.Status(); s != nil {
		m.Status = statusOf(s)
	}
	for _, a := range raw.Options.DNS() {
		if addr, ok := netip.AddrFromSlice(a); ok {
			m.DNS = append(m.DNS, addr)
		}
	}
	if l := raw.Options.DomainSearchList(); l != nil {
		m.Search = l.Labels
	}
	m.Refresh = raw.Options.InformationRefreshTime(0)
	if o := raw.GetOneOption(dhcpv6.OptionCode(OptionPortal)); o != nil {
		m.Portal = string(o.ToBytes())
	}
	return m, nil
}

func statusOf(s *dhcpv6.OptStatusCode) *Status {
	code := Status(s.StatusCode)
	return &code
}

// prefixOf gives the zero Prefix for one that is only a wish for a length.
func prefixOf(p *dhcpv6.OptIAPrefix) netip.Prefix {
	if p.Prefix == nil {
		return netip.Prefix{}
	}
	addr, ok := netip.AddrFromSlice(p.Prefix.IP)
	bits, size := p.Prefix.Mask.Size()
	if !ok || size != 128 {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, bits)
}

// Marshal writes the message.
func (m *Message) Marshal() ([]byte, error) {
	raw := &dhcpv6.Message{MessageType: dhcpv6.MessageType(m.Type), TransactionID: m.Transaction}
	generic := func(code dhcpv6.OptionCode, data []byte) {
		raw.AddOption(&dhcpv6.OptionGeneric{OptionCode: code, OptionData: data})
	}
	if m.ClientID != nil {
		generic(dhcpv6.OptionClientID, m.ClientID)
	}
	if m.ServerID != nil {
		generic(dhcpv6.OptionServerID, m.ServerID)
	}
	for _, ia := range m.Addresses {
		o := &dhcpv6.OptIANA{IaId: ia.ID, T1: ia.T1, T2: ia.T2}
		for _, l := range ia.Leases {
			o.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: l.Prefix.Addr().AsSlice(), PreferredLifetime: l.Preferred, ValidLifetime: l.Valid})
		}
		addStatus(&o.Options.Options, ia.Status)
		raw.AddOption(o)
	}
	for _, ia := range m.Prefixes {
		o := &dhcpv6.OptIAPD{IaId: ia.ID, T1: ia.T1, T2: ia.T2}
		for _, l := range ia.Leases {
			p, err := delegated(l)
			if err != nil {
				return nil, err
			}
			o.Options.Add(p)
		}
		addStatus(&o.Options.Options, ia.Status)
		raw.AddOption(o)
	}
	if len(m.Requested) > 0 {
		var codes []byte
		for _, o := range m.Requested {
			codes = binary.BigEndian.AppendUint16(codes, o)
		}
		generic(dhcpv6.OptionORO, codes)
	}
	if m.Type != Advertise && m.Type != Reply { // section 21.9: clients must say
		hundredths := min(m.Elapsed/(10*time.Millisecond), 0xffff)
		generic(dhcpv6.OptionElapsedTime, binary.BigEndian.AppendUint16(nil, uint16(hundredths)))
	}
	if m.RapidCommit {
		generic(dhcpv6.OptionRapidCommit, nil)
	}
	addStatus(&raw.Options.Options, m.Status)
	if m.Preference != nil {
		raw.AddOption(dhcpv6.OptPreference(*m.Preference))
	}
	if len(m.DNS) > 0 {
		var list []byte
		for _, a := range m.DNS {
			list = append(list, a.AsSlice()...)
		}
		generic(dhcpv6.OptionDNSRecursiveNameServer, list)
	}
	if len(m.Search) > 0 {
		raw.AddOption(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: m.Search}))
	}
	if m.Portal != "" {
		generic(dhcpv6.OptionCode(OptionPortal), []byte(m.Portal))
	}
	if m.Refresh != 0 {
		raw.AddOption(dhcpv6.OptInformationRefreshTime(m.Refresh))
	}
	return raw.ToBytes(), nil
}

func addStatus(to *dhcpv6.Options, s *Status) {
	if s != nil {
		to.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusCode(*s), StatusMessage: iana.StatusCode(*s).String()})
	}
}

// delegated makes the option out of its bytes (section 21.22).
func delegated(l Lease) (*dhcpv6.OptIAPrefix, error) {
	b := binary.BigEndian.AppendUint32(nil, uint32(l.Preferred/time.Second))
	b = binary.BigEndian.AppendUint32(b, uint32(l.Valid/time.Second))
	b = append(b, byte(max(l.Prefix.Bits(), 0)))
	address := l.Prefix.Addr()
	if !address.IsValid() {
		address = netip.IPv6Unspecified()
	}
	b = append(b, address.AsSlice()...)
	p := &dhcpv6.OptIAPrefix{}
	if err := p.FromBytes(b); err != nil {
		return nil, fmt.Errorf("write delegated prefix %s: %w", l.Prefix, err)
	}
	return p, nil
}
