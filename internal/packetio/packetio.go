// Package packetio is the only door to packet sockets of the router (packet(7)) for
// protocols that come before a host has an address: ARP and DHCPv4.
package packetio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Ethertypes.
const (
	IPv4 = unix.ETH_P_IP
	ARP  = unix.ETH_P_ARP
	None = 0 // to send only
)

// Conn is a packet socket on one device. Packets are without the header of the link.
type Conn struct {
	Hardware [6]byte // the device's address
	index    int
	protocol uint16
	file     *os.File
	raw      syscall.RawConn
}

// Packet is one that was received.
type Packet struct {
	Payload []byte
	From    [6]byte
	Partial bool // the sender has left the checksum of its transport to a device
}

// Open opens a socket for packets of an ethertype that a filter accepts; nil: all. The
// filter sees the packet without the header of the link.
func Open(device string, protocol uint16, filter []bpf.Instruction) (*Conn, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	if len(i.HardwareAddr) != 6 {
		return nil, fmt.Errorf("open packet socket on %s: it is not Ethernet", device)
	}
	// it receives nothing before it is bound, and then only what the filter accepts
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	if err := prepare(fd, i.Index, protocol, filter); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet socket on %s: %w", device, err), unix.Close(fd))
	}
	c := &Conn{Hardware: [6]byte(i.HardwareAddr), index: i.Index, protocol: protocol, file: os.NewFile(uintptr(fd), "packet socket on "+device)}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, c.file.Close())
	}
	return c, nil
}

func prepare(fd, index int, protocol uint16, filter []bpf.Instruction) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
		return err
	}
	if filter != nil {
		code, err := bpf.Assemble(filter)
		if err != nil {
			return err
		}
		list := make([]unix.SockFilter, len(code))
		for i, o := range code {
			list[i] = unix.SockFilter{Code: o.Op, Jt: o.Jt, Jf: o.Jf, K: o.K}
		}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]}); err != nil {
			return err
		}
	}
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(protocol), Ifindex: index})
}

// swap is the order of bytes of the network.
func swap(n uint16) uint16 { return n<<8 | n>>8 }

// Receive waits for the next packet to this host or to all. What belongs to a VLAN of the
// device is not its own: such packets are passed over, unless their tag has a priority
// alone (VLAN 0).
func (c *Conn) Receive() (p Packet, err error) {
	buffer, control := make([]byte, 65536), make([]byte, 128)
	for {
		var n, n2 int
		var from unix.Sockaddr
		var failed error
		err := c.raw.Read(func(fd uintptr) bool {
			n, n2, _, from, failed = unix.Recvmsg(int(fd), buffer, control, 0)
			return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
		})
		if err = errors.Join(err, failed); err != nil {
			return p, fmt.Errorf("receive: %w", err)
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Ifindex != c.index || link.Pkttype == unix.PACKET_OTHERHOST || link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		status, vlan := auxiliary(control[:n2])
		if status&unix.TP_STATUS_VLAN_VALID != 0 && vlan&0xfff != 0 {
			continue
		}
		p = Packet{Payload: buffer[:n:n], Partial: status&unix.TP_STATUS_CSUMNOTREADY != 0}
		copy(p.From[:], link.Addr[:6])
		return p, nil
	}
}

// auxiliary reads what PACKET_AUXDATA says.
func auxiliary(control []byte) (status uint32, vlan uint16) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, 0
	}
	for _, m := range list {
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
			a := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			return a.Status, a.Vlan_tci
		}
	}
	return 0, 0
}

// Send sends a packet of an ethertype to an address of the link.
func (c *Conn) Send(payload []byte, protocol uint16, to [6]byte) error {
	address := &unix.SockaddrLinklayer{Protocol: swap(protocol), Ifindex: c.index, Halen: 6}
	copy(address.Addr[:], to[:])
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), payload, 0, address)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Broadcast is the address of all hosts of a link.
func Broadcast() [6]byte { return [6]byte{255, 255, 255, 255, 255, 255} }

// SetReadDeadline ends Receive at a time.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// Close ends Receive.
func (c *Conn) Close() error { return c.file.Close() }
