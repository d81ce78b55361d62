package trace

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// conformanceCase is one line of the shared RFC 7915 cases.
type conformanceCase struct {
	conformanceSettings
	Name   string   `json:"name"`
	Out    string   `json:"out"`
	Ignore []int    `json:"ignore_offsets"`
	Send   string   `json:"send"`
	Expect []string `json:"expect"`
}

// conformanceSettings are what cases of one run have in common.
type conformanceSettings struct {
	In     string `json:"in"`
	Lowest int    `json:"lowest_ipv6_mtu"`
	MTU6   int    `json:"mtu_v6"`
	MTU4   int    `json:"mtu_v4"`
	Amend  bool   `json:"amend_udp_checksum_zero"`
}

func (s conformanceSettings) config() string {
	zero := "drop"
	if s.Amend {
		zero = "compute"
	}
	return fmt.Sprintf(`
[interface.v6]
addresses = ["2001:db8:1c0:2:1::/64"]
mtu = %d
[interface.v4]
addresses = ["198.51.100.1/24"]
mtu = %d
[nat64.siit]
mode = "stateless"
interfaces = ["v6", "v4"]
prefix = "2001:db8:100::/40"
mappings = [
  { ipv6 = "2001:db8:3::/120", ipv4 = "1.0.0.0/24" },
  { ipv6 = "2001:db8:2::/120", ipv4 = "10.0.0.0/24", node = "ipv4" },
]
error_source = ["203.0.113.8"]
lowest_ipv6_mtu = %d
udp_zero_checksum = "%s"
`, s.MTU6, s.MTU4, s.Lowest, zero)
}

func TestConformanceWithTheSharedRFC7915CasesOnEveryWay(t *testing.T) {
	needRoot(t)
	groups, order := conformanceCases(t)
	for _, via := range []Via{ViaXDP, ViaTC, ViaSlow} {
		t.Run(string(via), func(t *testing.T) {
			matched, total := 0, 0
			for _, s := range order {
				m := runConformance(t, via, s, groups[s])
				matched, total = matched+m, total+len(groups[s])
			}
			t.Logf("%d of %d cases match byte for byte", matched, total)
		})
	}
}

func conformanceCases(t *testing.T) (map[conformanceSettings][]conformanceCase, []conformanceSettings) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "shared", "conformance", "rfc7915", "cases.jsonl"))
	if os.IsNotExist(err) {
		t.Skip("the shared RFC 7915 cases are not beside this checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	groups := map[conformanceSettings][]conformanceCase{}
	var order []conformanceSettings
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c conformanceCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if groups[c.conformanceSettings] == nil {
			order = append(order, c.conformanceSettings)
		}
		groups[c.conformanceSettings] = append(groups[c.conformanceSettings], c)
	}
	if err := lines.Err(); err != nil || len(order) == 0 {
		t.Fatalf("read cases: %d groups, %v", len(order), err)
	}
	return groups, order
}

func runConformance(t *testing.T, via Via, s conformanceSettings, cases []conformanceCase) (matched int) {
	var packets [][]byte
	for _, c := range cases {
		packets = append(packets, unhex(t, c.Send))
	}
	results := runTrace(t, captureOf(t, true, packets...),
		"--config", configFile(t, s.config()), "--in", s.In, "--via", string(via))
	if len(results) != len(cases) {
		t.Fatalf("%d results for %d packets", len(results), len(cases))
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			why := compareConformance(t, c, results[i])
			if why == "" {
				matched++
				return
			}
			t.Errorf("%s\n%s, %s, %v", why, results[i].Verdict, results[i].Reason, results[i].Decisions)
		})
	}
	return matched
}

func compareConformance(t *testing.T, c conformanceCase, r Result) string {
	if len(r.Outputs) != len(c.Expect) {
		return fmt.Sprintf("%d packets left, want %d", len(r.Outputs), len(c.Expect))
	}
	for i, e := range c.Expect {
		want, got := unhex(t, e), unhex(t, r.Outputs[i].Hex)
		if r.Outputs[i].Interface != c.Out {
			return fmt.Sprintf("packet %d left by %s, want %s", i, r.Outputs[i].Interface, c.Out)
		}
		for _, at := range c.Ignore {
			if at < len(got) && at < len(want) {
				got[at] = want[at]
			}
		}
		if !bytes.Equal(got, want) {
			return fmt.Sprintf("packet %d of %d\n got %x\nwant %x", i+1, len(c.Expect), got, want)
		}
	}
	return ""
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
