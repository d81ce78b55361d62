package reality

import (
	"context"
	"fmt"
	"time"

	"weft/internal/simulate"
)

// A full packet of MPTCP over IPv4 with timestamps on an MTU of 1500: 20 bytes
// of IP, 20 of TCP, 12 of timestamps, and 24 of the data sequence signal (RFC
// 8684 section 3.3, with a data acknowledgement of 4 bytes and no checksum).
const (
	headers = 76
	payload = 1500 - headers
)

// Predict simulates what Transfer does, with Linux's sender and CUBIC. The
// receiver acknowledges each packet, because its application reads each at once
// (tcp_cleanup_rbuf: more than half of the segments of the check are).
func Predict(ctx context.Context, shapes []Shape, sizes []int64, pause time.Duration) ([]time.Duration, error) {
	run, err := simulate.New(Setup(shapes, sizes, pause), nil)
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

// Setup is what Predict simulates.
func Setup(shapes []Shape, sizes []int64, pause time.Duration) simulate.Setup {
	s := simulate.Setup{
		Seed: 1, Scheduler: "mptcp", Congestion: "cubic", MSS: payload, Overhead: headers, InitialWindow: 10,
		ReceiveBuffer: 4 << 20, AckEvery: 1, Linux: true, Keep: len(sizes),
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
	return s
}
