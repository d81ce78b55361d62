package trace

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a packet socket of the namespace in which it was opened.
type socket struct {
	fd     int
	buffer []byte
}

// captureBytes is how much may wait in the socket: the most that one input
// can cause is a few hundred fragments.
const captureBytes = 8 << 20

// openSocket opens a packet socket; a deaf one only sends.
func openSocket(deaf bool) (*socket, error) {
	protocol := 0
	if !deaf {
		protocol = int(htons(unix.ETH_P_ALL))
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	s := &socket{fd: fd, buffer: make([]byte, 1<<17)}
	if deaf {
		return s, nil
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBytes),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up packet socket: %w", err), unix.Close(fd))
	}
	return s, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (s *socket) close() error { return unix.Close(s.fd) }

// send sends a frame by the device with an index.
func (s *socket) send(index int, frame []byte) error {
	return unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index, Protocol: htons(etherTypeOf(frame))})
}

// next takes a waiting frame, or waits for one; nil after wait.
func (s *socket) next(wait time.Duration) (frame []byte, index int, err error) {
	for {
		n, from, err := unix.Recvfrom(s.fd, s.buffer, 0)
		if err == nil {
			ll, ok := from.(*unix.SockaddrLinklayer)
			if !ok {
				return nil, 0, errors.New("read packet socket: a frame from nowhere")
			}
			return append([]byte{}, s.buffer[:n]...), ll.Ifindex, nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil, 0, fmt.Errorf("read packet socket: %w", err)
		}
		if wait <= 0 {
			return nil, 0, nil
		}
		timeout := unix.NsecToTimespec(int64(wait))
		n, err = unix.Ppoll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, &timeout, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, 0, fmt.Errorf("wait for packet socket: %w", err)
		}
		if n == 0 && err == nil {
			return nil, 0, nil
		}
	}
}

func hardware(m mac) net.HardwareAddr { return net.HardwareAddr(m[:]) }
