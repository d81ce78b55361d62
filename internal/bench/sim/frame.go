package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"weft/internal/simulate/watch"
	"weft/internal/web"
	"weft/internal/web/browser"
)

// frame is the case about the page of weft sim watch.
const frame = "frame"

// The page is measured with as much as it is to show.
const (
	frameScenario = "fifty"
	frameStreams  = 50
	framePaths    = 4
	frameWithin   = 3 * time.Minute
)

// measured is what the page says of itself (assets/measure.js).
type measured struct {
	Times   []float64 // milliseconds of work, a picture each
	Streams int       // open at the same time
	Paths   int
}

// pictures shows the page in a headless Chromium and gives the 95th percentile
// of the work that a picture takes, two schedulers side by side.
func pictures(ctx context.Context) (ms float64, err error) {
	profile, err := os.MkdirTemp("", fmt.Sprintf("weft-bench-%d-", os.Getpid()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	late := errors.New("the page did not say how long its pictures took")
	ctx, cancel := context.WithTimeoutCause(ctx, frameWithin, late)
	defer cancel()
	answers := make(chan []byte, 1)
	server, err := watch.New(watch.Options{Limits: watch.DefaultLimits(), Runs: 1, Measured: func(text []byte) {
		select {
		case answers <- text:
		default: // it has spoken
		}
	}})
	if err != nil {
		return 0, err
	}
	listener, err := web.Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 2)
	go func() { ended <- web.Serve(ctx, listener, web.Guard(server, false)) }()
	go func() { ended <- browser.Show(ctx, profile, address(listener), 1400, 1000) }()
	select {
	case text := <-answers:
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil { // the profile is in use until then
			return 0, err
		}
		return percentile(text)
	case err := <-ended:
		cancel()
		<-ended
		return 0, errors.Join(err, context.Cause(ctx))
	}
}

func address(l net.Listener) string {
	return "http://" + l.Addr().String() + "/?scenario=" + frameScenario + "&a=turns&b=shortest&measure"
}

func percentile(text []byte) (float64, error) {
	var m measured
	if err := json.Unmarshal(text, &m); err != nil {
		return 0, fmt.Errorf("read what the page measured: %w", err)
	}
	if m.Streams < frameStreams || m.Paths < framePaths || len(m.Times) < 100 {
		return 0, fmt.Errorf("the page measured %d pictures of %d streams and %d paths, want 100 of %d and %d", len(m.Times), m.Streams, m.Paths, frameStreams, framePaths)
	}
	slices.Sort(m.Times)
	return m.Times[len(m.Times)*95/100], nil
}
