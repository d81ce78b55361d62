package daemon_test

import "fmt"

// everything has a section of each feature that keeps something in the kernel or on
// the disk; its files are in dir.
func everything(dir string) string {
	return fmt.Sprintf(`
[router]
forwarding = true
[interface.lan]
addresses = ["2001:db8:1::1/64", "192.0.2.1/24"]
[interface.wan]
addresses = ["198.51.100.1/24"]
[interface.attic]
addresses = ["192.0.2.129/32"]
[nat64.main]
mode = "stateless"
prefix = "64:ff9b:1::/96"
mappings = [{ ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" }]
interfaces = ["lan", "wan"]
[nat64.second]
mode = "stateful"
prefix = "2001:db8:64::/96"
pools = [{ ipv4 = "203.0.113.0/28" }]
interfaces = ["lan", "wan"]
bindings = 1024
sessions = 1024
allocation_log = "%[1]s/second.allocations"
[dns64]
interfaces = ["lan"]
forwarders = ["198.51.100.9"]
[ra.lan]
dhcpv6 = "stateful"
pool = ["2001:db8:1::d:0/112"]
leases = "%[1]s/lan.leases"
[guard.uplink]
interfaces = ["wan"]
syn_per_source = 50
syn_total = 2000
[block]
prefixes = ["203.0.113.128/25"]
[uplink.wan]
gateways = ["198.51.100.254", "fe80::fe"]
probe = ["198.51.100.254"]
[zone.wan]
interfaces = ["wan"]
[zone.lan]
interfaces = ["lan"]
[firewall]
port_forwards = [{ name = "web", port = "443", to = "192.0.2.9" }]
[bridge.guests]
ports = [{ interface = "vm", role = "uplink" }, { interface = "guest1", kind = "tap", macs = ["02:00:00:00:00:11"] }, { interface = "guest2", kind = "veth", macs = ["02:00:00:00:00:12"] }]
[pseudowire.attic]
kind = "gretap"
src = "198.51.100.1"
dst = "198.51.100.9"
[pseudowire.cellar]
kind = "vxlan"
vni = 7
src = "198.51.100.1"
dst = "198.51.100.9"
[offload]
interfaces = ["lan", "wan"]
protocols = ["tcp", "udp", "icmp"]
[lns.members]
listen = ["198.51.100.1"]
lacs = [{ address = "198.51.100.0/24", secret = "between us" }]
users = [{ login = "alice@example.net", password = "wonderland" }]
pools = [{ addresses = ["100.64.0.0/24"] }]
leases = "%[1]s/members.leases"
[l2tp_client.isp]
server = "198.51.100.9"
secret = "between us"
login = "bob@example.net"
password = "wonderland"
`, dir)
}

// otherwise is a file that everything is reloaded with: most sections are gone or
// differ, others come.
func otherwise(dir string) string {
	return fmt.Sprintf(`
[router]
forwarding = true
[interface.lan]
addresses = ["2001:db8:1::1/64", "192.0.2.5/24"]
mtu = 1400
[interface.wan]
addresses = ["198.51.100.1/24"]
[nat64.second]
mode = "stateful"
prefix = "2001:db8:65::/96"
pools = [{ ipv4 = "203.0.113.16/28" }]
interfaces = ["lan", "wan"]
bindings = 4096
sessions = 4096
[ra.lan]
dhcpv6 = "stateful"
pool = ["2001:db8:1::d:0/112"]
leases = "%[1]s/lan.leases"
[zone.wan]
interfaces = ["wan"]
services = ["ssh"]
[bridge.other]
ports = [{ interface = "vm", role = "uplink" }, { interface = "guest3", kind = "veth", macs = ["02:00:00:00:00:13"] }]
[pseudowire.attic]
kind = "gretap"
src = "198.51.100.1"
dst = "198.51.100.9"
mtu = 1300
[route]
interfaces = ["lan", "wan"]
ipv4_prefixes = 1000
ipv6_prefixes = 1000
[lns.others]
listen = ["198.51.100.1"]
lacs = [{ address = "198.51.100.0/24", secret = "between us" }]
users = [{ login = "alice@example.net", password = "wonderland" }]
pools = [{ addresses = ["100.65.0.0/24"] }]
leases = "%[1]s/others.leases"
`, dir)
}
