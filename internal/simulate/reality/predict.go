package reality

import (
	"context"
	"fmt"
	"time"

	"weft/internal/simulate"
)

// A full packet of MPTCP over IPv4 with timestamps on an MTU of 1500: 20 bytes
// of IP, 20 of TCP, 12 of timestamps, and 20 of the data sequence signal (RFC
// 8684 section 3.3, with checksums off).
const (
	headers = 72
	payload = 1500 - headers
)

// Predict simulates what Transfer does, with the kernel's choices: CUBIC,
// Linger, repeats on the same path.
func Predict(ctx context.Context, shapes []Shape, sizes []int64, pause time.Duration) ([]time.Duration, error) {
	s := simulate.Setup{
		Seed: 1, Scheduler: "linger", Congestion: "cubic", MSS: payload, Overhead: headers, InitialWindow: 10,
		ReceiveBuffer: 16 << 20, AckEvery: 2, AckDelay: 40 * time.Millisecond, SamePath: true, Keep: len(sizes),
	}
	for i, l := range shapes {
		s.Paths = append(s.Paths, simulate.PathSetup{Name: fmt.Sprintf("p%d", i), Rate: l.Rate, Delay: l.Delay, Back: l.Delay, Queue: l.Queue})
	}
	// A page whose objects wait for one another is a row of transfers.
	var row []simulate.Item
	for i, size := range sizes {
		item := simulate.Item{After: i - 1, Size: size}
		if i > 0 {
			item.Wait = pause
		}
		row = append(row, item)
	}
	s.Sources = []simulate.Source{{Name: "transfer", Count: 1, Page: row}}
	run, err := simulate.New(s, nil)
	if err != nil {
		return nil, err
	}
	r, err := run.Run(ctx)
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for _, x := range r.Streams {
		times = append(times, x.End-x.Begin)
	}
	return times, nil
}
