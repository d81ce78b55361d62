package nat64

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weft/internal/noun"
	"weft/internal/state"
)

// Session is a row of weft show nat-sessions.
type Session struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	State      string         `json:"state"`
	IPv6       netip.AddrPort `json:"ipv6"`
	Remote6    netip.AddrPort `json:"remote_ipv6"`
	IPv4       netip.AddrPort `json:"ipv4"`
	Remote4    netip.AddrPort `json:"remote_ipv4"`
	Expires    float64        `json:"expires_seconds"`
	Age        float64        `json:"age_seconds"`
}

func natSessions() noun.Noun {
	text := func(name string, of func(Session) string) noun.Column[Session] {
		return noun.Column[Session]{Name: name, Text: of}
	}
	return noun.Of[Source, Session]{
		Name: "nat-sessions", Short: "The sessions of stateful translators",
		Long: `Each session (RFC 6146): the IPv6 node and its far end as the node sees them,
the same as IPv4 sees them, the state of a TCP connection, and how long the
session lives on if no packet comes.`,
		Args: append(FilterArgs(), limitArg()), Examples: []string{"--ipv6 2001:db8:1::/64 --protocol tcp"},
		Rows: func(_ context.Context, t Source, q *noun.Query) iter.Seq2[Session, error] {
			return noun.List(sessionRows(t, q))
		},
		Columns: []noun.Column[Session]{
			text("TRANSLATOR", func(s Session) string { return s.Translator }),
			text("PROTOCOL", func(s Session) string { return s.Protocol }),
			text("STATE", func(s Session) string { return s.State }),
			text("IPV6", func(s Session) string { return s.IPv6.String() }),
			{Name: "TO", Text: func(s Session) string { return s.Remote6.String() }, Wide: true},
			text("IPV4", func(s Session) string { return s.IPv4.String() }),
			text("TO", func(s Session) string { return s.Remote4.String() }),
			text("EXPIRES", func(s Session) string { return seconds(s.Expires) }),
			{Name: "AGE", Text: func(s Session) string { return seconds(s.Age) }, Wide: true},
		},
	}.Noun()
}

// sessionRows are ordered by the node.
func sessionRows(t Source, q *noun.Query) ([]Session, error) {
	f, err := ReadFilter(q, t)
	if err != nil {
		return nil, err
	}
	var rows []Session
	for s, err := range t.Open() {
		if err != nil {
			return nil, err
		}
		if f.FitsSession(s) {
			rows = append(rows, s)
		}
		if f.Limit != 0 && len(rows) >= f.Limit {
			break
		}
	}
	slices.SortFunc(rows, func(a, b Session) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), a.IPv6.Compare(b.IPv6), strings.Compare(a.Protocol, b.Protocol), a.Remote4.Compare(b.Remote4))
	})
	return rows, nil
}

// Subscriber is a row of weft show nat-subscribers.
type Subscriber struct {
	Translator  string       `json:"translator"`
	Subscriber  netip.Prefix `json:"subscriber"`
	Ports       int          `json:"ports"`
	Sessions    int          `json:"sessions"`
	Refused     uint64       `json:"refused"`
	Packets6to4 uint64       `json:"packets_6to4"`
	Bytes6to4   uint64       `json:"bytes_6to4"`
	Packets4to6 uint64       `json:"packets_4to6"`
	Bytes4to6   uint64       `json:"bytes_4to6"`
}

func natSubscribers() noun.Noun {
	number := func(name string, wide bool, n func(Subscriber) uint64) noun.Column[Subscriber] {
		return noun.Column[Subscriber]{Name: name, Text: func(s Subscriber) string { return strconv.FormatUint(n(s), 10) }, Wide: wide}
	}
	labels := []string{"translator"}
	return noun.Of[Source, Subscriber]{
		Name: "nat-subscribers", Short: "What each subscriber of a stateful translator has",
		Long: `For each subscriber (subscriber_prefix_len) that holds something now: how many
ports and sessions it has, and how often it was refused more by its limits.
With count_subscribers = true also what it sent and got, since it first held
something. Those with the most sessions come first.`,
		Args: []noun.Arg{
			{Name: "translator", Help: "only those of [nat64.NAME]", Column: "translations NAME"},
			{Name: "ipv6", Help: "only those in this prefix, or who has this address"},
			limitArg(),
		},
		Examples: []string{"--limit 10"},
		Rows: func(_ context.Context, t Source, q *noun.Query) iter.Seq2[Subscriber, error] {
			return noun.List(subscriberRows(t, q))
		},
		Columns: []noun.Column[Subscriber]{
			{Name: "TRANSLATOR", Text: func(s Subscriber) string { return s.Translator }},
			{Name: "SUBSCRIBER", Text: func(s Subscriber) string { return s.Subscriber.String() }},
			number("PORTS", false, func(s Subscriber) uint64 { return uint64(s.Ports) }),
			number("SESSIONS", false, func(s Subscriber) uint64 { return uint64(s.Sessions) }),
			number("REFUSED", false, func(s Subscriber) uint64 { return s.Refused }),
			number("PACKETS 6TO4", true, func(s Subscriber) uint64 { return s.Packets6to4 }),
			number("BYTES", true, func(s Subscriber) uint64 { return s.Bytes6to4 }),
			number("PACKETS 4TO6", true, func(s Subscriber) uint64 { return s.Packets4to6 }),
			number("BYTES", true, func(s Subscriber) uint64 { return s.Bytes4to6 }),
		},
		// few series, however many subscribers there are
		Metrics: []noun.Metric[Subscriber]{
			noun.NewGauge("weft_nat64_subscribers", "Subscribers that hold something now.", labels, func(s Subscriber, put func(float64, ...string)) {
				put(1, s.Translator)
			}),
			noun.NewGauge("weft_nat64_subscribers_refused", "Of those, the ones that have met a limit.", labels, func(s Subscriber, put func(float64, ...string)) {
				put(noun.Truth(s.Refused > 0), s.Translator)
			}),
			noun.Largest(noun.NewGauge("weft_nat64_subscriber_most_sessions", "Sessions of the subscriber that has the most.", labels, func(s Subscriber, put func(float64, ...string)) {
				put(float64(s.Sessions), s.Translator)
			})),
		},
	}.Noun()
}

// subscriberRows returns those with the most sessions first.
func subscriberRows(t Source, q *noun.Query) ([]Subscriber, error) {
	f, err := ReadFilter(q, t)
	if err != nil {
		return nil, err
	}
	var rows []Subscriber
	for s, err := range t.Holders() {
		if err != nil {
			return nil, err
		}
		if (f.Translator == "" || f.Translator == s.Translator) && (!f.IPv6.IsValid() || f.IPv6.Overlaps(s.Subscriber)) {
			rows = append(rows, s)
		}
	}
	slices.SortFunc(rows, func(a, b Subscriber) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), cmp.Compare(b.Sessions, a.Sessions), a.Subscriber.Addr().Compare(b.Subscriber.Addr()))
	})
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, nil
}

// PoolRow is a row of weft show pools: one pool and one protocol.
type PoolRow struct {
	Translator string       `json:"translator"`
	IPv4       netip.Prefix `json:"ipv4"`
	Ports      string       `json:"ports"`
	Protocol   string       `json:"protocol"`
	Bound      int          `json:"bound"`
	Available  int          `json:"available"` // of all addresses, bound or not
	// Fullest is the address with the most ports bound, and how many.
	Fullest      netip.Addr `json:"fullest"`
	FullestBound int        `json:"fullest_bound"`
}

func pools() noun.Noun {
	return noun.Of[Source, PoolRow]{
		Name: "pools", Short: "The shared IPv4 addresses, and how full they are",
		Long: `For each pool of a stateful translator, by protocol: how many ports are bound,
how many there are, and the address on which most are bound. Ports of static
bindings without sessions are not counted.`,
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[PoolRow, error] {
			return noun.List(poolRows(t))
		},
		Columns: []noun.Column[PoolRow]{
			{Name: "TRANSLATOR", Text: func(p PoolRow) string { return p.Translator }},
			{Name: "IPV4", Text: func(p PoolRow) string { return p.IPv4.String() }},
			{Name: "PORTS", Text: func(p PoolRow) string { return p.Ports }},
			{Name: "PROTOCOL", Text: func(p PoolRow) string { return p.Protocol }},
			{Name: "BOUND", Text: func(p PoolRow) string { return strconv.Itoa(p.Bound) }},
			{Name: "OF", Text: func(p PoolRow) string { return strconv.Itoa(p.Available) }},
			{Name: "FULLEST", Text: func(p PoolRow) string { return fmt.Sprintf("%s (%d)", p.Fullest, p.FullestBound) }},
		},
	}.Noun()
}

func poolRows(t Source) ([]PoolRow, error) {
	names, err := names(t)
	if err != nil {
		return nil, err
	}
	allocators, err := t.Allocators()
	if err != nil {
		return nil, err
	}
	bound := map[string]map[netip.Addr]int{}
	for b, err := range t.Bound() {
		if err != nil {
			return nil, err
		}
		if bound[b.Protocol] == nil {
			bound[b.Protocol] = map[netip.Addr]int{}
		}
		bound[b.Protocol][b.IPv4.Addr()]++
	}
	var rows []PoolRow
	for _, b := range allocators {
		for _, p := range b.Pools {
			for _, protocol := range []string{"tcp", "udp", "icmp"} {
				if p.Prefix.IsValid() {
					rows = append(rows, poolRow(names[b.ID], p, protocol, bound[protocol]))
				}
			}
		}
	}
	return rows, nil
}

func poolRow(translator string, p state.Pool, protocol string, bound map[netip.Addr]int) PoolRow {
	row := PoolRow{
		Translator: translator, IPv4: p.Prefix, Ports: fmt.Sprintf("%d-%d", p.Low, p.High), Protocol: protocol,
		Available: (int(p.High) - int(p.Low) + 1) << (32 - p.Prefix.Bits()), Fullest: p.Prefix.Addr(),
	}
	for a, n := range bound {
		if !p.Prefix.Contains(a) {
			continue
		}
		row.Bound += n
		if n > row.FullestBound || n == row.FullestBound && a.Less(row.Fullest) {
			row.Fullest, row.FullestBound = a, n
		}
	}
	return row
}

// Usage is what a stateful translator has made and ended, of one protocol.
type Usage struct {
	Translator   string `json:"translator"`
	Protocol     string `json:"protocol"`
	Bindings     uint64 `json:"bindings"` // that there are now
	Sessions     uint64 `json:"sessions"`
	BindingsMade uint64 `json:"bindings_made"`
	SessionsMade uint64 `json:"sessions_made"`
}

func usages() noun.Noun {
	labels := []string{"translator", "protocol"}
	gauge := func(name, help string, n func(Usage) uint64) noun.Metric[Usage] {
		return noun.NewGauge(name, help, labels, func(u Usage, put func(float64, ...string)) { put(float64(n(u)), u.Translator, u.Protocol) })
	}
	counter := func(name, help string, n func(Usage) uint64) noun.Metric[Usage] {
		m := gauge(name, help, n)
		m.Type = noun.Counter
		return m
	}
	return noun.Of[Source, Usage]{
		Name: "nat-usage", Hidden: true, Short: "What stateful translators have bound and opened",
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[Usage, error] { return noun.List(t.Used()) },
		Metrics: []noun.Metric[Usage]{
			gauge("weft_nat64_bindings", "Ports that are bound now.", func(u Usage) uint64 { return u.Bindings }),
			gauge("weft_nat64_sessions", "Sessions that there are now.", func(u Usage) uint64 { return u.Sessions }),
			counter("weft_nat64_bindings_made_total", "Ports that have been bound.", func(u Usage) uint64 { return u.BindingsMade }),
			counter("weft_nat64_sessions_made_total", "Sessions that have been opened.", func(u Usage) uint64 { return u.SessionsMade }),
		},
	}.Noun()
}

// LostEvents is how many bindings were made or ended too fast for the log.
type LostEvents struct {
	Lost uint64 `json:"lost"`
}

func eventsLost() noun.Noun {
	return noun.Of[Source, LostEvents]{
		Name: "nat-events-lost", Hidden: true, One: true, Short: "Bindings that the log of allocations missed",
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[LostEvents, error] {
			lost, err := t.EventsLost()
			return noun.Row(LostEvents{lost}, err)
		},
		Metrics: []noun.Metric[LostEvents]{
			noun.NewCounter("weft_nat64_events_lost_total", "Bindings that were made or ended too fast for the log of allocations.", nil, func(l LostEvents, put func(float64, ...string)) {
				put(float64(l.Lost))
			}),
		},
	}.Noun()
}
