package datapath

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The functions here query one device, and not all as package net does: there may be
// thousands, and each is looked up.

// device queries a device with one ioctl of netdevice(7).
func device(name string, index uint32, request uint) (*unix.Ifreq, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	ifr.SetUint32(index)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return ifr, unix.IoctlIfreq(fd, request, ifr)
}

// DeviceName returns the name of the device with an index, or a name that no device
// can have.
func DeviceName(index int) string {
	if ifr, err := device("", uint32(index), unix.SIOCGIFNAME); err == nil {
		return ifr.Name()
	}
	return fmt.Sprintf("#%d", index)
}

// DeviceIndex is the reverse of DeviceName.
func DeviceIndex(name string) (int, error) {
	if number, gone := strings.CutPrefix(name, "#"); gone {
		return strconv.Atoi(number)
	}
	ifr, err := device(name, 0, unix.SIOCGIFINDEX)
	if err != nil {
		return 0, fmt.Errorf("find device %s: %w", name, err)
	}
	return int(ifr.Uint32()), nil
}
