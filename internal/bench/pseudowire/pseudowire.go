// Package pseudowire is `weft bench pseudowire`: TCP through weft's
// pseudowires beside the kernel's VXLAN device and the bare underlay.
package pseudowire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab"
	"weft/internal/lab/netspace"
)

// many is how many pseudowires there are at once on one UDP port.
const many = 4096

// Options of the measurements.
type Options struct {
	Weft    string   // path of the weft program
	Seconds float64  // of payload that one TCP measurement counts
	Guests  []string // that will be measured; see Guests
}

// subject is a way from one host to another: options of [pseudowire.wire] at
// either end; none is the bare underlay.
type subject struct {
	name, about string
	near, far   string
	hook        string // at which weft's tables route, past the wire's interface; empty: the kernel routes
}

// bypassSuffix ends the names of subjects that route past the interface.
const bypassSuffix = "-bypass"

// routes reports whether a subject is one of routers: it is measured in packets only.
func (s subject) routes() bool { return s.hook != "" }

// Describe is for the bench.
func (s subject) Describe() bench.Subject { return bench.Subject{Name: s.name, About: s.about} }

func subjects() []subject {
	udp := func(rest string) (near, far string) {
		common := "kind = \"l2tpv3\"\nrx_session = 1\ntx_session = 1\n" + rest
		return common + "srcport = 1701\ndstport = 1702\n", common + "srcport = 1702\ndstport = 1701\n"
	}
	same := func(text string) (near, far string) { return text, text }
	var list []subject
	add := func(name, about, near, far string) {
		list = append(list, subject{name: name, about: about, near: near, far: far})
	}
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
	for _, s := range list[2:] {
		if s.name != "l2tpv3-udp" && s.name != "gretap" {
			continue
		}
		for _, hook := range []string{"tc", "xdp"} {
			list = append(list, subject{
				name: s.name + bypassSuffix + "-" + hook, about: s.about + ", [route] and bypass = true in " + strings.ToUpper(hook),
				near: s.near + "bypass = true\n", far: s.far, hook: hook,
			})
		}
	}
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
			{Name: "pps64-encap", About: "IPv4 packets of 64 bytes that are routed into it, by the second of the router's work", Unit: "Mpps"},
			{Name: "pps64-decap", About: "the same that come out of it and are routed on", Unit: "Mpps"},
			{Name: "tcp1-4096", About: "one TCP flow, 4,096 pseudowires on one UDP port", Unit: "Gbit/s"},
			{Name: "kept-4096", About: "that, as a part of tcp1 of the same round", Unit: "of 1"},
			{Name: "setup-4096", About: "until 4,096 pseudowires on one UDP port are ready", Unit: "s", Less: true},
		},
		Fits:   fits,
		Limits: []bench.Limit{{Case: "setup-4096", Subject: "l2tpv3-udp", AtMost: 5}},
		Rounds: 9, Packages: []string{"iperf3"},
		Settings: map[string]string{
			"topology": "two network namespaces, veth, MTU 1500; packets come from a third, or go there",
			"packets":  fmt.Sprintf("UDP, 256 flows, %.2f s; a second is one that router and receiver work, on a CPU of their own", seconds/2),
			"tcp":      fmt.Sprintf("iperf3, %d s, the first half second left out", bench.TCPSeconds(seconds)),
		},
	}
	b.Subjects = bench.Subjects(subjects())
	b.Cases = append(b.Cases, guestCases()...)
	for _, g := range guests() {
		b.Subjects = append(b.Subjects, bench.Subject{Name: g.name, About: g.about})
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
	for _, s := range []string{"l2tpv3-udp", "gretap"} {
		for _, c := range []string{"pps64-encap", "pps64-decap"} {
			b.Bars = append(b.Bars, bench.Bar{Case: c, Subject: s + bypassSuffix + "-xdp", Times: 1, Of: "kernel-vxlan"})
		}
	}
	b.Bars = append(b.Bars, bench.Bar{Case: "kept-4096", Subject: "l2tpv3-udp", Times: 0.9})
	return b
}

// fits reports whether a subject is measured in a case.
func fits(c, s string) bool {
	if strings.Contains(s, bypassSuffix) {
		return strings.HasPrefix(c, "pps64-")
	}
	guest := slices.ContainsFunc(guests(), func(g guest) bool { return g.name == s })
	return guest == ofGuests(c) && (!strings.HasSuffix(c, "-4096") || s == "l2tpv3-udp")
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
	labs  map[string]*lab.Lab // of guests, by scenario
	rates map[int]float64     // of one TCP flow, by how many pseudowires there are: the last that was measured
}

// Open prepares to measure.
func Open(ctx context.Context, o Options) (*Measurer, error) {
	if err := rig.Sweep(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(sweepLabs(ctx), lacking(o.Guests)); err != nil {
		return nil, err
	}
	return &Measurer{o, map[string]*rig.Path{}, map[string]*small{}, map[string]*lab.Lab{}, map[int]float64{}}, nil
}

// Close takes all paths down.
func (m *Measurer) Close(ctx context.Context) error {
	errs := []error{m.sendGuestsHome(ctx)}
	for _, p := range m.small {
		errs = append(errs, p.close(ctx))
	}
	for key, p := range m.paths {
		if strings.HasSuffix(key, fmt.Sprint("-", many)) {
			errs = append(errs, m.unload(ctx, p, p.Router, p.Left))
		}
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}

// Measure measures a subject in a case, once.
func (m *Measurer) Measure(ctx context.Context, c, name string) (float64, error) {
	if ofGuests(c) {
		return m.guest(ctx, c, name)
	}
	if err := m.sendGuestsHome(ctx); err != nil {
		return 0, err
	}
	s, err := bench.Find(subjects(), name)
	if err != nil {
		return 0, err
	}
	if c == "setup-4096" {
		return m.setUp(ctx)
	}
	if strings.HasPrefix(c, "pps64-") {
		return m.packets(ctx, s, c == "pps64-decap")
	}
	wires := 1
	switch c {
	case "kept-4096":
		return m.kept(ctx, name)
	case "tcp1-4096":
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
	rate, err := p.TCP(ctx, p.Router, to, flows, bench.TCPSeconds(m.o.Seconds))
	if name == "l2tpv3-udp" && (c == "tcp1" || c == "tcp1-4096") {
		m.rates[wires] = rate
	}
	return rate, err
}

// kept is made of the two rates that this round has measured, or measures them.
func (m *Measurer) kept(ctx context.Context, name string) (float64, error) {
	for wires, c := range map[int]string{1: "tcp1", many: "tcp1-4096"} {
		if m.rates[wires] > 0 {
			continue
		}
		if _, err := m.Measure(ctx, c, name); err != nil {
			return 0, err
		}
	}
	rate := m.rates[many] / m.rates[1]
	clear(m.rates)
	return rate, nil
}

func (m *Measurer) path(ctx context.Context, s subject, wires int) (*rig.Path, error) {
	key := fmt.Sprintf("%s-%d", s.name, wires)
	if p, ok := m.paths[key]; ok {
		return p, nil
	}
	p, err := rig.NewPath(rig.PathOptions{Name: key, Lan: underlay, Wan: unused, Forward: true, Patience: settled(wires)})
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

// settled is how long so many may take until they are ready: on a busy
// machine several times as long as the bar says.
func settled(wires int) time.Duration {
	if wires == 1 {
		return 0
	}
	return 90 * time.Second
}

// setUp is how long `weft run` takes until all are ready, from nothing.
func (m *Measurer) setUp(ctx context.Context) (float64, error) {
	s := subjects()[slices.IndexFunc(subjects(), func(s subject) bool { return s.name == "l2tpv3-udp" })]
	p, err := rig.NewPath(rig.PathOptions{Name: "setup", Lan: underlay, Wan: unused, Forward: true, Patience: settled(many)})
	if err != nil {
		return 0, err
	}
	text := config(s.near, 0, many)
	begin := time.Now()
	err = p.RunWeftIn(ctx, p.Router, m.o.Weft, text)
	took := time.Since(begin).Seconds()
	ctx = context.WithoutCancel(ctx)
	return took, errors.Join(err, m.unload(ctx, p, p.Router), p.Close(ctx))
}

// unload has weft take thousands of devices away. If it is left to the kernel,
// that is busy for minutes, and so are measurements that follow.
func (m *Measurer) unload(ctx context.Context, p *rig.Path, in ...*netspace.Space) (err error) {
	for _, s := range in {
		err = errors.Join(err, p.UnloadWeft(ctx, s, m.o.Weft))
	}
	return err
}
