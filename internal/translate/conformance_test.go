package translate

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// conformanceCase is one line of the shared RFC 7915 cases.
type conformanceCase struct {
	Name   string   `json:"name"`
	In     string   `json:"in"`
	Out    string   `json:"out"`
	Lowest int      `json:"lowest_ipv6_mtu"`
	MTU6   int      `json:"mtu_v6"`
	MTU4   int      `json:"mtu_v4"`
	Amend  bool     `json:"amend_udp_checksum_zero"`
	Ignore []int    `json:"ignore_offsets"`
	Send   string   `json:"send"`
	Expect []string `json:"expect"`
}

// deviations are the cases that weft answers otherwise, each with the words
// of the RFC that allow it. None is left.
var deviations = map[string]string{}

// conformanceConfig is the translator of the cases' topology. n6 and the
// translator have IPv4-translatable addresses in 192.0.2.0/24.
func conformanceConfig(c conformanceCase) *Config {
	return &Config{
		Table: NewTable(netip.MustParsePrefix("2001:db8:100::/40"), []Mapping{
			{netip.MustParsePrefix("2001:db8:3::/120"), netip.MustParsePrefix("1.0.0.0/24"), false},
			{netip.MustParsePrefix("2001:db8:2::/120"), netip.MustParsePrefix("10.0.0.0/24"), false},
		}),
		Translatable:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		LowestIPv6MTU:  c.Lowest,
		MTU4:           c.MTU4,
		MTU6:           c.MTU6,
		ComputeUDPZero: c.Amend,
		CopyTOS:        true,
		DecrementTTL:   true,
		ErrorSource4:   []netip.Addr{netip.MustParseAddr("203.0.113.8")},
		Router4:        netip.MustParseAddr("198.51.100.1"),
		Router6:        netip.MustParseAddr("2001:db8:1c0:2:1::"),
	}
}

// route sends a packet through the translator as a router would: what comes
// out is translated again while it is for an address that is translated
// (hairpinning), the second time without taking a hop.
func route(c *Config, side string, pkt []byte) (out [][]byte, from string) {
	if side == "v6" {
		r := c.Translate6(pkt)
		if r.Reply != nil {
			return [][]byte{r.Reply}, "v6"
		}
		once := *c
		once.DecrementTTL = false
		for i, p := range r.Out {
			if again := once.Translate4(p); again.Out != nil {
				r.Out[i] = again.Out[0]
				return r.Out, "v6"
			}
		}
		return r.Out, "v4"
	}
	r := c.Translate4(pkt)
	if r.Reply != nil {
		return [][]byte{r.Reply}, "v4"
	}
	return r.Out, "v6"
}

func TestConformanceWithTheSharedRFC7915Cases(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "conformance", "rfc7915")
	file, err := os.Open(filepath.Join(dir, "cases.jsonl"))
	if os.IsNotExist(err) {
		t.Skip("the shared RFC 7915 cases are not beside this checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for lines.Scan() {
		var c conformanceCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		count++
		t.Run(c.Name, func(t *testing.T) { runConformance(t, c) })
	}
	if err := lines.Err(); err != nil || count == 0 {
		t.Fatalf("read cases: %d of them, %v", count, err)
	}
}

func runConformance(t *testing.T, c conformanceCase) {
	send, err := hex.DecodeString(c.Send)
	if err != nil {
		t.Fatal(err)
	}
	out, from := route(conformanceConfig(c), c.In, send)
	why := compareConformance(c, out, from)
	if reason, ok := deviations[c.Name]; ok {
		if why == "" {
			t.Errorf("listed as a deviation, yet it matches: %s", reason)
		}
		return
	}
	if why != "" {
		t.Error(why)
	}
}

func compareConformance(c conformanceCase, out [][]byte, from string) string {
	if from != c.Out || len(out) != len(c.Expect) {
		return fmt.Sprintf("%d packets on side %s, want %d on %s", len(out), from, len(c.Expect), c.Out)
	}
	for i, want := range c.Expect {
		w, err := hex.DecodeString(want)
		if err != nil {
			return err.Error()
		}
		got := bytes.Clone(out[i])
		for _, at := range c.Ignore {
			if at < len(got) && at < len(w) {
				got[at] = w[at]
			}
		}
		if !bytes.Equal(got, w) {
			return fmt.Sprintf("packet %d\n got %x\nwant %x", i, got, w)
		}
	}
	return ""
}
