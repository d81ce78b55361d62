package guest

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openPacket opens an AF_PACKET socket on one device of a namespace.
func openPacket(t *testing.T, b *bench, device string) *os.File {
	t.Helper()
	var f *os.File
	b.do(func() error {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		const every = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, every)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), device)
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: link.Index}); err != nil {
			return err
		}
		return unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
			&unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC})
	})
	t.Cleanup(func() { f.Close() })
	return f
}
