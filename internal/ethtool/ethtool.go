// Package ethtool reads and sets what a network device does to packets by
// itself, through the ioctl SIOCETHTOOL (linux/ethtool.h). A device is looked
// for in the network namespace of the calling thread.
package ethtool

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flag is a command that reads one number. The command that writes it is the
// next one.
type Flag uint32

// The offloads that have commands of their own, which every driver knows.
const (
	TransmitChecksum Flag = unix.ETHTOOL_GTXCSUM
	ScatterGather    Flag = unix.ETHTOOL_GSG
	SegmentTCP       Flag = unix.ETHTOOL_GTSO
	Segment          Flag = unix.ETHTOOL_GGSO
	Receive          Flag = unix.ETHTOOL_GGRO
	Flags            Flag = unix.ETHTOOL_GFLAGS // bits like StripTags
)

// String returns the name that ethtool -K takes.
func (f Flag) String() string {
	switch f {
	case TransmitChecksum:
		return "tx"
	case ScatterGather:
		return "sg"
	case SegmentTCP:
		return "tso"
	case Segment:
		return "gso"
	case Receive:
		return "gro"
	}
	return "flags"
}

// StripTags is ETH_FLAG_RXVLAN, a bit of Flags: the device takes VLAN tags out
// of frames and hands them over beside.
const StripTags = 1 << 8

// value is struct ethtool_value.
type value struct{ command, data uint32 }

// Get reads a flag. The error wraps EOPNOTSUPP if the device does not have it.
func Get(device string, f Flag) (uint32, error) {
	v := value{command: uint32(f)}
	if err := call(device, unsafe.Pointer(&v)); err != nil {
		return 0, fmt.Errorf("read %s of %s: %w", f, device, err)
	}
	return v.data, nil
}

// Set writes a flag.
func Set(device string, f Flag, data uint32) error {
	if err := call(device, unsafe.Pointer(&value{uint32(f) + 1, data})); err != nil {
		return fmt.Errorf("set %s of %s: %w", f, device, err)
	}
	return nil
}

// Switch turns an offload on or off.
func Switch(device string, f Flag, on bool) error {
	if on {
		return Set(device, f, 1)
	}
	return Set(device, f, 0)
}

// Numbers of linux/ethtool.h that golang.org/x/sys does not have.
const (
	getStrings   = 0x1b // ETHTOOL_GSTRINGS
	getSetInfo   = 0x37 // ETHTOOL_GSSET_INFO
	setFeatures  = 0x3b // ETHTOOL_SFEATURES
	featureNames = 4    // ETH_SS_FEATURES
	nameLength   = 32   // ETH_GSTRING_LEN
	featuresMax  = 256
)

// SwitchOff turns features off by their names, as ethtool -K does. Names that
// the kernel does not have are left out.
func SwitchOff(device string, names ...string) error {
	if err := switchOff(device, names); err != nil {
		return fmt.Errorf("switch features of %s off: %w", device, err)
	}
	return nil
}

func switchOff(device string, names []string) error {
	info := struct {
		command, reserved uint32
		mask              uint64
		count             uint32
	}{command: getSetInfo, mask: 1 << featureNames}
	if err := call(device, unsafe.Pointer(&info)); err != nil {
		return err
	}
	if info.count > featuresMax {
		return fmt.Errorf("the kernel has %d features, more than the %d there is room for", info.count, featuresMax)
	}
	list := struct {
		command, set, count uint32
		names               [featuresMax][nameLength]byte
	}{command: getStrings, set: featureNames, count: info.count}
	if err := call(device, unsafe.Pointer(&list)); err != nil {
		return err
	}
	change := struct {
		command, size uint32
		blocks        [featuresMax / 32]struct{ valid, requested uint32 }
	}{command: setFeatures, size: (info.count + 31) / 32}
	for i := range info.count {
		for _, name := range names {
			if unix.ByteSliceToString(list.names[i][:]) == name {
				change.blocks[i/32].valid |= 1 << (i % 32)
			}
		}
	}
	return call(device, unsafe.Pointer(&change))
}

// call carries out a command, whose number data begins with.
func call(device string, data unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	request := struct { // struct ifreq, netdevice(7)
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(data)
	if errno != 0 {
		return errno
	}
	return nil
}
