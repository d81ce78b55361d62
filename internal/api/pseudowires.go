package api

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Pseudowire is a row of `weft show pseudowires`.
type Pseudowire struct {
	Device    string            `json:"device"`
	Kind      string            `json:"kind"`
	Local     string            `json:"local"`
	Remote    string            `json:"remote"`
	Rx        uint32            `json:"rx"` // session, or key
	Tx        uint32            `json:"tx"`
	MTU       int               `json:"mtu"`      // of the interface
	PathMTU   int               `json:"path_mtu"` // that a router under way has told of; 0: none did
	Resolved  bool              `json:"resolved"` // the link address towards the other end is known
	RxPackets uint64            `json:"rx_packets"`
	RxBytes   uint64            `json:"rx_bytes"`
	TxPackets uint64            `json:"tx_packets"`
	TxBytes   uint64            `json:"tx_bytes"`
	RxJoined  uint64            `json:"rx_joined"` // of those received: that came in pieces, which the kernel joined
	Faults    map[string]uint64 `json:"faults"`
}

// Pseudowires gives the rows of `weft show pseudowires`. links are for the MTU;
// they may be nil.
func Pseudowires(d *datapath.Datapath, links []state.LinkFact) ([]Pseudowire, error) {
	wires, err := d.Pseudowires()
	if err != nil {
		return nil, err
	}
	counts, err := d.WireCounts()
	if err != nil {
		return nil, err
	}
	ways, err := d.Ways()
	if err != nil {
		return nil, err
	}
	mtus := map[string]int{}
	for _, l := range links {
		mtus[l.Name] = l.MTU
	}
	var rows []Pseudowire
	for _, w := range wires {
		c, way := counts[w.Hidden], ways[w.Pair]
		row := Pseudowire{
			Device: w.Device, Kind: w.Kind.String(), Local: endText(w.Local, w.LocalPort), Remote: endText(w.Remote, w.RemotePort),
			Rx: w.RxID, Tx: w.TxID, MTU: mtus[w.Device], PathMTU: way.PathMTU, Resolved: way.Resolved,
			RxPackets: c.RxPackets, RxBytes: c.RxBytes, TxPackets: c.TxPackets, TxBytes: c.TxBytes, RxJoined: c.Joined, Faults: c.Faults,
		}
		if row.Faults == nil {
			row.Faults = map[string]uint64{}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Pseudowire) int { return cmp.Compare(a.Device, b.Device) })
	return rows, nil
}

// WithVXLANs adds those that are the kernel's. Their number stands for both
// sessions, and nobody but the kernel looks for the link address.
func WithVXLANs(rows []Pseudowire, vxlans []state.VXLANCount) []Pseudowire {
	for _, v := range vxlans {
		rows = append(rows, Pseudowire{
			Device: v.Name, Kind: "vxlan", Local: endText(v.Local, v.Port), Remote: endText(v.Remote, v.Port), Rx: v.VNI, Tx: v.VNI,
			MTU: v.MTU, Resolved: true, RxPackets: v.RxPackets, RxBytes: v.RxBytes, TxPackets: v.TxPackets, TxBytes: v.TxBytes, Faults: v.Faults,
		})
	}
	slices.SortFunc(rows, func(a, b Pseudowire) int { return cmp.Compare(a.Device, b.Device) })
	return rows
}

// wireMetrics are the counters of pseudowires.
type wireMetrics struct {
	packets, bytes, joined, faults *prometheus.Desc
}

func newWireMetrics() wireMetrics {
	return wireMetrics{
		packets: prometheus.NewDesc("weft_pseudowire_packets_total", "Packets that a pseudowire carried, as on the wire.", []string{"device", "direction"}, nil),
		bytes:   prometheus.NewDesc("weft_pseudowire_bytes_total", "Bytes of the frames that a pseudowire carried.", []string{"device", "direction"}, nil),
		joined:  prometheus.NewDesc("weft_pseudowire_joined_total", "Packets that a pseudowire received in pieces, which the kernel joined.", []string{"device"}, nil),
		faults:  prometheus.NewDesc("weft_pseudowire_faults_total", "Packets that a pseudowire did not carry, and why.", []string{"device", "reason"}, nil),
	}
}

func (m wireMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.packets, m.bytes, m.joined, m.faults}
}

func (m wireMetrics) collect(ch chan<- prometheus.Metric, d *datapath.Datapath) {
	rows, err := Pseudowires(d, nil)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(m.packets, err)
		return
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, r := range rows {
		counter(m.packets, r.RxPackets, r.Device, "rx")
		counter(m.packets, r.TxPackets, r.Device, "tx")
		counter(m.bytes, r.RxBytes, r.Device, "rx")
		counter(m.bytes, r.TxBytes, r.Device, "tx")
		counter(m.joined, r.RxJoined, r.Device)
		for _, reason := range sortedKeys(r.Faults) {
			counter(m.faults, r.Faults[reason], r.Device, reason)
		}
	}
}

// endText is an address, with its port if it has one.
func endText(a netip.Addr, port uint16) string {
	if port == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}
