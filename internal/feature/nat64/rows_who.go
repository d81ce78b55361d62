package nat64

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weft/internal/allocationlog"
	"weft/internal/config"
	"weft/internal/noun"
	"weft/internal/state"
)

// WhoQuery asks who had a port of a shared address.
type WhoQuery struct {
	IPv4     netip.AddrPort
	Protocol uint8 // of IPv4; 0: all
	At       time.Time
}

// HolderRow is a row of weft show who.
type HolderRow struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	IPv4       netip.AddrPort `json:"ipv4"`
	IPv6       string         `json:"ipv6"` // the node's address and port; where ports are fixed, the subscriber's prefix
	From       *time.Time     `json:"from,omitempty"`
	Until      *time.Time     `json:"until,omitempty"` // not there: not known to have ended
	Note       string         `json:"note,omitempty"`
}

// ErrNoAllocations is the error if no translator has an allocation log.
var ErrNoAllocations = errors.New("no translator has an allocation log: see allocation_log in weft.toml")

// LogFiles reads logs of allocations that no daemon has open.
type LogFiles interface {
	WhoInFile(path string, q WhoQuery) ([]HolderRow, error)
}

// Logs are the logs that the daemon writes.
type Logs interface {
	Who(q WhoQuery) ([]HolderRow, error)
}

func who() noun.Noun {
	args := append(whoArgs(), noun.Arg{Name: "file", Help: "read this log; no weft run may have it open"})
	return noun.Of[LogFiles, HolderRow]{
		Name: "who", Short: "Who had a port of a shared address at a time", From: noun.Both, Idle: true,
		Long: `Which IPv6 node had a port of a shared IPv4 address at a time, from the log of
allocations that a stateful translator keeps (allocation_log in weft.toml), or
from its fixed blocks of ports. For icmp the port is the identifier of echoes.

TIME is like 2026-05-01T12:34:56Z or "2026-05-01 12:34:56" (local time), or how
long ago, like 90m; without it, now. Times are good to a tenth of a second, and
only as good as this machine's clock and that of who asks.`,
		Examples: []string{
			"203.0.113.1 4711 2026-05-01T12:34:56Z", "203.0.113.1 4711 90m --protocol tcp --json",
			"203.0.113.1 4711 --file /var/lib/weft/main.allocations",
		},
		Args: args,
		Rows: func(ctx context.Context, f LogFiles, q *noun.Query) iter.Seq2[HolderRow, error] {
			asked, err := readWho(q, time.Now())
			if err != nil {
				return noun.List[HolderRow](nil, err)
			}
			if path := q.Text("file"); path != "" {
				return noun.List(f.WhoInFile(path, asked))
			}
			var rows []HolderRow
			err = q.Ask(ctx, "port-holders", map[string]string{
				"address": q.Text("address"), "port": q.Text("port"), "protocol": q.Text("protocol"), "time": asked.At.Format(time.RFC3339Nano),
			}, &rows)
			if errors.Is(err, noun.ErrNoDaemon) {
				err = fmt.Errorf("%w; --file reads the log without it", err)
			}
			return noun.List(rows, err)
		},
		None: "no allocation found in the log",
		Columns: []noun.Column[HolderRow]{
			{Name: "TRANSLATOR", Text: func(h HolderRow) string { return noun.Dash(h.Translator) }},
			{Name: "PROTOCOL", Text: func(h HolderRow) string { return h.Protocol }},
			{Name: "IPV4", Text: func(h HolderRow) string { return h.IPv4.String() }},
			{Name: "IPV6", Text: func(h HolderRow) string { return h.IPv6 }},
			{Name: "FROM", Text: func(h HolderRow) string { return moment(h.From) }},
			{Name: "UNTIL", Text: func(h HolderRow) string { return moment(h.Until) }},
			{Name: "NOTE", Text: func(h HolderRow) string { return h.Note }},
		},
	}.Noun()
}

// portHolders is what the daemon knows for weft show who.
func portHolders() noun.Noun {
	return noun.Of[Logs, HolderRow]{
		Name: "port-holders", Hidden: true, From: noun.Daemon, Short: "Who had a port, by the daemon's logs", Args: whoArgs(),
		Rows: func(_ context.Context, l Logs, q *noun.Query) iter.Seq2[HolderRow, error] {
			asked, err := readWho(q, time.Now())
			if err != nil {
				return noun.List[HolderRow](nil, err)
			}
			return noun.List(l.Who(asked))
		},
	}.Noun()
}

func whoArgs() []noun.Arg {
	return []noun.Arg{
		{Name: "address", Help: "an address", Word: true, Needed: true},
		{Name: "port", Help: "a port", Word: true, Needed: true},
		{Name: "time", Help: "a time", Word: true},
		{Name: "protocol", Help: "only tcp, udp or icmp", Values: []string{"tcp", "udp", "icmp"}},
	}
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.0Z")
}

func readWho(q *noun.Query, now time.Time) (w WhoQuery, err error) {
	a, err := netip.ParseAddr(q.Text("address"))
	if err != nil || !a.Is4() {
		return w, fmt.Errorf("%q is no IPv4 address", q.Text("address"))
	}
	port, err := strconv.ParseUint(q.Text("port"), 10, 16)
	if err != nil {
		return w, fmt.Errorf("%q is no port", q.Text("port"))
	}
	w = WhoQuery{IPv4: netip.AddrPortFrom(a, uint16(port)), At: now, Protocol: map[string]uint8{"tcp": 6, "udp": 17, "icmp": 1}[q.Text("protocol")]}
	if text := q.Text("time"); text != "" {
		if w.At, err = readTime(text, now); err == nil && w.At.After(now.Add(time.Minute)) {
			err = fmt.Errorf("%s is yet to come: ask for a time that is over", w.At.Format(time.RFC3339))
		}
	}
	return w, err
}

func readTime(text string, now time.Time) (time.Time, error) {
	if ago, err := config.ParseDuration(text); err == nil {
		return now.Add(-ago.Abs()), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return now, fmt.Errorf("%q is no time: write it like 2026-05-01T12:34:56Z, or 90m for ninety minutes ago", text)
}

// BlockHolders returns who has a port by fixed blocks: a subscriber, but for what
// is bound to one node for good.
func BlockHolders(name string, l allocationlog.Layout, q WhoQuery) (rows []HolderRow) {
	static := map[netip.AddrPort][]uint8{}
	open := protocols(q)
	for _, p := range slices.Clone(open) {
		if node, ok := l.StaticOwner(q.IPv4, p); ok {
			static[node] = append(static[node], p)
			open = slices.DeleteFunc(open, func(o uint8) bool { return o == p })
		}
	}
	for node, list := range static {
		for _, p := range list {
			rows = append(rows, HolderRow{Translator: name, Protocol: state.ProtocolName(p), IPv4: q.IPv4, IPv6: node.String(), Note: "static"})
		}
	}
	owner, ok := l.Owner(q.IPv4)
	switch {
	case !ok || len(open) == 0:
	case len(open) == len(protocols(q)) && q.Protocol == 0:
		rows = append(rows, HolderRow{Translator: name, Protocol: "any", IPv4: q.IPv4, IPv6: owner.String()})
	default:
		for _, p := range open {
			rows = append(rows, HolderRow{Translator: name, Protocol: state.ProtocolName(p), IPv4: q.IPv4, IPv6: owner.String()})
		}
	}
	slices.SortFunc(rows, func(a, b HolderRow) int { return slices.Compare([]byte(a.Protocol), []byte(b.Protocol)) })
	return rows
}

func protocols(q WhoQuery) []uint8 {
	if q.Protocol == 0 {
		return []uint8{6, 17, 1}
	}
	return []uint8{q.Protocol}
}

// Holders answers from a log: by the blocks that were in force then, and for
// translators without blocks by what was bound.
func Holders(log *allocationlog.Log, layouts *allocationlog.Layouts, q WhoQuery, names map[int]string) (rows []HolderRow, err error) {
	terms, err := layouts.At(q.At)
	if err != nil {
		return nil, err
	}
	ruled := map[string]bool{}
	for _, term := range terms {
		// just when it begins or ends bindings count, too
		ruled[term.Translator] = ruled[term.Translator] || !q.At.Before(term.From) && (term.Until.IsZero() || q.At.Before(term.Until))
		for _, row := range BlockHolders(term.Translator, term.Layout, q) {
			row.From = &term.From
			if !term.Until.IsZero() {
				row.Until = &term.Until
			}
			if row.Note == "" {
				row.Note = "by the fixed blocks of that time"
			}
			rows = append(rows, row)
		}
	}
	for _, p := range protocols(q) {
		h, found, err := log.Who(q.IPv4, p, q.At)
		if err != nil {
			return nil, err
		}
		if found && !ruled[names[h.Translator]] {
			rows = append(rows, holder(h, names))
		}
	}
	return rows, nil
}

func holder(h allocationlog.Holder, names map[int]string) HolderRow {
	row := HolderRow{Translator: names[h.Translator], Protocol: state.ProtocolName(h.Protocol), IPv4: h.IPv4, IPv6: h.IPv6.String(), From: &h.Made}
	if !h.Ended.IsZero() {
		row.Until = &h.Ended
	} else {
		row.Note = "not known to have ended"
	}
	if h.Uncertain {
		row.Note = "events were lost at that time: another subscriber may have had the port in between"
	}
	return row
}
