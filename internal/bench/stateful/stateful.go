// Package stateful is `weft bench nat64-stateful`: weft's NAT64 with shared
// addresses beside its stateless translation and the kernel's masquerade.
package stateful

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// kind is what a case measures.
type kind int

const (
	tcp    kind = iota // goodput of one flow
	setup              // new sessions a second
	rate               // packets a second of sessions that are there
	kept               // what is left of the rate of one session
	memory             // what they take
)

// measurement is a case, taken apart.
type measurement struct {
	kind     kind
	to6      bool // TCP: the data go to the IPv6 host
	sessions int
	zipf     bool
}

// Million is the most sessions that are measured with.
const Million = 1_000_000

func counts() []int { return []int{1, 100_000, Million} }

// cases are in the order in which a round adds sessions: a case that must begin with
// none makes its router again.
func cases() ([]bench.Case, map[string]measurement) {
	var list []bench.Case
	parts := map[string]measurement{}
	add := func(m measurement, less bool, unit, name, about string) {
		list = append(list, bench.Case{Name: name, About: about, Unit: unit, Less: less})
		parts[name] = m
	}
	add(measurement{kind: tcp}, false, "Gbit/s", "tcp1-6to4", "one TCP flow, IPv6 host to IPv4 host, payload that arrives")
	add(measurement{kind: tcp, to6: true}, false, "Gbit/s", "tcp1-4to6", "one TCP flow that the IPv6 host opens, IPv4 host to IPv6 host, payload that arrives")
	for _, n := range counts() {
		if n == Million {
			add(measurement{kind: setup, sessions: n}, false, "k/s", "setup", "new UDP sessions, from none to a million of 250,000 bindings, one CPU")
		}
		add(measurement{kind: rate, sessions: n}, false, "Mpps", fmt.Sprintf("pps64-%d", n), fmt.Sprintf("packets of 64 bytes (IPv6: 84) to IPv4, of %d sessions in random order, one CPU", n))
		if n > 1 {
			add(measurement{kind: rate, sessions: n, zipf: true}, false, "Mpps", fmt.Sprintf("pps64-zipf-%d", n), fmt.Sprintf("the same, of %d sessions by Zipf's law", n))
			add(measurement{kind: kept, sessions: n}, false, "of 1", fmt.Sprintf("kept-%d", n), fmt.Sprintf("packet rate of %d sessions, as a part of that of one", n))
			add(measurement{kind: kept, sessions: n, zipf: true}, false, "of 1", fmt.Sprintf("kept-zipf-%d", n), "the same by Zipf's law")
		}
		add(measurement{kind: memory, sessions: n}, true, "MiB", fmt.Sprintf("memory-%d", n), fmt.Sprintf("memory of tables and daemon with %d sessions", n))
	}
	return list, parts
}

// Bench describes it.
func Bench(seconds float64) bench.Bench {
	list, _ := cases()
	b := bench.Bench{
		Name:  "nat64-stateful",
		Title: "Stateful NAT64 beside stateless translation and the kernel's masquerade",
		Cases: list, Fits: fits, Bars: bars(), Rounds: 5,
		Limits: []bench.Limit{
			{Case: "setup", Subject: "weft-tc", AtLeast: 200},
			{Case: "setup", Subject: "weft-xdp", AtLeast: 200},
			{Case: "memory-1000000", Subject: "weft-tc", AtMost: 512},
			{Case: "memory-1000000", Subject: "weft-xdp", AtMost: 512},
		},
		Packages: []string{"iperf3", "nftables"},
		Settings: map[string]string{
			"topology": "three network namespaces in a row, veth, MTU 1500",
			"policy":   strings.Join(strings.Fields(policy), " ") + "; kernel-nat44 also masquerades: " + strings.Join(strings.Fields(masquerade), " "),
			"sessions": "UDP, 250,000 bindings of 3,907 nodes, 256 far addresses",
			"tables":   "weft: 262144 bindings, 1048576 sessions, made in full at the start; kernel: 1048576 buckets",
			"tcp":      fmt.Sprintf("iperf3, %d s, the first half second left out", bench.TCPSeconds(seconds)),
			"packets":  fmt.Sprintf("%.2f s, sessions met in another order than they were made; Zipf exponent 1.1", seconds/3),
			"weft-xdp": "transmit checksum offload off at the hosts, GRO on",
		},
	}
	b.Subjects = bench.Subjects(subjects())
	return b
}

// fits: what keeps no sessions makes none, and takes no memory for them.
func fits(c, subject string) bool {
	return subject != "weft-stateless" || c != "setup" && !strings.HasPrefix(c, "memory-")
}

// bars are those that weft is held to beside the others.
func bars() []bench.Bar {
	list := []bench.Bar{
		{Case: "tcp1-6to4", Subject: "weft-tc", Times: 0.9, Of: "weft-stateless"},
		{Case: "tcp1-4to6", Subject: "weft-tc", Times: 0.9, Of: "weft-stateless"},
	}
	for _, c := range []string{"kept-1000000", "kept-zipf-1000000"} {
		for _, s := range []string{"weft-tc", "weft-xdp"} {
			list = append(list, bench.Bar{Case: c, Subject: s, Times: 1, Of: "kernel-nat44"})
		}
	}
	return list
}

// Needs are the programs that the cases chosen take; none stand for all.
func Needs(caseNames []string) []rig.Program {
	list := []rig.Program{{Name: "nft", Package: "nftables"}}
	isTCP := func(c string) bool { return strings.HasPrefix(c, "tcp") }
	if len(caseNames) == 0 || slices.ContainsFunc(caseNames, isTCP) {
		list = append(list, rig.Program{Name: "iperf3", Package: "iperf3"})
	}
	return list
}
