// Package lookup is `weft bench fib`: weft's route tables compared with the kernel's
// routing table, the LPM trie of eBPF, and a Go table.
package lookup

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/fib/internet"
	"weft/internal/bench"
)

// Subjects.
const (
	weft    = "weft"
	kernel  = "kernel"
	lpmTrie = "lpm-trie"
	bartGo  = "bart"
	empty   = "empty-loop"

	weftHosts  = "weft-hosts"
	weftXDP    = "weft-xdp"
	xdpForward = "xdp-forward"
)

// Cases that are not lookups.
const (
	memory       = "memory"
	build        = "build"
	update       = "update"
	pps64        = "pps64"
	worst        = "worst"
	hostsMemory  = "hosts"
	growthPrefix = "growth-"
	bytesPrefix  = "bytes-"
	pps64v6      = "pps64-ipv6"
)

// spread is the distribution of destinations.
type spread string

const (
	uniform spread = "uniform" // all addresses alike; IPv6: under 2000::/3
	inTable spread = "intable" // a prefix, each alike, and an address in it
	zipf    spread = "zipf"    // a prefix, few of them often, and an address in it
)

// families are 4 and 6.
var families = [...]int{4, 6}

func lookupCase(family int, s spread) string { return fmt.Sprintf("ipv%d-%s", family, s) }

// Bench describes it.
func Bench() bench.Bench {
	b := bench.Bench{
		Name:  "fib",
		Title: "Route lookup in full tables, beside the kernel's, the LPM trie and bart",
		Subjects: []bench.Subject{
			{Name: weft, About: "weft's tables, read by an XDP program"},
			{Name: kernel, About: "the kernel's routing table: bpf_fib_lookup without neighbours; memory from /proc/meminfo, loaded once by ip -batch"},
			{Name: lpmTrie, About: "eBPF maps of type LPM_TRIE"},
			{Name: bartGo, About: "the Go package gaissmai/bart, in Go"},
			{Name: empty, About: "the loop of all eBPF subjects, without any lookup; its time is in theirs"},
			{Name: weftHosts, About: "weft's IPv6 table with 100,000 host routes in it as well"},
			{Name: weftXDP, About: "packets: weft's own program in XDP, ingress_xdp"},
			{Name: xdpForward, About: "packets: XDP with bpf_fib_lookup"},
		},
		Fits:     fits,
		Rounds:   9,
		Packages: []string{"iproute2"},
		Bars: []bench.Bar{
			{Case: lookupCase(4, inTable), Subject: kernel, Times: 30, Of: weft},
			{Case: lookupCase(6, inTable), Subject: kernel, Times: 20, Of: weft},
			{Case: lookupCase(4, inTable), Subject: lpmTrie, Times: 40, Of: weft},
			{Case: lookupCase(6, inTable), Subject: lpmTrie, Times: 10, Of: weft},
			{Case: memory, Subject: kernel, Times: 10, Of: weft},
			{Case: pps64, Subject: weftXDP, Times: 3, Of: kernel},
			{Case: pps64v6, Subject: weftXDP, Times: 3, Of: kernel},
		},
		Limits: []bench.Limit{
			{Case: memory, Subject: weft, AtMost: 20 << 20},
			{Case: hostsMemory, Subject: weft, AtMost: 10 << 20},
			{Case: build, Subject: weft, AtMost: 1},
			{Case: update, Subject: weft, AtLeast: 150_000},
			{Case: worst, Subject: weft, AtMost: 50},
		},
	}
	for _, family := range families {
		for s, about := range map[spread]string{
			uniform: "all addresses alike",
			inTable: "an address in a prefix of the table, each alike",
			zipf:    "an address in a prefix of the table, by Zipf's law (exponent 1.1)",
		} {
			b.Cases = append(b.Cases, bench.Case{Name: lookupCase(family, s), About: about, Unit: "ns/lookup", Less: true})
		}
	}
	slices.SortFunc(b.Cases, func(x, y bench.Case) int { return strings.Compare(x.Name, y.Name) })
	b.Cases = append(b.Cases,
		bench.Case{Name: memory, About: "both full tables; weft's also after updates", Unit: "bytes", Less: true},
		bench.Case{Name: build, About: "both full tables, from a list in order", Unit: "s", Less: true},
		bench.Case{Name: update, About: "single announcements and withdrawals in the full tables; weft's are read meanwhile, every answer checked", Unit: "updates/s"},
		bench.Case{Name: worst, About: "the slowest change of one route, default routes and halves of the address space among them, until all lookups see it", Unit: "ms", Less: true},
		bench.Case{Name: hostsMemory, About: "what 100,000 IPv6 host routes add", Unit: "bytes", Less: true},
		bench.Case{Name: pps64, About: "IPv4 packets of 64 bytes to addresses in the table's prefixes, in a second that the router works", Unit: "packets/s"},
		bench.Case{Name: pps64v6, About: "the same with IPv6", Unit: "packets/s"},
	)
	for _, s := range sizes {
		b.Cases = append(b.Cases, bench.Case{Name: growthPrefix + s.name, About: "in-table lookups among so many IPv4 prefixes", Unit: "ns/lookup", Less: true})
	}
	for _, s := range sizes {
		b.Cases = append(b.Cases, bench.Case{Name: bytesPrefix + s.name, About: "memory for so many IPv4 prefixes", Unit: "bytes/prefix", Less: true})
	}
	return b
}

func fits(c, subject string) bool {
	switch c {
	case pps64, pps64v6:
		return subject == weftXDP || subject == kernel || subject == xdpForward
	case worst, hostsMemory:
		return subject == weft
	case memory, build, update:
		return subject == weft || subject == kernel || subject == lpmTrie || subject == bartGo
	case lookupCase(6, inTable):
		return subject != weftXDP && subject != xdpForward
	}
	if strings.HasPrefix(c, bytesPrefix) {
		return subject == weft || subject == lpmTrie
	}
	if strings.HasPrefix(c, growthPrefix) {
		return subject == weft || subject == lpmTrie || subject == bartGo || subject == empty
	}
	return subject != weftXDP && subject != xdpForward && subject != weftHosts
}

// Options of the measurements.
type Options struct {
	Table    string // file with prefixes; empty: the one beside the checkout, or a made up one
	Seed     uint64
	Subjects []string     // those that will be measured; empty: all
	Quick    bool         // a tenth of the table
	Progress func(string) // called for each step of Open; may be nil
}

func (o Options) wants(subject string) bool {
	return len(o.Subjects) == 0 || slices.Contains(o.Subjects, subject)
}

// beside is the path of a real table next to the project's checkout.
var beside = filepath.Join("..", "shared", "data", "internet-prefixes-2024-03.txt.gz")

// Load reads the table, and returns which one it is.
func (o Options) Load() (internet.Table, string, error) {
	t, note, err := o.load()
	if o.Quick {
		rng := rand.New(rand.NewPCG(o.Seed, 4))
		t = internet.Table{IPv4: sample(rng, t.IPv4, len(t.IPv4)/10), IPv6: sample(rng, t.IPv6, len(t.IPv6)/10)}
		note = "a tenth of " + note
	}
	return t, note, err
}

func (o Options) load() (internet.Table, string, error) {
	path := o.Table
	if path == "" {
		path = beside
	}
	f, err := os.Open(path)
	if os.IsNotExist(err) && o.Table == "" {
		rng := rand.New(rand.NewPCG(o.Seed, 0))
		return internet.Generate(rng, 1), "made up, with the lengths of the real one of March 2024: there is no " + path, nil
	}
	if err != nil {
		return internet.Table{}, "", fmt.Errorf("open the table: %w", err)
	}
	defer f.Close()
	t, err := internet.Read(f)
	if err != nil {
		return internet.Table{}, "", fmt.Errorf("%s: %w", path, err)
	}
	return t, fmt.Sprintf("%s: %d IPv4 and %d IPv6 prefixes", filepath.Base(path), len(t.IPv4), len(t.IPv6)), nil
}
