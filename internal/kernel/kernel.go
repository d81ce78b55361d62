// Package kernel is the only package that uses netlink and sysctl. It reads facts,
// and creates, changes and removes the objects of the state.Kernel domain. Before it
// changes something that is not weft's (sysctls, settings of devices, addresses), it
// writes the old value into a journal, so that it can be restored.
package kernel

import (
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
)

const (
	// RouteProtocol marks weft's routes: `ip route show proto 87`.
	RouteProtocol = 87
)

// Kernel works on the network namespace in which it was opened.
type Kernel struct {
	nl *netlink.Handle
	// for several requests at once; nil until there are some
	orders, generics *nlconn.Conn
	journal          *journal
	recent           atomic.Pointer[survey]  // that the last facts are of, until something is changed
	doomed           bool                    // there are devices that go at the end of the series of steps
	fault            func(step string) error // of tests: an error ends what is done there
}

// Open opens the kernel; dir keeps the journal across restarts.
func Open(dir string) (*Kernel, error) {
	// no other family: not every kernel has them, and weft has no need of them
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	j, err := openJournal(filepath.Join(dir, "journal.json"))
	if err != nil {
		nl.Close()
		return nil, err
	}
	return &Kernel{nl: nl, journal: j}, nil
}

// View opens the kernel read-only.
func View() (*Kernel, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Kernel{nl: nl, journal: &journal{was: map[string]string{}}}, nil
}

// Close closes the netlink sockets; objects stay.
func (k *Kernel) Close() {
	k.nl.Close()
	for _, r := range []*nlconn.Conn{k.orders, k.generics} {
		if r != nil {
			r.Close()
		}
	}
}
