package kernel

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/task"
)

// BridgesKnowVLANs reports whether this kernel's bridges have VLAN filtering. It
// tests one that it creates in a network namespace of its own, which is removed
// afterwards. That needs root.
func BridgesKnowVLANs() (bool, error) { return bridgesKnowVLANs() }

// bridgesKnowVLANs caches the result: it is a property of the machine.
var bridgesKnowVLANs = sync.OnceValues(func() (know bool, err error) {
	err = <-task.Beside(func() error {
		runtime.LockOSThread() // and never unlocked: thread and namespace go with the goroutine
		know, err = askBridge()
		return err
	})
	return know, err
})

func askBridge() (bool, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return false, fmt.Errorf("make a network namespace to ask a bridge in: %w", err)
	}
	k, err := View()
	if err != nil {
		return false, err
	}
	defer k.Close()
	const name = "asked"
	if err := k.nl.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1}}); err != nil {
		return false, fmt.Errorf("make a bridge to ask: %w", err)
	}
	links, err := k.Links()
	if err != nil {
		return false, err
	}
	for _, l := range links {
		if l.Name == name {
			return l.VLANAware, nil
		}
	}
	return false, fmt.Errorf("find bridge %s to ask: it is not there", name)
}
