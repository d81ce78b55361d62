package api

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"weft/internal/datapath"
	"weft/internal/feature/offload"
	"weft/internal/state"
)

// Flow is a row of `weft show flows`: one direction of a connection.
type Flow struct {
	Protocol string         `json:"protocol"`
	In       string         `json:"in"`  // interface that its packets come by
	Out      string         `json:"out"` // lowest device that they leave by
	From     netip.AddrPort `json:"from"`
	To       netip.AddrPort `json:"to"`
	NewFrom  netip.AddrPort `json:"new_from"` // after NAT
	NewTo    netip.AddrPort `json:"new_to"`
	Link     string         `json:"link,omitempty"` // tags and PPPoE session that frames get
	Packets  uint64         `json:"packets"`
	Bytes    uint64         `json:"bytes"`
	Idle     float64        `json:"idle_seconds"`
	State    string         `json:"state"` // offloaded, ending or stale
	Rate     float64        `json:"bits_per_second,omitempty"`
}

// FlowFilter picks flows; zero values pick all.
type FlowFilter struct {
	Protocol string
	Address  netip.Prefix // any of its addresses
	Port     uint16
	In       string
	Limit    int
}

// Flows lists the flows that are offloaded, those with most bytes first.
func Flows(d *datapath.Datapath, f FlowFilter) ([]Flow, error) {
	flows, err := d.ViewFlows()
	if err != nil {
		return nil, err
	}
	hops, err := flows.Hops()
	if err != nil {
		return nil, err
	}
	generation, leased, err := flows.Control()
	if err != nil {
		return nil, err
	}
	names := map[uint32]string{}
	name := func(index uint32) string {
		if names[index] == "" {
			names[index] = deviceName(index)
		}
		return names[index]
	}
	var rows []Flow
	err = flows.Each(func(u state.FlowUse) {
		hop, there := hops[u.Hop]
		row := flowRow(u, hop)
		row.In, row.Out = name(u.Interface), name(hop.Device)
		switch {
		case !leased || u.Generation != generation || !there:
			row.State = "stale"
		case u.Closed:
			row.State = "ending"
		}
		if f.picks(row) {
			rows = append(rows, row)
		}
	})
	slices.SortFunc(rows, func(a, b Flow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, err
}

func flowRow(u state.FlowUse, hop state.FlowHop) Flow {
	port := func(a netip.Addr, p uint16) netip.AddrPort { return netip.AddrPortFrom(a, p) }
	row := Flow{
		Protocol: state.ProtocolName(u.Tuple.Protocol), State: "offloaded",
		From: port(u.Tuple.From(), u.Tuple.SrcPort), To: port(u.Tuple.To(), u.Tuple.DstPort),
		NewFrom: port(u.Becomes.From(), u.Becomes.SrcPort), NewTo: port(u.Becomes.To(), u.Becomes.DstPort),
		Packets: u.Packets, Bytes: u.Bytes, Idle: u.Idle.Seconds(), Link: linkText(hop.Link),
	}
	if u.Tuple.Echo() { // the port is the identifier, the second one is the type
		row.Protocol = "icmp"
		row.To, row.NewTo = port(u.Tuple.To(), 0), port(u.Becomes.To(), 0)
	}
	return row
}

func linkText(l state.FlowLink) string {
	text := l.Tags.String()
	if l.Session != 0 {
		if text != "" {
			text += " "
		}
		text += "pppoe"
	}
	return text
}

func (f FlowFilter) picks(r Flow) bool {
	switch {
	case f.Protocol != "" && f.Protocol != r.Protocol, f.In != "" && f.In != r.In:
		return false
	case f.Port != 0 && !slices.Contains([]uint16{r.From.Port(), r.To.Port(), r.NewFrom.Port(), r.NewTo.Port()}, f.Port):
		return false
	}
	return !f.Address.IsValid() || slices.ContainsFunc([]netip.AddrPort{r.From, r.To, r.NewFrom, r.NewTo}, func(a netip.AddrPort) bool { return f.Address.Contains(a.Addr()) })
}

func deviceName(index uint32) string {
	if dev, err := net.InterfaceByIndex(int(index)); err == nil {
		return dev.Name
	}
	return "-"
}

// OffloadSource is the daemon, as far as it offloads.
type OffloadSource interface {
	Offload(ctx context.Context) (offload.Status, error)
}

func serveOffload(mux *http.ServeMux, source OffloadSource) {
	mux.HandleFunc("GET /v1/offload", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(ctx context.Context) (any, error) { return source.Offload(ctx) })
	})
}
