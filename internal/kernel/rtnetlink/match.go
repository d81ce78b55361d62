package rtnetlink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Matcher asks the kernel for the route of an address. It is made for many queries:
// it waits in the system call, and not in the runtime's poller.
type Matcher struct {
	fd  int
	seq uint32
	buf []byte
}

// OpenMatcher opens one.
func OpenMatcher() (*Matcher, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open route netlink: %w", err)
	}
	timeout := unix.NsecToTimeval(nlconn.AnswerTime.Nanoseconds())
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare route netlink: %w", err), unix.Close(fd))
	}
	return &Matcher{fd: fd, buf: make([]byte, nlconn.ReceiveBytes)}, nil
}

// Close ends it.
func (m *Matcher) Close() error { return unix.Close(m.fd) }

// Match returns the route that the kernel's own tables have for an address, as `ip
// route get fibmatch` does. ok is false if there is none.
func (m *Matcher) Match(ctx context.Context, a netip.Addr) (r state.KernelRoute, ok bool, err error) {
	if ctx.Err() != nil {
		return r, false, context.Cause(ctx)
	}
	family := byte(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	b := nlconn.Head(family, unix.SizeofRtMsg)
	b[1] = byte(a.BitLen())
	binary.NativeEndian.PutUint32(b[8:], unix.RTM_F_FIB_MATCH)
	b = append(b, nlconn.Attribute(unix.RTA_DST, a.AsSlice())...)
	m.seq++
	err = unix.Sendto(m.fd, nlconn.Request(unix.RTM_GETROUTE, 0, m.seq, b), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err == nil {
		err = m.answer(&r)
	}
	switch {
	case errors.Is(err, unix.ENETUNREACH):
		return r, false, nil
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		// the kernel answers for some of these with the error that a sender gets
		return state.KernelRoute{Type: refusedType(err)}, true, nil
	case err != nil:
		return r, false, fmt.Errorf("ask the kernel for its route to %s: %w", a, err)
	}
	return r, true, nil
}

// answer reads the route, or the error, that answers the last question.
func (m *Matcher) answer(r *state.KernelRoute) error {
	for {
		n, _, err := unix.Recvfrom(m.fd, m.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for h, b := range nlconn.Messages(m.buf[:n]) {
			switch {
			case h.Seq != m.seq:
			case h.Type == unix.NLMSG_ERROR:
				return nlconn.Answered(b)
			default:
				return ParseRoute(b, r)
			}
		}
	}
}

// refusedType is the type of route whose error the kernel gives (fib_props in
// net/ipv4/fib_semantics.c).
func refusedType(err error) state.RouteType {
	switch {
	case errors.Is(err, unix.EACCES):
		return state.RouteProhibit
	case errors.Is(err, unix.EINVAL):
		return state.RouteBlackhole
	}
	return state.RouteUnreachable
}

// Neighbours lists the neighbours of both families, without those of which the
// kernel knows nothing.
func Neighbours(ctx context.Context) ([]state.KernelNeighbour, error) {
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	var list []state.KernelNeighbour
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := asks.Dump(ctx, unix.RTM_GETNEIGH, nlconn.Head(family, unix.SizeofNdMsg), func(_ uint16, b []byte) error {
			if n, err := parseNeighbour(b); err == nil && !n.Proxy && !n.Addr.IsMulticast() && n.State != state.NeighbourNone {
				list = append(list, n)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
	}
	return list, nil
}

// ResolveAll makes the kernel resolve neighbours' link addresses, or confirm old
// ones.
func ResolveAll(ctx context.Context, list []state.KernelNeighbour) error {
	if len(list) == 0 {
		return nil
	}
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return err
	}
	defer asks.Close()
	for _, n := range list {
		err = errors.Join(err, resolve(ctx, asks, n))
	}
	return err
}

// Prefixes lists those of the kernel's main and local routes.
func Prefixes(ctx context.Context) ([]netip.Prefix, error) {
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	var list []netip.Prefix
	var r state.KernelRoute
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := asks.Dump(ctx, unix.RTM_GETROUTE, nlconn.Head(family, unix.SizeofRtMsg), func(_ uint16, b []byte) error {
			if ParseRoute(b, &r) == nil && !r.Cached && (r.Table == state.TableMain || r.Table == state.TableLocal) {
				list = append(list, r.Prefix)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
	}
	return list, nil
}
