package rig

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// feature is an ethtool command that switches something of a device
// (linux/ethtool.h).
type feature uint32

const (
	transmitChecksum feature = unix.ETHTOOL_STXCSUM
	receiveOffload   feature = unix.ETHTOOL_SGRO
	segmentTCP       feature = unix.ETHTOOL_STSO
)

// setFeature switches a feature of a device in the thread's namespace.
func setFeature(device string, f feature, on bool) error {
	value := struct{ command, data uint32 }{command: uint32(f)}
	if on {
		value.data = 1
	}
	var request struct { // struct ifreq, netdevice(7)
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		rest [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.data = unsafe.Pointer(&value)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return fmt.Errorf("set offload of %s: %w", device, errno)
	}
	return nil
}
