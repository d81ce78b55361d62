package dscp

import (
	"context"
	"fmt"
	"iter"

	"weft/internal/noun"
)

// Row is the packets with one DSCP that were dropped on one interface.
type Row struct {
	Device    string  `json:"device"`
	DSCP      int     `json:"dscp"`
	Packets   uint64  `json:"packets"`
	PerSecond float64 `json:"per_second"`
}

// Source is the runner.
type Source interface {
	Drops(ctx context.Context) ([]Row, error)
}

// Nouns are weft show dscp, and its metric.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "dscp", Short: "Dropped packets by DSCP", From: noun.Daemon,
		Long: `The packets that [dscp.NAME] has dropped, by interface and DSCP, and how many a
second. The daemon measures the rate, so weft run must be running.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			return noun.List(s.Drops(ctx))
		},
		Columns: []noun.Column[Row]{
			{Name: "INTERFACE", Text: func(r Row) string { return r.Device }},
			{Name: "DSCP", Text: func(r Row) string { return fmt.Sprint(r.DSCP) }},
			{Name: "PACKETS", Text: func(r Row) string { return fmt.Sprint(r.Packets) }},
			{Name: "PER SECOND", Text: func(r Row) string { return fmt.Sprintf("%.1f", r.PerSecond) }},
		},
		Metrics: []noun.Metric[Row]{
			noun.NewCounter("weft_dscp_dropped_packets_total", "Packets with a DSCP for local use that were dropped.", []string{"device", "dscp"}, func(r Row, put func(float64, ...string)) {
				put(float64(r.Packets), r.Device, fmt.Sprint(r.DSCP))
			}),
		},
	}.Noun()}
}
