package rtnetlink

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Resolver makes the kernel confirm neighbours. It has a socket of its own: the
// kernel answers only when no other process holds the lock of link changes.
type Resolver struct{ asks *nlconn.Conn }

// OpenResolver opens one.
func OpenResolver() (*Resolver, error) {
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	return &Resolver{asks}, nil
}

// Close ends it.
func (r *Resolver) Close() error { return r.asks.Close() }

// Resolve is that of Feed.
func (r *Resolver) Resolve(ctx context.Context, n state.KernelNeighbour) error {
	return resolve(ctx, r.asks, n)
}

// Resolve makes the kernel resolve a neighbour's link address, or confirm an old one
// (NTF_USE, as a packet to the neighbour would).
func (f *Feed) Resolve(ctx context.Context, n state.KernelNeighbour) error {
	return resolve(ctx, f.asks, n)
}

func resolve(ctx context.Context, r *nlconn.Conn, n state.KernelNeighbour) error {
	family := byte(unix.AF_INET6)
	if n.Addr.Is4() {
		family = unix.AF_INET
	}
	b := nlconn.Head(family, unix.SizeofNdMsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(n.Device))
	b[10] = unix.NTF_USE
	b = append(b, nlconn.Attribute(unix.NDA_DST, n.Addr.AsSlice())...)
	err := r.Ask(ctx, unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK, b, func(uint16, []byte) error { return nil })
	if err != nil {
		return fmt.Errorf("resolve %s: %w", n.Addr, err)
	}
	return nil
}
