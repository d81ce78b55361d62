package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"weft/wire/ppp"
)

// ServerSettings is [access.NAME] with all defaults worked out.
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
	Methods     []Method
	Users       []User
	Remote      bool // who is not in Users is asked for elsewhere
	Gateway     netip.Addr
	Pools       []Pool
	Prefixes    []netip.Prefix // /64 out of these are advertised
	Delegate    []netip.Prefix
	Bits        int // of a delegated prefix
	IPv6        bool
	DNS         []netip.Addr
	Duplicates  Duplicates
	Garden      []netip.Prefix
	MaxSessions int
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
}

func newServer(s ServerSettings) *server {
	n := &server{logins: map[string][]*session{}, taken4: map[netip.Addr]*session{}, taken6: map[netip.Prefix]*session{}}
	n.update(s)
	return n
}

func (s *server) update(n ServerSettings) {
	s.ServerSettings = n
	s.users, s.own4, s.own6 = map[string]*User{}, map[netip.Addr]bool{}, bart.Lite{}
	for i := range n.Users {
		u := &n.Users[i]
		s.users[u.Login] = u
		if u.IPv4.IsValid() {
			s.own4[u.IPv4] = true
		}
		for _, p := range []netip.Prefix{u.Prefix, u.Delegated} {
			if p.IsValid() {
				s.own6.Insert(p)
			}
		}
	}
}

// local decides about a login of the configuration's own.
func (s *server) local(c Credentials) (v Verdict, known bool) {
	if c.Method == "" && !s.Remote {
		return Verdict{Accept: true}, true
	}
	u, known := s.users[c.Login]
	if !known {
		return Verdict{}, false
	}
	v = Verdict{Text: "Login incorrect"}
	switch c.Method {
	case MethodPAP:
		v.Accept = hmac.Equal([]byte(c.Password), []byte(u.Password))
	case MethodCHAP:
		v.Accept = ppp.CHAPValid(c.ID, []byte(u.Password), c.Challenge, c.Response)
	case MethodMSCHAPv2:
		r, err := ppp.ParseMSCHAPv2(c.Response)
		if err != nil {
			return v, true
		}
		want, err := ppp.MSCHAPv2NT(c.Challenge, r.PeerChallenge, c.Login, u.Password)
		if err != nil || !hmac.Equal(want, r.NTResponse) {
			return v, true
		}
		proof, err := ppp.MSCHAPv2Authenticator(c.Challenge, r.PeerChallenge, r.NTResponse, c.Login, u.Password)
		if err != nil {
			return v, true
		}
		return Verdict{Accept: true, Text: proof + " M=Welcome", Profile: u.profile()}, true
	}
	if v.Accept {
		v.Text, v.Profile = "Welcome", u.profile()
	}
	return v, true
}

// settle deals with sessions that have the same login already.
func (s *server) settle(one *session) bool {
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
}

// assign gives a session its addresses; false: an IPv4 address was to be had,
// and none is free.
func (s *server) assign(one *session, p Profile) bool {
	s.release(one)
	d := s.Default
	p.Up, p.Down = orElse(p.Up, d.Up), orElse(p.Down, d.Down)
	p.SessionTimeout, p.IdleTimeout, p.Interim = orElse(p.SessionTimeout, d.SessionTimeout), orElse(p.IdleTimeout, d.IdleTimeout), orElse(p.Interim, d.Interim)
	one.profile = p
	g := lease{ipv4: p.IPv4, prefix: p.Prefix, delegated: p.Delegated}
	if g.ipv4.IsValid() {
		if s.taken4[g.ipv4] != nil {
			return false
		}
	} else if !p.NoIPv4 && len(s.Pools) > 0 {
		a, ok := s.freeAddress(one.login, p.Pool)
		if !ok {
			return false
		}
		g.ipv4 = a
	}
	if s.IPv6 {
		if !g.prefix.IsValid() {
			g.prefix = s.freePrefix(one.login, s.Prefixes, 64)
		}
		if !g.delegated.IsValid() {
			g.delegated = s.freePrefix(one.login, s.Delegate, s.Bits)
		}
	}
	one.given = g
	s.hold(one)
	return true
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

// freeAddress gives a free IPv4 address: for one login the same again, as long
// as nobody else got it.
func (s *server) freeAddress(login, pool string) (netip.Addr, bool) {
	for _, p := range s.Pools {
		if pool != "" && p.Name != pool || pool == "" && p.Only {
			continue
		}
		for _, space := range p.Addresses {
			if a, ok := s.freeIn(space, login); ok {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

func (s *server) freeIn(space netip.Prefix, login string) (netip.Addr, bool) {
	n := uint64(1) << (32 - space.Bits())
	base := binary.BigEndian.Uint32(space.Masked().Addr().AsSlice())
	start := hash(login, space)
	for i := range n {
		k := uint32((start + i) % n)
		if n > 2 && (k == 0 || uint64(k) == n-1) {
			continue // the subnet's own and its broadcast address
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+k)
		a := netip.AddrFrom4(b)
		if a != s.Gateway && s.taken4[a] == nil && !s.own4[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func hash(login string, space netip.Prefix) uint64 {
	h := sha256.New()
	h.Write(space.Addr().AsSlice())
	h.Write([]byte(login))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// prefixTries bounds the search in a space that is nearly full.
const prefixTries = 65536

// freePrefix gives a free prefix, not valid if there is none.
func (s *server) freePrefix(login string, spaces []netip.Prefix, bits int) netip.Prefix {
	for _, space := range spaces {
		if bits < space.Bits() {
			continue
		}
		room := bits - space.Bits()
		n := uint64(prefixTries)
		if room < 16 {
			n = 1 << room
		}
		start := hash(login, space)
		for i := range n {
			p := nthPrefix(space, bits, start+i)
			if s.taken6[p] == nil && !s.own6.OverlapsPrefix(p) {
				return p
			}
		}
	}
	return netip.Prefix{}
}

// nthPrefix gives the n-th prefix of a length inside a space, round and round.
func nthPrefix(space netip.Prefix, bits int, n uint64) netip.Prefix {
	a := space.Masked().Addr().As16()
	for i := bits - 1; i >= space.Bits() && n != 0; i-- {
		if n&1 == 1 {
			a[i/8] |= 1 << (7 - i%8)
		}
		n >>= 1
	}
	return netip.PrefixFrom(netip.AddrFrom16(a), bits)
}
