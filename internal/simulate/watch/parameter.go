package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/simulate"
	"weft/internal/simulate/scenario"
)

// Parameter is a value of a scenario that the page can change: a slider over a
// few values, or a list.
type Parameter struct {
	Key   string   // as scenario.Spec.Set takes it
	Label string   // of the value within its group
	Group string   // a path, a source of streams, or everything
	Stops []string // the values, among them the one it has
	At    int      // which
	Base  string   // the one that it has in the scenario, unchanged
	List  bool     // a list to choose from, not an order
}

// Last is the largest position of the slider.
func (p Parameter) Last() int { return len(p.Stops) - 1 }

// Value is the value it has.
func (p Parameter) Value() string { return p.Stops[p.At] }

// Joined returns all values, for the page.
func (p Parameter) Joined() string { return strings.Join(p.Stops, "|") }

// Parameters lists what the page can change of a scenario.
func Parameters(s *scenario.Scenario) []Parameter {
	var all []Parameter
	add := func(group, key, label, now string, stops []string, size func(string) float64) {
		p := Parameter{Key: key, Label: label, Group: group, Stops: stops}
		if p.At = slices.Index(stops, now); p.At < 0 {
			p.At = 0
			for p.At < len(stops) && size(stops[p.At]) < size(now) {
				p.At++
			}
			p.Stops = slices.Insert(slices.Clone(stops), p.At, now)
		}
		all = append(all, p)
	}
	for i, path := range s.Spec.Paths {
		v, group, key := path.Value, "Path "+path.Name, "path."+path.Name+"."
		if s.Setup.Paths[i].Rate > 0 {
			add(group, key+"rate", "rate", v.Rate, rates(), rateOf)
		}
		add(group, key+"delay", "delay", v.Delay.String(), delays(), spanOf)
		add(group, key+"jitter", "jitter", v.Jitter.String(), delays(), spanOf)
		add(group, key+"queue", "queue", v.Queue, sizes()[3:15], sizeOf)
		loss := v.Loss
		if loss == "" {
			loss = "0%"
		}
		add(group, key+"loss", "loss", loss, []string{"0%", "0.01%", "0.02%", "0.05%", "0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%"}, shareOf)
	}
	for _, st := range s.Spec.Streams {
		v, group, key := st.Value, "Streams "+st.Name, "stream."+st.Name+"."
		if v.Page == "" && v.Size != "unlimited" {
			add(group, key+"size", "size", v.Size, sizes()[:18], sizeOf)
		}
		if v.Every > 0 {
			add(group, key+"every", "every", v.Every.String(), gaps(), spanOf)
		}
		if v.Count > 1 {
			add(group, key+"count", "count", strconv.FormatInt(v.Count, 10), []string{"2", "5", "10", "20", "50", "100", "200"}, numberOf)
		}
	}
	g, group := s.Spec.General, "All"
	add(group, "scenario.receive_buffer", "receive buffer", g.Buffer, append(sizes()[4:18], "unlimited"), sizeOf)
	add(group, "scenario.seed", "seed", strconv.FormatInt(g.Seed, 10), []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}, numberOf)
	controls := simulate.Controls()
	return append(all, Parameter{Key: "scenario.congestion", Label: "congestion control", Group: group, Stops: controls, At: slices.Index(controls, g.Control), List: true})
}

// Allowed returns why a page may not set something, nil if it may. Not everything
// that --set takes is open to it: page and trace name files.
func Allowed(s *scenario.Scenario, assignment string) error {
	key, _, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("set %q: write KEY=VALUE, like path.slow.delay=50ms", assignment)
	}
	var keys []string
	for _, p := range Parameters(s) {
		if p.Key == key {
			return nil
		}
		keys = append(keys, p.Key)
	}
	return fmt.Errorf("set %s: the page can change %s", key, strings.Join(keys, ", "))
}

// nice returns 1, 2 and 5 times powers of ten of a unit, from one to another.
func nice(unit string, from, to int) []string {
	var all []string
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500} {
		if n >= from && n <= to {
			all = append(all, strconv.Itoa(n)+unit)
		}
	}
	return all
}

func rates() []string {
	return slices.Concat(nice(" kbit/s", 100, 500), nice(" Mbit/s", 1, 500))
}

func delays() []string {
	return slices.Concat([]string{"0s"}, nice("ms", 1, 500), []string{"1s"})
}

func gaps() []string { return slices.Concat(nice("ms", 5, 500), nice("s", 1, 20)) }

func sizes() []string {
	return slices.Concat(nice(" kB", 1, 500), nice(" MB", 1, 500))
}

// The functions below order values; what they cannot read is 0.

func number(text string, units ...string) float64 {
	for i, u := range units {
		if n, ok := strings.CutSuffix(text, u); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if err == nil {
				for range i {
					x /= 1000
				}
				return x
			}
		}
	}
	return 0
}

func rateOf(text string) float64   { return number(text, "Gbit/s", "Mbit/s", "kbit/s", "bit/s") }
func shareOf(text string) float64  { return number(text, "%") }
func numberOf(text string) float64 { return number(text, "") }

func sizeOf(text string) float64 {
	if text == "unlimited" {
		return 1e12
	}
	if x := number(text, "GB", "MB", "kB", "B"); x > 0 {
		return x
	}
	return number(text, "GiB", "MiB", "KiB", "bytes")
}

func spanOf(text string) float64 {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d.Seconds()
}
