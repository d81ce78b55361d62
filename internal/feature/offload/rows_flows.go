package offload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
)

// FlowRow is a row of weft show flows: one direction of a connection.
type FlowRow struct {
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

	pair FlowPair
}

// States of flows.
const (
	StateOffloaded = "offloaded"
	StateEnding    = "ending"
	StateStale     = "stale"
	StateStack     = "stack"
)

// FlowView reads the flow tables.
type FlowView interface {
	Hops() (map[uint32]state.FlowHop, error)
	Control() (generation uint32, leased bool, err error)
	Each(func(state.FlowUse)) error
}

// FlowSource is where the flows come from.
type FlowSource interface {
	View() (FlowView, error)
	DeviceName(index uint32) string
	HasDevice(name string) bool
}

func showFlows() noun.Noun {
	return noun.Of[FlowSource, FlowRow]{
		Name: "flows", Short: "The connections that bypass the stack, and those that do not", From: noun.Both,
		Long: `Each offloaded flow (see [offload]): one direction of a connection, as its
packets arrive and, where NAT changes them, as they leave. For icmp the port
is the identifier of ICMP echo. AGE is the time since the connection was first
offloaded, RATE the mean rate over that time; with --watch RATE is the current
rate, and the fastest flows come first. STATE is offloaded; ending: a FIN, RST
or SYN was seen, and the stack has the flow; stale: rules, routes or
neighbours have changed, and the stack has the flow until some more packets
have passed; stack: enough packets have passed, but the flow stays with the
stack. The reasons and remedies follow below the flows, for the last 1024 such
flows, if weft run is running. Flows with fewer packets than minimum_packets
are in neither list.`,
		Args: flowArgs(), Examples: []string{"--watch --limit 20", "--address 192.0.2.0/24 --protocol tcp", "--state stack"},
		Rows: func(ctx context.Context, s FlowSource, q *noun.Query) iter.Seq2[FlowRow, error] {
			return noun.List(flowRows(ctx, s, q, time.Now()))
		},
		None: "none", Page: flowPage,
		Columns: []noun.Column[FlowRow]{
			{Name: "IN", Text: func(f FlowRow) string { return f.In }},
			{Name: "STATE", Text: func(f FlowRow) string { return f.State }},
		},
	}.Noun()
}

func flowArgs() []noun.Arg {
	return []noun.Arg{
		{Name: "protocol", Help: "only tcp, udp or icmp", Values: []string{"tcp", "udp", "icmp"}},
		{Name: "address", Help: "only flows with this address, or an address in this prefix, on either side"},
		{Name: "port", Help: "only flows with this port on either side", Kind: noun.Port},
		{Name: "in", Help: "only flows that arrive on this device", Column: "flows IN"},
		{Name: "state", Help: "only offloaded, ending, stale or stack", Values: []string{StateOffloaded, StateEnding, StateStale, StateStack}},
		{Name: "limit", Help: "maximum number of rows of each kind; 0: all", Kind: noun.Number},
	}
}

// flowFilter picks flows; zero values pick all.
type flowFilter struct {
	protocol string
	address  netip.Prefix // any of its addresses
	port     uint16
	in       string
	state    string
}

// readFilter reads it. Whether the device is there it asks only at the first look: later
// it may be gone for a while, as a session's is.
func readFilter(q *noun.Query, s FlowSource, first bool) (f flowFilter, err error) {
	f = flowFilter{protocol: q.Text("protocol"), port: uint16(q.Number("port")), in: q.Text("in"), state: q.Text("state")}
	if first && f.in != "" && !s.HasDevice(f.in) {
		return f, fmt.Errorf("--in %s: no such device (use the name in ip link, not the NAME of [interface.NAME])", f.in)
	}
	if text := q.Text("address"); text != "" {
		f.address, err = noun.Prefix("--address", text)
	}
	return f, err
}

func (f flowFilter) picks(r FlowRow) bool {
	switch {
	case f.protocol != "" && f.protocol != r.Protocol, f.in != "" && f.in != r.In, f.state != "" && f.state != r.State:
		return false
	case f.port != 0 && !slices.Contains([]uint16{r.From.Port(), r.To.Port(), r.NewFrom.Port(), r.NewTo.Port()}, f.port):
		return false
	}
	return !f.address.IsValid() || slices.ContainsFunc([]netip.AddrPort{r.From, r.To, r.NewFrom, r.NewTo}, func(a netip.AddrPort) bool { return f.address.Contains(a.Addr()) })
}

func flowRows(ctx context.Context, s FlowSource, q *noun.Query, now time.Time) ([]FlowRow, error) {
	rates, again := q.Memory.(*flowRates)
	if !again {
		rates = &flowRates{}
		q.Memory = rates
	}
	f, err := readFilter(q, s, !again)
	if err != nil {
		return nil, err
	}
	rows, err := offloaded(s, f)
	if err != nil {
		return nil, err
	}
	rates.fill(rows, now)
	limit := q.Number("limit")
	rows = atMost(rows, limit)
	var status Status
	err = q.Ask(ctx, "offload", nil, &status)
	if err == nil {
		err = askAges(ctx, q, rows)
		rows = append(rows, atMost(flowsLeft(rows, status.Recent, f, s.DeviceName), limit)...)
	}
	if err != nil && !errors.Is(err, noun.ErrNoDaemon) && len(rows) == 0 {
		return nil, err // it offloads nothing
	}
	rates.means(rows)
	return rows, nil
}

// offloaded lists the flows that are offloaded, those with most bytes first.
func offloaded(s FlowSource, f flowFilter) ([]FlowRow, error) {
	flows, err := s.View()
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
			names[index] = s.DeviceName(index)
		}
		return names[index]
	}
	var rows []FlowRow
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
	slices.SortFunc(rows, func(a, b FlowRow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rows, err
}

func flowRow(u state.FlowUse, hop state.FlowHop) FlowRow {
	row := FlowRow{
		Protocol: u.Tuple.ProtocolName(), State: StateOffloaded,
		Packets: u.Packets, Bytes: u.Bytes, Idle: u.Idle.Seconds(), Link: linkText(hop.Link),
		pair: FlowPair{Arrives: u.Tuple, Becomes: u.Becomes},
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

// agesAtOnce is how many flows one question is about.
const agesAtOnce = 2048

// flowAges tells for how long flows have been offloaded. Its argument is a list of FlowPair in JSON.
func flowAges() noun.Noun {
	return noun.Of[Source, int]{
		Name: "flow-ages", Hidden: true, From: noun.Daemon, Short: "For how many seconds flows have been offloaded",
		Args: []noun.Arg{{Name: "flows", Help: "the flows, in JSON"}},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[int, error] {
			var flows []FlowPair
			if err := json.Unmarshal([]byte(q.Text("flows")), &flows); err != nil {
				return noun.List[int](nil, err)
			}
			return noun.List(s.Ages(ctx, flows))
		},
	}.Noun()
}

// askAges fills in for how long flows have been offloaded. Without a daemon
// that is not known.
func askAges(ctx context.Context, q *noun.Query, rows []FlowRow) error {
	for part := range slices.Chunk(rows, agesAtOnce) {
		question := make([]FlowPair, len(part))
		for i, r := range part {
			question[i] = r.pair
		}
		text, err := json.Marshal(question)
		if err != nil {
			return err
		}
		var ages []int
		if err := q.Ask(ctx, "flow-ages", map[string]string{"flows": string(text)}, &ages); err != nil {
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

// flowsLeft gives rows of flows that stayed with the stack, why, and what to do.
// Those that rows has already, as not offloaded any more, get the reason there.
func flowsLeft(rows []FlowRow, left []LeftFlow, f flowFilter, device func(uint32) string) []FlowRow {
	type key struct {
		protocol string
		from, to netip.AddrPort
	}
	known := map[key]int{}
	for i, r := range rows {
		known[key{r.Protocol, r.NewFrom, r.NewTo}] = i
	}
	var list []FlowRow
	for _, l := range left {
		if i, there := known[key{l.Protocol, l.NewFrom, l.NewTo}]; there {
			if rows[i].State != StateOffloaded {
				rows[i].Why, rows[i].Remedy = string(l.Why), l.Remedy
			}
			continue
		}
		row := FlowRow{
			Protocol: l.Protocol, In: device(l.Interface), Out: "", From: l.From, To: l.To, NewFrom: l.NewFrom, NewTo: l.NewTo,
			Idle: l.Seconds, State: StateStack, Why: string(l.Why), Remedy: l.Remedy,
		}
		if !row.From.IsValid() { // before NAT is not known
			row.From, row.To = l.NewFrom, l.NewTo
		}
		if f.picks(row) {
			list = append(list, row)
		}
	}
	return list
}

func atMost(rows []FlowRow, limit int) []FlowRow {
	if limit > 0 && len(rows) > limit {
		return rows[:limit]
	}
	return rows
}

// flowRates finds out how fast flows are, from one look to the next.
type flowRates struct {
	last  map[string]uint64
	at    time.Time
	again bool // it is not the first look
}

// fill puts the fastest since the look before first; there may be none before.
func (l *flowRates) fill(rows []FlowRow, now time.Time) {
	seen := map[string]uint64{}
	for i, row := range rows {
		k := fmt.Sprint(row.Protocol, row.In, row.From, row.To)
		seen[k] = row.Bytes
		if was, known := l.last[k]; known && row.Bytes >= was {
			rows[i].Rate = float64(row.Bytes-was) * 8 / now.Sub(l.at).Seconds()
		}
	}
	if l.again = l.last != nil; l.again {
		slices.SortStableFunc(rows, func(a, b FlowRow) int { return cmp.Compare(b.Rate, a.Rate) })
	}
	l.last, l.at = seen, now
}

// means gives, at the first look, the mean of a flow's time.
func (l *flowRates) means(rows []FlowRow) {
	for i, row := range rows {
		if !l.again && row.Age != nil && *row.Age > 0 {
			rows[i].Rate = float64(row.Bytes) * 8 / float64(*row.Age)
		}
	}
}
