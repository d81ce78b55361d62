package lab

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Draw returns the scenario's picture: the one drawn by hand, or one made from
// the links.
func Draw(s *Scenario) []string {
	if s.Picture != "" {
		return strings.Split(strings.Trim(s.Picture, "\n"), "\n")
	}
	var lines []string
	drawn := map[string]bool{}
	for _, chain := range chains(s) {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, drawChain(s, chain)...)
		for _, n := range chain.nodes {
			drawn[n] = true
		}
	}
	for _, n := range s.Nodes {
		if !drawn[n.Name] {
			lines = append(lines, drawBox(s, n.Name, "", "").lines()...)
		}
	}
	return lines
}

// chain is a run of nodes, each linked to the next; links has one less.
type chain struct {
	nodes []string
	links []int
}

// chains cuts the links into runs, left to right in the order of the file, so
// that every link is drawn once.
func chains(s *Scenario) []chain {
	used := make([]bool, len(s.Links))
	var all []chain
	for i := range s.Links {
		if used[i] {
			continue
		}
		used[i] = true
		c := chain{nodes: []string{s.Links[i].Ends[0].Node, s.Links[i].Ends[1].Node}, links: []int{i}}
		for {
			j := next(s, used, c.nodes[len(c.nodes)-1])
			if j < 0 {
				break
			}
			used[j] = true
			c.nodes = append(c.nodes, s.Links[j].Ends[1].Node)
			c.links = append(c.links, j)
		}
		all = append(all, c)
	}
	return all
}

func next(s *Scenario, used []bool, node string) int {
	for j, l := range s.Links {
		if !used[j] && l.Ends[0].Node == node {
			return j
		}
	}
	return -1
}

// box is a node as it stands in a row: a name, then rows of words.
type box struct {
	name string
	rows []string
}

func (b box) width() int {
	w := len(b.name) + 2
	for _, r := range b.rows {
		w = max(w, len(r))
	}
	return w
}

func (b box) lines() []string {
	w := b.width()
	lines := []string{"+-" + b.name + strings.Repeat("-", w-len(b.name)) + "-+"}
	for _, r := range b.rows {
		lines = append(lines, fmt.Sprintf("| %-*s |", w, r))
	}
	return append(lines, "+-"+strings.Repeat("-", w)+"-+")
}

// drawBox shows a node with the two devices that the row needs; each device is
// followed by its addresses.
func drawBox(s *Scenario, node, left, right string) box {
	b := box{name: " " + node + " "}
	for _, n := range s.Nodes {
		if n.Name == node && n.About != "" {
			b.name = " " + node + " (" + n.About + ") "
		}
	}
	for _, device := range []string{left, right} {
		if device == "" {
			continue
		}
		b.rows = append(b.rows, device)
		for _, a := range addressesOf(s, node, device) {
			b.rows = append(b.rows, "  "+a)
		}
	}
	return b
}

// addressesOf returns a device's addresses, those that weft will bring included.
func addressesOf(s *Scenario, node, device string) []string {
	var found []string
	for _, l := range s.Links {
		for _, e := range l.Ends {
			if e.Node != node || e.Device != device {
				continue
			}
			for _, a := range e.Addresses {
				found = append(found, a.String())
			}
		}
	}
	for _, n := range s.Nodes {
		if n.Name == node {
			found = append(found, weftAddresses(n.Weft, device)...)
		}
	}
	return found
}

// weftAddresses reads the addresses that a weft.toml gives to a device. What
// is wrong with the file weft itself will say.
func weftAddresses(text, device string) []string {
	var file struct {
		Interface map[string]struct {
			Device    string   `toml:"device"`
			Addresses []string `toml:"addresses"`
		} `toml:"interface"`
	}
	if toml.Unmarshal([]byte(text), &file) != nil {
		return nil
	}
	for name, i := range file.Interface {
		if i.Device == device || i.Device == "" && name == device {
			return i.Addresses
		}
	}
	return nil
}

const cableWidth = 7

// drawChain puts the boxes side by side, with the cables between their second
// lines, and what is special about a cable below it.
func drawChain(s *Scenario, c chain) []string {
	var columns [][]string
	height := 0
	for i, node := range c.nodes {
		left, right := "", ""
		if i > 0 {
			left = s.Links[c.links[i-1]].Ends[1].Device
		}
		if i < len(c.links) {
			right = s.Links[c.links[i]].Ends[0].Device
		}
		lines := drawBox(s, node, left, right).lines()
		columns = append(columns, lines)
		height = max(height, len(lines))
		if i < len(c.links) {
			columns = append(columns, cable(s.Links[c.links[i]]))
		}
	}
	rows := make([]string, height)
	for y := range rows {
		var row strings.Builder
		for _, column := range columns {
			cell := ""
			if y < len(column) {
				cell = column[y]
			}
			fmt.Fprintf(&row, "%-*s", len(column[0]), cell)
		}
		rows[y] = strings.TrimRight(row.String(), " ")
	}
	return rows
}

// cable draws a link: its second line is the wire, below stands what is special.
func cable(l Link) []string {
	var notes []string
	if l.MTU != 0 && l.MTU != 1500 {
		notes = append(notes, fmt.Sprintf("MTU %d", l.MTU))
	}
	if l.Rate != 0 {
		notes = append(notes, l.Rate.String())
	}
	if l.Impaired() {
		notes = append(notes, l.Delay.String())
		if l.Loss != 0 {
			notes = append(notes, fmt.Sprintf("%g%% lost", l.Loss))
		}
	}
	width := cableWidth
	for _, n := range notes {
		width = max(width, len(n)+2)
	}
	lines := []string{strings.Repeat(" ", width), strings.Repeat("-", width)}
	for _, n := range notes {
		lines = append(lines, fmt.Sprintf(" %-*s", width-1, n))
	}
	return lines
}
