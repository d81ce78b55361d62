package guest

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wholeFramesOnly runs on the host, in the taps' namespace: without it TCP
// hands 64 KiB super-packets to the wire, and one lost "frame" would be
// forty. UML turns segmentation offload on when it opens the tap, so this is
// for after it has.
func wholeFramesOnly(nics []NIC) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	for _, n := range nics {
		for _, command := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO} {
			if err := ethtoolSet(fd, n.Tap, command, 0); err != nil {
				return fmt.Errorf("turn segmentation offload off on %s: %w", n.Tap, err)
			}
		}
	}
	return nil
}

// ethtoolSet is one of the SIOCETHTOOL commands that take a single value.
func ethtoolSet(fd int, device string, command, value uint32) error {
	argument := struct{ command, value uint32 }{command, value}
	request := struct { // struct ifreq, netdevice(7)
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}
