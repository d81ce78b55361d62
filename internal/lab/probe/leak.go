package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Frames that try to get where they should not, each marked with who sent it
// and what it tries, so that whoever sees it anywhere knows.

// Attack says where the frames come from and what they aim at.
type Attack struct {
	Label  string                      // who sends
	Source net.HardwareAddr            // the sender's own link address
	Aims   map[string]net.HardwareAddr // stations, by name
	Borrow net.HardwareAddr            // an address of somebody else
	Asked  netip.Addr                  // an IPv4 address of the router on another link
}

// Try is one frame.
type Try struct {
	Name  string
	Frame []byte
}

const leakMark = "weft-leak:"

var (
	toAll       = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	toGroup     = net.HardwareAddr{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}
	toAllNodes  = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	toBridges   = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0x00}
	toPause     = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0x01}
	toLLDP      = net.HardwareAddr{0x01, 0x80, 0xc2, 0, 0, 0x0e}
	toCisco     = net.HardwareAddr{0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc}
	nobodysMAC  = net.HardwareAddr{0x02, 0xde, 0xad, 0, 0, 0x01}
	fromRouter  = netip.MustParseAddr("fe80::bad")
	allNodes    = netip.MustParseAddr("ff02::1")
	rogueServer = netip.MustParseAddr("192.0.2.66")
	everyone    = netip.MustParseAddr("255.255.255.255")
)

// Tries gives the frames of an attack.
func (a Attack) Tries() []Try {
	var list []Try
	add := func(name string, to, from net.HardwareAddr, kind uint16, body []byte) {
		frame := append(append(append([]byte{}, to...), from...), byte(kind>>8), byte(kind))
		frame = append(frame, body...)
		if pad := 60 - len(frame); pad > 0 {
			frame = append(frame, make([]byte, pad)...)
		}
		list = append(list, Try{name, append(frame, leakMark+a.Label+" "+name+"\n"...)})
	}
	plain := packet4(rogueServer, netip.MustParseAddr("192.0.2.1"), 17, udpBytes(4000, 4000, []byte("hello")))
	var names []string
	for name := range a.Aims {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add("unicast-"+name, a.Aims[name], a.Source, 0x0800, plain)
		add("ping-"+name, a.Aims[name], a.Source, 0x0800, packet4(rogueServer, a.Asked, 1, echoBytes()))
	}
	add("broadcast", toAll, a.Source, 0x0800, packet4(rogueServer, everyone, 17, udpBytes(4000, 4000, []byte("hello"))))
	add("multicast", toGroup, a.Source, 0x0800, packet4(rogueServer, netip.MustParseAddr("239.1.2.3"), 17, udpBytes(4000, 4000, nil)))
	add("arp", toAll, a.Source, 0x0806, arpBytes(a.Source, rogueServer, a.Asked))
	add("link-local", toAllNodes, a.Source, 0x86dd, packet6(58, 255, icmp6(128, append([]byte{0, 1, 0, 1}, "hello"...))))
	add("link-local-options", toAllNodes, a.Source, 0x86dd, packet6(60, 255, append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, icmp6(128, make([]byte, 8))...)))

	ra := icmp6(134, append([]byte{64, 0, 0x07, 0x08}, make([]byte, 8)...))
	redirect := icmp6(137, make([]byte, 36))
	options := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	fragment := func(next byte, offset uint16, more bool) []byte {
		b := []byte{next, 0, byte(offset >> 8), byte(offset), 0, 0, 0, 7}
		if more {
			b[3] |= 1
		}
		return b
	}
	dhcp6 := udpBytes(547, 546, []byte{2, 1, 2, 3})
	add("vlan-10", toAll, a.Source, 0x8100, append([]byte{0, 10, 0x08, 0x00}, plain...))
	add("vlan-20", toAll, a.Source, 0x8100, append([]byte{0, 20, 0x08, 0x00}, plain...))
	add("vlan-1", toAll, a.Source, 0x8100, append([]byte{0, 1, 0x08, 0x00}, plain...))
	add("vlan-priority", toAll, a.Source, 0x8100, append([]byte{0xe0, 0, 0x08, 0x00}, plain...))
	add("double-tagged", toAll, a.Source, 0x8100, append([]byte{0, 10, 0x81, 0, 0, 20, 0x08, 0x00}, plain...))
	add("double-priority", toAll, a.Source, 0x8100, append([]byte{0, 0, 0x81, 0, 0, 20, 0x08, 0x00}, plain...))
	add("service-tag", toAll, a.Source, 0x88a8, append([]byte{0, 10, 0x08, 0x00}, plain...))
	add("old-qinq", toAll, a.Source, 0x9100, append([]byte{0, 10, 0x08, 0x00}, plain...))
	bpdu := append([]byte{0x42, 0x42, 3}, make([]byte, 35)...)
	add("spanning-tree", toBridges, a.Source, uint16(len(bpdu)), bpdu)
	add("spanning-tree-to-all", toAll, a.Source, uint16(len(bpdu)), bpdu)
	add("lldp", toLLDP, a.Source, 0x88cc, []byte{2, 7, 4, 2, 0, 0, 0, 0, 1})
	add("lldp-to-all", toAll, a.Source, 0x88cc, []byte{2, 7, 4, 2, 0, 0, 0, 0, 1})
	add("pause", toPause, a.Source, 0x8808, []byte{0, 1, 0xff, 0xff})
	add("cdp", toCisco, a.Source, 40, append([]byte{0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0}, make([]byte, 32)...))
	add("snap-ipv6", toAllNodes, a.Source, 48+8, append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd}, packet6(58, 255, ra)...))
	add("spoofed-neighbour", toAll, a.Borrow, 0x0800, plain)
	add("spoofed-unknown", toAll, nobodysMAC, 0x0800, plain)
	add("spoofed-group", toAll, toGroup, 0x0800, plain)
	add("spoofed-arp", toAll, a.Source, 0x0806, arpBytes(a.Borrow, rogueServer, a.Asked))
	add("dhcp-server", toAll, a.Source, 0x0800, packet4(rogueServer, everyone, 17, udpBytes(67, 68, make([]byte, 240))))
	add("dhcp-server-odd-port", toAll, a.Source, 0x0800, packet4(rogueServer, everyone, 17, udpBytes(6767, 68, make([]byte, 240))))
	withOptions := packet4(rogueServer, everyone, 17, udpBytes(67, 68, make([]byte, 240)))
	add("dhcp-server-options", toAll, a.Source, 0x0800, insertOptions4(withOptions))
	add("dhcpv6-server", toAllNodes, a.Source, 0x86dd, packet6(17, 255, dhcp6))
	add("dhcpv6-server-options", toAllNodes, a.Source, 0x86dd, packet6(60, 255, append(options(17), dhcp6...)))
	add("ra", toAllNodes, a.Source, 0x86dd, packet6(58, 255, ra))
	add("redirect", toAllNodes, a.Source, 0x86dd, packet6(58, 255, redirect))
	add("ra-options", toAllNodes, a.Source, 0x86dd, packet6(60, 255, append(options(58), ra...)))
	add("ra-hop-by-hop", toAllNodes, a.Source, 0x86dd, packet6(0, 255, append(options(58), ra...)))
	add("ra-atomic-fragment", toAllNodes, a.Source, 0x86dd, packet6(44, 255, append(fragment(58, 0, false), ra...)))
	add("ra-fragment", toAllNodes, a.Source, 0x86dd, packet6(44, 255, append(fragment(58, 0, true), ra[:8]...)))
	// RFC 7113, figure 2: the first fragment ends before the header that matters
	add("ra-hidden-in-fragments", toAllNodes, a.Source, 0x86dd, packet6(44, 255, append(fragment(60, 0, true), options(58)...)))
	add("ra-unknown-header", toAllNodes, a.Source, 0x86dd, packet6(253, 255, append(options(58), ra...)))
	var many []byte
	for range 20 {
		many = append(many, options(60)...)
	}
	add("ra-many-headers", toAllNodes, a.Source, 0x86dd, packet6(60, 255, append(append(many, options(58)...), ra...)))
	return list
}

func packet4(from, to netip.Addr, protocol byte, body []byte) []byte {
	b := make([]byte, 20, 20+len(body))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], onesComplement(b))
	return append(b, body...)
}

// insertOptions4 puts four bytes of padding options into the header.
func insertOptions4(p []byte) []byte {
	b := append(append(append([]byte{}, p[:20]...), 1, 1, 1, 1), p[20:]...)
	b[0] = 0x46
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], onesComplement(b[:24]))
	return b
}

func packet6(next, hopLimit byte, body []byte) []byte {
	b := make([]byte, 40, 40+len(body))
	b[0], b[6], b[7] = 0x60, next, hopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	copy(b[8:], fromRouter.AsSlice())
	copy(b[24:], allNodes.AsSlice())
	return append(b, body...)
}

func icmp6(kind byte, rest []byte) []byte {
	m := append([]byte{kind, 0, 0, 0}, rest...)
	pseudo := append(append(fromRouter.AsSlice(), allNodes.AsSlice()...), 0, 0, 0, byte(len(m)), 0, 0, 0, 58)
	binary.BigEndian.PutUint16(m[2:], onesComplement(append(pseudo, m...)))
	return m
}

func udpBytes(from, to uint16, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}

func echoBytes() []byte {
	b := []byte{8, 0, 0, 0, 0, 1, 0, 1, 'w', 'e', 'f', 't'}
	binary.BigEndian.PutUint16(b[2:], onesComplement(b))
	return b
}

func arpBytes(mac net.HardwareAddr, sender, target netip.Addr) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, mac...)
	b = append(append(b, sender.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return append(b, target.AsSlice()...)
}

// onesComplement is the checksum of RFC 1071.
func onesComplement(b []byte) uint16 {
	var sum uint32
	for i, v := range b {
		sum += uint32(v) << (8 * uint(1-i%2))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// Send sends frames on a device, with a pause after each, so that no limit of
// rates is met, and gives how many.
func Send(ctx context.Context, device string, tries []Try, pause time.Duration) (int, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return 0, fmt.Errorf("send on %s: %w", device, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open packet socket: %w", err)
	}
	defer unix.Close(fd)
	for i, t := range tries {
		if err := unix.Sendto(fd, t.Frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}); err != nil {
			return i, fmt.Errorf("send %s on %s: %w", t.Name, device, err)
		}
		select {
		case <-ctx.Done():
			return i, ctx.Err()
		case <-time.After(pause):
		}
	}
	return len(tries), nil
}

// Sighting finds the mark in a frame, or who it is from if that is told by the
// source address alone.
func Sighting(frame []byte, watched net.HardwareAddr) (string, bool) {
	if _, rest, ok := strings.Cut(string(frame), leakMark); ok {
		line, _, whole := strings.Cut(rest, "\n")
		return line, whole
	}
	if len(frame) >= 14 && len(watched) == 6 && string(frame[6:12]) == string(watched) {
		return "router speaks", true
	}
	return "", false
}

// Watch hands on what it sees on a device, until ctx ends.
func Watch(ctx context.Context, device string, watched net.HardwareAddr, ready func(), each func(string)) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return fmt.Errorf("watch %s: %w", device, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "packet socket")
	defer socket.Close()
	all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}); err != nil {
		return fmt.Errorf("bind packet socket to %s: %w", device, err)
	}
	stop := context.AfterFunc(ctx, func() { socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	ready()
	buffer := make([]byte, 1<<16)
	for ctx.Err() == nil {
		err := raw.Read(func(fd uintptr) bool {
			n, from, err := unix.Recvfrom(int(fd), buffer, 0)
			if err != nil {
				return false
			}
			// what the device's own node sends proves nothing
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
				return true
			}
			if seen, ok := Sighting(buffer[:n], watched); ok {
				each(seen)
			}
			return true
		})
		if err != nil {
			break
		}
	}
	return nil
}
