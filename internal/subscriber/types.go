package subscriber

import (
	"net/netip"
	"time"

	"weft/internal/ppp"
)

// Reason says why a session is over.
type Reason string

const (
	ReasonRequested Reason = "requested"       // the subscriber closed it
	ReasonPeer      Reason = "peer"            // the peer ended it
	ReasonTimeout   Reason = "no-answer"       // no answer in time
	ReasonLost      Reason = "lost"            // keepalives are not answered
	ReasonError     Reason = "error"           // what came made no sense
	ReasonRefused   Reason = "refused"         // login and password are not right
	ReasonAdmin     Reason = "admin"           // kicked, or configured away
	ReasonReplaced  Reason = "replaced"        // the subscriber logged in again
	ReasonSession   Reason = "session-timeout" // its time is over
	ReasonIdle      Reason = "idle-timeout"    // nothing was sent for too long
	ReasonTunnel    Reason = "tunnel"          // the tunnel ended
)

// Profile is what a subscriber gets. Zero values leave it to the section.
type Profile struct {
	IPv4           netip.Addr     `json:"ipv4,omitzero"`
	NoIPv4         bool           `json:"no_ipv4,omitempty"`
	Pool           string         `json:"pool,omitempty"` // of IPv4 addresses
	Pools6         *Pools6        `json:"pools6,omitempty"`
	IPv6           netip.Addr     `json:"ipv6,omitzero"`      // by DHCPv6 (RFC 6911)
	Prefix         netip.Prefix   `json:"prefix,omitzero"`    // advertised (RFC 3162 Framed-IPv6-Prefix)
	Delegated      netip.Prefix   `json:"delegated,omitzero"` // RFC 4818
	InterfaceID    [8]byte        `json:"interface_id,omitzero"`
	Routes         []netip.Prefix `json:"routes,omitempty"`
	Advertised     []netip.Prefix `json:"advertised,omitempty"` // routes in router advertisements (RFC 6911 Route-IPv6-Information)
	DNS            []netip.Addr   `json:"dns,omitempty"`
	Up             uint64         `json:"up,omitempty"` // bit/s
	Down           uint64         `json:"down,omitempty"`
	WalledGarden   bool           `json:"garden,omitempty"`
	SessionTimeout time.Duration  `json:"session_timeout,omitempty"`
	IdleTimeout    time.Duration  `json:"idle_timeout,omitempty"`
	Interim        time.Duration  `json:"interim,omitempty"`
	Class          [][]byte       `json:"class,omitempty"` // RADIUS: goes back with accounting
	SwitchTo       SwitchTarget   `json:"onward,omitzero"` // its session goes on to another server
}

// Pools6 are the names of the pools that IPv6 comes out of.
type Pools6 struct {
	Prefix    string `json:"prefix,omitempty"`    // RFC 3162 Framed-IPv6-Pool
	Delegated string `json:"delegated,omitempty"` // RFC 6911 Delegated-IPv6-Prefix-Pool
	Address   string `json:"address,omitempty"`   // RFC 6911 Stateful-IPv6-Address-Pool
}

// AuthReply accepts or rejects a login (Access-Accept, Access-Reject).
type AuthReply struct {
	Accept  bool
	Text    string // to the subscriber; with MS-CHAPv2 the authenticator's proof
	Login   string // if it is another than the one shown
	Profile Profile
}

// AuthRequest asks whether a login is accepted (Access-Request).
type AuthRequest struct {
	LNS     string
	Session uint16
	Serial  uint64
	ppp.Credentials
	Call Call
	// Hash is that of the password of a subscriber who is known here: it gets
	// Profile if what it showed fits.
	Hash    string
	Profile *Profile // with Hash
}

// Call is what the LAC says of the line (RFC 2661 section 4.4.5).
type Call struct {
	Calling string         `json:"calling,omitempty"`
	Called  string         `json:"called,omitempty"`
	Serial  uint32         `json:"serial,omitempty"`
	Tx      uint32         `json:"tx,omitempty"` // bit/s
	Rx      uint32         `json:"rx,omitempty"`
	LAC     netip.AddrPort `json:"lac"`
	LNS     netip.AddrPort `json:"lns"`
	LACName string         `json:"lac_name,omitempty"`
	Group   string         `json:"group,omitempty"`
}

// AccountKind is the kind of an accounting record.
type AccountKind uint8

const (
	AccountStart AccountKind = iota
	AccountInterim
	AccountStop
	AccountOn // all sessions of before are over: this router has started (Accounting-On)
)

// Account is one message to accounting.
type Account struct {
	Kind    AccountKind
	LNS     string
	Session uint16
	ID      string // of the session, for ever
	Login   string
	Local   bool // it is a user of the configuration's own
	Call    Call
	Profile Profile // what it has now
	Started time.Time
	At      time.Time
	Reason  Reason
	Base    *Traffic // what the datapath had counted before this account began; nil: nothing
	Next    *Traffic // of an end after which the session goes on by another login: to be set to what the datapath has counted
	Slow    Traffic  // what went through the slow path; the datapath counts the rest
}

// Traffic counts what a subscriber sent (up) and got (down).
type Traffic struct {
	UpPackets   uint64 `json:"up_packets"`
	UpBytes     uint64 `json:"up_bytes"`
	DownPackets uint64 `json:"down_packets"`
	DownBytes   uint64 `json:"down_bytes"`
}
