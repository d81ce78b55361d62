package pseudowire

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/noun"
	"weft/internal/state"
)

// Row is a row of weft show pseudowires.
type Row struct {
	Device        string            `json:"device"`
	Kind          string            `json:"kind"`
	Local         string            `json:"local"`
	Remote        string            `json:"remote"`
	Rx            uint32            `json:"rx"` // session, or key
	Tx            uint32            `json:"tx"`
	MTU           int               `json:"mtu"`      // of the interface
	PathMTU       int               `json:"path_mtu"` // from ICMP errors of routers on the path; 0: none received
	Resolved      bool              `json:"resolved"` // the link address towards the other end is known
	RxPackets     uint64            `json:"rx_packets"`
	RxBytes       uint64            `json:"rx_bytes"`
	TxPackets     uint64            `json:"tx_packets"`
	TxBytes       uint64            `json:"tx_bytes"`
	RxReassembled uint64            `json:"rx_reassembled"` // of those received: that came in pieces, which the kernel joined
	Faults        map[string]uint64 `json:"faults"`

	kernels bool // it is the kernel's own
}

// Counts is what a pseudowire carried, and what it did not.
type Counts struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
	Reassembled                            uint64 // packets among those received that came in pieces
	Faults                                 map[string]uint64
}

// Source is where the rows come from.
type Source interface {
	Pseudowires() ([]state.Pseudowire, error)
	Counts() (map[int]Counts, error) // by the index of the hidden end
	Paths() (map[state.Endpoints]state.PseudowirePath, error)
	Links() ([]state.LinkFact, error)
	VXLANs() ([]state.VXLANCount, error)
}

// Nouns are what pseudowires have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "pseudowires", Short: "The pseudowires, what they carried, and what they did not",
		Long: `For each [pseudowire.NAME]: its ends, the session, key or network number each
way, the MTU of its interface, and what it carried. Packets are counted
as on the wire, bytes are those of the frames inside. FAULTS says how many
packets it did not carry, by reason:

  source     the source address or port is not that of the other end
  cookie     the packet does not have the pseudowire's cookie
  header     the header has a version, flags or fields that are not in use
  truncated  the packet is shorter than its headers say
  sequence   the sequence number is older than one that was received
  checksum   the GRE checksum is wrong
  ecn        the outer packet is CE-marked, the inner one is not ECN-capable
             (RFC 6040)
  too-big    the frame exceeds the MTU; answered: its sender got an ICMP error
  no-path    no route leads to the other end, or its link address is unknown
  kernel     a kernel helper failed (no memory, packet shape)

(rx reassembled=N) is no fault: N packets arrived as fragments, and the kernel
reassembled them. This costs much more time than whole packets do.

LEARNT is the path MTU, from an ICMP error of a router on the path. What comes
with an unknown session is in weft show drops. Pseudowires of kind vxlan are the
kernel's, and so are their counts: rx-errors, rx-dropped, tx-errors, tx-dropped.`,
		Rows:    func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[Row, error] { return noun.List(rows(t)) },
		Columns: columns(), Metrics: metrics(),
	}.Noun()}
}

func rows(t Source) ([]Row, error) {
	pseudowires, err := t.Pseudowires()
	if err != nil {
		return nil, err
	}
	counts, err := t.Counts()
	if err != nil {
		return nil, err
	}
	paths, err := t.Paths()
	if err != nil {
		return nil, err
	}
	var links []state.LinkFact
	if len(pseudowires) > 0 {
		if links, err = t.Links(); err != nil {
			return nil, err
		}
	}
	vxlans, err := t.VXLANs()
	if err != nil {
		return nil, err
	}
	mtus := map[string]int{}
	for _, l := range links {
		mtus[l.Name] = l.MTU
	}
	var rows []Row
	for _, w := range pseudowires {
		c, way := counts[w.Hidden], paths[w.Endpoints]
		row := Row{
			Device: w.Device, Kind: w.Kind.String(), Local: endText(w.Local, w.LocalPort), Remote: endText(w.Remote, w.RemotePort),
			Rx: w.RxID, Tx: w.TxID, MTU: mtus[w.Device], PathMTU: way.PathMTU, Resolved: way.Resolved,
			RxPackets: c.RxPackets, RxBytes: c.RxBytes, TxPackets: c.TxPackets, TxBytes: c.TxBytes, RxReassembled: c.Reassembled, Faults: c.Faults,
		}
		if row.Faults == nil {
			row.Faults = map[string]uint64{}
		}
		rows = append(rows, row)
	}
	// One number stands for both sessions of a VXLAN, and the kernel looks for the link address.
	for _, v := range vxlans {
		rows = append(rows, Row{
			Device: v.Name, Kind: "vxlan", Local: endText(v.Local, v.Port), Remote: endText(v.Remote, v.Port), Rx: v.VNI, Tx: v.VNI,
			MTU: v.MTU, Resolved: true, RxPackets: v.RxPackets, RxBytes: v.RxBytes, TxPackets: v.TxPackets, TxBytes: v.TxBytes, Faults: v.Faults,
			kernels: true,
		})
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Device, b.Device) })
	return rows, nil
}

// endText is an address, with its port if it has one.
func endText(a netip.Addr, port uint16) string {
	if port == 0 {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

func columns() []noun.Column[Row] {
	count := func(name string, n func(Row) uint64, wide bool) noun.Column[Row] {
		return noun.Column[Row]{Name: name, Text: func(r Row) string { return fmt.Sprint(n(r)) }, Wide: wide}
	}
	return []noun.Column[Row]{
		{Name: "DEVICE", Text: func(r Row) string { return r.Device }},
		{Name: "KIND", Text: func(r Row) string { return r.Kind }},
		{Name: "LOCAL", Text: func(r Row) string { return r.Local }, Wide: true},
		{Name: "REMOTE", Text: func(r Row) string { return r.Remote }},
		count("RX", func(r Row) uint64 { return uint64(r.Rx) }, true),
		count("TX", func(r Row) uint64 { return uint64(r.Tx) }, true),
		count("MTU", func(r Row) uint64 { return uint64(r.MTU) }, false),
		{Name: "LEARNT", Text: func(r Row) string {
			if r.PathMTU == 0 {
				return "-"
			}
			return fmt.Sprint(r.PathMTU)
		}, Wide: true},
		count("RX PACKETS", func(r Row) uint64 { return r.RxPackets }, true),
		count("RX BYTES", func(r Row) uint64 { return r.RxBytes }, false),
		count("TX PACKETS", func(r Row) uint64 { return r.TxPackets }, true),
		count("TX BYTES", func(r Row) uint64 { return r.TxBytes }, false),
		{Name: "FAULTS", Text: faultsText},
	}
}

func faultsText(r Row) string {
	var faults []string
	if r.RxReassembled != 0 {
		faults = append(faults, fmt.Sprintf("(rx reassembled=%d)", r.RxReassembled))
	}
	for reason, n := range r.Faults {
		faults = append(faults, fmt.Sprintf("%s=%d", reason, n))
	}
	slices.Sort(faults)
	if !r.Resolved {
		faults = append(faults, "(link address not known)")
	}
	return noun.Dash(strings.Join(faults, " "))
}

// metrics leave out what the kernel counts itself.
func metrics() []noun.Metric[Row] {
	ours := func(of func(r Row, put func(float64, ...string))) func(r Row, put func(float64, ...string)) {
		return func(r Row, put func(float64, ...string)) {
			if !r.kernels {
				of(r, put)
			}
		}
	}
	paths := []string{"device", "direction"}
	return []noun.Metric[Row]{
		noun.NewCounter("weft_pseudowire_packets_total", "Packets that a pseudowire carried, as on the wire.", paths, ours(func(r Row, put func(float64, ...string)) {
			put(float64(r.RxPackets), r.Device, "rx")
			put(float64(r.TxPackets), r.Device, "tx")
		})),
		noun.NewCounter("weft_pseudowire_bytes_total", "Bytes of the frames that a pseudowire carried.", paths, ours(func(r Row, put func(float64, ...string)) {
			put(float64(r.RxBytes), r.Device, "rx")
			put(float64(r.TxBytes), r.Device, "tx")
		})),
		noun.NewCounter("weft_pseudowire_reassembled_total", "Received packets that arrived in fragments and that the kernel reassembled.", paths[:1], ours(func(r Row, put func(float64, ...string)) {
			put(float64(r.RxReassembled), r.Device)
		})),
		noun.NewCounter("weft_pseudowire_faults_total", "Packets that a pseudowire did not carry, and why.", []string{"device", "reason"}, ours(func(r Row, put func(float64, ...string)) {
			for reason, n := range r.Faults {
				put(float64(n), r.Device, reason)
			}
		})),
	}
}
