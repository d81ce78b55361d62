package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/wire/checksum"
)

// Frames that must not pass, each marked with its sender and its kind, so that they
// are recognised wherever they arrive.

// Attack is the source and the targets of the frames.
type Attack struct {
	Label  string                      // who sends
	Source net.HardwareAddr            // the sender's own link address
	Aims   map[string]net.HardwareAddr // stations, by name
	Borrow net.HardwareAddr            // an address of another host
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

// Tries returns the frames of an attack. The mark is within each packet: bridges
// may cut off what follows it (br_netfilter does).
func (a Attack) Tries() []Try {
	var list []Try
	add := func(name string, to, from net.HardwareAddr, kind uint16, body func(mark []byte) []byte) {
		frame := append(append(append([]byte{}, to...), from...), byte(kind>>8), byte(kind))
		frame = append(frame, body([]byte(leakMark+a.Label+" "+name+"\n"))...)
		if pad := 60 - len(frame); pad > 0 {
			frame = append(frame, make([]byte, pad)...)
		}
		list = append(list, Try{name, frame})
	}
	// tagged puts something before a packet, behind the mark's back
	tagged := func(prefix []byte, body func([]byte) []byte) func([]byte) []byte {
		return func(m []byte) []byte { return append(append([]byte{}, prefix...), body(m)...) }
	}
	a.addPlain(add)
	plain := datagram(rogueServer, netip.MustParseAddr("192.0.2.99"), 4000, 4000)
	add("vlan-10", toAll, a.Source, 0x8100, tagged([]byte{0, 10, 0x08, 0x00}, plain))
	add("vlan-20", toAll, a.Source, 0x8100, tagged([]byte{0, 20, 0x08, 0x00}, plain))
	add("vlan-1", toAll, a.Source, 0x8100, tagged([]byte{0, 1, 0x08, 0x00}, plain))
	add("vlan-priority", toAll, a.Source, 0x8100, tagged([]byte{0xe0, 0, 0x08, 0x00}, plain))
	add("double-tagged", toAll, a.Source, 0x8100, tagged([]byte{0, 10, 0x81, 0, 0, 20, 0x08, 0x00}, plain))
	add("double-priority", toAll, a.Source, 0x8100, tagged([]byte{0, 0, 0x81, 0, 0, 20, 0x08, 0x00}, plain))
	add("service-tag", toAll, a.Source, 0x88a8, tagged([]byte{0, 10, 0x08, 0x00}, plain))
	add("old-qinq", toAll, a.Source, 0x9100, tagged([]byte{0, 10, 0x08, 0x00}, plain))
	only := func(m []byte) []byte { return m }
	bpdu := append([]byte{0x42, 0x42, 3}, make([]byte, 35)...)
	add("spanning-tree", toBridges, a.Source, 100, tagged(bpdu, only))
	add("spanning-tree-to-all", toAll, a.Source, 100, tagged(bpdu, only))
	lldp := []byte{2, 7, 4, 2, 0, 0, 0, 0, 1}
	add("lldp", toLLDP, a.Source, 0x88cc, tagged(lldp, only))
	add("lldp-to-all", toAll, a.Source, 0x88cc, tagged(lldp, only))
	add("pause", toPause, a.Source, 0x8808, tagged([]byte{0, 1, 0xff, 0xff}, only))
	add("cdp", toCisco, a.Source, 100, tagged([]byte{0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0}, only))
	add("spoofed-neighbour", toAll, a.Borrow, 0x0800, plain)
	add("spoofed-unknown", toAll, nobodysMAC, 0x0800, plain)
	add("spoofed-group", toAll, toGroup, 0x0800, plain)
	add("spoofed-arp", toAll, a.Source, 0x0806, tagged(arpBytes(a.Borrow, rogueServer, a.Asked), only))
	a.addServers(add)
	a.addRouters(add, tagged)
	return list
}

type adder = func(name string, to, from net.HardwareAddr, kind uint16, body func(mark []byte) []byte)

// addPlain adds frames that are right as they are, and may go to the uplink.
func (a Attack) addPlain(add adder) {
	for _, name := range slices.Sorted(maps.Keys(a.Aims)) {
		add("unicast-"+name, a.Aims[name], a.Source, 0x0800, datagram(rogueServer, netip.MustParseAddr("192.0.2.99"), 4000, 4000))
		add("ping-"+name, a.Aims[name], a.Source, 0x0800, func(m []byte) []byte { return packet4(rogueServer, a.Asked, 1, echoBytes(m)) })
	}
	add("broadcast", toAll, a.Source, 0x0800, datagram(rogueServer, everyone, 4000, 4000))
	add("multicast", toGroup, a.Source, 0x0800, datagram(rogueServer, netip.MustParseAddr("239.1.2.3"), 4000, 4000))
	add("arp", toAll, a.Source, 0x0806, func(m []byte) []byte { return append(arpBytes(a.Source, rogueServer, a.Asked), m...) })
	echo := func(m []byte) []byte { return icmp6(128, append([]byte{0, 1, 0, 1}, m...)) }
	add("link-local", toAllNodes, a.Source, 0x86dd, func(m []byte) []byte { return packet6(58, 255, echo(m)) })
	add("link-local-options", toAllNodes, a.Source, 0x86dd, func(m []byte) []byte { return packet6(60, 255, append(options6(58), echo(m)...)) })
}

// addServers adds messages of a DHCP server.
func (a Attack) addServers(add adder) {
	reply := func(from uint16) func([]byte) []byte {
		return func(m []byte) []byte {
			return packet4(rogueServer, everyone, 17, udpBytes(from, 68, append(make([]byte, 240), m...)))
		}
	}
	reply6 := func(m []byte) []byte { return udpBytes(547, 546, append([]byte{2, 1, 2, 3}, m...)) }
	add("dhcp-server", toAll, a.Source, 0x0800, reply(67))
	add("dhcp-server-odd-port", toAll, a.Source, 0x0800, reply(6767))
	add("dhcp-server-options", toAll, a.Source, 0x0800, func(m []byte) []byte { return insertOptions4(reply(67)(m)) })
	add("dhcpv6-server", toAllNodes, a.Source, 0x86dd, func(m []byte) []byte { return packet6(17, 255, reply6(m)) })
	add("dhcpv6-server-options", toAllNodes, a.Source, 0x86dd, func(m []byte) []byte { return packet6(60, 255, append(options6(17), reply6(m)...)) })
}

// addRouters adds router advertisements, plain and hidden as RFC 7113 describes.
func (a Attack) addRouters(add adder, tagged func([]byte, func([]byte) []byte) func([]byte) []byte) {
	ra := func(m []byte) []byte {
		return icmp6(134, append(append([]byte{64, 0, 0x07, 0x08}, make([]byte, 8)...), m...))
	}
	behind := func(next byte, headers []byte, message func([]byte) []byte) func([]byte) []byte {
		return func(m []byte) []byte { return packet6(next, 255, append(append([]byte{}, headers...), message(m)...)) }
	}
	fragment := func(next byte, more byte) []byte { return []byte{next, 0, 0, more, 0, 0, 0, 7} }
	add("ra", toAllNodes, a.Source, 0x86dd, behind(58, nil, ra))
	add("snap-ipv6", toAllNodes, a.Source, 200, tagged([]byte{0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd}, behind(58, nil, ra)))
	add("redirect", toAllNodes, a.Source, 0x86dd, behind(58, nil, func(m []byte) []byte { return icmp6(137, append(make([]byte, 36), m...)) }))
	add("ra-options", toAllNodes, a.Source, 0x86dd, behind(60, options6(58), ra))
	add("ra-hop-by-hop", toAllNodes, a.Source, 0x86dd, behind(0, options6(58), ra))
	add("ra-atomic-fragment", toAllNodes, a.Source, 0x86dd, behind(44, fragment(58, 0), ra))
	add("ra-fragment", toAllNodes, a.Source, 0x86dd, behind(44, fragment(58, 1), ra))
	// figure 2 there: the first fragment ends before the header that matters.
	// Here a mark follows the packet's end, as if that header were there.
	add("ra-hidden-in-fragments", toAllNodes, a.Source, 0x86dd, func(m []byte) []byte {
		return append(packet6(44, 255, append(fragment(60, 1), options6(58)...)), append(make([]byte, 8), m...)...)
	})
	// the options' own length says that they go on in the next fragment
	add("ra-hidden-in-options", toAllNodes, a.Source, 0x86dd, behind(44, append(fragment(60, 1), 58, 30, 1, 4, 0, 0, 0, 0), func(m []byte) []byte { return m }))
	add("ra-unknown-header", toAllNodes, a.Source, 0x86dd, behind(253, options6(58), ra))
	var many []byte
	for range 20 {
		many = append(many, options6(60)...)
	}
	add("ra-many-headers", toAllNodes, a.Source, 0x86dd, behind(60, append(many, options6(58)...), ra))
}

// options6 is a destination options header, or a hop-by-hop one, of padding.
func options6(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

func datagram(from, to netip.Addr, source, destination uint16) func([]byte) []byte {
	return func(m []byte) []byte { return packet4(from, to, 17, udpBytes(source, destination, m)) }
}

func packet4(from, to netip.Addr, protocol byte, body []byte) []byte {
	b := make([]byte, 20, 20+len(body))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b))
	return append(b, body...)
}

// insertOptions4 puts four bytes of padding options into the header.
func insertOptions4(p []byte) []byte {
	b := append(append(append([]byte{}, p[:20]...), 1, 1, 1, 1), p[20:]...)
	b[0] = 0x46
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:24]))
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
	binary.BigEndian.PutUint16(m[2:], checksum.Of(append(pseudo, m...)))
	return m
}

func udpBytes(from, to uint16, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}

func echoBytes(data []byte) []byte {
	b := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, data...)
	binary.BigEndian.PutUint16(b[2:], checksum.Of(b))
	return b
}

func arpBytes(mac net.HardwareAddr, sender, target netip.Addr) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, mac...)
	b = append(append(b, sender.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return append(b, target.AsSlice()...)
}

// Send sends frames on a device, with a pause after each, so that no rate limit
// applies, and returns their number.
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

// Sighting returns the mark in a frame, or its sender if only the source address
// identifies it.
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

// Watch passes the marks that it sees on a device to each, until ctx ends.
func Watch(ctx context.Context, device string, watched net.HardwareAddr, ready func(), each func(string)) error {
	return frames(ctx, device, ready, func(frame []byte, outgoing bool) {
		// frames that the device's own node sends prove nothing
		if outgoing {
			return
		}
		if seen, ok := Sighting(frame, watched); ok {
			each(seen)
		}
	})
}
