package subscriber

import (
	"crypto/hmac"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"weft/internal/ppp"
	wireppp "weft/wire/ppp"
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

// Pool is a set of addresses and prefixes.
type Pool struct {
	Name       string
	Addresses  []netip.Prefix // IPv4
	Prefixes   []netip.Prefix // /64 out of these are advertised
	Delegate   []netip.Prefix
	Addresses6 []netip.Prefix
	Only       bool // for users that name it
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
	Name        string
	ID          int // for the datapath
	Device      string
	Listen      []netip.AddrPort
	HostName    string
	LACs        []LAC
	Hello       time.Duration
	Echo        time.Duration
	MRU         int
	Methods     []ppp.Method
	Users       []User
	Remote      bool // who is not in Users is asked for elsewhere
	Gateway     netip.Addr
	Pools       []Pool
	Prefixes    []netip.Prefix // /64 out of these are advertised
	Delegate    []netip.Prefix
	Addresses6  []netip.Prefix // single addresses out of these are given by DHCPv6
	Bits        int            // of a delegated prefix
	IPv6        bool
	DNS         []netip.Addr
	PREF64      []netip.Prefix // of translators that serve subscribers
	Duplicates  Duplicates
	Garden      []netip.Prefix
	Portal      string // of the walled garden, for hosts
	MaxSessions int
	Forward     []Forward
	Default     Profile // what profiles leave open
}

// server is one section at work.
type server struct {
	ServerSettings
	count    int
	users    map[string]*User
	own4     map[netip.Addr]bool // users' own, never given to others
	own6     bart.Lite
	logins   map[string][]*session
	taken4   map[netip.Addr]*session
	taken6   map[netip.Prefix]*session
	destined bart.Table[*session]
	kept     leases
	next     map[spaceKey]uint64 // where to look for what is free
}

func newServer(s ServerSettings) *server {
	n := &server{logins: map[string][]*session{}, taken4: map[netip.Addr]*session{}, taken6: map[netip.Prefix]*session{}, kept: newLeases(), next: map[spaceKey]uint64{}}
	n.update(s)
	return n
}

func (s *server) update(n ServerSettings) {
	s.ServerSettings = n
	s.users, s.own4, s.own6 = map[string]*User{}, map[netip.Addr]bool{}, bart.Lite{}
	for i := range n.Users {
		u := &n.Users[i]
		s.users[u.Login] = u
		p := u.Profile
		if p.IPv4.IsValid() {
			s.own4[p.IPv4] = true
		}
		for _, p := range []netip.Prefix{p.Prefix, p.Delegated} {
			if p.IsValid() {
				s.own6.Insert(p)
			}
		}
		if p.IPv6.IsValid() {
			s.own6.Insert(netip.PrefixFrom(p.IPv6, 128))
		}
	}
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
	switch c.Method {
	case ppp.MethodPAP:
		v.Accept = hmac.Equal([]byte(c.Password), []byte(u.Password))
	case ppp.MethodCHAP:
		v.Accept = wireppp.CHAPValid(c.ID, []byte(u.Password), c.Challenge, c.Response)
	case ppp.MethodMSCHAPv2:
		r, err := wireppp.ParseMSCHAPv2(c.Response)
		if err != nil {
			return v, true
		}
		want, err := wireppp.MSCHAPv2NT(c.Challenge, r.PeerChallenge, c.Login, u.Password)
		if err != nil || !hmac.Equal(want, r.NTResponse) {
			return v, true
		}
		proof, err := wireppp.MSCHAPv2Authenticator(c.Challenge, r.PeerChallenge, r.NTResponse, c.Login, u.Password)
		if err != nil {
			return v, true
		}
		return AuthReply{Accept: true, Text: proof + " M=Welcome", Profile: u.Profile}, true
	}
	if v.Accept {
		v.Text, v.Profile = "Welcome", u.Profile
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
			o.hangUp(ReasonReplaced, "the subscriber logged in anew")
		}
	}
	return true
}

// lease is what a session has.
type lease struct {
	ipv4      netip.Addr
	prefix    netip.Prefix
	delegated netip.Prefix
	ipv6      netip.Addr // out of a pool; the session has it in its profile
}

func orElse[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// hold notes that a session has what it was given.
func (s *server) hold(one *session) {
	g := one.given
	s.logins[one.login] = append(s.logins[one.login], one)
	if g.ipv4.IsValid() {
		s.taken4[g.ipv4] = one
		s.destined.Insert(netip.PrefixFrom(g.ipv4, 32), one)
	}
	for _, p := range one.all6() {
		s.taken6[p] = one
		s.destined.Insert(p, one)
	}
	for _, r := range one.profile.Routes {
		s.destined.Insert(r, one)
	}
}

// all6 are a session's IPv6 prefixes, a single address as one of length 128.
func (s *session) all6() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []netip.Prefix{s.given.prefix, s.given.delegated} {
		if p.IsValid() {
			list = append(list, p)
		}
	}
	if a := s.profile.IPv6; a.IsValid() {
		list = append(list, netip.PrefixFrom(a, 128))
	}
	return list
}

// release takes back what a session has.
func (s *server) release(one *session) {
	mine := func(p netip.Prefix) {
		if o, ok := s.destined.Get(p); ok && o == one {
			s.destined.Delete(p)
		}
	}
	if a := one.given.ipv4; a.IsValid() && s.taken4[a] == one {
		delete(s.taken4, a)
		mine(netip.PrefixFrom(a, 32))
	}
	for _, p := range one.all6() {
		if s.taken6[p] == one {
			delete(s.taken6, p)
		}
		mine(p)
	}
	for _, r := range one.profile.Routes {
		mine(r)
	}
	rest := slices.DeleteFunc(s.logins[one.login], func(o *session) bool { return o == one })
	if s.logins[one.login] = rest; len(rest) == 0 {
		delete(s.logins, one.login)
	}
	one.given = lease{}
}
