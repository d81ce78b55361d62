// Package sim measures the simulator: delivered packets a second beside a model
// in salabim (a discrete event simulator in Python), what decisions cost, and
// what a picture of its page costs.
package sim

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/bench"
	"weft/internal/simulate"
	"weft/schedule"
)

//go:embed salabim_model.py
var model string

// The subjects.
const (
	Weft    = "weft"
	Salabim = "salabim"
)

const (
	packets = "packets"
	decide  = "decide-"
	// simulated is how long the networks of a measurement run on their own clocks.
	simulated        = 60 * time.Second
	simulatedSalabim = time.Second
	decisions        = 500_000
)

// Bench describes what is measured.
func Bench() bench.Bench {
	b := bench.Bench{
		Name: "sim", Title: "Simulated packets, and decisions of the schedulers", Rounds: 5,
		Cases: []bench.Case{{
			Name: packets, Unit: "delivered packets/s",
			About: "delivered packets a second of CPU time of a bulk transfer with LowRTT over 200 Mbit/s, 10 ms and 50 Mbit/s, 50 ms, one core; weft with CUBIC and losses, salabim with fixed windows and none",
		}},
		Subjects: []bench.Subject{
			{Name: Weft, About: "this program"},
			{Name: Salabim, About: "the same links in salabim, salabim_model.py (tools/salabim.sh installs it)"},
		},
		Fits: func(c, subject string) bool { return subject == Weft || c == packets },
		Bars: []bench.Bar{{Case: packets, Subject: Weft, Times: 30, Of: Salabim}, {Case: packets, Subject: Weft, Times: 1_000_000}},
	}
	b.Cases = append(b.Cases, bench.Case{
		Name: frame, Unit: "ms", Less: true,
		About: "95th percentile of the work for one picture of weft sim watch in headless Chromium: script, style, layout and paint, 50 streams and 4 paths, two schedulers side by side",
	})
	for _, name := range append(schedule.Routers(), schedule.Orders()...) {
		b.Cases = append(b.Cases, bench.Case{Name: decide + name, Unit: "ns/decision", Less: true, About: "one decision of " + name + " with 4 paths and 100 streams, CPU time"})
		b.Bars = append(b.Bars, bench.Bar{Case: decide + name, Subject: Weft, Times: 200})
	}
	return b
}

// Measurer measures; Python is an interpreter that has salabim.
type Measurer struct{ Python string }

// Measure implements bench.Measurer.
func (m Measurer) Measure(ctx context.Context, c, subject string) (float64, error) {
	if name, ok := strings.CutPrefix(c, decide); ok {
		return decision(name)
	}
	if c == frame {
		return pictures(ctx)
	}
	if subject == Salabim {
		return m.salabim(ctx)
	}
	return weft(ctx)
}

// Close implements bench.Measurer.
func (Measurer) Close(context.Context) error { return nil }

func weft(ctx context.Context) (float64, error) {
	s := simulate.Setup{
		Seed: 1, End: simulated, Scheduler: "lowrtt", Congestion: "cubic", MSS: 1460, Overhead: 40, InitialWindow: 10,
		ReceiveBuffer: 64 << 20, AckEvery: 1,
		Paths: []simulate.PathSetup{
			{Name: "fast", Rate: 200e6, Delay: 10 * time.Millisecond, Back: 10 * time.Millisecond, Queue: 300_000},
			{Name: "slow", Rate: 50e6, Delay: 50 * time.Millisecond, Back: 50 * time.Millisecond, Queue: 300_000},
		},
		Sources: []simulate.Source{{Name: "bulk", Count: 1, Size: simulate.Unlimited}},
	}
	run, err := simulate.New(s, nil)
	if err != nil {
		return 0, err
	}
	begin := cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) // the collector's work included
	r, err := run.Run(ctx)
	if err != nil {
		return 0, err
	}
	return float64(r.Packets) / (cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - begin).Seconds(), nil
}

func (m Measurer) salabim(ctx context.Context) (float64, error) {
	c := exec.CommandContext(ctx, m.Python, "-", fmt.Sprint(simulatedSalabim.Seconds()))
	c.Stdin = strings.NewReader(model)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("run salabim_model.py with %s: %w: %s (tools/salabim.sh installs what it needs)", m.Python, err, strings.TrimSpace(stderr.String()))
	}
	var r struct {
		Delivered int
		Seconds   float64
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("read what salabim_model.py printed: %w", err)
	}
	if r.Delivered == 0 || r.Seconds <= 0 {
		return 0, fmt.Errorf("salabim_model.py delivered %d packets in %g s", r.Delivered, r.Seconds)
	}
	return float64(r.Delivered) / r.Seconds, nil
}

// decision measures one scheduler with 4 paths, of which the fastest is full,
// and 100 streams, of which one comes or goes every 50 decisions.
func decision(name string) (float64, error) {
	s, err := schedule.New(name)
	if err != nil {
		return 0, err
	}
	v := busy()
	runtime.LockOSThread() // for its clock
	defer runtime.UnlockOSThread()
	begin := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
	for i := range decisions {
		if i%50 == 0 {
			v.Changed++ // a stream comes or goes
		}
		if d, ok := s.Next(v); ok {
			v.Last = v.Streams[d.Stream].ID
		}
	}
	return float64(cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)-begin) / decisions, nil
}

// cpuTime is the time that the thread, or the program, has had a CPU, which other
// work on the machine does not add to.
func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(clock, &t) // fails for unknown clocks only
	return time.Duration(t.Nano())
}

func busy() *schedule.View {
	v := &schedule.View{MSS: 1460, Window: 4 << 20, WindowLeft: 1 << 20, Backlog: 100 << 20}
	for i := range 4 {
		v.Paths = append(v.Paths, schedule.Path{
			RTT: time.Duration(10+30*i) * time.Millisecond, RTTVar: time.Millisecond,
			Window: 64 << 10, InFlight: 32 << 10, Rate: int64(1_000_000 * (4 - i)),
		})
	}
	v.Paths[0].InFlight = v.Paths[0].Window
	for i := range 100 {
		v.Streams = append(v.Streams, schedule.Stream{ID: uint64(i + 1), Remaining: int64(1 + i*7919%1000*1460)})
	}
	return v
}
