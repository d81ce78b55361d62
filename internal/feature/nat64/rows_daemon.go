package nat64

import (
	"context"
	"iter"
	"maps"
	"slices"

	"weft/internal/noun"
	"weft/internal/state"
)

// SlowPaths are what the daemon runs for rare packets.
type SlowPaths interface {
	SlowCounts() map[string]map[state.Outcome]uint64 // by translator
}

// SlowRow is how many packets a translator's slow path gave an outcome.
type SlowRow struct {
	Program string `json:"program"`
	Outcome string `json:"outcome"`
	Verdict string `json:"verdict"`
	Packets uint64 `json:"packets"`
	Meaning string `json:"meaning"`
}

// slowPaths is what the daemon adds to weft show counters.
func slowPaths() noun.Noun {
	return noun.Of[SlowPaths, SlowRow]{
		Name: "slow-path", Hidden: true, From: noun.Daemon, Short: "What slow paths made of packets",
		Rows: func(_ context.Context, s SlowPaths, _ *noun.Query) iter.Seq2[SlowRow, error] {
			counts := s.SlowCounts()
			var rows []SlowRow
			for _, name := range slices.Sorted(maps.Keys(counts)) {
				for o := range state.OutcomeCount {
					if n := counts[name][o]; n > 0 {
						rows = append(rows, SlowRow{"slow_path/" + name, o.String(), string(o.Verdict()), n, o.Words()})
					}
				}
			}
			return noun.List(rows, nil)
		},
	}.Noun()
}

// Collector is one that is sent allocations (allocation_syslog).
type Collector struct {
	Address string `json:"address"`
	Sent    uint64 `json:"sent"`
	Lost    uint64 `json:"lost"`
	Waiting int    `json:"waiting"`
	Reached bool   `json:"reached"`
}

// Collectors are what the daemon sends allocations to.
type Collectors interface {
	Collectors() []Collector
}

func collectors() noun.Noun {
	return noun.Of[Collectors, Collector]{
		Name: "allocation-collectors", Hidden: true, From: noun.Daemon, Short: "The collectors of allocations",
		Rows: func(_ context.Context, c Collectors, _ *noun.Query) iter.Seq2[Collector, error] {
			return noun.List(c.Collectors(), nil)
		},
		Metrics: []noun.Metric[Collector]{
			noun.NewCounter("weft_nat64_syslog_messages_total", "Messages for a collector of allocations: sent, or lost because it was away too long.",
				[]string{"collector", "result"}, func(c Collector, put func(float64, ...string)) {
					put(float64(c.Sent), c.Address, "sent")
					put(float64(c.Lost), c.Address, "lost")
				}),
			noun.NewGauge("weft_nat64_syslog_waiting", "Messages that wait for the collector.", []string{"collector"}, func(c Collector, put func(float64, ...string)) {
				put(float64(c.Waiting), c.Address)
			}),
			noun.NewGauge("weft_nat64_syslog_reached", "0: the collector cannot be reached now.", []string{"collector"}, func(c Collector, put func(float64, ...string)) {
				put(noun.Truth(c.Reached), c.Address)
			}),
		},
	}.Noun()
}
