// Package nat64 is `weft bench nat64`: weft's translator compared with Tayga, the
// kernel's own forwarding, and an XDP program that only forwards.
package nat64

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// direction is which way the packets of a case go.
type direction bool

const (
	to4 direction = false // from the IPv6 host to the IPv4 host
	to6 direction = true
)

// kind is what a case measures.
type kind int

const (
	tcp   kind = iota // goodput
	pps               // packets that arrive
	timed             // time that programs take
)

// measurement is a case, taken apart.
type measurement struct {
	kind   kind
	to     direction
	flows  int // of TCP
	length int // bytes of the packet when it is IPv4
}

// Lengths of packets: what is 64 bytes in IPv4 is 84 in IPv6.
const (
	small = 64
	large = 1480
	grows = 20
)

func cases() ([]bench.Case, map[string]measurement) {
	var list []bench.Case
	parts := map[string]measurement{}
	for _, c := range []struct {
		name, about, unit string
		m                 measurement
	}{
		{"tcp1", "one TCP flow, payload that arrives", "Gbit/s", measurement{kind: tcp, flows: 1}},
		{"tcp20", "twenty TCP flows, payload that arrives", "Gbit/s", measurement{kind: tcp, flows: 20}},
		{"pps64", "IPv4 packets of 64 bytes (IPv6: 84), one CPU", "Mpps", measurement{kind: pps, length: small}},
		{"pps1500", "IPv4 packets of 1480 bytes (IPv6: 1500), one CPU", "Mpps", measurement{kind: pps, length: large}},
		{"run", "time in eBPF programs for a packet of 64 bytes (IPv6: 84)", "ns", measurement{kind: timed, length: small}},
	} {
		for _, to := range []direction{to4, to6} {
			name, about := c.name+"-6to4", c.about+", IPv6 host to IPv4 host"
			if to == to6 {
				name, about = c.name+"-4to6", c.about+", IPv4 host to IPv6 host"
			}
			c.m.to = to
			parts[name] = c.m
			list = append(list, bench.Case{Name: name, About: about, Unit: c.unit, Less: c.m.kind == timed})
		}
	}
	return list, parts
}

// Bench describes it.
func Bench(seconds float64) bench.Bench {
	list, _ := cases()
	b := bench.Bench{
		Name:  "nat64",
		Title: "Stateless NAT64: weft beside Tayga and the kernel's own forwarding",
		Cases: list, Fits: fits, Bars: bars(), Rounds: 9,
		Packages: []string{"iperf3", "tayga", "nftables"},
		Settings: map[string]string{
			"topology":       "three network namespaces in a row, veth, MTU 1500",
			"policy":         strings.Join(strings.Fields(policy), " "),
			"tcp":            fmt.Sprintf("iperf3, %d s, the first half second left out", bench.TCPSeconds(seconds)),
			"packets":        fmt.Sprintf("UDP, 256 flows, %.2f s", seconds/3),
			"weft-xdp hosts": "transmit checksum offload off, GRO on; the same for xdp-forward",
		},
	}
	b.Subjects = bench.Subjects(subjects())
	return b
}

// fits reports whether a subject is in a case: only eBPF programs have a run time.
func fits(c, subject string) bool {
	return !strings.HasPrefix(c, "run-") || !slices.Contains([]string{"tayga", "kernel-ipv4", "kernel-ipv6"}, subject)
}

// bars are those that weft is held to, in both directions.
func bars() []bench.Bar {
	var list []bench.Bar
	for _, to := range []string{"-6to4", "-4to6"} {
		list = append(list,
			bench.Bar{Case: "tcp1" + to, Subject: "weft-tc", Times: 9, Of: "tayga"},
			bench.Bar{Case: "tcp1" + to, Subject: "weft-tc", Times: 0.75, Of: "kernel-ipv4"},
			bench.Bar{Case: "tcp1" + to, Subject: "weft-tc-bypass", Times: 0.85, Of: "kernel-ipv4"},
			bench.Bar{Case: "pps64" + to, Subject: "weft-xdp", Times: 0.8, Of: "xdp-forward"},
			bench.Bar{Case: "pps64" + to, Subject: "weft-xdp", Times: 1.8, Of: "kernel-ipv4"},
			bench.Bar{Case: "pps64" + to, Subject: "weft-xdp", Times: 1.8, Of: "kernel-ipv6"},
		)
	}
	return list
}

// Needs are the programs that the subjects and cases chosen take; none stand
// for all.
func Needs(caseNames, subjectNames []string) []rig.Program {
	list := []rig.Program{{Name: "nft", Package: "nftables"}}
	isTCP := func(c string) bool { return strings.HasPrefix(c, "tcp") }
	if len(caseNames) == 0 || slices.ContainsFunc(caseNames, isTCP) {
		list = append(list, rig.Program{Name: "iperf3", Package: "iperf3"})
	}
	if len(subjectNames) == 0 || slices.Contains(subjectNames, "tayga") {
		list = append(list, rig.Program{Name: "tayga", Package: "tayga"})
	}
	return list
}
