// Package api gives what the router knows to whoever asks: `weft show`, the
// daemon's unix socket, Prometheus. All of them show the same rows. What is in
// the pinned maps can be read without the daemon; the slow path's counts live
// in the daemon and come over its socket.
package api

import (
	"cmp"
	"fmt"
	"slices"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Counter is how many packets met an outcome in a program, or in the slow path
// of a translator.
type Counter struct {
	Program string `json:"program"`
	Outcome string `json:"outcome"`
	Verdict string `json:"verdict"`
	Packets uint64 `json:"packets"`
	Meaning string `json:"meaning"`
}

// SlowCounts is what the slow path of each translator made of packets.
type SlowCounts map[string]map[string]uint64

// Counters gives the rows of `weft show counters`. slow may be nil.
func Counters(d *datapath.Datapath, slow SlowCounts) ([]Counter, error) {
	counts, err := d.Counts()
	if err != nil {
		return nil, err
	}
	var rows []Counter
	for _, c := range counts {
		rows = append(rows, Counter{c.Program, c.Outcome.String(), string(c.Outcome.Verdict()), c.Packets, c.Outcome.Words()})
	}
	for _, name := range sortedKeys(slow) {
		for o := range state.OutcomeCount {
			if n := slow[name][o.String()]; n > 0 {
				rows = append(rows, Counter{"slow_path/" + name, o.String(), string(o.Verdict()), n, o.Words()})
			}
		}
	}
	return rows, nil
}

// Drops keeps the rows of packets that were dropped.
func Drops(rows []Counter) []Counter {
	return slices.DeleteFunc(slices.Clone(rows), func(c Counter) bool { return c.Verdict != string(state.Drop) })
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Interface is a device with programs of weft's on it.
type Interface struct {
	Device      string   `json:"device"`
	Index       int      `json:"index"`
	Kind        string   `json:"kind"`
	Up          bool     `json:"up"`
	MTU         int      `json:"mtu"`
	MAC         string   `json:"mac"`
	Addresses   []string `json:"addresses"`
	Programs    []string `json:"programs"` // hook:program
	Shortcut    bool     `json:"shortcut"`
	Translators []string `json:"translators"`
}

// Interfaces gives the rows of `weft show interfaces`.
func Interfaces(d *datapath.Datapath, links []state.LinkFact) ([]Interface, error) {
	attachments, err := d.Attachments()
	if err != nil {
		return nil, err
	}
	ports, err := d.Ports()
	if err != nil {
		return nil, err
	}
	translators, err := d.Translators()
	if err != nil {
		return nil, err
	}
	var rows []Interface
	for _, l := range links {
		row := Interface{Device: l.Name, Index: l.Index, Kind: cmp.Or(l.Kind, "physical"), Up: l.Up, MTU: l.MTU, MAC: state.MACString(l.MAC)}
		for _, a := range attachments {
			if a.Device == l.Name {
				row.Programs = append(row.Programs, fmt.Sprintf("%s:%s", a.Hook, a.Program))
			}
		}
		if len(row.Programs) == 0 {
			continue
		}
		slices.Sort(row.Programs)
		for _, a := range l.Addresses {
			row.Addresses = append(row.Addresses, a.String())
		}
		for _, p := range ports {
			if p.Device == l.Name {
				row.Shortcut = p.Shortcut
				row.Translators = served(p, translators)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func served(p state.Port, translators []state.Translator) []string {
	var names []string
	for _, t := range translators {
		if p.Translators>>t.ID&1 == 1 {
			names = append(names, t.Name)
		}
	}
	return names
}

// Translation is a translator and what it carried.
type Translation struct {
	Name   string          `json:"name"`
	Device string          `json:"device"`
	Prefix string          `json:"prefix,omitempty"`
	To4    datapath.Volume `json:"to_ipv4"`
	To6    datapath.Volume `json:"to_ipv6"`
	Rules  []Rule          `json:"rules"`
}

// Rule is one address rule of a translator.
type Rule struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"`
}

// Translations gives the rows of `weft show translations`.
func Translations(d *datapath.Datapath) ([]Translation, error) {
	translators, err := d.Translators()
	if err != nil {
		return nil, err
	}
	rules, err := d.Rules()
	if err != nil {
		return nil, err
	}
	var rows []Translation
	for _, t := range translators {
		row := Translation{Name: t.Name, Device: t.Device}
		if t.Prefix.IsValid() {
			row.Prefix = t.Prefix.String()
		}
		if row.To4, row.To6, err = d.Volumes(t.ID); err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.Translator == t.ID {
				row.Rules = append(row.Rules, Rule{r.From.String(), r.To.String(), r.Kind.String()})
			}
		}
		slices.SortFunc(row.Rules, func(a, b Rule) int { return cmp.Compare(a.From, b.From) })
		rows = append(rows, row)
	}
	return rows, nil
}
