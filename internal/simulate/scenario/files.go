package scenario

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weft/internal/simulate"
)

// CoDel's parameters (RFC 8289 sections 4.2 and 4.3).
const (
	codelTarget   = 5 * time.Millisecond
	codelInterval = 100 * time.Millisecond
)

// parseTrace reads mahimahi's format (mm-link(1)).
func parseTrace(text []byte) ([]simulate.Time, error) {
	var trace []simulate.Time
	in := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		x, err := strconv.ParseUint(line, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("line %d of the trace is %q, not a number of milliseconds", n, line)
		}
		at := time.Duration(x) * time.Millisecond
		if len(trace) > 0 && at < trace[len(trace)-1] {
			return nil, fmt.Errorf("line %d of the trace goes back in time", n)
		}
		trace = append(trace, at)
	}
	if len(trace) == 0 || trace[len(trace)-1] == 0 {
		return nil, fmt.Errorf("the trace ends at its beginning")
	}
	return trace, in.Err()
}

// parsePage reads the objects of a web page. An object can wait only for one
// that stands above it.
func parsePage(text []byte) ([]simulate.Item, error) {
	var page []simulate.Item
	names := map[string]int{"-": -1}
	in := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("line %d of the page has %d columns, not 4", n, len(f))
		}
		after, ok := names[f[1]]
		if !ok {
			return nil, fmt.Errorf("line %d of the page waits for %q, which does not stand above it", n, f[1])
		}
		wait, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("line %d of the page waits %q, not a number of milliseconds", n, f[2])
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil || size < 1 || size >= simulate.Unlimited {
			return nil, fmt.Errorf("line %d of the page has %q bytes", n, f[3])
		}
		if _, twice := names[f[0]]; twice {
			return nil, fmt.Errorf("line %d of the page names %q again", n, f[0])
		}
		names[f[0]] = len(page)
		page = append(page, simulate.Item{After: after, Wait: time.Duration(wait) * time.Millisecond, Size: size})
	}
	if len(page) == 0 {
		return nil, fmt.Errorf("the page is empty")
	}
	return page, in.Err()
}
