package trace

import (
	"fmt"
	"testing"
)

const routedFile = `
[interface.lan]
device = "wefttrace-lan"
addresses = ["10.9.0.1/24", "2001:db8:1::1/64"]
[interface.wan]
device = "wefttrace-wan"
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
[route]
interfaces = ["lan", "wan"]
ipv4_prefixes = 1000
ipv6_prefixes = 1000
`

// What [route] carries is decided by weft's own tables, as on the router: they
// follow the kernel's routes and neighbours from packet to packet.
func TestRoutedPacketsAreDecidedByWeftsTables(t *testing.T) {
	needRoot(t)
	for _, via := range []string{"tc", "xdp", ""} {
		t.Run(via, func(t *testing.T) {
			packets := captureOf(t, true,
				udp4(t, "10.9.0.2", "198.51.100.9", 64, "on the link"),
				udp6(t, "2001:db8:1::2", "2001:db8:2::9", 64, "on the link"),
				udp4(t, "10.9.0.2", "203.0.113.7", 64, "by the default route"),
				udp4(t, "10.9.0.2", "198.51.100.9", 1, "too far"),
				udp4(t, "10.9.0.2", "198.51.100.1", 64, "to the router"),
				udp4(t, "10.9.0.2", "198.51.100.77", 64, "to another"),
			)
			args := []string{"--config", configFile(t, routedFile), "--in", "lan"}
			if via != "" {
				args = append(args, "--via", via)
			}
			results := runTrace(t, packets, args...)
			if len(results) != 6 {
				t.Fatalf("%d results: %+v", len(results), results)
			}
			for i, want := range []string{
				"forward forward-routed", "forward forward-routed", "forward forward-routed",
				"pass pass-ttl", "pass pass-local", "forward forward-routed",
			} {
				if got := fmt.Sprint(results[i].Verdict, " ", results[i].Reason); got != want {
					t.Errorf("packet %d: %s, want %s: %+v", i+1, got, want, results[i])
				}
			}
			expect(t, results[0], "wan", udp4(t, "10.9.0.2", "198.51.100.9", 63, "on the link"))
			expect(t, results[1], "wan", udp6(t, "2001:db8:1::2", "2001:db8:2::9", 63, "on the link"))
			expect(t, results[2], "lan", udp4(t, "10.9.0.2", "203.0.113.7", 63, "by the default route"))
			expect(t, results[5], "wan", udp4(t, "10.9.0.2", "198.51.100.77", 63, "to another"))
		})
	}
}
