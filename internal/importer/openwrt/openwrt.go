// Package openwrt reads the configuration of an OpenWrt router, the files of
// /etc/config, and gives the weft.toml that does the same, with a verdict on each line:
// weft does it, does it otherwise, or does not do it. It is pure: text to text.
package openwrt

import (
	"cmp"
	"errors"
	"slices"

	"weft/internal/importer/uci"
	"weft/internal/state"
)

// Source is one file.
type Source struct {
	File    string // its name, for messages
	Package string // its name in /etc/config
	Text    []byte
}

// Options say what /etc/config does not.
type Options struct {
	Devices map[string]string // the new machine's names of devices, by those of OpenWrt
	Jool    map[string]Source // the JSON files of Jool, by the section of /etc/config/jool: nat64, siit
}

// Result is what becomes of the files.
type Result struct {
	TOML     string
	Lines    []Line
	Problems []state.Problem // errors only: then there is no TOML
}

// Import reads the files of one router.
func Import(sources []Source, o Options) Result {
	c := &converter{options: o, marks: map[*uci.Line]mark{}, packages: map[string]*pack{}}
	var problems []state.Problem
	slices.SortFunc(sources, func(a, b Source) int { return cmp.Compare(a.File, b.File) })
	for _, s := range sources {
		files, err := uci.Parse(s.Package, s.Text)
		var fault *uci.Error
		if errors.As(err, &fault) {
			problems = append(problems, state.Problem{
				Severity: state.Error, Pos: state.Position{File: s.File, Line: fault.Line, Column: 1}, What: fault.What, Remedy: fault.Remedy,
			})
			continue
		}
		for _, f := range files {
			c.add(s.File, f)
		}
	}
	if len(problems) == 0 && c.packages["network"] == nil {
		problems = append(problems, state.Problem{
			Severity: state.Error, Pos: state.Position{File: where(sources)}, What: "there is no package network", Remedy: "name the directory /etc/config of the router, or a file with what uci export prints",
		})
	}
	if len(problems) > 0 {
		return Result{Problems: problems}
	}
	return Result{TOML: c.convert(), Lines: c.lines()}
}

func where(sources []Source) string {
	if len(sources) == 0 {
		return "/etc/config"
	}
	return sources[0].File
}

// converter holds what is known of the router while it is converted.
type converter struct {
	options  Options
	marks    map[*uci.Line]mark
	packages map[string]*pack
	order    []*pack

	devices  map[string]*device
	bridges  []*bridge
	bridgeOf map[string]*bridge // by device
	ifaces   []*iface           // as they come, those that are off left out
	byName   map[string]*iface
	links    []*link // what becomes [interface.NAME]
	linkOf   map[string]*link
	names    map[string]string // NAMEs of interfaces and pseudowires: their devices
	ports    map[string]bool   // devices that are ports of bridges
	made     map[string]bool   // devices of PPP sessions, which weft makes
	spaces   *spaces
	wireOf   map[string]string // NAMEs of pseudowires, by device
	vlans    map[string]bool   // VLAN devices of which a line has spoken
	zones    []*zone
	zoneOf   map[string]*zone // by interface
	wires    []*wire
	clients  []*client
	nat64    []string // sections
	ra       []*advert
	dns64    *resolver
	offload  []string // NAMEs
	guard    []string // NAMEs
	block    blocked
	router   string // name
}

// pack is one package.
type pack struct {
	name, file string
	lines      []*uci.Line
	sections   []*section
}

// section is a section whose lines are judged.
type section struct {
	*uci.Section
	c    *converter
	file string
}

func (c *converter) add(file string, f *uci.File) {
	p := c.packages[f.Name]
	if p == nil {
		p = &pack{name: f.Name, file: file}
		c.packages[f.Name] = p
		c.order = append(c.order, p)
	}
	p.lines = append(p.lines, f.Lines...)
	for _, l := range f.Lines {
		if l.Kind == uci.Package {
			c.marks[l] = mark{Yes, "the file's name", ""}
		}
	}
	for _, s := range f.Sections {
		p.sections = append(p.sections, &section{s, c, file})
	}
}

// of returns the sections of one type in a package.
func (c *converter) of(name string, types ...string) (list []*section) {
	if p := c.packages[name]; p != nil {
		for _, s := range p.sections {
			if slices.Contains(types, s.Type) {
				list = append(list, s)
			}
		}
	}
	return list
}

// convert reads the packages in the order in which they build on each other.
func (c *converter) convert() string {
	c.system()
	c.readDevices()
	c.readZones()
	c.readVLANs()
	c.readInterfaces()
	c.tunnels()
	c.joinPorts()
	c.assign()
	c.makeLinks()
	c.judgeDevices()
	c.routes()
	c.translators()
	c.readDNS64()
	c.adverts()
	c.firewall()
	c.others()
	return c.write()
}
