package importer

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
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
}

// Tayga reads a tayga.conf (tayga.conf(5), up to 0.9.6).
func Tayga(text []byte, o Options) (string, []state.Problem) {
	t := tayga{notes: notes{file: o.File}, device: "nat64"}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		t.wrong(1, "tayga.conf", "is not text", "is this a tayga.conf?")
		return "", t.list
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			t.directive(i+1, words)
		}
	}
	if !t.prefix.IsValid() && len(t.mappings) == 0 && !state.HasErrors(t.list) {
		t.wrong(1, "tayga.conf", "has neither prefix nor map", "is this a tayga.conf?")
	}
	return t.write(o), t.list
}

func (t *tayga) directive(line int, words []string) {
	name, args := words[0], words[1:]
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
		t.left(line, name, "weft does not assign IPv4 addresses to IPv6 nodes dynamically", `write a mapping for each node that dynamic.map lists, or share addresses with mode = "stateful"`)
	case "udp-cksum-mode":
		t.checksums(line, args[0])
	case "ipv6-addr":
		t.left(line, name, "ICMPv6 errors come from the address of an interface", "nothing to do; ping that address instead")
	case "wkpf-strict":
		if no(args[0]) {
			t.left(line, name, "private IPv4 addresses are never under 64:ff9b::/96 (RFC 6052 section 3.1)", `take a prefix of your own, or one out of 64:ff9b:1::/48 (RFC 8215)`)
		}
	case "data-dir", "strict-frag-hdr", "log", "workers", "tun-up":
		// files, threads and messages of its own
	case "tun-ip", "tun-route", "offlink-mtu":
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
	default:
		t.left(line, "udp-cksum-mode", fmt.Sprintf("%q sends UDP without checksum to IPv6, which its nodes drop (RFC 8200 section 8.1)", mode), `here they are dropped; udp_zero_checksum = "compute" makes checksums`)
	}
}

func (t *tayga) write(o Options) string {
	var out toml
	out.section("tayga", false)
	out.line("device = %s", quote(t.device))
	if t.prefix.IsValid() {
		out.line("prefix = %q", t.prefix)
	}
	out.mappings(t.mappings)
	if t.compute {
		out.line(`udp_zero_checksum = "compute"`)
	}
	taken := slices.ContainsFunc(t.mappings, func(m mapping) bool { return m.ipv4.Contains(t.ipv4) })
	if t.ipv4.IsValid() && !taken {
		out.comment("IPv6 routers that have no mapping send their ICMP errors as this (RFC 6791). weft does not answer pings to it.")
		out.line("error_source = [%q]", t.ipv4)
	}
	return out.finish("From a tayga.conf. weft makes the device and the routes to it by itself: stop Tayga and take its device, its addresses and its routes away first.", &t.notes, o)
}

// no reports whether a Tayga boolean is off.
func no(word string) bool {
	return slices.Contains([]string{"no", "off", "false", "0"}, strings.ToLower(word))
}
