// Package lns is `weft bench lns`: weft as an LNS compared with l2tpns.
package lns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// The addresses are the same for every subject: tunnels come from the left host, and
// the right one is the Internet.
var (
	left = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("203.0.113.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("203.0.113.1/24")},
	}
	right = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::2/64"), netip.MustParsePrefix("198.51.100.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("198.51.100.1/24")},
	}
	pool = netip.MustParsePrefix("10.64.0.0/16")
	here = netip.AddrPortFrom(left.Router[1].Addr(), 1701)
	peer = netip.AddrPortFrom(left.Host[1].Addr(), 1701)
)

// kind is what a case measures.
type kind int

const (
	packets kind = iota // that arrive
	tcp                 // goodput
	cpu                 // of the whole machine, for a Gbit of TCP
	setup               // sessions that come up in a second
	kept                // what is left of the packet rate of one session
	memory              // for a session
)

// measurement is a case, taken apart.
type measurement struct {
	kind     kind
	down     bool // to subscribers
	length   int  // bytes of a subscriber's IP packet
	sessions int
	switched bool // from one tunnel into another
}

func counts() []int { return []int{1, 1000, most} }

const most = 30000

// cases are in the order in which a round needs its servers: the sessions are set up
// once, and used for all cases with that number.
func cases() ([]bench.Case, map[string]measurement) {
	var list []bench.Case
	parts := map[string]measurement{}
	add := func(what, about, unit string, less bool, m measurement) {
		name := name(what, m.sessions)
		parts[name] = m
		list = append(list, bench.Case{Name: name, About: fmt.Sprintf("%s, %d sessions", about, m.sessions), Unit: unit, Less: less})
	}
	for _, n := range counts() {
		add("setup", "tunnels and sessions with PAP, RADIUS and an address", "sessions/s", false, measurement{kind: setup, sessions: n})
		for _, down := range []bool{false, true} {
			way, about := "-up", "from subscribers"
			if down {
				way, about = "-down", "to subscribers"
			}
			add("pps64"+way, "IPv4 packets of 64 bytes "+about+", all sessions in turn, in a second of the server's work", "Mpps", false, measurement{packets, down, 64, n, false})
			add("pps1400"+way, "IPv4 packets of 1400 bytes "+about+", all sessions in turn, in a second of the server's work", "Mpps", false, measurement{packets, down, 1400, n, false})
			add("tcp1"+way, "one TCP flow "+about+", payload that arrives", "Gbit/s", false, measurement{tcp, down, 0, n, false})
			add("cpu1"+way, "one TCP flow "+about+", time of all CPUs for a Gbit, both ends included", "ms/Gbit", true, measurement{cpu, down, 0, n, false})
			if n == most {
				add("kept"+way, "packets of 64 bytes "+about+" a second, as a part of those of one session, measured in turn", "of 1", false, measurement{kept, down, 64, n, false})
			}
		}
		add("memory", "the server's memory, its maps included, for each session", "KiB", true, measurement{kind: memory, sessions: n})
	}
	forwardCases(add)
	return list, parts
}

func name(what string, sessions int) string { return fmt.Sprintf("%s-%d", what, sessions) }

// Bench describes it.
func Bench(seconds float64) bench.Bench {
	list, _ := cases()
	b := bench.Bench{
		Name:  "lns",
		Title: "Subscribers' tunnels: weft beside l2tpns",
		Cases: list, Fits: fits, Bars: bars(), Rounds: 5,
		Packages: []string{"l2tpns", "iperf3"},
		Settings: map[string]string{
			"topology": "three network namespaces in a row, veth, MTU 1500; tunnels over IPv4",
			"tcp":      fmt.Sprintf("iperf3, %d s, the first half second left out; the subscriber's end is weft's datapath for every server, and sends packets of a wire's size", bench.TCPSeconds(seconds)),
			"packets":  fmt.Sprintf("UDP, %.2f s; a second is one that the server works", seconds/3),
			"kept":     fmt.Sprintf("%d bursts of %d ms with each of the two servers, in turn; the ratio of the medians", keptBursts, keptBurst.Milliseconds()),
			"hooks":    "weft: XDP for packets, TC for TCP, as on physical and on virtual devices",
			"setup":    "a concentrator of the bench's own; RADIUS answers at once",
		},
	}
	b.Subjects = bench.Subjects(subjects())
	return b
}

// fits reports whether a subject is in a case. Sessions that are written into tables
// are not negotiated, and to switch that many sessions on l2tpns would take longer
// than the rest of a round.
func fits(c, subject string) bool {
	if subject == "l2tpns" && strings.HasPrefix(c, "forward") {
		return !strings.HasSuffix(c, fmt.Sprintf("-%d", most))
	}
	return subject != "weft-tables" || !strings.HasPrefix(c, "setup-")
}

func bars() []bench.Bar {
	list := []bench.Bar{
		{Case: name("setup", most), Subject: "weft", Times: 1, Of: "l2tpns"},
		{Case: name("setup", most), Subject: "weft", Times: 1000},
		{Case: name("memory", most), Subject: "weft", Times: 8},
	}
	for _, way := range []string{"up", "down"} {
		list = append(list, bench.Bar{Case: name("kept-"+way, most), Subject: "weft", Times: 0.8})
	}
	for _, n := range counts() {
		for _, c := range []string{"pps64-up", "pps64-down", "pps1400-up", "pps1400-down", "tcp1-up", "tcp1-down"} {
			list = append(list, bench.Bar{Case: name(c, n), Subject: "weft", Times: 5, Of: "l2tpns"})
		}
	}
	return list
}

// Needs are the programs that the chosen subjects and cases require; an empty list
// means all.
func Needs(caseNames, subjectNames []string) []rig.Program {
	var list []rig.Program
	ofTCP := func(c string) bool { return strings.HasPrefix(c, "tcp") || strings.HasPrefix(c, "cpu") }
	if len(caseNames) == 0 || slices.ContainsFunc(caseNames, ofTCP) {
		list = append(list, rig.Program{Name: "iperf3", Package: "iperf3"})
	}
	if len(subjectNames) == 0 || slices.Contains(subjectNames, "l2tpns") {
		list = append(list, rig.Program{Name: "l2tpns", Package: "l2tpns"})
	}
	return list
}
