package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exchange sends one datagram of random bytes per size to a Server and counts the
// echoes that equal it. A datagram whose echo does not arrive within timeout is sent
// again, tries times in all: a path that drops all of a size still shows, and
// repetitions are counted.
func Exchange(ctx context.Context, to netip.AddrPort, sizes []int, tries int, timeout time.Duration, seed [32]byte) (Datagrams, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return Datagrams{}, fmt.Errorf("open UDP socket: %w", err)
	}
	defer conn.Close()
	random := rand.NewChaCha8(seed)
	d := Datagrams{Sizes: sizes}
	for _, size := range sizes {
		payload := make([]byte, size)
		random.Read(payload)
		err := errNoReply
		for try := 0; try < tries && errors.Is(err, errNoReply); try++ {
			if ctx.Err() != nil {
				return d, ctx.Err()
			}
			if try > 0 {
				d.Again++
			}
			err = echoOnce(conn, payload, timeout)
		}
		if err != nil {
			d.Problem = fmt.Sprintf("%d bytes: %v", size, err)
			continue
		}
		d.Intact++
	}
	return d, nil
}

// echoOnce sends one datagram and waits for its like; other datagrams (late
// echoes of earlier ones) are read over.
func echoOnce(conn *net.UDPConn, payload []byte, timeout time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(payload); err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	var other error
	for {
		n, err := conn.Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && other != nil:
			return other
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errNoReply
		case err != nil:
			return err
		case bytes.Equal(buffer[:n], payload):
			return nil
		}
		other = fmt.Errorf("the echo has %d bytes that are not those sent", n)
	}
}

// udpOverhead is the size of the IP and UDP headers.
func udpOverhead(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 20 + 8
	}
	return 40 + 8
}

// DiscoverMTU sends UDP datagrams that must not be fragmented, each of the size of
// the current path MTU, until one passes: path MTU discovery of RFC 1191 and RFC
// 8201, through the kernel's path MTU cache. A path that drops packets silently
// results in Confirmed = false.
func DiscoverMTU(ctx context.Context, to netip.AddrPort, timeout time.Duration, seed [32]byte) (PathMTU, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return PathMTU{}, fmt.Errorf("open UDP socket: %w", err)
	}
	defer conn.Close()
	v4 := to.Addr().Unmap().Is4()
	if err := setDontFragment(conn, v4); err != nil {
		return PathMTU{}, err
	}
	var p PathMTU
	if p.First, err = socketMTU(conn, v4); err != nil {
		return p, err
	}
	p.Learnt = p.First
	random := rand.NewChaCha8(seed)
	// Each link may lower the MTU once; a datagram may be lost to resolution.
	for range 12 {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		payload := make([]byte, p.Learnt-udpOverhead(to.Addr()))
		random.Read(payload)
		err := echoOnce(conn, payload, timeout)
		if err == nil {
			p.Confirmed, p.Problem = true, ""
			return p, nil
		}
		p.Problem = err.Error()
		if p.Learnt, err = socketMTU(conn, v4); err != nil {
			return p, err
		}
	}
	return p, nil
}

func setDontFragment(conn *net.UDPConn, v4 bool) error {
	return onSocket(conn, "forbid fragmentation", func(fd int) error {
		if v4 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
	})
}

// socketMTU reads what the kernel believes the path of a connected socket takes.
func socketMTU(conn *net.UDPConn, v4 bool) (mtu int, err error) {
	err = onSocket(conn, "read path MTU", func(fd int) (err error) {
		if v4 {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
		} else {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU)
		}
		return err
	})
	// No IP packet without options is larger, whatever a loopback device takes.
	return min(mtu, 65535), err
}

func onSocket(conn syscall.Conn, doing string, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if inner != nil {
		return fmt.Errorf("%s: %w", doing, inner)
	}
	return nil
}
