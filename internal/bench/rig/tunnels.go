package rig

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// AsOnAWire has a host's eth0 send packets as they are on a wire: super-packets
// in tunnels one by one, and every checksum finished. A server in user space
// could not read them otherwise.
func AsOnAWire(host *netspace.Space) error {
	return host.Do(func() error {
		err := errors.Join(
			unsetNamed("eth0", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"),
			setFeature("eth0", transmitChecksum, false))
		if err != nil {
			return fmt.Errorf("set offload of eth0 in %s: %w", host.Name, err)
		}
		return nil
	})
}

// Numbers of linux/ethtool.h, which golang.org/x/sys has not.
const (
	ethtoolStrings   = 0x1b // ETHTOOL_GSTRINGS
	ethtoolSet       = 0x37 // ETHTOOL_GSSET_INFO
	ethtoolSFeatures = 0x3b // ETHTOOL_SFEATURES
	featureNames     = 4    // ETH_SS_FEATURES
	nameLength       = 32   // ETH_GSTRING_LEN
)

// unsetNamed switches features of a device off by their names, as ethtool -K.
func unsetNamed(device string, names ...string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ask := func(data unsafe.Pointer) error {
		var request struct { // struct ifreq, netdevice(7)
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			rest [16]byte
		}
		copy(request.name[:unix.IFNAMSIZ-1], device)
		request.data = data
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return errno
		}
		return nil
	}
	info := struct {
		command, reserved uint32
		mask              uint64
		count             uint32
	}{command: ethtoolSet, mask: 1 << featureNames}
	if err := ask(unsafe.Pointer(&info)); err != nil {
		return err
	}
	var list struct {
		command, set, count uint32
		names               [256][nameLength]byte
	}
	if info.count > uint32(len(list.names)) {
		return errors.New("more features than there is room for")
	}
	list.command, list.set, list.count = ethtoolStrings, featureNames, info.count
	if err := ask(unsafe.Pointer(&list)); err != nil {
		return err
	}
	var change struct {
		command, size uint32
		blocks        [8]struct{ valid, requested uint32 }
	}
	change.command, change.size = ethtoolSFeatures, (info.count+31)/32
	for i := range info.count {
		for _, name := range names {
			if unix.ByteSliceToString(list.names[i][:]) == name {
				change.blocks[i/32].valid |= 1 << (i % 32)
			}
		}
	}
	return ask(unsafe.Pointer(&change))
}
