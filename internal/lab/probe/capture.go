package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"
)

// Capture passes every frame on device, in either direction, to each, until ctx
// ends. ready is called once frames are captured.
func Capture(ctx context.Context, device string, ready func(), each func(Frame)) error {
	return frames(ctx, device, ready, func(frame []byte, outgoing bool) {
		f := Describe(frame)
		f.Device, f.Outgoing = device, outgoing
		each(f)
	})
}

// frames is Capture of frames as they are. frame is good until each returns.
func frames(ctx context.Context, device string, ready func(), each func(frame []byte, outgoing bool)) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return fmt.Errorf("capture on %s: %w", device, err)
	}
	// Protocol 0 keeps the socket deaf until it is bound to its device (packet(7)).
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
	var failed error
	// next takes one frame; false means that there is none yet.
	next := func(fd uintptr) bool {
		n, from, err := unix.Recvfrom(int(fd), buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.ENETDOWN): // it may come up again
		case err != nil:
			failed = err
		default:
			ll, ok := from.(*unix.SockaddrLinklayer)
			each(buffer[:n], ok && ll.Pkttype == unix.PACKET_OUTGOING)
		}
		return true
	}
	for failed == nil && err == nil {
		err = raw.Read(next)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The end was called for: frames that came before it still count.
		err = raw.Control(func(fd uintptr) {
			for failed == nil && next(fd) {
			}
		})
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("read packet socket: %w", err)
	}
	return nil
}

// Describe reads an Ethernet frame's addresses and describes it in words.
func Describe(frame []byte) Frame {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	f := Frame{Kind: "other", Length: len(frame)}
	for _, layer := range p.Layers() {
		switch l := layer.(type) {
		case *layers.Ethernet:
			f.Source, f.Destination = l.SrcMAC.String(), l.DstMAC.String()
			f.Words = l.EthernetType.String()
		case *layers.IPv4:
			if l.SrcIP == nil {
				return f // cut short
			}
			f.From, f.To, f.HopLimit = address(l.SrcIP), address(l.DstIP), int(l.TTL)
			f.Words = l.Protocol.String()
		case *layers.IPv6:
			if l.SrcIP == nil {
				return f
			}
			f.From, f.To, f.HopLimit = address(l.SrcIP), address(l.DstIP), int(l.HopLimit)
			f.Words = l.NextHeader.String()
		case *layers.ARP:
			describeARP(&f, l)
		case *layers.ICMPv4:
			f.Kind, f.Words = "icmp", icmpWords(l.TypeCode.String(), l.TypeCode.Type(), 8, 0)
		case *layers.ICMPv6:
			f.Kind, f.Words = "icmpv6", icmpWords(l.TypeCode.String(), l.TypeCode.Type(), 128, 129)
		case *layers.ICMPv6NeighborSolicitation:
			f.Kind, f.Words = "nd", "who has "+l.TargetAddress.String()+"?"
		case *layers.ICMPv6NeighborAdvertisement:
			f.Kind, f.Words = "nd", "I have "+l.TargetAddress.String()
		case *layers.TCP:
			f.Kind, f.Words = "tcp", fmt.Sprintf("port %d to %d", l.SrcPort, l.DstPort)
		case *layers.UDP:
			f.Kind, f.Words = "udp", fmt.Sprintf("port %d to %d", l.SrcPort, l.DstPort)
		}
	}
	return f
}

func describeARP(f *Frame, l *layers.ARP) {
	f.Kind = "arp"
	f.From, f.To = address(l.SourceProtAddress), address(l.DstProtAddress)
	if l.Operation == layers.ARPRequest {
		f.Words = fmt.Sprintf("who has %s? tell %s", f.To, f.From)
		return
	}
	f.Words = fmt.Sprintf("%s is at %s", f.From, net.HardwareAddr(l.SourceHwAddress))
}

func icmpWords(otherwise string, kind, request, reply uint8) string {
	switch kind {
	case request:
		return "echo request"
	case reply:
		return "echo reply"
	}
	return otherwise
}

func address(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
