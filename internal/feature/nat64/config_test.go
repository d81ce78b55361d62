package nat64_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/nat64"
)

const network = `
[interface.lan]
addresses = ["2001:db8:1c0:2:1::1/64", "2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24"]
`

// load reads a file that must be without problems and gives [nat64.main].
func load(t *testing.T, text string) (*config.File, *nat64.Config) {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(text), sections())
	for _, p := range problems {
		t.Error(p)
	}
	c := nat64.From(f, "main")
	if c == nil {
		t.Fatal("no [nat64.main]")
	}
	return f, c
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range texts {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	f, c := load(t, network+`
[nat64.main]
mode = "stateless"
interfaces = ["lan", "wan"]
prefix = "2001:db8:100::/40"
`)
	if c.Device != "nat64-main" || c.ComputesUDPZero() || c.LowestIPv6MTU != 1280 || !c.CopyTrafficClass || c.TCPMSSClamp || c.ErrorSource != nil {
		t.Errorf("defaults are %+v", c)
	}
	if got, want := c.Nodes(f), prefixes("192.0.2.0/24"); !slices.Equal(got, want) {
		t.Errorf("nodes by the interfaces' subnets are %v, want %v", got, want)
	}
}

func TestEveryKeyReachesItsField(t *testing.T) {
	f, c := load(t, network+`
[nat64.main]
mode = "stateless"
interfaces = ["wan"]
prefix = "64:ff9b:1::/48"
translatable = ["192.0.2.0/24", "203.0.113.0/25"]
device = "siit0"
tcp_mss_clamp = true
udp_zero_checksum = "compute"
lowest_ipv6_mtu = 1400
error_source = ["203.0.113.200"]
copy_traffic_class = false
[[nat64.main.mappings]]
ipv6 = "2001:db8:3::/120"
ipv4 = "1.0.0.0/24"
[[nat64.main.mappings]]
ipv6 = "2001:db8:4::7"
ipv4 = "1.0.1.7"
`)
	if c.Mode != nat64.Stateless || c.Prefix != netip.MustParsePrefix("64:ff9b:1::/48") || !slices.Equal(c.Interfaces, []string{"wan"}) ||
		c.Device != "siit0" || !c.TCPMSSClamp || c.UDPZeroChecksum != nat64.ZeroChecksumCompute || c.LowestIPv6MTU != 1400 || c.CopyTrafficClass ||
		!slices.Equal(c.ErrorSource, []netip.Addr{netip.MustParseAddr("203.0.113.200")}) {
		t.Errorf("read %+v", c)
	}
	want := []nat64.Mapping{
		{IPv6: netip.MustParsePrefix("2001:db8:3::/120"), IPv4: netip.MustParsePrefix("1.0.0.0/24")},
		{IPv6: netip.MustParsePrefix("2001:db8:4::7/128"), IPv4: netip.MustParsePrefix("1.0.1.7/32")},
	}
	if !slices.Equal(c.Mappings, want) {
		t.Errorf("mappings are %v, want %v", c.Mappings, want)
	}
	if got, want := c.Nodes(f), prefixes("192.0.2.0/24", "203.0.113.0/25"); !slices.Equal(got, want) {
		t.Errorf("nodes are %v, want what translatable says, %v", got, want)
	}
	if got := f.Position("nat64.main.mappings[1].ipv4").String(); got != "weft.toml:23:8" {
		t.Errorf("the second mapping's ipv4 is at %s", got)
	}
}

func TestNestedMappingsThatAgreeAreFine(t *testing.T) {
	load(t, network+`
[nat64.main]
mode = "stateless"
interfaces = ["lan"]
mappings = [
  { ipv6 = "2001:db8:3::/120", ipv4 = "203.0.113.0/24" },
  { ipv6 = "2001:db8:3::7", ipv4 = "203.0.113.7" },
  # unequal suffixes: the IPv4 suffix follows the /64 at once
  { ipv6 = "2001:db8:5::/64", ipv4 = "192.0.2.128/26" },
  { ipv6 = "2001:db8:5::4000:0:0:0/66", ipv4 = "192.0.2.144/28" },
  # no IPv4 address of the /26 is translated to this one
  { ipv6 = "2001:db8:5::1", ipv4 = "192.0.2.1" },
]
`)
}

// The addresses of the six lengths are those of RFC 6052 section 2.4.
func TestTheIPv4PrefixOfASubnetUnderThePrefix(t *testing.T) {
	tests := []struct{ name, prefix, subnet, want string }{
		{"a /32 prefix leaves the whole address before the u octet", "2001:db8::/32", "2001:db8:c000:221::/64", "192.0.2.33/32"},
		{"a /40 prefix leaves eight bits behind the u octet", "2001:db8:100::/40", "2001:db8:1c0:2:21::/72", "192.0.2.0/24"},
		{"a longer subnet fixes those as well", "2001:db8:100::/40", "2001:db8:1c0:2:21::/80", "192.0.2.33/32"},
		{"a subnet may end inside the octet behind u", "2001:db8:100::/40", "2001:db8:1c0:2:20::/76", "192.0.2.32/28"},
		{"a subnet may end inside u", "2001:db8:100::/40", "2001:db8:1c0:2::/68", "192.0.2.0/24"},
		{"a router's address stands for its subnet", "2001:db8:100::/40", "2001:db8:1c0:2:1::1/64", "192.0.2.0/24"},
		{"a /48 prefix", "2001:db8:122::/48", "2001:db8:122:c000::/64", "192.0.0.0/16"},
		{"a /48 prefix, one node", "2001:db8:122::/48", "2001:db8:122:c000:2:2100::/128", "192.0.2.33/32"},
		{"a /56 prefix", "2001:db8:122:300::/56", "2001:db8:122:3c0::/64", "192.0.0.0/8"},
		{"a /56 prefix, one node", "2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::/128", "192.0.2.33/32"},
		{"a /64 prefix", "2001:db8:122:344::/64", "2001:db8:122:344:c0:2::/96", "192.0.2.0/24"},
		{"a /64 prefix, one node", "2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::/128", "192.0.2.33/32"},
		{"a /96 prefix", "2001:db8:122:344::/96", "2001:db8:122:344::c000:200/120", "192.0.2.0/24"},
		{"the prefix itself fixes nothing", "2001:db8:122:344::/64", "2001:db8:122:344::/64", ""},
		{"a subnet beside the prefix has none", "2001:db8:100::/40", "2001:db8:200::/64", ""},
		{"a subnet around the prefix has none", "2001:db8:100::/40", "2001:db8::/32", ""},
		{"a u octet that is not zero is no IPv4-translatable address", "2001:db8:100::/40", "2001:db8:1c0:2:121::/80", ""},
		{"a suffix that is not zero is none either", "2001:db8:100::/40", "2001:db8:1c0:2:21::1/128", ""},
		{"no node has an address of 0.0.0.0/8", "2001:db8::/32", "2001:db8:1::/64", ""},
		{"no node has a multicast address", "2001:db8::/32", "2001:db8:e000:1::/64", ""},
		{"a length that RFC 6052 lacks has none", "2001:db8::/80", "2001:db8::c000:200/120", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := nat64.TranslatableIn(netip.MustParsePrefix(tt.prefix), netip.MustParsePrefix(tt.subnet))
			if ok != (tt.want != "") || (ok && got.String() != tt.want) {
				t.Errorf("got %v %t, want %q", got, ok, tt.want)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.Split(string(text), "#! ")[0])
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, problems := config.Load("weft.toml", []byte(text), sections())
		for _, p := range problems {
			if p.What == "" || strings.Contains(p.What, "\n") {
				t.Errorf("not one line: %q", p.What)
			}
		}
		for _, name := range file.Names("nat64") {
			nat64.From(file, name).Nodes(file)
		}
	})
}

// RFC 6146 section 3.4 wants the checksum computed, RFC 7915 section 4.5 leaves it to
// the operator.
func TestTheDefaultForUDPWithoutChecksumIsThatOfTheMode(t *testing.T) {
	for _, c := range []struct {
		config nat64.Config
		want   bool
	}{
		{nat64.Config{Mode: nat64.StatefulMode}, true},
		{nat64.Config{Mode: nat64.StatefulMode, UDPZeroChecksum: nat64.ZeroChecksumDrop}, false},
		{nat64.Config{Mode: nat64.Stateless}, false},
		{nat64.Config{Mode: nat64.CLAT}, false},
		{nat64.Config{Mode: nat64.CLAT, UDPZeroChecksum: nat64.ZeroChecksumCompute}, true},
	} {
		if got := c.config.ComputesUDPZero(); got != c.want {
			t.Errorf("%s, %q: %v, want %v", c.config.Mode, c.config.UDPZeroChecksum, got, c.want)
		}
	}
}
