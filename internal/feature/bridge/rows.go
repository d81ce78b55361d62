package bridge

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
)

// Row is a row of weft show bridges: a bridge of weft's with its ports.
type Row struct {
	Device    string    `json:"device"`
	Host      bool      `json:"host"`       // the router takes part
	VLANs     string    `json:"vlans"`      // who tells them apart: kernel, weft or none
	HostDrops []DropRow `json:"host_drops"` // between it and the router
	Ports     []PortRow `json:"ports"`
}

// PortRow is one port of a bridge.
type PortRow struct {
	Device   string    `json:"device"`
	Role     string    `json:"role"`
	Up       bool      `json:"up"`
	Joined   bool      `json:"joined"` // the device is in the bridge
	Isolated bool      `json:"isolated"`
	Locked   bool      `json:"locked"`
	VLAN     int       `json:"vlan,omitempty"`
	VLANs    string    `json:"vlans,omitempty"`
	MACs     []MACRow  `json:"macs"`
	Drops    []DropRow `json:"drops"`
}

// MACRow is a source address of a port.
type MACRow struct {
	MAC   string `json:"mac"`
	Fixed bool   `json:"fixed"`                  // of weft.toml
	Idle  *int   `json:"idle_seconds,omitempty"` // nothing: it was not seen yet
}

// DropRow is how many frames were dropped at a port for one reason.
type DropRow struct {
	Outcome string `json:"outcome"`
	Frames  uint64 `json:"frames"`
	Meaning string `json:"meaning"`
}

// Source is where the rows come from.
type Source interface {
	BridgeGuards() ([]state.BridgeGuard, error)
	LearnedMACs() ([]state.LearnedMAC, error)
	PortDrops() (map[string]map[state.Outcome]uint64, error)
	Links() ([]state.LinkFact, error)
	Uptime() time.Duration // by the clock that MACs are seen by
}

// Nouns are what bridges have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "bridges", Short: "The bridges, their ports, who is behind them, and what was dropped there",
		Long: `Each [bridge.NAME] with its ports. HOST says whether the router takes part,
VLANS who separates them: the kernel, weft's programs, or none because
there is one. A port that is absent has not joined. MACS are the source
addresses seen there in the last five minutes; = marks those of weft.toml.
Below a port stands what it dropped, by reason; below the bridge, what was
dropped between it and the router.`,
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[Row, error] { return noun.List(rows(t)) },
		Page: page,
		Columns: []noun.Column[Row]{
			{Name: "BRIDGE", Text: func(r Row) string { return r.Device }},
			{Name: "HOST", Text: func(r Row) string { return noun.YesNo(r.Host) }},
			{Name: "VLANS", Text: func(r Row) string { return r.VLANs }},
		},
		Metrics: []noun.Metric[Row]{
			noun.NewCounter("weft_bridge_drops_total", "Frames that a port of a bridge dropped; of the bridge's own device, those between it and the router.",
				[]string{"bridge", "port", "outcome"}, func(r Row, put func(float64, ...string)) {
					for _, d := range r.HostDrops {
						put(float64(d.Frames), r.Device, r.Device, d.Outcome)
					}
					for _, p := range r.Ports {
						for _, d := range p.Drops {
							put(float64(d.Frames), r.Device, p.Device, d.Outcome)
						}
					}
				}),
			noun.NewGauge("weft_bridge_macs", "Link addresses behind a port of a bridge.", []string{"bridge", "port"}, func(r Row, put func(float64, ...string)) {
				for _, p := range r.Ports {
					put(float64(len(p.MACs)), r.Device, p.Device)
				}
			}),
		},
	}.Noun()}
}

func rows(t Source) ([]Row, error) {
	guards, err := t.BridgeGuards()
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	macs, err := t.LearnedMACs()
	if err != nil {
		return nil, err
	}
	drops, err := t.PortDrops()
	if err != nil {
		return nil, err
	}
	links, err := t.Links()
	if err != nil {
		return nil, err
	}
	facts, now := state.Facts{Links: links}, t.Uptime()
	var rows []Row
	for _, host := range guards {
		if host.Role != state.BridgeHost {
			continue
		}
		row := Row{Device: host.Device, Host: host.Member, VLANs: "none", HostDrops: dropRows(drops[host.Device])}
		if l, _ := facts.Link(host.Device); l.Filtering {
			row.VLANs = "kernel"
		} else if host.Tags {
			row.VLANs = "weft"
		}
		for _, g := range guards {
			if g.Bridge != host.Device || g.Device == host.Device {
				continue
			}
			l, _ := facts.Link(g.Device)
			row.Ports = append(row.Ports, PortRow{
				Device: g.Device, Role: g.Role.String(), Up: l.Up, Joined: l.Master == host.Device,
				Isolated: g.Isolated, Locked: g.Locked, VLAN: int(g.PVID), VLANs: g.VLANs,
				MACs: macRows(macs, g, now), Drops: dropRows(drops[g.Device]),
			})
		}
		slices.SortFunc(row.Ports, func(a, b PortRow) int { return cmp.Compare(a.Device, b.Device) })
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Device, b.Device) })
	return rows, nil
}

func macRows(all []state.LearnedMAC, g state.BridgeGuard, now time.Duration) []MACRow {
	list := []MACRow{}
	for _, m := range all {
		if m.Device != g.Device || m.Bridge != g.Bridge {
			continue
		}
		row := MACRow{MAC: state.MACString(m.MAC), Fixed: m.Fixed}
		idle := now - time.Duration(m.Seen)
		if m.Seen != 0 {
			seconds := int(idle.Seconds())
			row.Idle = &seconds
		}
		if m.Fixed || idle < state.BridgeAgeing {
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b MACRow) int { return cmp.Compare(a.MAC, b.MAC) })
	return list
}

func dropRows(counts map[state.Outcome]uint64) []DropRow {
	list := []DropRow{}
	for o := range state.OutcomeCount {
		if n := counts[o]; n != 0 {
			list = append(list, DropRow{o.String(), n, o.Words()})
		}
	}
	return list
}

func page(w io.Writer, rows []Row) {
	for _, b := range rows {
		fmt.Fprintf(w, "bridge %s\thost %s\tvlans %s\n", b.Device, noun.YesNo(b.Host), b.VLANs)
		dropLines(w, b.HostDrops)
		fmt.Fprintln(w, "PORT\tROLE\tSTATE\tVLAN\tISOLATED\tLOCKED\tMACS")
		for _, p := range b.Ports {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Device, p.Role, p.state(), p.vlans(), noun.YesNo(p.Isolated), noun.YesNo(p.Locked), p.macs())
			dropLines(w, p.Drops)
		}
	}
}

func (p PortRow) state() string {
	switch {
	case !p.Joined:
		return "absent"
	case p.Up:
		return "up"
	}
	return "down"
}

func (p PortRow) vlans() string {
	var words []string
	if p.VLAN != 0 {
		words = append(words, strconv.Itoa(p.VLAN))
	}
	if p.VLANs != "" {
		words = append(words, "tagged "+p.VLANs)
	}
	return noun.Dash(strings.Join(words, ", "))
}

func (p PortRow) macs() string {
	var words []string
	for _, m := range p.MACs {
		if m.Fixed {
			m.MAC = "=" + m.MAC
		}
		words = append(words, m.MAC)
	}
	return noun.Dash(strings.Join(words, " "))
}

func dropLines(w io.Writer, drops []DropRow) {
	for _, d := range drops {
		fmt.Fprintf(w, "  %s\t%d\t%s\n", d.Outcome, d.Frames, d.Meaning)
	}
}
