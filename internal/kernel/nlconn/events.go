package nlconn

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// QueueMax limits the bytes of events that wait while a dump runs.
const QueueMax = 256 << 20

// EventBuffer is the size of the kernel's socket buffer for events, with its own
// overhead (SO_RCVBUFFORCE): some 100,000 routes.
const EventBuffer = 128 << 20

// Pause is the pause after events: a wake-up for each route of a burst would cost
// many times what the route does.
const Pause = time.Millisecond

// ErrEventsLost is returned if the kernel had more events than were read in time.
var ErrEventsLost = errors.New("netlink events were lost")

func Widen(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, EventBuffer); err != nil {
		return fmt.Errorf("widen receive buffer: %w", err)
	}
	return nil
}

func Wake(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
