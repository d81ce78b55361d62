package uplink

import (
	"context"
	"fmt"
	"iter"
	"time"

	"weft/internal/noun"
)

// Row is a row of weft show uplinks: one family of one uplink.
type Row struct {
	Uplink  string    `json:"uplink"`
	Device  string    `json:"device"`
	Family  string    `json:"family"` // IPv4, IPv6
	Gateway string    `json:"gateway"`
	Metric  int       `json:"metric"` // as it is in force
	State   string    `json:"state"`  // in use, standby, down
	Since   time.Time `json:"since,omitzero"`
	Probed  bool      `json:"probed"`
	RTT     float64   `json:"rtt_seconds"`
	Rounds  uint64    `json:"probe_rounds"`
	Lost    uint64    `json:"probe_rounds_lost"`
}

// Source is the runner.
type Source interface {
	Uplinks(ctx context.Context) []Row
}

// Nouns are what uplinks have to show.
func Nouns() []noun.Noun {
	labels := []string{"uplink", "family"}
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "uplinks", Short: "The ways to the Internet, and which is in use", From: noun.Daemon,
		Long: `For each [uplink.NAME] and family: its gateway, the metric of its default route,
whether it is in use, and what the probes through it say. Of the uplinks that
are not down the one with the lowest metric is in use. A down uplink keeps a
default route with a metric above 100000, by which the probes go.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			return noun.List(s.Uplinks(ctx), nil)
		},
		Columns: []noun.Column[Row]{
			{Name: "UPLINK", Text: func(r Row) string { return r.Uplink }},
			{Name: "FAMILY", Text: func(r Row) string { return r.Family }},
			{Name: "DEVICE", Text: func(r Row) string { return r.Device }},
			{Name: "GATEWAY", Text: func(r Row) string { return noun.Dash(r.Gateway) }},
			{Name: "METRIC", Text: func(r Row) string { return fmt.Sprint(r.Metric) }},
			{Name: "STATE", Text: func(r Row) string { return r.State }},
			{Name: "SINCE", Text: func(r Row) string {
				if r.Since.IsZero() {
					return "start"
				}
				return noun.Age(r.Since) + " ago"
			}},
			{Name: "RTT", Text: func(r Row) string {
				if r.RTT == 0 {
					return "-"
				}
				return fmt.Sprintf("%.1f ms", r.RTT*1000)
			}},
			{Name: "LOST", Text: func(r Row) string {
				if !r.Probed {
					return "not probed"
				}
				return fmt.Sprintf("%d of %d", r.Lost, r.Rounds)
			}},
		},
		Metrics: []noun.Metric[Row]{
			noun.NewGauge("weft_uplink_up", "Whether the uplink works in this family, by its probes.", labels, func(r Row, put func(float64, ...string)) {
				up := 1.0
				if r.State == Down {
					up = 0
				}
				put(up, r.Uplink, r.Family)
			}),
			noun.NewGauge("weft_uplink_rtt_seconds", "Smoothed round-trip time of the probes.", labels, func(r Row, put func(float64, ...string)) {
				if r.Probed {
					put(r.RTT, r.Uplink, r.Family)
				}
			}),
			noun.NewCounter("weft_uplink_probe_rounds_total", "Rounds of probes.", labels, func(r Row, put func(float64, ...string)) {
				if r.Probed {
					put(float64(r.Rounds), r.Uplink, r.Family)
				}
			}),
			noun.NewCounter("weft_uplink_probe_rounds_lost_total", "Rounds of probes that no host answered.", labels, func(r Row, put func(float64, ...string)) {
				if r.Probed {
					put(float64(r.Lost), r.Uplink, r.Family)
				}
			}),
		},
	}.Noun()}
}

// The states of an uplink.
const (
	InUse = "in use"
	Spare = "standby"
	Down  = "down"
)
