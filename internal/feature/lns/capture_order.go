package lns

import (
	"errors"
	"fmt"
	"time"
)

// CaptureOrder selects the packets of a capture, and its end.
type CaptureOrder struct {
	Who     string
	Packets int
	For     time.Duration
}

// Upper limits of a capture.
const (
	capturePackets = 10_000_000
	captureFor     = 24 * time.Hour
)

// Check returns an error if the order is not valid.
func (o CaptureOrder) Check() error {
	switch {
	case o.Who == "":
		return errors.New("name a subscriber")
	case o.Packets < 1 || o.Packets > capturePackets:
		return fmt.Errorf("--packets %d: must be from 1 to %d", o.Packets, capturePackets)
	case o.For <= 0 || o.For > captureFor:
		return fmt.Errorf("--for %s: must be at most %s", o.For, captureFor)
	}
	return nil
}
