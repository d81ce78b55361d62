package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Bridge is a bridge of weft's with its ports.
type Bridge struct {
	Device    string       `json:"device"`
	Host      bool         `json:"host"`       // the router takes part
	VLANs     string       `json:"vlans"`      // who tells them apart: kernel, weft or none
	HostDrops []BridgeDrop `json:"host_drops"` // between it and the router
	Ports     []BridgePort `json:"ports"`
}

// BridgePort is one port of a bridge.
type BridgePort struct {
	Device   string       `json:"device"`
	Role     string       `json:"role"`
	Up       bool         `json:"up"`
	Joined   bool         `json:"joined"` // the device is in the bridge
	Isolated bool         `json:"isolated"`
	Locked   bool         `json:"locked"`
	VLAN     int          `json:"vlan,omitempty"`
	VLANs    string       `json:"vlans,omitempty"`
	MACs     []BridgeMAC  `json:"macs"`
	Drops    []BridgeDrop `json:"drops"`
}

// BridgeMAC is a source address of a port.
type BridgeMAC struct {
	MAC   string `json:"mac"`
	Fixed bool   `json:"fixed"`                  // of weft.toml
	Idle  *int   `json:"idle_seconds,omitempty"` // nothing: it was not seen yet
}

// BridgeDrop is how many frames were dropped at a port for one reason.
type BridgeDrop struct {
	Outcome string `json:"outcome"`
	Frames  uint64 `json:"frames"`
	Meaning string `json:"meaning"`
}

// Bridges gives the rows of `weft show bridges`.
func Bridges(d *datapath.Datapath, links []state.LinkFact) ([]Bridge, error) {
	guards, err := d.BridgeGuards()
	if err != nil {
		return nil, err
	}
	macs, err := d.LearnedMACs()
	if err != nil {
		return nil, err
	}
	drops, err := d.PortDrops()
	if err != nil {
		return nil, err
	}
	facts := state.Facts{Links: links}
	var rows []Bridge
	for _, host := range guards {
		if host.Role != state.BridgeHost {
			continue
		}
		row := Bridge{Device: host.Device, Host: host.Member, VLANs: "none", HostDrops: bridgeDrops(drops[host.Device])}
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
			row.Ports = append(row.Ports, BridgePort{
				Device: g.Device, Role: g.Role.String(), Up: l.Up, Joined: l.Master == host.Device,
				Isolated: g.Isolated, Locked: g.Locked, VLAN: int(g.PVID), VLANs: g.VLANs,
				MACs: bridgeMACs(macs, g), Drops: bridgeDrops(drops[g.Device]),
			})
		}
		slices.SortFunc(row.Ports, func(a, b BridgePort) int { return cmp.Compare(a.Device, b.Device) })
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Bridge) int { return cmp.Compare(a.Device, b.Device) })
	return rows, nil
}

// bridgeAgeing is how long an address that was not seen again is its port's;
// BRIDGE_AGEING of bpf/blocks/bridge_stations.h.
const bridgeAgeing = 300 * time.Second

func bridgeMACs(all []state.LearnedMAC, g state.BridgeGuard) []BridgeMAC {
	list := []BridgeMAC{}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return list
	}
	for _, m := range all {
		if m.Device != g.Device || m.Bridge != g.Bridge {
			continue
		}
		row := BridgeMAC{MAC: state.MACString(m.MAC), Fixed: m.Fixed}
		idle := time.Duration(now.Nano() - int64(m.Seen))
		if m.Seen != 0 {
			seconds := int(idle.Seconds())
			row.Idle = &seconds
		}
		if m.Fixed || idle < bridgeAgeing {
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b BridgeMAC) int { return cmp.Compare(a.MAC, b.MAC) })
	return list
}

func bridgeDrops(counts map[state.Outcome]uint64) []BridgeDrop {
	list := []BridgeDrop{}
	for o := range state.OutcomeCount {
		if n := counts[o]; n != 0 {
			list = append(list, BridgeDrop{o.String(), n, o.Words()})
		}
	}
	return list
}

// bridgeMetrics is what Prometheus gets of bridges.
type bridgeMetrics struct {
	drops, macs *prometheus.Desc
}

func newBridgeMetrics() bridgeMetrics {
	return bridgeMetrics{
		drops: prometheus.NewDesc("weft_bridge_drops_total", "Frames that a port of a bridge dropped; of the bridge's own device, those between it and the router.", []string{"bridge", "port", "outcome"}, nil),
		macs:  prometheus.NewDesc("weft_bridge_macs", "Link addresses behind a port of a bridge.", []string{"bridge", "port"}, nil),
	}
}

func (m bridgeMetrics) descs() []*prometheus.Desc { return []*prometheus.Desc{m.drops, m.macs} }

func (m bridgeMetrics) collect(ch chan<- prometheus.Metric, d *datapath.Datapath) {
	rows, err := Bridges(d, nil)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.drops, err)
		return
	}
	drop := func(bridge, port string, drops []BridgeDrop) {
		for _, one := range drops {
			ch <- prometheus.MustNewConstMetric(m.drops, prometheus.CounterValue, float64(one.Frames), bridge, port, one.Outcome)
		}
	}
	for _, b := range rows {
		drop(b.Device, b.Device, b.HostDrops)
		for _, p := range b.Ports {
			drop(b.Device, p.Device, p.Drops)
			ch <- prometheus.MustNewConstMetric(m.macs, prometheus.GaugeValue, float64(len(p.MACs)), b.Device, p.Device)
		}
	}
}
