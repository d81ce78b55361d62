package study

import "weft/internal/simulate"

// Metric is one number of a result.
type Metric struct {
	Name  string
	Unit  string
	More  bool // more is better
	Value func(simulate.Result) float64
}

const millisecond = 1e6

// Metrics returns what is reported of a setup: completion times of each source
// that ends, then what the connection as a whole did.
func Metrics(s simulate.Setup) []Metric {
	var all []Metric
	for i, src := range s.Sources {
		if src.Size == simulate.Unlimited && len(src.Page) == 0 {
			continue
		}
		times := func(r simulate.Result) simulate.Times { return r.Sources[i].Complete }
		what := "completion of " + src.Name
		if len(src.Page) > 0 {
			times = func(r simulate.Result) simulate.Times { return r.Sources[i].Pages }
		}
		all = append(all, Metric{what, "ms", false, func(r simulate.Result) float64 { return float64(times(r).Mean) / millisecond }})
		if src.Count != 1 {
			all = append(all, Metric{what + ", 95th percentile", "ms", false, func(r simulate.Result) float64 { return float64(times(r).P95) / millisecond }})
		}
		if src.Deadline > 0 {
			all = append(all, Metric{"deadlines missed by " + src.Name, "%", false, func(r simulate.Result) float64 {
				return percent(float64(r.Sources[i].Late), float64(r.Sources[i].Complete.Count))
			}})
		}
	}
	return append(all,
		Metric{"goodput", "Mbit/s", true, func(r simulate.Result) float64 { return float64(r.Goodput) / 1e6 }},
		Metric{"out of order", "%", false, func(r simulate.Result) float64 { return percent(float64(r.OutOfOrder), float64(r.Packets)) }},
		Metric{"held at the receiver, mean", "kB", false, func(r simulate.Result) float64 { return float64(r.BufferMean) / 1e3 }},
		Metric{"held at the receiver, most", "kB", false, func(r simulate.Result) float64 { return float64(r.BufferMax) / 1e3 }},
		Metric{"time with data held", "%", false, func(r simulate.Result) float64 { return percent(float64(r.Blocked), float64(r.End)) }},
		Metric{"sent again", "%", false, again},
	)
}

func again(r simulate.Result) float64 {
	var repeats, packets uint64
	for _, p := range r.Paths {
		repeats += p.Again
		packets += p.Packets
	}
	return percent(float64(repeats), float64(packets))
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

// Row is one metric of all cases.
type Row struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	More   bool   `json:"more_is_better"`
	Cells  []Cell `json:"cells"`
	values [][]float64
}

// Cell is one metric of one case.
type Cell struct {
	Case string `json:"case"`
	Estimate
	Change Estimate `json:"change"` // against the first case, as a share of it
}

// Table evaluates outcomes.
func Table(metrics []Metric, outcomes []Outcome) []Row {
	var rows []Row
	for _, m := range metrics {
		row := Row{Metric: m.Name, Unit: m.Unit, More: m.More}
		for _, o := range outcomes {
			var values []float64
			for _, r := range o.Results {
				values = append(values, m.Value(r))
			}
			row.values = append(row.values, values)
			row.Cells = append(row.Cells, Cell{Case: o.Name, Estimate: estimate(values), Change: paired(values, row.values[0])})
		}
		rows = append(rows, row)
	}
	return rows
}
