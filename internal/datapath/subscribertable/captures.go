package subscribertable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Captures are copies of the packets of sessions that are being captured. There is
// one reader at a time.
type Captures struct{ reader *ringbuf.Reader }

// Captures opens the ring buffer.
func (d Table) Captures() (*Captures, error) {
	m, err := d.core.Map("l2tp_captures")
	if err != nil {
		return nil, err
	}
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return nil, fmt.Errorf("read map l2tp_captures: %w", err)
	}
	return &Captures{r}, nil
}

// Close ends Read.
func (c *Captures) Close() error { return c.reader.Close() }

// Read waits for the next packet until the given time; false: there was none.
func (c *Captures) Read(until time.Time) (state.LNSCapture, bool, error) {
	c.reader.SetDeadline(until)
	record, err := c.reader.Read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return state.LNSCapture{}, false, nil
	}
	if err != nil {
		return state.LNSCapture{}, false, fmt.Errorf("read map l2tp_captures: %w", err)
	}
	var v captured
	if err := binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &v); err != nil {
		return state.LNSCapture{}, false, fmt.Errorf("read a captured packet: %w", err)
	}
	n := min(int(v.Kept), len(v.Packet))
	return state.LNSCapture{
		At: time.Now().Add(time.Duration(v.At) - monotonic()), Session: uint16(v.Session), Length: int(v.Bytes), Bytes: v.Packet[:n:n],
		Up: v.Flags&l2tpCapturedUp != 0, PPP: v.Flags&l2tpCapturedPPP != 0,
	}, true, nil
}

// monotonic is the time of the programs' clock.
func monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
