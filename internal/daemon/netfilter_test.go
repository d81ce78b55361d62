package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
)

// firewall is a stateful FORWARD policy: nothing but what the member begins,
// and the answers to it. The translator's device is the IPv6 side to it.
const firewall = `
table inet weft-test {
	counter established { }
	counter begun { }
	counter refused { }
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related counter name established accept
		iifname "nat64-main" oifname "wan" ct state new counter name begun accept
		counter name refused
	}
}
`

// filtered returns the packets that a counter of the firewall has seen.
func (w *topology) filtered(counter string) int {
	w.t.Helper()
	var answer struct {
		Nftables []struct {
			Counter *struct{ Packets int } `json:"counter"`
		} `json:"nftables"`
	}
	out := w.run(w.router, "nft -j list counter inet weft-test "+counter)
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	for _, a := range answer.Nftables {
		if a.Counter != nil {
			return a.Counter.Packets
		}
	}
	w.t.Fatalf("no counter %s in\n%s", counter, out)
	return 0
}

// rpFilter has the router believe no source that it would not route to.
func (w *topology) rpFilter() {
	for _, name := range []string{"all", "default", "lan", "wan"} {
		w.run(w.router, "sysctl -w net.ipv4.conf."+name+".rp_filter=1")
	}
}

func TestTranslatedPacketsPassTheFirewallAsOneIPv4Flow(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.rpFilter()
	w.feed(w.router, firewall, "nft -f -")
	w.start()
	w.pings(w.member, serverFrom6)
	if begun, established, refused := w.filtered("begun"), w.filtered("established"), w.filtered("refused"); begun < 1 || begun > 2 || begun+established != 4 || refused != 0 {
		// the second begins it as well if it comes before the answer to the first
		t.Errorf("of two pings and their answers %d began a flow, %d belonged to one, %d were refused; want 1, 3, 0", begun, established, refused)
	}
	ports := w.serve(w.server)
	w.move(w.member, serverFrom6, ports.TCP, probe.Download, 4<<20)
	w.move(w.member, serverFrom6, ports.TCP, probe.Upload, 4<<20)
	var datagrams probe.Datagrams
	w.probe(w.member, &datagrams, "exchange", fmt.Sprintf("[%s]:%d", serverFrom6, ports.UDP), "--size", "0,1,1000,1232")
	if datagrams.Intact != 4 {
		t.Errorf("%d of 4 datagrams came back: %s", datagrams.Intact, datagrams.Problem)
	}
	if n := w.filtered("refused"); n != 0 {
		t.Errorf("the firewall refused %d packets of flows that the member began", n)
	}
	if w.reaches(w.server, memberFrom4) {
		t.Error("the server reaches the member, which the firewall forbids")
	}
	if w.filtered("refused") == 0 {
		t.Error("what the server began never came to the firewall")
	}
	w.flowsAreIPv4()
}

// flowsAreIPv4 looks at the connection tracking table: the flows of the two
// hosts are there as IPv4 and as nothing else.
func (w *topology) flowsAreIPv4() {
	w.t.Helper()
	found := map[uint8]int{}
	for _, family := range []netlink.InetFamily{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		var flows []*netlink.ConntrackFlow
		err := w.router.Do(func() (err error) {
			flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, family)
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range flows {
			if ours(f.Forward) && family == netlink.FAMILY_V6 {
				w.t.Errorf("the IPv6 side is tracked too: %v", f)
			}
			if !ours(f.Forward) {
				continue
			}
			found[f.Forward.Protocol]++
		}
	}
	for protocol, name := range map[uint8]string{1: "ICMP", 6: "TCP", 17: "UDP"} {
		if found[protocol] == 0 {
			w.t.Errorf("no %s flow is tracked: %v", name, found)
		}
	}
}

// ours reports whether a tuple belongs to the member and the server.
func ours(tuple netlink.IPTuple) bool {
	hosts := []string{memberFrom4, "198.51.100.9", "2001:db8:1::2", netip.MustParseAddr(serverFrom6).String()}
	src, _ := netip.AddrFromSlice(tuple.SrcIP)
	dst, _ := netip.AddrFromSlice(tuple.DstIP)
	return strings.Contains(strings.Join(hosts, " ")+" ", src.Unmap().String()+" ") && strings.Contains(strings.Join(hosts, " ")+" ", dst.Unmap().String()+" ")
}

func TestTheShortcutGoesPastTheFirewall(t *testing.T) {
	t.Parallel()
	for name, toml := range map[string]string{"TC": bypass(), "XDP": strings.ReplaceAll(bypass(), "bypass = true", "bypass = true\nhook = \"xdp\"")} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			w.rpFilter()
			w.feed(w.router, strings.ReplaceAll(firewall, "accept", "drop"), "nft -f -") // nothing passes
			for _, host := range []*netspace.Space{w.member, w.server} {
				w.run(host, "ethtool -K eth0 tx off gro on") // what XDP on veth needs; see the manual
			}
			w.start()
			// the first packet may find no neighbour yet, and so go by the stack
			w.resolve()
			before := w.filtered("established") + w.filtered("begun") + w.filtered("refused")
			w.pings(w.member, serverFrom6)
			w.pings(w.server, memberFrom4)
			ports := w.serve(w.server)
			w.move(w.member, serverFrom6, ports.TCP, probe.Download, 1<<20)
			w.move(w.member, serverFrom6, ports.TCP, probe.Upload, 1<<20)
			if after := w.filtered("established") + w.filtered("begun") + w.filtered("refused"); after != before {
				t.Errorf("%d packets came to the firewall", after-before)
			}
			if to4, to6 := w.counted("forward-6to4-bypass"), w.counted("forward-4to6-bypass"); to4 < 100 || to6 < 100 {
				t.Errorf("only %d and %d packets took the bypass", to4, to6)
			}
		})
	}
}

// resolve has the router learn both hosts' link addresses.
func (w *topology) resolve() {
	w.t.Helper()
	w.pings(w.router, "2001:db8:1::2")
	w.pings(w.router, "198.51.100.9")
}

func TestTheTTLIsOneHopShorterAndRunsOut(t *testing.T) {
	t.Parallel()
	for name, toml := range map[string]string{"by the stack": usual(), "by the bypass": bypass()} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			w.start()
			w.resolve()
			for host, to := range map[*netspace.Space]string{w.member: serverFrom6, w.server: memberFrom4} {
				var echo probe.Echo
				w.probe(host, &echo, "ping", to, "--count", "1")
				if echo.HopLimit != 63 {
					t.Errorf("the answer reaches %s with a hop limit of %d, want 63", host.Name, echo.HopLimit)
				}
				out, err := w.try(host, "ping -c 1 -W 2 -t 1 "+to)
				if err == nil || !strings.Contains(out, "exceeded") {
					t.Errorf("a TTL of 1 from %s: %v\n%s", host.Name, err, out)
				}
			}
		})
	}
}

// Behind each side lies a narrow link; the senders must learn of it, through
// the translator and a firewall.
func TestThePathMTUIsLearntBothWays(t *testing.T) {
	t.Parallel()
	for name, toml := range map[string]string{"by the stack": usual(), "by the bypass": bypass()} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			w.rpFilter()
			w.feed(w.router, firewall, "nft -f -")
			// what is too large for the bypass comes by here as well
			w.feed(w.router, `add rule inet weft-test forward iifname "wan" oifname "nat64-main" accept`, "nft -f -")
			w.run(w.router, "ip link set wan mtu 1300")
			w.run(w.server, "ip link set eth0 mtu 1300")
			w.start()
			w.resolve()
			var learnt probe.PathMTU
			ports := w.serve(w.server)
			w.probe(w.member, &learnt, "pmtu", fmt.Sprintf("[%s]:%d", serverFrom6, ports.UDP))
			if learnt.Learnt != 1320 || !learnt.Confirmed {
				t.Errorf("the member learnt %+v, want 1320: the server is behind an IPv4 link of 1300", learnt)
			}
			w.move(w.member, serverFrom6, ports.TCP, probe.Upload, 1<<20)
			w.run(w.router, "ip link set wan mtu 1500")
			w.run(w.server, "ip link set eth0 mtu 1500")
			w.run(w.router, "ip link set lan mtu 1400")
			w.run(w.member, "ip link set eth0 mtu 1400")
			eventually(t, "weft follows the new MTU", func() bool {
				out, err := w.weft("plan", w.file, "--json")
				return err == nil && strings.TrimSpace(out) == "[]"
			})
			ports = w.serve(w.member)
			w.probe(w.server, &learnt, "pmtu", fmt.Sprintf("%s:%d", memberFrom4, ports.UDP))
			if learnt.Learnt != 1380 || !learnt.Confirmed {
				t.Errorf("the server learnt %+v, want 1380: the member is behind an IPv6 link of 1400", learnt)
			}
			w.move(w.server, memberFrom4, ports.TCP, probe.Upload, 1<<20)
		})
	}
}
