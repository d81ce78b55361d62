package aaa

import (
	"net/netip"
	"time"
)

// Request is what an Access-Request says (RFC 2865 section 4.1).
type Request struct {
	Session uint16 // NAS-Port
	Credentials
	Call Call
}

// Method is how a subscriber authenticates.
type Method string

const (
	MethodPAP      Method = "pap"
	MethodCHAP     Method = "chap"
	MethodMSCHAPv2 Method = "mschapv2"
)

// Credentials are what a subscriber sent.
type Credentials struct {
	Login    string
	Method   Method // empty: none was asked for
	Password string // PAP
	// CHAP and MS-CHAPv2: the response's identifier, the challenge, the value.
	ID        uint8
	Challenge []byte
	Response  []byte
}

// Call is where a session comes from (RFC 2865 section 5.30 and 5.31, RFC 2868).
type Call struct {
	Calling string         `json:"calling,omitempty"`
	Called  string         `json:"called,omitempty"`
	Serial  uint32         `json:"serial,omitempty"` // Acct-Tunnel-Connection
	Tx      uint32         `json:"tx,omitempty"`     // bit/s
	Rx      uint32         `json:"rx,omitempty"`
	LAC     netip.AddrPort `json:"lac"` // Tunnel-Client-Endpoint
	LNS     netip.AddrPort `json:"lns"` // Tunnel-Server-Endpoint
	LACName string         `json:"lac_name,omitempty"`
	Group   string         `json:"group,omitempty"`
}

// Reply is an Access-Accept or an Access-Reject (RFC 2865 sections 4.2 and 4.3).
type Reply struct {
	Accept  bool
	Text    string // Reply-Message; with MS-CHAPv2 the authenticator's proof
	Login   string // User-Name, if the server gives another one
	Profile Profile
}

// Profile is the service that an Access-Accept gives. Zero values leave it to the router.
type Profile struct {
	IPv4           netip.Addr
	Pool           string // Framed-Pool
	Pools6         Pools6
	IPv6           netip.Addr   // Framed-IPv6-Address
	Prefix         netip.Prefix // Framed-IPv6-Prefix
	Delegated      netip.Prefix // Delegated-IPv6-Prefix
	InterfaceID    [8]byte      // Framed-Interface-Id
	Routes         []netip.Prefix
	Advertised     []netip.Prefix // Route-IPv6-Information
	DNS            []netip.Addr
	RateUp         uint64 // bit/s
	RateDown       uint64
	WalledGarden   bool
	SessionTimeout time.Duration
	IdleTimeout    time.Duration
	Interim        time.Duration
	Class          [][]byte
	Tunnel         Tunnel
	Remarks        []string // values that are not used, or not as they stand
}

// Pools6 are the names of IPv6 pools.
type Pools6 struct {
	Prefix    string // Framed-IPv6-Pool (RFC 3162)
	Delegated string // Delegated-IPv6-Prefix-Pool (RFC 6911)
	Address   string // Stateful-IPv6-Address-Pool (RFC 6911)
}

// Tunnel is the L2TP network server to which a session is to be switched (RFC 2868).
type Tunnel struct {
	Server string // Tunnel-Server-Endpoint
	Secret string // Tunnel-Password
	Name   string // Tunnel-Client-Auth-ID
}

// Status is Acct-Status-Type (RFC 2866 section 5.1).
type Status uint8

const (
	StatusStart Status = iota
	StatusInterim
	StatusStop
	StatusOn // Accounting-On: no session of before goes on
)

// Accounting is what an Accounting-Request says of a session (RFC 2866).
type Accounting struct {
	Status   Status `json:"Kind"`
	Section  string `json:"Access"` // whose servers receive it
	Session  uint16 // NAS-Port
	ID       string // Acct-Session-Id
	Login    string
	Local    bool // the router itself authenticated it (Acct-Authentic)
	Call     Call
	Assigned Assigned `json:"Profile"`
	Started  time.Time
	At       time.Time
	Cause    Cause // with StatusStop
}

// Assigned is what a session has while it is accounted for.
type Assigned struct {
	IPv4        netip.Addr   `json:"ipv4,omitzero"`
	IPv6        netip.Addr   `json:"ipv6,omitzero"`
	Prefix      netip.Prefix `json:"prefix,omitzero"`
	Delegated   netip.Prefix `json:"delegated,omitzero"`
	InterfaceID [8]byte      `json:"interface_id,omitzero"`
	Class       [][]byte     `json:"class,omitempty"`
}

// Traffic counts what a subscriber sent (Acct-Input-*) and received (Acct-Output-*).
type Traffic struct {
	InputPackets  uint64 `json:"up_packets"`
	InputOctets   uint64 `json:"up_bytes"`
	OutputPackets uint64 `json:"down_packets"`
	OutputOctets  uint64 `json:"down_bytes"`
}

// Cause is Acct-Terminate-Cause (RFC 2866 section 5.10).
type Cause uint32

const (
	CauseUserRequest    Cause = 1
	CauseLostCarrier    Cause = 2
	CauseIdleTimeout    Cause = 4
	CauseSessionTimeout Cause = 5
	CauseAdminReset     Cause = 6
	CauseNASError       Cause = 9
	CausePortPreempted  Cause = 13
)

// Match says which sessions an order is about (RFC 5176 section 3): all that it names
// must fit.
type Match struct {
	ID                string     // Acct-Session-Id
	Login             string     // User-Name
	Address           netip.Addr // Framed-IP-Address
	Session           uint16     // NAS-Port
	IPv6              netip.Addr
	Prefix, Delegated netip.Prefix
	InterfaceID       [8]byte
	Calling, Called   string
}

// Empty reports whether it names nothing, and so would fit all.
func (m Match) Empty() bool { return m == Match{} }

// Change is what a CoA-Request changes; nil: stays.
type Change struct {
	RateUp, RateDown *uint64
	WalledGarden     *bool
	SessionTimeout   *time.Duration
	IdleTimeout      *time.Duration
	Interim          *time.Duration
}

// ServerStats says how a server answers.
type ServerStats struct {
	Server             netip.AddrPort
	Silent             bool   // it did not answer lately: others are asked before it
	Answered           uint64 // Access-Requests
	Unanswered         uint64
	Forged             uint64 // replies without a valid Message-Authenticator
	Accounted          uint64 // Accounting-Requests that were answered
	AccountsUnanswered uint64
	Waiting            int    // Accounting-Requests in the queue of the section's servers
	Lost               uint64 // Accounting-Requests that were dropped from it
}
