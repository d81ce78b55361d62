// Package dhcp4server is a DHCPv4 server (RFC 2131 section 4.3): pools, reservations,
// leases, relay agents. It is pure: it is fed messages and the time, and what it wants done
// is taken from it by Output.
package dhcp4server

import (
	"net/netip"
	"slices"
	"time"

	"weft/internal/limit"
	"weft/internal/timer"
	"weft/wire/dhcp4"
)

// Config is what a server on one link gives.
type Config struct {
	Address       netip.Addr // of the router on the link: the server identifier
	Subnets       []Subnet
	Reservations  []Reservation
	Options       dhcp4.Options // for clients that ask for them
	Boot          []Boot        // the first that fits counts
	LeaseTime     time.Duration // for clients that ask for none; 0: 12 h
	ShortestTime  time.Duration // 0: 2 min
	LongestTime   time.Duration // 0: a week
	Authoritative bool          // refuse addresses that are wrong, and take over clients of an earlier server
	RapidCommit   bool          // RFC 4039
	NoProbe       bool          // give addresses without asking whether a host has them
	MostLeases    int           // 0: 65,536
	PerPort       int           // leases for each port that a relay agent names; 0: no bound
	NewPerSecond  float64       // messages of unknown clients that are answered; 0: 1,000
	Reserved      []string      // host names that no client gets
}

// Subnet is the addresses of a link, or of one behind a relay agent.
type Subnet struct {
	Prefix  netip.Prefix
	Local   bool // of the server's own link
	Ranges  []Range
	Options dhcp4.Options // go before those of Config
}

// Range is addresses that are given to clients without a reservation.
type Range struct{ First, Last netip.Addr }

// Reservation is what one client gets. A client is known by one of both identifiers.
type Reservation struct {
	Hardware string     // its bytes
	ClientID []byte     // option 61
	Address  netip.Addr // the zero Addr: any of a range
	HostName string
	Options  dhcp4.Options // always sent
	Ignore   bool          // give it nothing
}

// Boot is where clients boot from.
type Boot struct {
	Architectures []uint16 // option 93; none: any
	UserClass     string   // such as iPXE; "": any
	Server        netip.Addr
	ServerName    string
	File          string
}

// State is what an address is.
type State string

const (
	Offered  State = "offered"
	Bound    State = "bound"
	Expired  State = "expired"  // its client gets it again, unless all others are in use
	Released State = "released" // likewise
	Declined State = "declined" // another host has it
	Free     State = "free"     // a change: forget it
)

// Lease is an address that is not free, as a plain value for a file and for people.
type Lease struct {
	Address  netip.Addr `json:"address"`
	State    State      `json:"state"`
	Hardware string     `json:"hardware,omitempty"` // as text
	ClientID []byte     `json:"client_id,omitempty"`
	HostName string     `json:"host_name,omitempty"` // unique, and fit for DNS
	Vendor   string     `json:"vendor,omitempty"`
	Circuit  []byte     `json:"circuit,omitempty"` // of the relay agent
	Remote   []byte     `json:"remote,omitempty"`
	Since    time.Time  `json:"since"`
	Ends     time.Time  `json:"ends,omitzero"`
	Key      []byte     `json:"key"` // which client it is
}

// Reply is a message to send. One with Hardware goes to that address of the link, because
// its client does not answer ARP yet.
type Reply struct {
	Message  []byte
	To       netip.AddrPort
	Hardware string
}

// Output is what the server wants done, in this order: changes are kept before replies go
// out, so that no client has a lease that a restart forgets.
type Output struct {
	Changes []Lease // what is Free is forgotten
	Replies []Reply
	Probes  []netip.Addr // Probed is the answer
}

// Stats are counted since the start.
type Stats struct {
	Received  map[dhcp4.Type]uint64 `json:"received"`
	Sent      map[dhcp4.Type]uint64 `json:"sent"`
	Malformed uint64                `json:"malformed"`
	Limited   uint64                `json:"limited"`   // not answered: too many, too fast
	Exhausted uint64                `json:"exhausted"` // no address was free
	Conflicts uint64                `json:"conflicts"`
}

// Server is a server on one link.
type Server struct {
	config   Config
	timers   timer.Queue
	pools    []*pool
	at       map[netip.Addr]*entry
	names    map[string]*entry
	groups   map[string]*group
	reserved map[string][]*Reservation // by "m" and the hardware address as text, and by key
	fresh    limit.Bucket              // messages of clients that have no lease
	probing  int
	out      Output
	stats    Stats
}

// Times and bounds.
const (
	leaseTime    = 12 * time.Hour
	shortestTime = 2 * time.Minute
	longestTime  = 7 * 24 * time.Hour
	mostLeases   = 65536
	newPerSecond = 1000

	offerTime      = 30 * time.Second
	probeTime      = time.Second      // for an answer of the link
	probedTime     = time.Minute      // that an answer counts
	probingMost    = 512              // addresses at once
	probeTries     = 3                // addresses for one DISCOVER
	quarantineTime = 10 * time.Minute // of an address that a host has without a lease
)

// New makes a server with the leases of an earlier process.
func New(config Config, leases []Lease, now time.Time) *Server {
	s := &Server{stats: Stats{Received: map[dhcp4.Type]uint64{}, Sent: map[dhcp4.Type]uint64{}}, groups: map[string]*group{}}
	s.timers.Set(now)
	s.Update(config, now)
	s.restore(leases, now)
	return s
}

// Update changes the configuration. Leases of addresses that are still given stay; others
// are forgotten, and refused when they are to be renewed.
func (s *Server) Update(config Config, now time.Time) {
	s.timers.Set(now)
	if config.LeaseTime == 0 {
		config.LeaseTime = leaseTime
	}
	if config.ShortestTime == 0 {
		config.ShortestTime = shortestTime
	}
	if config.LongestTime == 0 {
		config.LongestTime = max(longestTime, config.LeaseTime)
	}
	if config.MostLeases == 0 {
		config.MostLeases = mostLeases
	}
	if config.NewPerSecond == 0 {
		config.NewPerSecond = newPerSecond
	}
	leases := s.Leases()
	for _, e := range s.at {
		s.timers.Disarm(e)
	}
	s.config, s.at, s.names, s.pools, s.probing = config, map[netip.Addr]*entry{}, map[string]*entry{}, nil, 0
	s.reserved = map[string][]*Reservation{}
	for i := range s.config.Reservations {
		r := &s.config.Reservations[i]
		if r.Hardware != "" {
			key := "m" + dhcp4.HardwareText(r.Hardware)
			s.reserved[key] = append(s.reserved[key], r)
		}
		if len(r.ClientID) > 0 {
			key := "i" + string(r.ClientID)
			s.reserved[key] = append(s.reserved[key], r)
		}
	}
	for i := range config.Subnets {
		s.pools = append(s.pools, newPool(&s.config, &s.config.Subnets[i]))
	}
	for _, l := range s.restore(leases, now) {
		l.State = Free
		s.out.Changes = append(s.out.Changes, l)
	}
}

// restore takes leases over, and returns those whose addresses are not given any more.
func (s *Server) restore(leases []Lease, now time.Time) (lost []Lease) {
	for _, l := range leases {
		p := s.poolOf(l.Address)
		if p == nil || !p.gives(l.Address) || s.at[l.Address] != nil || len(s.at) >= s.config.MostLeases || l.State != Bound && l.State != Expired && l.State != Released && l.State != Declined {
			lost = append(lost, l)
			continue
		}
		if latest := now.Add(max(s.config.LongestTime, quarantineTime)); l.Ends.After(latest) {
			l.Ends = latest // a clock that was wrong
		}
		e := &entry{Lease: l, server: s, pool: p, key: string(l.Key)}
		if l.State == Bound && !now.Before(l.Ends) {
			e.State = Expired
		}
		s.add(e)
		if e.State == Bound {
			s.name(e, l.HostName)
		}
	}
	return lost
}

func (s *Server) poolOf(a netip.Addr) *pool {
	for _, p := range s.pools {
		if p.subnet.Prefix.Contains(a) {
			return p
		}
	}
	return nil
}

// Output takes what there is to do.
func (s *Server) Output() Output {
	out := s.out
	s.out = Output{}
	return out
}

// Leases lists the addresses that are not free, offers left out, in their order.
func (s *Server) Leases() []Lease {
	list := make([]Lease, 0, len(s.at))
	for _, e := range s.at {
		if e.State != Offered {
			list = append(list, e.Lease)
		}
	}
	slices.SortFunc(list, func(a, b Lease) int { return a.Address.Compare(b.Address) })
	return list
}

// Stats returns what was counted. The maps are the server's own.
func (s *Server) Stats() Stats { return s.stats }

// Due is when Tick has something to do; zero: never.
func (s *Server) Due() time.Time { return s.timers.Due() }

// Tick does what is due.
func (s *Server) Tick(now time.Time) { s.timers.Tick(now) }
