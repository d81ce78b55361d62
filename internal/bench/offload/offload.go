// Package offload is `weft bench offload`: established connections behind NAT,
// forwarded by the kernel, and by weft past the stack, with one ruleset.
package offload

import (
	"fmt"
	"strings"

	"weft/internal/bench"
	"weft/internal/bench/rig"
)

// DefaultSeconds is the default of Options.Seconds.
const DefaultSeconds = 2

// many is how many flows the second half of the cases has: 64 hosts with 16384
// ports each.
const (
	many      = 1 << 20
	manyHosts = 64
)

// policy is the router's, for every subject: stateful, the member's network
// behind a pool of addresses.
const policy = `
table inet bench {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
    iifname "lan" oifname "wan" accept
  }
  chain srcnat {
    type nat hook postrouting priority srcnat;
    oifname "wan" meta nfproto ipv4 snat ip to 198.51.101.0-198.51.101.127
  }
}
`

// Bench describes it.
func Bench(seconds float64) bench.Bench {
	return bench.Bench{
		Name:  "offload",
		Title: "Established connections behind NAT: weft beside the kernel",
		Cases: []bench.Case{
			{Name: "pps64-nat-1", About: "IPv4 packets of 64 bytes of one flow, source NAT, one CPU", Unit: "Mpps"},
			{Name: "pps64-nat-1000000", About: "the same of 1048576 flows, in turn", Unit: "Mpps"},
			{Name: "pps64-nat-mixed", About: "of 1048576 flows in another order than that in which they began", Unit: "Mpps"},
			{Name: "pps64-six-1", About: "IPv6 packets of 64 bytes of one flow, one CPU", Unit: "Mpps"},
			{Name: "pps64-six-1000000", About: "the same of 1048576 flows, in turn", Unit: "Mpps"},
			{Name: "growth-nat", About: "what is left of the rate of one flow with 1048576", Unit: "of it"},
			{Name: "learn-1000000", About: "until 97 of 100 of 1048576 flows are offloaded, from their first packet", Unit: "s", Less: true},
			{Name: "pps64-drop-1", About: "IPv4 packets of 64 bytes of one flow that are refused: by FORWARD, by the block list", Unit: "Mpps"},
			{Name: "pps64-drop-1000000", About: "the same of 1048576 flows of 64 hosts", Unit: "Mpps"},
			{Name: "pps64-drop-listed", About: "the same beside 1048576 other hosts that are refused: in a set of the ruleset, on the block list", Unit: "Mpps"},
			{Name: "pps64-drop-learnt", About: "of one flow that FORWARD refuses, as weft has learnt of it", Unit: "Mpps"},
			{Name: "tcp1-nat-1", About: "one TCP flow, source NAT, payload that arrives", Unit: "Gbit/s"},
			{Name: "tcp1-nat-1000000", About: "the same beside 1048576 other flows that are known", Unit: "Gbit/s"},
			{Name: "cpu-nat", About: "the router's work for the TCP flow", Unit: "s/Gbit", Less: true},
			{Name: "cpu-nat-200", About: "the same for 200 TCP flows at once, 5 Mbit/s each", Unit: "s/Gbit", Less: true},
			{Name: "cpu-nat-paced", About: "the same for one TCP flow of 200 Mbit/s", Unit: "s/Gbit", Less: true},
			{Name: "cpu-nat-udp", About: "the same for one flow of UDP packets of 1500 bytes, each by itself", Unit: "s/Gbit", Less: true},
			{Name: "cpu-nat-all", About: "work of all CPUs for it, the hosts' included", Unit: "s/Gbit", Less: true},
		},
		Subjects: []bench.Subject{
			{Name: "kernel", About: "the kernel: conntrack, NAT, FORWARD"},
			{Name: "weft-tc", About: "weft, TC"},
			{Name: "weft-xdp", About: "weft, XDP"},
			{Name: "tc-forward", About: "a TC program that sends every frame on, and looks at nothing"},
			{Name: "xdp-forward", About: "an XDP program that routes by the kernel's table, without NAT"},
			{Name: "xdp-drop", About: "an XDP program that drops what comes for the port"},
		},
		Fits: fits,
		Bars: []bench.Bar{
			{Case: "pps64-nat-1", Subject: "weft-xdp", Times: 3, Of: "kernel"},
			{Case: "pps64-nat-1000000", Subject: "weft-xdp", Times: 3, Of: "kernel"},
			{Case: "growth-nat", Subject: "weft-xdp", Times: 1, Of: "kernel"},
			{Case: "growth-nat", Subject: "weft-tc", Times: 1, Of: "kernel"},
			{Case: "pps64-drop-1", Subject: "weft-xdp", Times: 4, Of: "kernel"},
			{Case: "pps64-drop-1000000", Subject: "weft-xdp", Times: 4, Of: "kernel"},
			{Case: "pps64-drop-listed", Subject: "weft-xdp", Times: 4, Of: "kernel"},
			{Case: "pps64-drop-learnt", Subject: "weft-xdp", Times: 4, Of: "kernel"},
			// weft takes at most 0.8 of it
			{Case: "cpu-nat", Subject: "kernel", Times: 1.25, Of: "weft-tc"},
			{Case: "cpu-nat-200", Subject: "kernel", Times: 1.25, Of: "weft-tc"},
			{Case: "cpu-nat-udp", Subject: "kernel", Times: 1.25, Of: "weft-tc"},
		},
		Rounds:   5,
		Packages: []string{"iperf3", "nftables"},
		Settings: map[string]string{
			"topology": "three network namespaces in a row, veth, MTU 1500",
			"policy":   strings.Join(strings.Fields(policy), " "),
			"refused":  strings.Join(strings.Fields(refusedPolicy), " "),
			"hosts":    "transmit checksum offload off, and so no segmentation offload; GRO on, at the router too",
			"CPUs":     "packets are made on the last CPU, and received at the router by a thread on the first, with all that follows from there on; cpu-nat: TCP comes from behind the left host, and the hosts receive in threads on the last CPU, where iperf3 is, too; cpu-nat-200 and -paced: the router's is elsewhere for 0.7 of each millisecond",
			"packets":  fmt.Sprintf("UDP, %.2f s", seconds/2),
		},
	}
}

// fits reports whether a subject is in a case. The three that do less than the case
// asks show the cost of the path itself.
func fits(c, subject string) bool {
	switch subject {
	case "kernel":
		return !strings.HasPrefix(c, "learn")
	case "tc-forward":
		return strings.HasPrefix(c, "cpu-") && c != "cpu-nat-udp"
	case "xdp-forward":
		return strings.HasPrefix(c, "pps64-nat-") || strings.HasPrefix(c, "pps64-six-")
	case "xdp-drop":
		return c == "pps64-drop-1" || c == "pps64-drop-1000000"
	}
	return true
}

// Needs are the programs that it takes.
func Needs() []rig.Program {
	return []rig.Program{{Name: "nft", Package: "nftables"}, {Name: "iperf3", Package: "iperf3"}}
}
