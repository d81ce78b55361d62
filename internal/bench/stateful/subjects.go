package stateful

import (
	"context"
	"fmt"
	"net/netip"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// The addresses are the same for every subject.
var (
	left = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("203.0.113.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("203.0.113.1/24")},
	}
	right = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::2/64"), netip.MustParsePrefix("198.51.100.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("198.51.100.1/24")},
	}
	right4    = right.Host[1].Addr()
	right4As6 = netip.MustParseAddr("2001:db8:64::198.51.100.2")

	// the nodes of sessions.bpf.c, and where they send to: zero in the bits
	// that it fills in
	clients6, clients4 = netip.MustParseAddr("2001:db8:3::"), netip.MustParseAddr("10.64.0.0")
	far6, far4         = netip.MustParseAddr("2001:db8:64::198.18.0.0"), netip.MustParseAddr("198.18.0.0")
	farRoute           = netip.MustParsePrefix("198.18.0.0/24")
)

// policy is the router's, for every subject: by interface alone, as the
// translator keeps the state. A firewall that tracks connections would keep it
// once more.
const policy = `
table inet bench {
  chain forward {
    type filter hook forward priority filter; policy drop;
    iifname { "lan", "wan", "nat64-main" } accept
  }
}
`

const masquerade = `
table ip bench-nat {
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "wan" masquerade fully-random
  }
}
`

// subject is one of the routers that are compared.
type subject struct {
	name, about string
	xdp         bool // wants finished checksums from the hosts, and GRO at them
	kernel      bool // the kernel itself: IPv4 to IPv4
	config      []string
	mode        string
}

// Describe is for the bench.
func (s subject) Describe() bench.Subject { return bench.Subject{Name: s.name, About: s.about} }

func subjects() []subject {
	const stateful = "mode = \"stateful\"\npools = [{ ipv4 = \"192.0.2.0/28\" }]\nsubscriber_prefix_len = 128\nfair_share = false\nbindings = 262144\nsessions = 1048576\n"
	return []subject{
		{name: "weft-tc", about: "weft, stateful, TC, through the stack", config: []string{`hook = "tc"`}, mode: stateful},
		{name: "weft-xdp", about: "weft, stateful, XDP, past the stack", xdp: true, config: []string{`hook = "xdp"`, `bypass = true`}, mode: stateful},
		{name: "weft-stateless", about: "weft, stateless, TC, through the stack", config: []string{`hook = "tc"`},
			mode: "mode = \"stateless\"\nmappings = [{ ipv6 = \"2001:db8:3::/116\", ipv4 = \"10.64.0.0/20\" }, { ipv6 = \"2001:db8:1::2\", ipv4 = \"192.0.2.2\" }]\n"},
		{name: "kernel-nat44", about: "the kernel, IPv4 to IPv4, nftables masquerade", kernel: true},
	}
}

// start makes the router one of the subject's kind.
func (s subject) start(ctx context.Context, p *rig.Path, weft string) error {
	if s.kernel {
		return p.Policy(masquerade)
	}
	if err := p.RunWeft(ctx, weft, s.weftConfig()); err != nil {
		return err
	}
	return nil
}

func (s subject) weftConfig() string {
	var text string
	for _, i := range []struct {
		name string
		ends rig.Ends
	}{{"lan", left}, {"wan", right}} {
		text += fmt.Sprintf("[interface.%s]\naddresses = [%q, %q]\n", i.name, i.ends.Router[0], i.ends.Router[1])
		for _, o := range s.config {
			text += o + "\n"
		}
	}
	return text + "[nat64.main]\n" + s.mode + "prefix = \"2001:db8:64::/96\"\ninterfaces = [\"lan\", \"wan\"]\n"
}

// server is where TCP goes, as the IPv6 host knows it.
func (s subject) server() netip.Addr {
	if s.kernel {
		return right4
	}
	return right4As6
}

// datagrams are what the generator makes.
func (s subject) datagrams() rig.Datagrams {
	if s.kernel {
		return rig.Datagrams{From: clients4, To: far4, Length: small}
	}
	return rig.Datagrams{From: clients6, To: far6, Length: small + grows}
}

// Lengths of packets: what is 64 bytes in IPv4 is 84 in IPv6.
const (
	small = 64
	grows = 20
)
