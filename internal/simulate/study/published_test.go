package study

import (
	"context"
	"testing"

	"weft/internal/simulate/scenario"
)

// The orderings that the papers report, with the scenarios of the program. What
// is asserted is the sign and a size that chance does not explain: the whole
// confidence interval of the paired difference lies beyond the bound.
func TestPublishedOrderings(t *testing.T) {
	tests := []struct {
		name, scenario, base, other, metric string
		most, least                         float64 // of the relative change
	}{
		{"ECF ends chunks earlier than LowRTT over unequal paths (Lim et al. 2017)", "chunks", "lowrtt", "ecf", "completion of chunk", -0.02, -0.5},
		{"ECF holds less at the receiver than LowRTT (Lim et al. 2017)", "chunks", "lowrtt", "ecf", "held at the receiver, mean", -0.05, -1},
		{"BLEST is faster than LowRTT with a small receive buffer (Ferlin et al. 2016)", "blocking", "lowrtt", "blest", "goodput", 10, 0.2},
		{"BLEST blocks for less time than LowRTT (Ferlin et al. 2016)", "blocking", "lowrtt", "blest", "time with data held", -0.5, -2},
		{"DAPS holds less at the receiver than LowRTT (Kuhn et al. 2014)", "reorder", "lowrtt", "daps", "held at the receiver, mean", -0.2, -1},
		{"DAPS holds less at the receiver than round robin (Kuhn et al. 2014)", "reorder", "roundrobin", "daps", "held at the receiver, mean", -0.2, -1},
		{"shortest first ends short streams earlier than turns (Schrage 1968)", "mix", "turns", "shortest", "completion of request", -0.05, -1},
		{"redundancy is dearer in bandwidth than any other (Frömmgen et al. 2016)", "page", "lowrtt", "redundant", "sent again", 1000, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src, err := scenario.Find(tt.scenario)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Load(src)
			if err != nil {
				t.Fatal(err)
			}
			base, other := s.Setup, s.Setup
			base.Scheduler, other.Scheduler = tt.base, tt.other
			out, err := Run(context.Background(), []Case{{tt.base, base}, {tt.other, other}}, 5, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range Table(Metrics(s.Setup), out) {
				if row.Metric != tt.metric {
					continue
				}
				c := row.Cells[1].Change
				t.Logf("%s: %s, %s: %s, change %+.1f%% ±%.1f", row.Metric, row.Cells[0].Estimate, tt.other, row.Cells[1].Estimate, 100*c.Mean, 100*c.Half)
				if c.Mean+c.Half > tt.most || c.Mean-c.Half < tt.least {
					t.Errorf("change of %s is %+.3f ±%.3f, want all of it within %g and %g", tt.metric, c.Mean, c.Half, tt.least, tt.most)
				}
				return
			}
			t.Errorf("there is no metric %s", tt.metric)
		})
	}
}
