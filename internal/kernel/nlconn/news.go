package nlconn

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// QueueMax bounds the news that wait while a dump runs.
const QueueMax = 256 << 20

// newsBuffer is what the kernel may keep for us of news, with its own overhead
// (SO_RCVBUFFORCE): some 100,000 routes.
const EventBuffer = 128 << 20

// breath is the pause after news: to be woken for each route of a burst would
// cost many times what the route does.
const Pause = time.Millisecond

// ErrNewsLost says that the kernel had more news than were read in time.
var ErrEventsLost = errors.New("news of the kernel were lost")

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
