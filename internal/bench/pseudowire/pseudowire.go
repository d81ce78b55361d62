// Package pseudowire is `weft bench pseudowire`: TCP through weft's
// pseudowires beside the kernel's VXLAN device and the bare underlay.
package pseudowire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// many is how many pseudowires there are at once on one UDP port.
const many = 4096

// DefaultSeconds is of payload that one TCP measurement counts.
const DefaultSeconds = 1.5

// Options of the measurements.
type Options struct {
	Weft    string  // path of the weft program
	Seconds float64 // of payload that one TCP measurement counts
}

func tcpSeconds(seconds float64) int { return max(1, int(math.Ceil(seconds+0.5))) }

// subject is a way from one host to another: options of [pseudowire.wire] at
// either end; none is the bare underlay.
type subject struct {
	name, about string
	near, far   string
}

func subjects() []subject {
	udp := func(rest string) (near, far string) {
		common := "kind = \"l2tpv3\"\nrx_session = 1\ntx_session = 1\n" + rest
		return common + "srcport = 1701\ndstport = 1702\n", common + "srcport = 1702\ndstport = 1701\n"
	}
	same := func(text string) (near, far string) { return text, text }
	var list []subject
	add := func(name, about, near, far string) { list = append(list, subject{name, about, near, far}) }
	add("bare", "the underlay itself", "", "")
	near, far := same("kind = \"vxlan\"\nvni = 7\n")
	add("kernel-vxlan", "the kernel's VXLAN device", near, far)
	near, far = udp("")
	add("l2tpv3-udp", "weft, L2TPv3 over UDP", near, far)
	near, far = udp("counter = true\n")
	add("l2tpv3-udp-counter", "weft, L2TPv3 over UDP with a counter", near, far)
	near, far = same("kind = \"l2tpv3\"\nudp = false\nrx_session = 1\ntx_session = 1\n")
	add("l2tpv3-ip", "weft, L2TPv3 over IP protocol 115", near, far)
	near, far = same("kind = \"gretap\"\n")
	add("gretap", "weft, Ethernet in GRE", near, far)
	return list
}

// Bench describes it.
func Bench(seconds float64) bench.Bench {
	b := bench.Bench{
		Name:  "pseudowire",
		Title: "Pseudowires: weft's beside the kernel's VXLAN device and the bare underlay",
		Cases: []bench.Case{
			{Name: "tcp1", About: "one TCP flow over IPv4, payload that arrives", Unit: "Gbit/s"},
			{Name: "tcp1-inner6", About: "one TCP flow over IPv6, payload that arrives", Unit: "Gbit/s"},
			{Name: "tcp20", About: "twenty TCP flows over IPv4, payload that arrives", Unit: "Gbit/s"},
			{Name: "pps64-encap", About: "IPv4 packets of 64 bytes that are routed into it, one CPU", Unit: "Mpps"},
			{Name: "pps64-decap", About: "the same that come out of it and are routed on, one CPU", Unit: "Mpps"},
			{Name: "tcp1-4096", About: "one TCP flow, 4,096 pseudowires on one UDP port", Unit: "Gbit/s"},
			{Name: "setup-4096", About: "until 4,096 pseudowires on one UDP port are ready", Unit: "s", Less: true},
		},
		Fits:   func(c, s string) bool { return !strings.HasSuffix(c, "-4096") || s == "l2tpv3-udp" },
		Limits: []bench.Limit{{Case: "setup-4096", Subject: "l2tpv3-udp", AtMost: 5}},
		Rounds: 9, Packages: []string{"iperf3"},
		Settings: map[string]string{
			"topology": "two network namespaces, veth, MTU 1500; packets come from a third, or go there",
			"packets":  fmt.Sprintf("UDP, 256 flows, %.2f s", seconds/2),
			"tcp":      fmt.Sprintf("iperf3, %d s, the first half second left out", tcpSeconds(seconds)),
		},
	}
	for _, s := range subjects() {
		b.Subjects = append(b.Subjects, bench.Subject{Name: s.name, About: s.about})
	}
	for _, s := range []string{"l2tpv3-udp", "gretap"} {
		b.Bars = append(b.Bars,
			bench.Bar{Case: "tcp1", Subject: s, Times: 0.95, Of: "kernel-vxlan"},
			bench.Bar{Case: "tcp1-inner6", Subject: s, Times: 0.8, Of: "kernel-vxlan"},
			bench.Bar{Case: "pps64-encap", Subject: s, Times: 1, Of: "kernel-vxlan"},
			bench.Bar{Case: "pps64-decap", Subject: s, Times: 1, Of: "kernel-vxlan"})
	}
	for _, s := range []string{"l2tpv3-udp-counter", "l2tpv3-ip"} {
		b.Bars = append(b.Bars, bench.Bar{Case: "tcp1", Subject: s, Times: 0.22, Of: "kernel-vxlan"})
	}
	return b
}

// Needs are the programs that it takes.
func Needs() []rig.Program { return []rig.Program{{Name: "iperf3", Package: "iperf3"}} }

var (
	underlay = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("192.0.2.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("192.0.2.1/24")},
	}
	unused = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:9::2/64"), netip.MustParsePrefix("203.0.113.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:9::1/64"), netip.MustParsePrefix("203.0.113.1/24")},
	}
	inside4 = [2]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")}
	inside6 = [2]netip.Addr{netip.MustParseAddr("2001:db8:2::1"), netip.MustParseAddr("2001:db8:2::2")}
)

// Measurer has a path for every subject, made when it is first needed.
type Measurer struct {
	o     Options
	paths map[string]*rig.Path
	small map[string]*small
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	return &Measurer{o, map[string]*rig.Path{}, map[string]*small{}}, nil
}

// Close takes all paths down.
func (m *Measurer) Close(ctx context.Context) error {
	var errs []error
	for _, p := range m.small {
		errs = append(errs, p.close(ctx))
	}
	for _, p := range m.paths {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, name string) (float64, error) {
	i := slices.IndexFunc(subjects(), func(s subject) bool { return s.name == name })
	if i < 0 {
		return 0, fmt.Errorf("no subject is called %q", name)
	}
	s := subjects()[i]
	if c == "setup-4096" {
		return m.setUp(ctx)
	}
	if strings.HasPrefix(c, "pps64-") {
		return m.packets(ctx, s, c == "pps64-decap")
	}
	wires := 1
	if c == "tcp1-4096" {
		wires = many
	}
	p, err := m.path(ctx, s, wires)
	if err != nil {
		return 0, err
	}
	to, flows := inside4[1], 1
	if c == "tcp20" {
		flows = 20
	}
	if c == "tcp1-inner6" {
		to = inside6[1]
	}
	if s.near == "" {
		to = underlay.Host[1].Addr()
		if c == "tcp1-inner6" {
			to = underlay.Host[0].Addr()
		}
	}
	return p.TCP(ctx, p.Router, to, flows, tcpSeconds(m.o.Seconds))
}

func (m *Measurer) path(ctx context.Context, s subject, wires int) (*rig.Path, error) {
	key := fmt.Sprintf("%s-%d", s.name, wires)
	if p, ok := m.paths[key]; ok {
		return p, nil
	}
	p, err := rig.NewPath(rig.PathOptions{Name: key, Lan: underlay, Wan: unused, Forward: true})
	if err != nil {
		return nil, err
	}
	m.paths[key] = p
	to := underlay.Host[1].Addr()
	if s.near != "" {
		to = inside4[1]
		err = errors.Join(
			p.RunWeftIn(ctx, p.Router, m.o.Weft, config(s.near, 0, wires)),
			p.RunWeftIn(ctx, p.Left, m.o.Weft, config(s.far, 1, wires)))
	}
	if err == nil {
		err = errors.Join(p.Ping(ctx, p.Router, to), p.ServeTCP(ctx, p.Left))
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	return p, nil
}

// config is that of one end: 0 is the router's, 1 the host's. Further wires
// have other sessions on the same port.
func config(options string, end, wires int) string {
	src, dst, device := underlay.Router[1].Addr(), underlay.Host[1].Addr(), "lan"
	if end == 1 {
		src, dst, device = dst, src, "eth0"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[router]\nforwarding = false\n[interface.under]\ndevice = %q\n[interface.wire]\naddresses = [\"%s/24\", \"%s/64\"]\n", device, inside4[end], inside6[end])
	fmt.Fprintf(&b, "[pseudowire.wire]\nsrc = %q\ndst = %q\n%s", src, dst, options)
	for i := 2; i <= wires; i++ {
		other := strings.NewReplacer("rx_session = 1\n", fmt.Sprintf("rx_session = %d\n", i), "tx_session = 1\n", fmt.Sprintf("tx_session = %d\n", i)).Replace(options)
		fmt.Fprintf(&b, "[pseudowire.w%d]\nsrc = %q\ndst = %q\nlink_local = false\n%s", i, src, dst, other)
	}
	return b.String()
}

// setUp is how long `weft run` takes until all are ready, from nothing.
func (m *Measurer) setUp(ctx context.Context) (float64, error) {
	s := subjects()[slices.IndexFunc(subjects(), func(s subject) bool { return s.name == "l2tpv3-udp" })]
	p, err := rig.NewPath(rig.PathOptions{Name: "setup", Lan: underlay, Wan: unused, Forward: true})
	if err != nil {
		return 0, err
	}
	text := config(s.near, 0, many)
	begin := time.Now()
	err = p.RunWeftIn(ctx, p.Router, m.o.Weft, text)
	took := time.Since(begin).Seconds()
	return took, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
}
