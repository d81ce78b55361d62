package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/internal/state"
)

// tayga is what a tayga.conf says.
type tayga struct {
	notes
	device   string
	ipv4     netip.Addr
	prefix   netip.Prefix
	mappings []mapping
	compute  bool
	lowest   int            // MTU of IPv6; 0: the default
	dynamic  []netip.Prefix // dynamic-pool
	at       map[string]int // line of a directive
	mode     string         // one of Modes
	wan      string
}

// TaygaMapFile returns the name that a tayga.conf gives its map-file, or nothing.
func TaygaMapFile(text []byte) string {
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 1 && words[0] == "map-file" {
			return words[1]
		}
	}
	return ""
}

// Tayga reads a tayga.conf (tayga.conf(5), up to 0.9.6). A file that has a dynamic-pool
// and no map becomes a stateful translator, since weft assigns no addresses to nodes.
func Tayga(text []byte, o Options) (string, []state.Problem) {
	t := tayga{notes: notes{file: o.File}, device: "nat64", mode: o.Mode, wan: o.WAN, at: map[string]int{}}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		t.wrong(1, "tayga.conf", "is not text", "is this a tayga.conf?")
		return "", t.list
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			t.directive(i+1, words, o)
		}
	}
	t.choose()
	if !t.prefix.IsValid() && len(t.mappings) == 0 && !state.HasErrors(t.list) {
		t.wrong(1, "tayga.conf", "has neither prefix nor map", "is this a tayga.conf?")
	}
	return t.write(o), t.list
}

// choose sets the mode where it is not given.
func (t *tayga) choose() {
	clatd := netip.MustParsePrefix("192.0.0.0/29") // RFC 7335
	switch {
	case t.mode != "":
	case len(t.mappings) == 0 && len(t.dynamic) > 0:
		t.mode = "stateful"
		t.left(t.at["dynamic-pool"], "dynamic-pool", "nodes share the addresses of the pool by ports; Tayga gave each node one of them", "nothing to do where these addresses are masqueraded anyway; for one address a node write mappings and give weft import --mode stateless")
	default:
		t.mode = "stateless"
		if len(t.mappings) == 1 && clatd.Overlaps(t.mappings[0].ipv4) {
			t.left(max(1, t.at["map"]), "map", "this file is that of a CLAT, as clatd writes it", "give weft import --mode clat: weft finds the prefix and the addresses by itself")
		}
	}
	if t.mode != "stateful" && len(t.dynamic) > 0 {
		t.left(t.at["dynamic-pool"], "dynamic-pool", "weft does not assign IPv4 addresses to IPv6 nodes dynamically", "write a mapping for each node that dynamic.map lists, or share the addresses of the pool: weft import --mode stateful")
	}
	if t.mode != "stateless" && len(t.mappings) > 0 {
		t.left(max(1, t.at["map"]), "map", "a "+t.mode+" translator takes no mappings from this file", secondTranslator+"mappings, if nodes need them")
	}
}

func (t *tayga) directive(line int, words []string, o Options) {
	name, args := words[0], words[1:]
	t.at[name] = line
	want := 1
	if name == "map" {
		want = 2
	}
	if len(args) < want {
		t.wrong(line, name, fmt.Sprintf("has %d words behind it, and needs %d", len(args), want), "complete the line")
		return
	}
	switch name {
	case "tun-device":
		t.device = args[0]
	case "ipv4-addr":
		t.address(line, args[0])
	case "prefix":
		p, err := prefixOf(args[0], true)
		if err != nil {
			t.wrong(line, name, err.Error(), "write it as 2001:db8:64::/96")
			return
		}
		t.prefix = p
	case "map":
		t.mapLine(line, args)
	case "dynamic-pool":
		p, err := prefixOf(args[0], false)
		if err != nil {
			t.wrong(line, name, err.Error(), "write it as 192.168.255.0/24")
			return
		}
		t.dynamic = append(t.dynamic, p)
	case "map-file":
		t.mapFile(line, args[0], o.Map)
	case "offlink-mtu":
		t.offlink(line, args[0])
	case "udp-cksum-mode":
		t.checksums(line, args[0])
	case "ipv6-addr":
		t.left(line, name, "ICMPv6 errors come from the address of an interface", "nothing to do; ping that address instead")
	case "wkpf-strict":
		if no(args[0]) {
			t.left(line, name, "private IPv4 addresses are never under 64:ff9b::/96 (RFC 6052 section 3.1)", `take a prefix of your own, or one out of 64:ff9b:1::/48 (RFC 8215)`)
		}
	case "data-dir", "strict-frag-hdr":
		// files of its own; what weft always does
	case "log":
		t.left(line, name, "weft writes no line for each packet", "nothing to do: weft show drops counts them, weft trace explains one")
	case "workers":
		t.left(line, name, "the kernel translates, on the CPU on which a packet arrives", "nothing to do")
	case "tun-ip", "tun-route", "tun-up":
		t.left(line, name, "weft makes the device, its MTU and its routes itself", "nothing to do")
	default:
		t.left(line, name, "is not a setting of Tayga 0.9", "check what it does, and whether docs/features/nat64.md has it")
	}
}

func (t *tayga) address(line int, text string) {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		t.wrong(line, "ipv4-addr", fmt.Sprintf("%q is no IPv4 address", text), "write it as 192.0.2.1")
		return
	}
	t.ipv4 = a
}

func (t *tayga) mapLine(line int, args []string) {
	v4, err4 := prefixOf(args[0], false)
	v6, err6 := prefixOf(args[1], true)
	for _, err := range []error{err4, err6} {
		if err != nil {
			t.wrong(line, "map", err.Error(), "map IPV4[/LENGTH] IPV6[/LENGTH]")
			return
		}
	}
	t.mappings = append(t.mappings, mapping{v6, v4})
}

func (t *tayga) checksums(line int, mode string) {
	switch mode {
	case "calc":
		t.compute = true
	case "drop":
	case "fwd":
		t.compute = true
		t.left(line, "udp-cksum-mode", "fwd sends UDP without checksum to IPv6, whose nodes drop it (RFC 8200 section 8.1)", "nothing to do: weft computes the checksum")
	default:
		t.wrong(line, "udp-cksum-mode", fmt.Sprintf("%q is not drop, calc or fwd", mode), "see tayga.conf(5)")
	}
}

// offlink is the MTU of the IPv6 network beyond the router's own links.
func (t *tayga) offlink(line int, text string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1280 || n > 65535 {
		t.wrong(line, "offlink-mtu", fmt.Sprintf("%q is no MTU for IPv6", text), "1280 to 65535")
		return
	}
	t.lowest = n
}

// mapFile reads the mappings of another file: lines of IPV4[/LENGTH] IPV6[/LENGTH].
func (t *tayga) mapFile(line int, name string, text []byte) {
	if text == nil {
		t.left(line, "map-file", fmt.Sprintf("the mappings in %s were not read", name), "name that file with --map-file, or copy its lines into mappings")
		return
	}
	in := tayga{notes: notes{file: name}}
	for i, row := range strings.Split(string(text), "\n") {
		row, _, _ = strings.Cut(row, "#")
		words := strings.Fields(row)
		if len(words) > 0 && words[0] == "map" {
			words = words[1:]
		}
		switch len(words) {
		case 0:
		case 1:
			in.wrong(i+1, "map-file", "has one address in the line", "IPV4[/LENGTH] IPV6[/LENGTH]")
		default:
			in.mapLine(i+1, words)
		}
	}
	t.mappings, t.list = append(t.mappings, in.mappings...), append(t.list, in.list...)
}

// sharing writes the pools of a stateful translator.
func (t *tayga) sharing(out *TOML) {
	pools := t.dynamic
	if len(pools) == 0 {
		pools = []netip.Prefix{netip.MustParsePrefix(recipePool)}
	}
	for _, p := range pools {
		if p.Addr().IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Overlaps(p) {
			out.Comment("The pool is private. nftables has to masquerade it behind a public address; keep the rule that does so, or:")
			out.Comment(masquerade(p.String(), t.wan))
		}
	}
	var list []string
	for _, p := range pools {
		list = append(list, fmt.Sprintf("{ ipv4 = %q }", bare(p)))
	}
	out.Line("pools = [%s]", strings.Join(list, ", "))
}

func (t *tayga) write(o Options) string {
	var out TOML
	out.section(cmp.Or(o.Name, "tayga"), t.mode, o)
	out.Line("device = %s", Quote(t.device))
	if t.prefix.IsValid() {
		out.Line("prefix = %q", t.prefix)
	}
	if t.lowest != 0 {
		out.Line("lowest_ipv6_mtu = %d", t.lowest)
	}
	switch t.mode {
	case "stateful":
		t.sharing(&out)
	case "stateless":
		out.mappings(t.mappings)
	}
	if t.compute {
		out.Line(`udp_zero_checksum = "compute"`)
	}
	taken := slices.ContainsFunc(t.mappings, func(m mapping) bool { return m.ipv4.Contains(t.ipv4) })
	if t.ipv4.IsValid() && !taken && t.mode == "stateless" {
		out.Comment("IPv6 routers that have no mapping send their ICMP errors as this (RFC 6791). weft does not answer pings to it.")
		out.Line("error_source = [%q]", t.ipv4)
	}
	return out.finish("From a tayga.conf. weft makes the device and the routes to it by itself: stop Tayga and take its device, its addresses and its routes away first.", &t.notes, o)
}

// no reports whether a Tayga boolean is off.
func no(word string) bool {
	return slices.Contains([]string{"no", "off", "false", "0"}, strings.ToLower(word))
}
