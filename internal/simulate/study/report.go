package study

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"weft/internal/simulate"
)

// Report writes the result of one run for people.
func Report(out io.Writer, title string, s simulate.Setup, r simulate.Result) error {
	fmt.Fprintf(out, "%s\nscheduler %s, congestion control %s, seed %d\n\n", title, s.Scheduler, s.Congestion, s.Seed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "STREAMS\tarrived\tcomplete\tmean\tmedian\t95%\tlongest\t")
	for i, src := range r.Sources {
		times, what := src.Complete, src.Name
		if len(s.Sources[i].Page) > 0 {
			times, what = src.Pages, src.Name+" (pages)"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t\n", what, src.Arrived, src.Complete.Count,
			short(times.Mean), short(times.Median), short(times.P95), short(times.Max))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "PATHS\tpackets\tdropped\tlost\tfailed\tagain\tbusy\tmean wait\tround trip\t")
	for _, p := range r.Paths {
		wait := time.Duration(0)
		if left := p.Packets - p.Dropped - p.Failed; left > 0 {
			wait = p.QueueDelay / time.Duration(left)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f%%\t%s\t%s\t\n", p.Name, p.Packets, p.Dropped, p.Lost, p.Failed, p.Again,
			percent(float64(p.Busy), float64(r.End)), short(wait), short(p.RTT))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%.2f Mbit/s until %s; %.1f%% of the packets out of order, %.1f kB held at most, something held %.1f%% of the time\n",
		float64(r.Goodput)/1e6, short(r.End), percent(float64(r.OutOfOrder), float64(r.Packets)), float64(r.BufferMax)/1e3, percent(float64(r.Blocked), float64(r.End)))
	for _, x := range r.Streams {
		fmt.Fprintf(out, "stream %d (%s): %d bytes, arrived %s, first byte %s, complete %s\n", x.ID, s.Sources[x.Source].Name, x.Size, short(x.Begin), short(x.First), short(x.End))
	}
	return nil
}

// short rounds a time to three or four digits.
func short(t time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if t >= 100*unit {
			return t.Round(unit / 10)
		}
		if t >= unit {
			return t.Round(unit / 100)
		}
	}
	return t
}
