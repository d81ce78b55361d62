package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Matcher asks the kernel which route an address has.
type Matcher struct{ asks *rtnl }

// Matcher opens one, for many questions.
func (k *Kernel) Matcher() (*Matcher, error) {
	asks, err := openRtnl()
	if err != nil {
		return nil, err
	}
	return &Matcher{asks}, nil
}

// Close ends it.
func (m *Matcher) Close() error { return m.asks.Close() }

// Match gives the route that the kernel's own tables have for an address, as
// `ip route get fibmatch` does. ok is false if it has none.
func (m *Matcher) Match(ctx context.Context, a netip.Addr) (r state.KernelRoute, ok bool, err error) {
	family := byte(unix.AF_INET6)
	if a.Is4() {
		family = unix.AF_INET
	}
	b := head(family, unix.SizeofRtMsg)
	b[1] = byte(a.BitLen())
	copy(b[8:], attributeU32(0, unix.RTM_F_FIB_MATCH)[unix.SizeofNlAttr:])
	b = append(b, attribute(unix.RTA_DST, a.AsSlice())...)
	err = m.asks.ask(ctx, unix.RTM_GETROUTE, 0, b, func(_ uint16, b []byte) error { return parseRoute(b, &r) })
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

// Neighbours lists the neighbours of both families, those that the kernel
// knows nothing of left out.
func (k *Kernel) Neighbours(ctx context.Context) ([]state.KernelNeighbour, error) {
	asks, err := openRtnl()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	var list []state.KernelNeighbour
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := asks.dump(ctx, unix.RTM_GETNEIGH, head(family, unix.SizeofNdMsg), func(_ uint16, b []byte) error {
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

// Prefixes lists those of the kernel's main and local routes.
func (k *Kernel) Prefixes(ctx context.Context) ([]netip.Prefix, error) {
	asks, err := openRtnl()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	var list []netip.Prefix
	var r state.KernelRoute
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := asks.dump(ctx, unix.RTM_GETROUTE, head(family, unix.SizeofRtMsg), func(_ uint16, b []byte) error {
			if parseRoute(b, &r) == nil && !r.Cached && (r.Table == state.TableMain || r.Table == state.TableLocal) {
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
