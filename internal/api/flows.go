package api

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
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
	State    string         `json:"state"`                 // offloaded, ending, stale, or stack: it stayed there, see Why
	Age      *int           `json:"age_seconds,omitempty"` // of its connection, since that was first offloaded
	Rate     float64        `json:"bits_per_second,omitempty"`
	Why      string         `json:"why,omitempty"` // it is not offloaded
	Remedy   string         `json:"remedy,omitempty"`

	pair offload.FlowPair
}

// FlowFilter picks flows; zero values pick all.
type FlowFilter struct {
	Protocol string
	Address  netip.Prefix // any of its addresses
	Port     uint16
	In       string
	State    string
}

// States of flows.
const (
	StateOffloaded = "offloaded"
	StateEnding    = "ending"
	StateStale     = "stale"
	StateStack     = "stack"
)

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
			row.State = StateStale
		case u.Closed:
			row.State = StateEnding
		}
		if f.picks(row) {
			rows = append(rows, row)
		}
	})
	slices.SortFunc(rows, func(a, b Flow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rows, err
}

func flowRow(u state.FlowUse, hop state.FlowHop) Flow {
	row := Flow{
		Protocol: u.Tuple.ProtocolName(), State: StateOffloaded,
		Packets: u.Packets, Bytes: u.Bytes, Idle: u.Idle.Seconds(), Link: linkText(hop.Link),
		pair: offload.FlowPair{Arrives: u.Tuple, Becomes: u.Becomes},
	}
	row.From, row.To = u.Tuple.Ends()
	row.NewFrom, row.NewTo = u.Becomes.Ends()
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
	case f.Protocol != "" && f.Protocol != r.Protocol, f.In != "" && f.In != r.In, f.State != "" && f.State != r.State:
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
	Ages(ctx context.Context, flows []offload.FlowPair) ([]int, error)
}

func serveOffload(mux *http.ServeMux, source OffloadSource) {
	mux.HandleFunc("GET /v1/offload", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(ctx context.Context) (any, error) { return source.Offload(ctx) })
	})
	mux.HandleFunc("POST /v1/offload/ages", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(ctx context.Context) (any, error) {
			var flows []offload.FlowPair
			if err := json.NewDecoder(io.LimitReader(q.Body, agesMost)).Decode(&flows); err != nil {
				return nil, err
			}
			return source.Ages(ctx, flows)
		})
	})
}

const (
	agesAtOnce = 2048
	agesMost   = agesAtOnce * 1024 // bytes of a question
)

// AskAges fills in for how long flows have been offloaded. Without a daemon
// nobody knows.
func AskAges(ctx context.Context, socket string, rows []Flow) error {
	for part := range slices.Chunk(rows, agesAtOnce) {
		question := make([]offload.FlowPair, len(part))
		for i, r := range part {
			question[i] = r.pair
		}
		var ages []int
		if err := askAbout(ctx, socket, "/v1/offload/ages", question, &ages); err != nil {
			return err
		}
		for i := range min(len(ages), len(part)) {
			if ages[i] >= 0 {
				part[i].Age = &ages[i]
			}
		}
	}
	return nil
}
