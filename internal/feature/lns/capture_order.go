package lns

import (
	"errors"
	"fmt"
	"time"
)

// CaptureOrder says whose packets are captured, and when the capture ends.
type CaptureOrder struct {
	Who     string
	Packets int
	For     time.Duration
}

// Bounds of a capture.
const (
	capturePackets = 10_000_000
	captureFor     = 24 * time.Hour
)

// Check says what is wrong with an order.
func (o CaptureOrder) Check() error {
	switch {
	case o.Who == "":
		return errors.New("no subscriber is named")
	case o.Packets < 1 || o.Packets > capturePackets:
		return fmt.Errorf("--packets %d: from 1 to %d can be captured", o.Packets, capturePackets)
	case o.For <= 0 || o.For > captureFor:
		return fmt.Errorf("--for %s: a capture lasts up to %s", o.For, captureFor)
	}
	return nil
}
