package datapathtest

// usual is the router that most vectors go through.
const Usual = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
bypass = true
[interface.wan]
addresses = ["198.51.100.1/24"]
bypass = true
[nat64.main]
mode = "stateless"
prefix = "64:ff9b:1::/96"
interfaces = ["lan", "wan"]
mappings = [
  { ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" },
  { ipv6 = "2001:db8:3::/120", ipv4 = "192.0.2.0/24" },
  { ipv6 = "2001:db8:5::/64", ipv4 = "203.0.113.64/28" },
  { ipv6 = "2001:db8:9::7", ipv4 = "203.0.113.200", node = "ipv4" },
]
`

const (
	Node6, Node4 = "2001:db8:3::7", "192.0.2.7"
	Far6, Far4   = "64:ff9b:1::8.8.8.8", "8.8.8.8"
)
