package dns64

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"weft/internal/noun"
)

// Row is what weft show dns64 shows.
type Row struct {
	Listen     []string       `json:"listen"`
	Cached     int            `json:"cached"`
	Forwarders []ForwarderRow `json:"forwarders"`
	Counters   []Counter      `json:"counters"`
}

// ForwarderRow says how a forwarder answers.
type ForwarderRow struct {
	Forwarder string        `json:"forwarder"`
	Asked     uint64        `json:"asked"`
	Failed    uint64        `json:"failed"`
	Resting   bool          `json:"resting"` // failed lately, others are asked first
	Last      time.Duration `json:"last_ns"` // how long the last answer took
	Error     string        `json:"error,omitempty"`
	Unwanted  uint64        `json:"unwanted"` // replies to no question that was asked
}

// Source is the name server that the daemon runs; nil: it runs none.
type Source interface {
	NameServer() *Row
}

// Nouns are what the name server has to show.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "dns64", Short: "What the name server of [dns64] does", From: noun.Daemon, One: true,
		Long: `Where the name server listens, how its forwarders are, and what it did. A
forwarder that failed rests for a while: the others are asked first. The daemon
knows all this, so weft run must be running.`,
		Rows: func(_ context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			row := s.NameServer()
			if row == nil {
				return noun.List[Row](nil, errors.New("the configuration has no [dns64]"))
			}
			return noun.Row(*row, nil)
		},
		Page: page,
		Metrics: []noun.Metric[Row]{
			noun.NewCounter("weft_dns64_events_total", "What the name server did, by event; weft show dns64 explains them.", []string{"event"}, func(r Row, put func(float64, ...string)) {
				for _, c := range r.Counters {
					put(float64(c.Count), c.Name)
				}
			}),
			noun.NewCounter("weft_dns64_forwarder_queries_total", "Questions to forwarders.", []string{"forwarder", "result"}, func(r Row, put func(float64, ...string)) {
				for _, f := range r.Forwarders {
					put(float64(f.Asked-f.Failed), f.Forwarder, "answered")
					put(float64(f.Failed), f.Forwarder, "failed")
				}
			}),
			noun.NewCounter("weft_dns64_forwarder_unwanted_total", "Replies from forwarders that belong to no query: garbage, or attempts to forge answers.", []string{"forwarder"}, func(r Row, put func(float64, ...string)) {
				for _, f := range r.Forwarders {
					put(float64(f.Unwanted), f.Forwarder)
				}
			}),
			noun.NewGauge("weft_dns64_cache_entries", "Answers that are kept.", nil, func(r Row, put func(float64, ...string)) { put(float64(r.Cached)) }),
		},
	}.Noun()}
}

func page(w io.Writer, rows []Row) {
	for _, d := range rows {
		fmt.Fprintf(w, "listens on\t%s\n", noun.Dash(strings.Join(d.Listen, " ")))
		fmt.Fprintf(w, "keeps\t%d answers\n\n", d.Cached)
		fmt.Fprintln(w, "FORWARDER\tASKED\tFAILED\tUNWANTED\tLAST\tSTATE")
		for _, f := range d.Forwarders {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", f.Forwarder, f.Asked, f.Failed, f.Unwanted, f.Last.Round(100*time.Microsecond), f.state())
		}
		fmt.Fprintln(w, "\nEVENT\tCOUNT\tMEANING")
		for _, c := range d.Counters {
			if c.Count > 0 {
				fmt.Fprintf(w, "%s\t%d\t%s\n", c.Name, c.Count, c.Meaning)
			}
		}
	}
}

func (f ForwarderRow) state() string {
	switch {
	case f.Resting:
		return "rests: " + f.Error
	case f.Error != "":
		return "failed last: " + f.Error
	case f.Asked == 0:
		return "not asked yet"
	}
	return "answers"
}
