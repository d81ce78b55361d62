package slowpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/internal/task"
)

// reassembledBuffer is how much may wait in a Joined.
const reassembledBuffer = 4 << 20

// Joined receives packets for an address of this host as the stack sees them:
// those that came in pieces are whole. What programs have taken never gets here.
type Reassembled struct {
	conn  *net.IPConn
	local netip.Addr
	proto int
	guard task.Guard
}

// OpenReassembled opens the socket of one IP protocol. Of UDP it receives what looks
// like data of L2TPv3 (RFC 3931 section 4.1.2.1) only.
func OpenReassembled(ctx context.Context, local netip.Addr, proto int) (*Reassembled, error) {
	v6 := local.Is6()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = prepareReassembled(int(fd), v6, proto) })
		return errors.Join(err, failed)
	}}
	network := "ip4:"
	if v6 {
		network = "ip6:"
	}
	c, err := config.ListenPacket(ctx, network+strconv.Itoa(proto), local.String())
	if err != nil {
		return nil, fmt.Errorf("open raw socket of IP protocol %d at %s: %w", proto, local, err)
	}
	return &Reassembled{conn: c.(*net.IPConn), local: local, proto: proto}, nil
}

func prepareReassembled(fd int, v6 bool, proto int) error {
	// where that may not be had the usual buffer has to do
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, reassembledBuffer)
	if proto == unix.IPPROTO_UDP {
		filter := dataOfL2TP(v6)
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
			return fmt.Errorf("attach the packet filter: %w", err)
		}
	}
	if v6 {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1),
		)
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1),
	)
}

// dataOfL2TP lets UDP through whose payload begins as a data message of L2TPv3
// does. A raw socket of IPv4 is given packets with their IP header.
func dataOfL2TP(v6 bool) []unix.SockFilter {
	const udp, version, all = 8, 3, 0xffffffff
	take := []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: version},
		{Code: unix.BPF_RET | unix.BPF_K, K: all},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	if v6 {
		return append([]unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: udp}}, take...)
	}
	return append([]unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: udp},
	}, take...)
}

// Serve hands each packet to handle, behind an empty link header and with the
// index of the device where it arrived, until ctx ends. It is valid only during
// the call. A packet at which handle panics is lost.
func (j *Reassembled) Serve(ctx context.Context, handle func(frame []byte, device int)) error {
	stop := context.AfterFunc(ctx, func() { j.conn.Close() })
	defer stop()
	const room = ethernetHeader + 40 // for the IPv6 header, which the kernel keeps to itself
	buffer, control := make([]byte, room+1<<16), make([]byte, 256)
	for {
		n, controls, _, from, err := j.conn.ReadMsgIP(buffer[room:], control)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive of IP protocol %d at %s: %w", j.proto, j.local, err)
		}
		device, class := about(control[:controls])
		if j.local.Is4() {
			frame := buffer[room-ethernetHeader : room+n]
			clear(frame[:ethernetHeader])
			frame[12], frame[13] = 0x08, 0x00
			j.guard.Do("packet", frame, func() { handle(frame, device) })
			continue
		}
		remote, ok := netip.AddrFromSlice(from.IP)
		if !ok || n > 0xffff {
			continue
		}
		frame := buffer[:room+n]
		clear(frame[:room])
		frame[12], frame[13] = 0x86, 0xdd
		ip := frame[ethernetHeader:]
		ip[0], ip[1] = 0x60|class>>4, class<<4
		binary.BigEndian.PutUint16(ip[4:], uint16(n))
		ip[6], ip[7] = byte(j.proto), 64
		copy(ip[8:], remote.AsSlice())
		copy(ip[24:], j.local.AsSlice())
		j.guard.Do("packet", frame, func() { handle(frame, device) })
	}
}

// Fault describes the last packet at which handle panicked; nil if there was
// none for long.
func (j *Reassembled) Fault() error { return j.guard.Fault() }

// Close ends Serve.
func (j *Reassembled) Close() error { return j.conn.Close() }

// about reads at which device a packet arrived, and its traffic class if it is
// one of IPv6.
func about(control []byte) (device int, class byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, 0
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= 4:
			device = int(binary.NativeEndian.Uint32(m.Data)) // struct in_pktinfo
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 20:
			device = int(binary.NativeEndian.Uint32(m.Data[16:])) // struct in6_pktinfo
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_TCLASS && len(m.Data) >= 4:
			class = byte(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return device, class
}

// Frames sends frames out by devices.
type Frames struct{ fd int }

// OpenFrames opens the socket.
func OpenFrames() (*Frames, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // 0: receives nothing
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	return &Frames{fd}, nil
}

// Send sends one; what the device refuses is lost like any frame.
func (f *Frames) Send(frame []byte, device int) {
	if len(frame) < ethernetHeader {
		return
	}
	to := &unix.SockaddrLinklayer{Ifindex: device, Protocol: binary.NativeEndian.Uint16(frame[12:])}
	_ = unix.Sendto(f.fd, frame, 0, to)
}

// Close lets go of the socket.
func (f *Frames) Close() error { return unix.Close(f.fd) }
