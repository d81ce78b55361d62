package subscriber

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"weft/internal/addresspool"
	"weft/internal/ppp"
)

// LAC may set up tunnels.
type LAC struct {
	Name     string // for operators
	Address  netip.Prefix
	HostName string // the Host Name AVP that it has to send; empty: any
	Secret   string // of the tunnel (RFC 2661 section 5.1.1); empty: none
	Hide     bool   // control messages are enciphered (RFC 2661 section 4.3)
}

// User is a subscriber whose password is known here, or its bcrypt hash.
type User struct {
	Login, Password, Hash string
	Profile               Profile
}

// Forward sends the sessions of a realm to another server.
type Forward struct {
	Realm    string
	Server   string // name or address, with a port unless it is 1701
	Secret   string
	Hide     bool
	HostName string // of this router there; empty: the section's
}

// Duplicates says what a second login does.
type Duplicates string

const (
	DuplicatesRefuse  Duplicates = "refuse"
	DuplicatesReplace Duplicates = "replace"
	DuplicatesAllow   Duplicates = "allow"
)

// ServerSettings is an LNS, as its section of weft.toml says.
type ServerSettings struct {
	Name         string
	ID           int // for the datapath
	Device       string
	Listen       []netip.AddrPort
	HostName     string
	LACs         []LAC
	Hello        time.Duration
	Echo         time.Duration
	MRU          int
	Methods      []ppp.Method
	Users        []User
	Remote       bool // who is not in Users is asked for elsewhere
	Gateway      netip.Addr
	Pools        []addresspool.Pool
	Prefixes     []netip.Prefix // /64 out of these are advertised
	Delegate     []netip.Prefix
	Addresses6   []netip.Prefix // single addresses out of these are given by DHCPv6
	Bits         int            // of a delegated prefix
	IPv6         bool
	DNS          []netip.Addr
	PREF64       []netip.Prefix // of translators that serve subscribers
	Duplicates   Duplicates
	WalledGarden []netip.Prefix
	Portal       string // of the walled garden, for hosts
	MaxSessions  int
	Forward      []Forward
	Default      Profile // what profiles leave open
}

// server is one section at work.
type server struct {
	ServerSettings
	count    int
	users    map[string]*User
	logins   map[string][]*session
	pools    *addresspool.Allocator[*session]
	destined bart.Table[*session]
}

func newServer(s ServerSettings) *server {
	n := &server{logins: map[string][]*session{}, pools: addresspool.New[*session]()}
	n.update(s)
	return n
}

func (s *server) update(n ServerSettings) {
	s.ServerSettings = n
	s.users = map[string]*User{}
	var own []addresspool.Lease
	for i := range n.Users {
		u := &n.Users[i]
		s.users[u.Login] = u
		own = append(own, u.Profile.own())
	}
	s.pools.Set(addresspool.Settings{
		Gateway: n.Gateway, Pools: n.Pools, Prefixes: n.Prefixes, Delegate: n.Delegate, Addresses6: n.Addresses6, Bits: n.Bits, IPv6: n.IPv6,
	}, own)
}

// local decides about a login of the configuration's own.
func (s *server) local(c ppp.Credentials) (v AuthReply, known bool) {
	if c.Method == "" && !s.Remote {
		return AuthReply{Accept: true}, true
	}
	u, known := s.users[c.Login]
	if !known {
		return AuthReply{}, false
	}
	v = AuthReply{Text: "Login incorrect"}
	if u.Hash != "" {
		if c.Method != ppp.MethodPAP {
			return v, true
		}
		// to compare takes a while, on purpose: not here
		return AuthReply{}, false
	}
	if ok, text := c.Verify(u.Password); ok {
		v = AuthReply{Accept: true, Text: text, Profile: u.Profile}
	}
	return v, true
}

// resolveDuplicates deals with sessions that have the same login already.
func (s *server) resolveDuplicates(one *session) bool {
	others := slices.DeleteFunc(slices.Clone(s.logins[one.login]), func(o *session) bool { return o == one })
	if len(others) == 0 || one.login == "" {
		return true
	}
	switch s.Duplicates {
	case DuplicatesRefuse:
		return false
	case DuplicatesReplace:
		for _, o := range others {
			o.hangUp(ReasonReplaced, "the subscriber logged in again")
		}
	}
	return true
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}
