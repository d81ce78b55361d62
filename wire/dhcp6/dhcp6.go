// Package dhcp6 is DHCPv6 (RFC 8415) as plain values: what server and client read
// of each other's messages, and what they write. Only the options of Message are
// read; the cost of reading is at most linear in the length of the message.
package dhcp6

import (
	"fmt"
	"net/netip"
	"time"
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

func (t Type) String() string {
	names := [...]string{
		Solicit: "SOLICIT", Advertise: "ADVERTISE", Request: "REQUEST", Confirm: "CONFIRM", Renew: "RENEW", Rebind: "REBIND",
		Reply: "REPLY", Release: "RELEASE", Decline: "DECLINE", 10: "RECONFIGURE", InformationRequest: "INFORMATION-REQUEST",
	}
	if int(t) < len(names) && names[t] != "" {
		return names[t]
	}
	return fmt.Sprintf("message of type %d", uint8(t))
}

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

func (s Status) String() string {
	names := [...]string{"Success", "UnspecFail", "NoAddrsAvail", "NoBinding", "NotOnLink", "UseMulticast", "NoPrefixAvail"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status %d", uint16(s))
}

// Options that clients ask for (RFC 3646, RFC 8415 section 21.23, RFC 8910 section 2.2).
const (
	OptionDNS     = 23
	OptionSearch  = 24
	OptionRefresh = 32
	OptionPortal  = 103
)

// Other options (RFC 8415 section 21).
const (
	optionClientID    = 1
	optionServerID    = 2
	optionIANA        = 3
	optionIAAddr      = 5
	optionORO         = 6
	optionPreference  = 7
	optionElapsed     = 8
	optionStatus      = 13
	optionRapidCommit = 14
	optionIAPD        = 25
	optionIAPrefix    = 26
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
