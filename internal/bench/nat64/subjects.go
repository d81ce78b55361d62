package nat64

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// The addresses are the same for every subject. Hosts have both families, so that
// subjects which only forward can be measured on the same path.
var (
	left = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("203.0.113.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("203.0.113.1/24")},
	}
	right = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::2/64"), netip.MustParsePrefix("198.51.100.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("198.51.100.1/24")},
	}
	left6, left4   = left.Host[0].Addr(), left.Host[1].Addr()
	right6, right4 = right.Host[0].Addr(), right.Host[1].Addr()

	prefix      = netip.MustParsePrefix("2001:db8:64::/96")
	right4As6   = netip.MustParseAddr("2001:db8:64::198.51.100.2")
	left6As4    = netip.MustParseAddr("192.0.2.2")
	taygaItself = netip.MustParseAddr("192.0.2.1")
)

// device is the translator's, weft's and Tayga's.
const device = "nat64-main"

// policy is the router's, for every subject: stateful, new connections from
// every interface that there is, in both families.
const policy = `
table inet bench {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ct state invalid drop
    ct state new iifname { "lan", "wan", "nat64-main" } accept
  }
}
`

// subject is one of the routers that are compared.
type subject struct {
	name, about string
	// xdp: packets are redirected by XDP, which wants finished checksums from
	// the hosts and GRO at them.
	xdp bool
	// unmanaged: addresses and forwarding are not the bench's to set.
	unmanaged bool
	// pair gives the addresses that packets have when they leave and when they
	// arrive.
	pair func(direction) (out, in flow)
	// start makes the router one; it gives the eBPF programs that packets meet.
	start func(ctx context.Context, p *rig.Path, weft string) ([]*ebpf.Program, error)
}

// flow is a pair of addresses.
type flow struct{ from, to netip.Addr }

// Describe is for the bench.
func (s subject) Describe() bench.Subject { return bench.Subject{Name: s.name, About: s.about} }

func subjects() []subject {
	return []subject{
		{name: "weft-tc", about: "weft, TC, through the stack and its firewall", unmanaged: true, pair: translated, start: startWeft(`hook = "tc"`)},
		{name: "weft-tc-bypass", about: "weft, TC, past the stack", unmanaged: true, pair: translated, start: startWeft(`hook = "tc"`, `bypass = true`)},
		{name: "weft-xdp", about: "weft, XDP, past the stack", xdp: true, unmanaged: true, pair: translated, start: startWeft(`hook = "xdp"`, `bypass = true`)},
		{name: "tayga", about: "Tayga, the translator in user space", pair: translated, start: startTayga},
		{name: "kernel-ipv4", about: "the kernel forwards IPv4, nothing is translated", pair: forwarded4, start: startNothing},
		{name: "kernel-ipv6", about: "the kernel forwards IPv6, nothing is translated", pair: forwarded6, start: startNothing},
		{name: "xdp-forward", about: "an XDP program forwards, nothing is translated", xdp: true, pair: forwardedAsItCame, start: startXDPForward},
	}
}

func translated(to direction) (out, in flow) {
	if to == to6 {
		return flow{right4, left6As4}, flow{right4As6, left6}
	}
	return flow{left6, right4As6}, flow{left6As4, right4}
}

func forwarded4(to direction) (out, in flow) {
	f := flow{left4, right4}
	if to == to6 {
		f = flow{right4, left4}
	}
	return f, f
}

func forwarded6(to direction) (out, in flow) {
	f := flow{left6, right6}
	if to == to6 {
		f = flow{right6, left6}
	}
	return f, f
}

// forwardedAsItCame sends the packets that a translator would get.
func forwardedAsItCame(to direction) (out, in flow) {
	if to == to6 {
		return forwarded4(to)
	}
	return forwarded6(to)
}

func startWeft(options ...string) func(context.Context, *rig.Path, string) ([]*ebpf.Program, error) {
	return func(ctx context.Context, p *rig.Path, weft string) ([]*ebpf.Program, error) {
		if err := p.RunWeft(ctx, weft, weftConfig(options)); err != nil {
			return nil, err
		}
		return p.Programs()
	}
}

func weftConfig(options []string) string {
	var text string
	for _, i := range []struct {
		name string
		ends rig.Ends
	}{{"lan", left}, {"wan", right}} {
		text += fmt.Sprintf("[interface.%s]\naddresses = [%q, %q]\n", i.name, i.ends.Router[0], i.ends.Router[1])
		for _, o := range options {
			text += o + "\n"
		}
	}
	return text + fmt.Sprintf("[nat64.main]\nmode = \"stateless\"\nprefix = %q\nmappings = [{ ipv6 = %q, ipv4 = %q }]\ninterfaces = [\"lan\", \"wan\"]\ndevice = %q\n",
		prefix, left6, left6As4, device)
}

func startTayga(ctx context.Context, p *rig.Path, _ string) ([]*ebpf.Program, error) {
	return nil, p.RunTayga(ctx, rig.Tayga{Device: device, Self: taygaItself, Prefix: prefix, IPv6: left6, IPv4: left6As4})
}

func startNothing(context.Context, *rig.Path, string) ([]*ebpf.Program, error) { return nil, nil }

func startXDPForward(_ context.Context, p *rig.Path, _ string) ([]*ebpf.Program, error) {
	program, err := p.ForwardInXDP()
	return []*ebpf.Program{program}, err
}
