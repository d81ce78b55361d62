package host

import (
	"cmp"
	"context"
	"iter"

	"weft/internal/noun"
	"weft/internal/state"
)

// HealthSource is the daemon itself.
type HealthSource interface {
	Health(ctx context.Context) []state.Health
}

func health() noun.Noun {
	return noun.Of[HealthSource, state.Health]{
		Name: "health", Short: "Which features work, and which do not and why", From: noun.Daemon,
		Long: `A line for each feature of weft.toml that is in use, and for each of its
instances: working, degraded or not working. BECAUSE is the reason, REMEDY what
to do about it. The command fails if a line is not "working". The daemon knows
all this, so weft run must be running.`,
		Rows: func(ctx context.Context, s HealthSource, _ *noun.Query) iter.Seq2[state.Health, error] {
			return noun.List(s.Health(ctx), nil)
		},
		Columns: []noun.Column[state.Health]{
			{Name: "FEATURE", Text: func(h state.Health) string { return h.Feature }},
			{Name: "NAME", Text: func(h state.Health) string { return cmp.Or(h.Name, "-") }},
			{Name: "CONDITION", Text: func(h state.Health) string { return string(h.Condition) }},
			{Name: "BECAUSE", Text: func(h state.Health) string { return cmp.Or(h.Because, "-") }},
			{Name: "REMEDY", Text: func(h state.Health) string { return cmp.Or(h.Remedy, "-") }},
		},
		None:   "no feature is in use",
		Faulty: func(h state.Health) bool { return h.Condition != state.Working },
		Metrics: []noun.Metric[state.Health]{
			noun.NewGauge("weft_healthy", "1 while the feature, or one of its instances, works; 0 while it is degraded or does not work.", []string{"feature", "name"},
				func(h state.Health, put func(float64, ...string)) {
					put(noun.Truth(h.Condition == state.Working), h.Feature, h.Name)
				}),
		},
	}.Noun()
}
