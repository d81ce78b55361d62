package dhcp4server

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weft/internal/dhcp4client"
	"weft/wire/dhcp4"
)

// world is clients of dhcp4client and one server on a link that loses, doubles and delays
// messages; it restarts the server with what was stored.
type world struct {
	*lan
	random  *rand.Rand
	clients []*host
	flying  []flight
}

type host struct {
	world  *world
	n      int
	client *dhcp4client.Client
	probes []netip.Addr
}

type flight struct {
	at      time.Time
	message []byte
	reply   *Reply // nil: to the server
}

func (h *host) Send(b []byte, _ netip.Addr) { h.world.fly(b, nil) }
func (h *host) Probe(a netip.Addr)          { h.probes = append(h.probes, a) }
func (h *host) Changed()                    {}

func (w *world) fly(b []byte, r *Reply) {
	for range []int{0, 1, 1, 1, 1, 1, 1, 1, 1, 2}[w.random.IntN(10)] {
		w.flying = append(w.flying, flight{w.now.Add(time.Duration(w.random.IntN(3000)) * time.Millisecond), b, r})
	}
}

// holds reports whether another host has the address: an ARP probe finds it.
func (w *world) holds(a netip.Addr, but *host) bool {
	if w.hosts[a] {
		return true
	}
	for _, h := range w.clients {
		if l, ok := h.client.Lease(); h != but && ok && l.Address.Addr() == a {
			return true
		}
	}
	return false
}

// step does all that is due, and moves the clock to what is due next, a second at most.
func (w *world) step() {
	next := w.now.Add(time.Second)
	for _, h := range w.clients {
		if due := h.client.Due(); !due.IsZero() && !due.After(w.now) {
			h.client.Tick(w.now)
		}
		for _, a := range h.probes {
			h.client.Probed(a, w.holds(a, h), w.now)
		}
		h.probes = nil
	}
	later := w.flying[:0:0]
	arrived := []flight{}
	for _, f := range w.flying {
		if f.at.After(w.now) {
			later = append(later, f)
		} else {
			arrived = append(arrived, f)
		}
	}
	w.flying = later
	for _, f := range arrived {
		if f.reply == nil {
			w.server.Receive(f.message, netip.Addr{}, w.now)
			continue
		}
		for _, h := range w.clients {
			h.client.Receive(f.message, w.now)
		}
	}
	if due := w.server.Due(); !due.IsZero() && !due.After(w.now) {
		w.server.Tick(w.now)
	}
	w.collect()
	w.now = next
}

func (w *world) collect() {
	for {
		out := w.server.Output()
		for _, c := range out.Changes {
			if c.State == Free {
				delete(w.stored, c.Address)
			} else {
				w.stored[c.Address] = c
			}
		}
		for i := range out.Replies {
			w.fly(out.Replies[i].Message, &out.Replies[i])
		}
		if len(out.Probes) == 0 {
			return
		}
		for _, a := range out.Probes {
			w.server.Probed(a, w.holds(a, nil), w.now)
		}
	}
}

// unique fails if two clients have one address, or one has an address that is not its own
// at the server.
func (w *world) unique(seed uint64) {
	has := map[netip.Addr]int{}
	for _, h := range w.clients {
		l, ok := h.client.Lease()
		if !ok {
			continue
		}
		a := l.Address.Addr()
		if other, there := has[a]; there {
			w.t.Fatalf("seed %d: clients %d and %d have %s", seed, other, h.n, a)
		}
		has[a] = h.n
		if x := w.stored[a]; x.Hardware != dhcp4.HardwareText(mac(h.n)) {
			w.t.Fatalf("seed %d: client %d has %s until %v, stored is %+v at %v", seed, h.n, a, l.Ends, x, w.now)
		}
	}
}

// Clients and server agree over random histories: no address is two clients' at once, no
// client has a lease that is not stored, and all have one when the link is good again.
func TestRandomHistories(t *testing.T) {
	histories := 150
	if testing.Short() {
		histories = 20
	}
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 21))
		w := &world{random: r, lan: newLAN(t, func(c *Config) {
			c.LeaseTime, c.ShortestTime, c.Reservations = 5*time.Minute, time.Minute, nil
			c.Subnets[0].Ranges[0].Last = addr("192.0.2.111")
			c.RapidCommit = seed%3 == 0
		})}
		for n := range 6 {
			h := &host{world: w, n: n + 1}
			h.client = dhcp4client.New(dhcp4client.Config{Hardware: mac(h.n), HostName: "host", RapidCommit: n%2 == 0, Random: func(b []byte) {
				for i := range b {
					b[i] = byte(r.Uint32())
				}
			}}, h, w.now)
			w.clients = append(w.clients, h)
		}
		for range 400 {
			h := w.clients[r.IntN(len(w.clients))]
			switch r.IntN(60) {
			case 0:
				h.client.Verify(w.now)
			case 1:
				w.hosts[addr(fmt.Sprintf("192.0.2.%d", 100+r.IntN(12)))] = r.IntN(3) == 0
			case 2:
				w.restart()
			}
			w.step()
			w.unique(seed)
		}
		clear(w.hosts)
		for range 1500 {
			w.step()
			w.unique(seed)
		}
		for _, h := range w.clients {
			if _, ok := h.client.Lease(); !ok && len(w.flying) < 1000 {
				s := h.client.Status()
				if w.now.Sub(s.Since) > 5*time.Minute && s.State == dhcp4client.Selecting {
					t.Fatalf("seed %d: client %d has nothing: %+v; server %+v", seed, h.n, s, w.server.Stats())
				}
			}
		}
	}
}

// restart is a server that is killed, and starts with what was stored.
func (w *world) restart() {
	leases := make([]Lease, 0, len(w.stored))
	for i := range 256 {
		if l, ok := w.stored[netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})]; ok {
			leases = append(leases, l)
		}
	}
	w.server = New(w.server.config, leases, w.now)
}

// FuzzServer: whatever clients say in whatever order, the tables agree with each other and
// stay within their bounds.
func FuzzServer(f *testing.F) {
	f.Add([]byte{1, 1, 0, 3, 1, 0, 8, 1, 60, 7, 1, 0})
	f.Add([]byte{1, 2, 50, 3, 2, 54, 4, 2, 50, 9, 200, 9, 1, 2, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		l := newLAN(t, func(c *Config) { c.MostLeases, c.RapidCommit, c.PerPort = 60, true, 3 })
		for ; len(script) >= 3; script = script[3:] {
			n, x := int(script[1]), script[2]
			switch kind := script[0] % 12; kind {
			case 9:
				l.pass(time.Duration(n) * time.Minute)
			case 10:
				l.hosts[netip.AddrFrom4([4]byte{192, 0, 2, x})] = n%2 == 0
			case 11:
				l.server.Receive(script, netip.Addr{}, l.now)
				l.silent = !l.silent
			default:
				l.ask(n, dhcp4.Type(kind), func(m *dhcp4.Message) {
					a := netip.AddrFrom4([4]byte{192, 0, 2, x})
					switch x % 8 {
					case 0:
						m.Client = a
					case 1:
						accept(a)(m)
					case 2:
						m.Relay = addr("198.51.100.1")
						m.Options.Set(dhcp4.Bytes(82, []byte{1, 1, x}))
					case 3:
						m.Options.Set(dhcp4.Bytes(x, script[:min(len(script), 200)]))
					case 4:
						for _, e := range l.server.at { // an address that is someone's
							m.Client = e.Address
							accept(e.Address)(m)
							break
						}
					case 5:
						m.Options.Set(dhcp4.Bytes(80, nil), dhcp4.Text(12, "host"))
					}
				})
			}
			l.flush()
			consistent(t, l.server)
		}
	})
}

// consistent fails if two tables of the server say different things.
func consistent(t *testing.T, s *Server) {
	t.Helper()
	names, probing := map[string]bool{}, 0
	for _, p := range s.pools {
		bound, taken := 0, 0
		for a, e := range s.at {
			if e.pool != p {
				continue
			}
			if e.Address != a || e.State == Free || !p.gives(a) || e.key != "" && p.clients[e.key] != e {
				t.Fatalf("%s: %+v", a, e.Lease)
			}
			if w, mask, ok := p.bit(a); ok && p.reserved[a] == nil {
				if taken++; *w&mask == 0 {
					t.Fatalf("%s is %s and free", a, e.State)
				}
			}
			if e.State == Bound {
				bound++
			}
			if e.HostName != "" && (names[e.HostName] || s.names[e.HostName] != e || e.State != Bound) {
				t.Fatalf("the name %q: %+v", e.HostName, e.Lease)
			}
			if names[e.HostName] = true; e.pending != nil {
				probing++
			}
		}
		if bound != p.bound || taken != p.taken || p.lists[Offered].Len() > p.offersMost() || p.lists[Declined].Len() > p.quarantineMost() {
			t.Fatalf("%d bound, %d counted; %d taken, %d counted; %d offers, %d in quarantine", bound, p.bound, taken, p.taken, p.lists[Offered].Len(), p.lists[Declined].Len())
		}
		for key, e := range p.clients {
			if s.at[e.Address] != e || e.key != key {
				t.Fatalf("client %x: %+v", key, e.Lease)
			}
		}
	}
	if probing != s.probing || len(s.at) > s.config.MostLeases+len(s.config.Reservations) {
		t.Fatalf("%d probes, %d counted; %d addresses", probing, s.probing, len(s.at))
	}
}

// A lease is two messages and their answers; the time of each is that of the server alone.
func BenchmarkLeases(b *testing.B) {
	big := func(c *Config) {
		c.Subnets = []Subnet{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Local: true, Ranges: []Range{{addr("10.1.0.0"), addr("10.8.255.255")}}}}
		c.Reservations, c.MostLeases, c.NewPerSecond = nil, 1<<19, 1e9
		c.NoProbe = false
	}
	l := newLAN(b, big)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%200_000 == 0 {
			l = newLAN(b, big) // before the pool is full
		}
		n++
		if !l.join(n, dhcp4.Text(12, "host"+fmt.Sprint(n))).IsValid() {
			b.Fatalf("client %d has nothing: %+v", n, l.server.Stats())
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "leases/s")
}
