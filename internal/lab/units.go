package lab

import (
	"fmt"
	"strings"
	"time"

	"weft/internal/lab/probe"
)

const maxBytes = Size(probe.MaxTransfer)

// binarySize writes a number of bytes as people read it: 16 MiB.
func binarySize(n int64) string {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.factor {
			return trimmed(float64(n)/float64(u.factor)) + " " + u.suffix
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// decimalRate writes bits per second as people read them: 1.2 Gbit/s.
func decimalRate(r float64) string {
	for _, u := range []unit{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}} {
		if r >= float64(u.factor) {
			return trimmed(r/float64(u.factor)) + " " + u.suffix
		}
	}
	return fmt.Sprintf("%.0f bit/s", r)
}

func trimmed(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
}

// milliseconds writes a round trip: 0.052 ms.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}
