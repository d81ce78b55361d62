// Package importer reads the configurations of other programs (the translators
// Jool and Tayga, the LNS l2tpns) and gives the weft.toml that does the same. What weft does otherwise, or not
// at all, becomes a problem with what to do about it, and a comment in the
// result. It is pure: text to text.
package importer

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"weft/internal/state"
)

// Options say what the other program's file does not.
type Options struct {
	File string // name of the file that is read, for messages
	LAN  string // device on the IPv6 side
	WAN  string // device on the IPv4 side
	Mode string // of the translator: one of Modes; empty: what the file suggests
	Map  []byte // Tayga's map-file; nil: there is none
	LNS

	// For a translator that is a part of a larger result, which says the rest:
	Part       bool
	Name       string   // of its section; empty: what the file suggests
	Interfaces []string // NAMEs of the interfaces that it serves
}

// Modes are those of a translator that a file may leave open.
var Modes = []string{"stateless", "stateful", "clat"}

// recipePool are private addresses that subscribers share before nftables masquerades them.
const recipePool = "192.168.255.0/29"

// masquerade are the rules of docs/guides/firewall-and-nat64.md for a router with one address.
func masquerade(pool, wan string) string {
	return fmt.Sprintf("nft add table ip nat64; nft 'add chain ip nat64 post { type nat hook postrouting priority srcnat; }'; nft add rule ip nat64 post ip saddr %s oifname %s masquerade", pool, wan)
}

// LNS is what l2tpns has elsewhere than in its startup-config.
type LNS struct {
	Pool     []byte // its ip_pool; nil: there is none
	PoolFile string // name of that, for messages
	Listen   string // addresses at which LACs reach it, if the file has none
}

// nameMax is what fits behind "nat64-" in a device's name.
const nameMax = 9

// notes collects what the result does not carry over.
type notes struct {
	file string
	list []state.Problem
}

// left notes something that weft does otherwise; it runs all the same.
func (n *notes) left(line int, path, what, remedy string) {
	n.add(state.Warning, line, path, what, remedy)
}

// wrong notes something that cannot be read.
func (n *notes) wrong(line int, path, what, remedy string) {
	n.add(state.Error, line, path, what, remedy)
}

func (n *notes) add(s state.Severity, line int, path, what, remedy string) {
	n.list = append(n.list, state.Problem{
		Severity: s, Pos: state.Position{File: n.file, Line: line, Column: 1}, Path: path, What: what, Remedy: remedy,
	})
}

// TOML is a weft.toml that grows line by line.
type TOML struct{ strings.Builder }

// Line writes one line, or several.
func (t *TOML) Line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// Comment writes text as comment lines of at most 80 characters.
func (t *TOML) Comment(text string) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 80 && line != "#" {
			t.Line("%s", line)
			line = "#"
		}
		line += " " + word
	}
	t.Line("%s", line)
}

// interfaces writes the two sections that the other file has nothing of.
func (t *TOML) interfaces(o Options) {
	t.Line("")
	t.Comment("weft translates what comes in by the interfaces that are named here, whatever addresses they have. Name all.")
	for _, i := range [][2]string{{"lan", o.LAN}, {"wan", o.WAN}} {
		t.Line("[interface.%s]", i[0])
		t.Line("device = %s", Quote(i[1]))
	}
	t.Line("")
}

// finish puts the notes before the section.
func (t *TOML) finish(head string, n *notes, o Options) string {
	if o.Part {
		return t.String()
	}
	var all TOML
	all.head(head, n)
	all.interfaces(o)
	all.WriteString(t.String())
	return all.String()
}

// head says what the file is, and what it does not carry over.
func (t *TOML) head(text string, n *notes) {
	t.Comment(text)
	for _, p := range n.list {
		t.Line("#")
		t.Comment(fmt.Sprintf("line %d, %s: %s (%s)", p.Pos.Line, p.Path, p.What, p.Remedy))
	}
}

// secondTranslator is the remedy, but for its last word, for mappings that the converted
// section cannot have.
const secondTranslator = "write a second [nat64.NAME] with mode = \"stateless\", the prefix and the "

// section begins [nat64.NAME].
func (t *TOML) section(name, mode string, o Options) {
	t.Line("[nat64.%s]", name)
	t.Line("mode = %q", mode)
	if o.Interfaces == nil {
		t.Line(`interfaces = ["lan", "wan"]`)
	} else {
		t.Line("interfaces = [%s]", Quoted(o.Interfaces))
	}
}

// Quoted returns texts as the items of a list.
func Quoted(list []string) string {
	var b strings.Builder
	for i, text := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Quote(text))
	}
	return b.String()
}

// sectionName makes a NAME of weft.toml out of any text.
func sectionName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '.' {
			return '-'
		}
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text)
	if name == "" {
		return "main"
	}
	return name
}

// mapping is an explicit address mapping (RFC 7757 section 3.1).
type mapping struct{ ipv6, ipv4 netip.Prefix }

func (t *TOML) mappings(list []mapping) {
	if len(list) == 0 {
		return
	}
	t.Comment(`Add node = "ipv4" to those whose nodes are IPv4 hosts that IPv6 reaches.`)
	t.Line("mappings = [")
	for _, m := range list {
		t.Line("  { ipv6 = %q, ipv4 = %q },", bare(m.ipv6), bare(m.ipv4))
	}
	t.Line("]")
}

// bare writes a prefix of one address without its length.
func bare(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// Quote returns text as a string that JSON and TOML read alike.
func Quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // no string fails
	}
	return string(b)
}

// prefixOf reads a prefix, or one address; host bits go.
func prefixOf(text string, is6 bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, failed := netip.ParseAddr(text)
		if failed != nil {
			return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a prefix", text)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is6() != is6 || p.Addr().Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is of the wrong family", text)
	}
	return p.Masked(), nil
}
