package daemon_test

// A random history through the kernel itself: its ruleset, its connection
// tracking, its routes, and the programs at both hooks; against a model that
// knows which conversations may go on.

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The member's ports that are banned are asked for in front of everything, as
// in a ruleset that throws people off their connections.
const historyRules = `
table inet home {
	set banned { type inet_service; }
	chain forward {
		type filter hook forward priority filter; policy drop;
		udp sport @banned drop
		udp dport @banned drop
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname "lan" oifname "wan" accept
		ct status dnat accept
	}
	chain srcnat {
		type nat hook postrouting priority srcnat;
		oifname "wan" meta nfproto ipv4 masquerade
	}
	chain dstnat {
		type nat hook prerouting priority dstnat;
		iifname "wan" udp dport 8080 dnat ip to 10.0.0.2:80
	}
}
`

// said is a conversation, and what stands in its way.
type said struct {
	*talk
	name   string
	port   string // what @banned has of it; both ends' ports stay as they are
	banned bool
	hole   bool // its server is behind a blackhole route
	count  int  // of what was said
	far    bool // it is with the server's second address
}

// exchange is talk's for datagrams, of which some come late: those are not taken
// for the answers to others.
func (s *said) exchange(n int, each time.Duration) (received int) {
	b := make([]byte, 100)
	for range n {
		s.count++
		line := fmt.Sprintf("%064d", s.count)
		s.SetDeadline(time.Now().Add(each))
		if _, err := io.WriteString(s, line); err != nil {
			continue
		}
		for {
			got, err := s.Read(b)
			if err != nil {
				break
			}
			if string(b[:got]) == line {
				received++
				break
			}
		}
	}
	return received
}

func (s *said) may() bool { return !s.banned && !(s.far && s.hole) }

type historyRouter struct {
	*topology
	r       *rand.Rand
	process *running
	talks   []*said
}

func newHistoryRouter(t *testing.T, hook string, seed uint64) *historyRouter {
	h := &historyRouter{topology: newHome(t, hook, historyRules), r: rand.New(rand.NewPCG(seed, 11))}
	h.run(h.server, "ip addr add 198.51.100.10/24 dev eth0")
	h.run(h.server, "ip -6 route add 2001:db8:1::/64 via 2001:db8:2::1")
	h.process = h.start()
	for _, a := range []string{"198.51.100.9:7", "198.51.100.10:7"} {
		h.echo(h.server, "udp", a)
	}
	h.echo(h.server, "udp6", "[2001:db8:2::9]:7")
	h.echo(h.member, "udp", "10.0.0.2:80")
	for i := range 12 {
		s := &said{name: fmt.Sprint("talk ", i)}
		switch i % 4 {
		case 0:
			s.talk = h.talk(h.member, "udp", "198.51.100.9:7")
		case 1:
			s.talk, s.far = h.talk(h.member, "udp", "198.51.100.10:7"), true
		case 2:
			s.talk = h.talk(h.member, "udp6", "[2001:db8:2::9]:7")
		case 3:
			s.talk = h.talk(h.server, "udp", "198.51.100.1:8080")
		}
		local := s.LocalAddr().String()
		s.port = local[strings.LastIndex(local, ":")+1:]
		h.talks = append(h.talks, s)
	}
	return h
}

// kinds is how many kinds of things happen.
const kinds = 9

// happen has something happen, and gives what it was.
func (h *historyRouter) happen(kind int) string {
	s := h.talks[h.r.IntN(len(h.talks))]
	switch kind {
	case 0, 1:
		s.banned = !s.banned
		verb := map[bool]string{true: "add", false: "delete"}[s.banned]
		h.run(h.router, "nft "+verb+" element inet home banned { "+s.port+" }")
		return verb + " element: " + s.name
	case 2:
		hole := !s.hole
		for _, s := range h.talks {
			s.hole = hole
		}
		if hole {
			h.run(h.router, "ip route add blackhole 198.51.100.10/32")
			return "a blackhole"
		}
		h.run(h.router, "ip route del blackhole 198.51.100.10/32")
		return "no blackhole"
	case 3:
		_, _ = h.try(h.router, "conntrack -D -p udp --orig-port-src "+s.port) // there may be none
		return "conntrack -D: " + s.name
	case 4:
		h.run(h.router, "ip neigh flush dev wan")
		h.run(h.router, "ip neigh flush dev lan")
		return "neighbours are forgotten"
	case 5:
		var banned []string
		for _, s := range h.talks {
			if s.banned {
				banned = append(banned, "add element inet home banned { "+s.port+" }\n")
			}
		}
		h.feed(h.router, "flush ruleset\n"+historyRules+strings.Join(banned, ""), "nft -f -")
		return "the ruleset is loaded again"
	case 6:
		h.run(h.router, "ip link set wan down")
		h.run(h.router, "ip link set wan up")
		h.run(h.router, "ip -6 addr replace 2001:db8:2::1/64 dev wan nodad")
		if h.talks[0].hole {
			_, _ = h.try(h.router, "ip route add blackhole 198.51.100.10/32")
		}
		return "the uplink goes down and comes up"
	case 7:
		h.process.reload()
		return "a reload"
	default:
		_, _ = h.try(h.router, "conntrack -F")
		return "conntrack -F"
	}
}

// settled waits until all conversations go as the model says, and those that may
// go on go past the stack.
func (h *historyRouter) acknowledged(after string) {
	h.t.Helper()
	time.Sleep(time.Second) // from here on every change has taken effect
	for _, s := range h.talks {
		if !s.may() {
			if n := s.exchange(4, 20*time.Millisecond); n != 0 {
				h.t.Fatalf("after %q: %d of 4 packets of %s come through, which must not", after, n, s.name)
			}
		}
	}
	eventually(h.t, "all that may go on goes past the stack, after "+after, func() bool {
		n := 0
		for _, s := range h.talks {
			if s.may() {
				s.exchange(3, time.Second)
				n++
			}
		}
		before := h.counted("forward-flow")
		for _, s := range h.talks {
			if s.may() {
				s.exchange(1, time.Second)
			}
		}
		return h.counted("forward-flow") >= before+2*n
	})
}

// What the ruleset, the routes and connection tracking forbid never comes
// through from a second after they do, what they permit is never lost, and of
// what may go past the stack at least 95 in 100 packets do.
func TestRandomHistoryThroughTheKernel(t *testing.T) {
	t.Parallel()
	for i, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			h := newHistoryRouter(t, hook, uint64(i))
			forwarded, may := 0, 0
			var happened []string
			defer func() {
				if t.Failed() {
					t.Log(happened)
					t.Log(h.mustWeft("show", "offload"), h.mustWeft("show", "flows"), h.run(h.router, "nft list ruleset"), h.run(h.router, "ip route"))
				}
			}()
			h.acknowledged("the start")
			// each kind once, and then some again
			for _, kind := range append(h.r.Perm(kinds), h.r.Perm(kinds)[:5]...) {
				what := h.happen(kind)
				happened = append(happened, what)
				h.acknowledged(what)
				const each = 40
				before := h.counted("forward-flow")
				for _, s := range h.talks {
					if !s.may() {
						continue
					}
					if n := s.exchange(each, patience); n != each {
						t.Fatalf("after %q: %d of %d answers of %s, which may go on", what, n, each, s.name)
					}
					may += 2 * each
				}
				forwarded += h.counted("forward-flow") - before
			}
			if float64(forwarded) < 0.95*float64(may) {
				t.Errorf("%d of %d packets went past the stack", forwarded, may)
			}
			t.Logf("%d of %d packets past the stack; %s", forwarded, may, strings.Join(happened, ", "))
		})
	}
}
