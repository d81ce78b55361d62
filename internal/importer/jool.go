package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/state"
)

// jool is what a file for `jool file handle` or `jool_siit file handle` says.
type jool struct {
	notes
	instance string
	mode     string // one of Modes
	stateful bool
	lan, wan string // devices
	pool6    netip.Prefix
	mappings []mapping
	pools    []pool
	static   []string // lines of weft.toml
	settings []string // lines of weft.toml
	sources  []netip.Addr
	zeroize  bool
	override bool
}

// Jool reads the atomic configuration of Jool 4, JSON (`jool file handle FILE`,
// `jool_siit file handle FILE`). Without Options.Mode pools, bindings and settings of
// sessions make it a stateful one, and so does a prefix alone, which is how most files
// of NAT64 Jool look; mappings make it a stateless one.
func Jool(text []byte, o Options) (string, []state.Problem) {
	j := jool{notes: notes{file: o.File}, mode: o.Mode, lan: o.LAN, wan: o.WAN}
	root, err := readJSON(text)
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		j.wrong(syntax.line, "", err.Error(), "Jool would not read this file either")
		return "", j.list
	}
	if root.kind != '{' {
		j.wrong(root.line, "", "is not a JSON object", "give it the file that `jool file handle` reads")
		return "", j.list
	}
	if j.mode == "" {
		j.mode = j.guess(root)
	}
	j.stateful = j.mode == "stateful"
	for _, m := range root.members {
		if m.name == "instance" {
			j.instance, _ = m.scalar.(string)
		}
	}
	for _, m := range root.members {
		j.top(m)
	}
	j.modeLeaves(root)
	if !j.pool6.IsValid() && len(j.mappings) == 0 && len(j.list) == 0 {
		j.wrong(root.line, "global.pool6", "is not there, nor is eamt", "is this a configuration of Jool?")
	}
	state.SortProblems(j.list)
	return j.write(o), j.list
}

// guess tells NAT64 from SIIT, which the file does not say outright.
func (j *jool) guess(root value) string {
	has := func(name string) bool {
		return slices.ContainsFunc(root.members, func(m member) bool { return m.name == name })
	}
	switch {
	case isStateful(root):
		return "stateful"
	case has("eamt") || has("rfc6791v4-prefix") || has("denylist4"):
		return "stateless"
	}
	for _, m := range root.members {
		for _, g := range m.members {
			if m.name == "global" && g.name == "pool6" {
				j.left(g.line, "global.pool6", "stands alone: files of jool (stateful) and of jool_siit look the same then; stateful is assumed", "for a file of jool_siit give weft import --mode stateless")
				return "stateful"
			}
		}
	}
	return "stateless"
}

// modeLeaves notes what the mode has no use for.
func (j *jool) modeLeaves(root value) {
	for _, m := range root.members {
		switch {
		case m.name == "eamt" && j.stateful:
			j.left(m.line, m.name, "a stateful translator has no explicit mappings", secondTranslator+"mappings")
		case (m.name == "pool4" || m.name == "bib") && !j.stateful:
			j.left(m.line, m.name, "a "+j.mode+" translator shares no addresses", "give weft import --mode stateful, or nothing, to keep it")
		}
	}
}

// isStateful reports whether something of the file is of stateful translation only.
func isStateful(root value) bool {
	own := []string{"address-dependent-filtering", "drop-icmpv6-info", "drop-externally-initiated-tcp", "udp-timeout",
		"tcp-est-timeout", "tcp-trans-timeout", "icmp-timeout", "maximum-simultaneous-opens", "source-icmpv6-errors-better"}
	for _, m := range root.members {
		if m.name == "pool4" || m.name == "bib" {
			return true
		}
		for _, g := range m.members {
			if m.name == "global" && slices.Contains(own, g.name) {
				return true
			}
		}
	}
	return false
}

func (j *jool) top(m member) {
	switch m.name {
	case "comment":
	case "instance":
		j.instance, _ = j.text(m.line, m.name, m.value)
	case "framework":
		if s, _ := j.text(m.line, m.name, m.value); s == "iptables" {
			j.left(m.line, m.name, "weft does not select packets by iptables rules: it translates all that are for its addresses", "remove the JOOL rules; the FORWARD chain sees translated packets as IPv4")
		}
	case "global":
		for _, g := range m.members {
			j.global(g)
		}
		j.classes(m.line)
	case "eamt":
		j.each(m, j.eam)
	case "denylist4", "blacklist4":
		j.denied(m)
	case "blacklist", "pool6791", "pool6":
		j.old(m)
	case "pool4":
		j.each(m, j.pool4)
		j.joinPools()
	case "bib":
		j.each(m, j.bib)
	default:
		j.left(m.line, m.name, "is not a key of Jool 4.1", "check what it does, and whether docs/features/nat64.md has it")
	}
}

func (j *jool) each(m member, read func(path string, v value)) {
	if m.kind != '[' {
		j.wrong(m.line, m.name, "is not an array", "see the examples that come with Jool")
		return
	}
	for i, v := range m.items {
		read(fmt.Sprintf("%s[%d]", m.name, i), v)
	}
}

func (j *jool) text(line int, path string, v value) (string, bool) {
	s, ok := v.scalar.(string)
	if !ok {
		j.wrong(line, path, "is not a string", "see the examples that come with Jool")
	}
	return s, ok
}

func (j *jool) prefix(path string, v value, is6 bool) (netip.Prefix, bool) {
	s, ok := j.text(v.line, path, v)
	if !ok {
		return netip.Prefix{}, false
	}
	p, err := prefixOf(s, is6)
	if err != nil {
		j.wrong(v.line, path, err.Error(), "write an address or ADDRESS/LENGTH")
	}
	return p, err == nil
}

func (j *jool) eam(path string, v value) {
	var m mapping
	for _, f := range v.members {
		switch f.name {
		case "comment":
		case "ipv6 prefix":
			m.ipv6, _ = j.prefix(path+"."+f.name, f.value, true)
		case "ipv4 prefix":
			m.ipv4, _ = j.prefix(path+"."+f.name, f.value, false)
		default:
			j.unknown(path, f)
		}
	}
	if m.ipv6.IsValid() && m.ipv4.IsValid() {
		j.mappings = append(j.mappings, m)
	} else if len(j.list) == 0 {
		j.wrong(v.line, path, "needs both an ipv6 prefix and an ipv4 prefix", "add the other")
	}
}

// denied notes the whole list at once.
func (j *jool) denied(m member) {
	var list []string
	j.each(m, func(path string, v value) {
		if p, ok := j.prefix(path, v, false); ok {
			list = append(list, bare(p))
		}
	})
	if len(list) > 0 {
		all := strings.Join(list, ", ")
		j.left(m.line, m.name, "weft has no list of IPv4 addresses that pool6 does not translate: "+all,
			fmt.Sprintf("IPv4 packets to them are not translated anyway; to keep IPv6 nodes from them: nft add rule inet filter forward ip daddr { %s } drop", all))
	}
}

// old are keys of Jool 3, whose present names are those of the global section.
func (j *jool) old(m member) {
	switch m.name {
	case "blacklist":
		j.denied(m)
	case "pool6":
		if m.scalar != nil {
			j.pool6, _ = j.prefix(m.name, m.value, true)
		}
	case "pool6791":
		j.each(m, func(path string, v value) { j.errorSources(path, member{name: path, value: v}) })
	}
	j.left(m.line, m.name, "is a key of Jool 3", "it is taken as Jool 4 takes it; look at the result")
}

func (j *jool) unknown(path string, f member) {
	j.left(f.line, path+"."+f.name, "is not a key of Jool 4.1", "check what it does, and whether docs/features/nat64.md has it")
}

// bib reads a static binding: addresses and ports are joined by #.
func (j *jool) bib(path string, v value) {
	fields := map[string]string{}
	for _, f := range v.members {
		switch f.name {
		case "comment":
		case "protocol", "ipv6 address", "ipv4 address":
			fields[f.name], _ = j.text(f.line, path+"."+f.name, f.value)
		default:
			j.unknown(path, f)
		}
	}
	v6, err6 := joined(fields["ipv6 address"])
	v4, err4 := joined(fields["ipv4 address"])
	if err := errors.Join(err6, err4); err != nil || !v6.Addr().Is6() || !v4.Addr().Is4() {
		j.wrong(v.line, path, "needs an ipv6 address and an ipv4 address, each with its port", `write them as "2001:db8::1#80" and "192.0.2.1#80"`)
		return
	}
	protocol := strings.ToLower(fields["protocol"])
	if !slices.Contains([]string{"tcp", "udp", "icmp"}, protocol) {
		j.wrong(v.line, path, fmt.Sprintf("has the protocol %q", fields["protocol"]), "TCP, UDP or ICMP")
		return
	}
	j.static = append(j.static, fmt.Sprintf("  { protocol = %q, ipv6 = %q, ipv4 = %q },", protocol, v6, v4))
}

func joined(s string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(s, "#")
	a, err := netip.ParseAddr(strings.TrimSpace(address))
	if err != nil {
		return netip.AddrPort{}, err
	}
	var n uint16
	if err := json.Unmarshal([]byte(strings.TrimSpace(port)), &n); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(a, n), nil
}

func (j *jool) write(o Options) string {
	var out TOML
	name := sectionName(cmp.Or(o.Name, j.instance))
	out.section(name, j.mode, o)
	if len(name) > nameMax {
		out.Line("device = %q", "nat64-"+name[:nameMax])
	}
	if j.pool6.IsValid() {
		out.Line("prefix = %q", j.pool6)
	}
	if !j.stateful {
		out.mappings(j.mappings)
		if j.pool6.IsValid() && len(j.mappings) == 0 && j.mode == "stateless" {
			out.Comment("Jool takes any address under pool6 for an IPv6 node; weft wants to know which IPv4 addresses they have:")
			out.Line(`# translatable = ["198.51.100.0/24"]`)
		}
		if len(j.sources) > 0 {
			out.Line("error_source = [%s]", quotedList(j.sources))
		}
	}
	j.writePools(&out)
	if len(j.static) > 0 && j.stateful {
		out.Line("static = [\n%s\n]", strings.Join(j.static, "\n"))
	}
	for _, s := range j.settings {
		out.Line("%s", s)
	}
	return out.finish("From a configuration of Jool. weft makes its device and the routes to it by itself: take the instance of Jool away first.", &j.notes, o)
}

func quotedList(addresses []netip.Addr) string {
	var list []string
	for _, a := range addresses {
		list = append(list, fmt.Sprintf("%q", a))
	}
	return strings.Join(list, ", ")
}
