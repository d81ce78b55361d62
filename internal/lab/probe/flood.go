package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"weft/wire/checksum"
)

// FloodKind is the kind of packets in a flood.
type FloodKind string

const (
	FloodPorts   FloodKind = "ports"   // UDP to all ports
	FloodSYN     FloodKind = "syn"     // the beginnings of TCP connections, from made-up sources
	FloodICMP    FloodKind = "icmp"    // echo requests from made-up sources
	FloodBogons  FloodKind = "bogons"  // bogon sources
	FloodRefused FloodKind = "refused" // one flow, again and again
	FloodSource  FloodKind = "source"  // one source, all ports
)

// Flood is a bounded number of packets at a bounded rate.
type Flood struct {
	Kind     FloodKind
	Source   net.HardwareAddr // of the frames
	To       net.HardwareAddr
	Address  netip.Addr // IPv4, that they are sent to
	From     netip.Addr // who sends, where that is one
	Port     uint16     // of SYNs and of the one flow
	Count    int
	PerBatch int // packets at once, and then
	Pause    time.Duration
}

// frame returns the n-th frame.
func (f Flood) frame(r *rand.Rand) []byte {
	from, body := f.From, udpBytes(uint16(1024+r.IntN(60000)), uint16(1+r.IntN(65535)), make([]byte, 18))
	protocol := byte(17)
	switch f.Kind {
	case FloodSYN:
		from, protocol, body = worldwide(r), 6, nil
	case FloodICMP:
		from, protocol, body = worldwide(r), 1, echoBytes(make([]byte, 24))
	case FloodBogons:
		from = netip.AddrFrom4([4]byte{10, 66, byte(r.IntN(256)), byte(r.IntN(256))})
	case FloodRefused:
		body = udpBytes(4444, f.Port, make([]byte, 18))
	case FloodPorts:
		from = worldwide(r)
	}
	if f.Kind == FloodSYN {
		body = synBytes(from, f.Address, uint16(1024+r.IntN(60000)), f.Port)
	}
	frame := append(append(append([]byte{}, f.To...), f.Source...), 8, 0)
	frame = append(frame, packet4(from, f.Address, protocol, body)...)
	return append(frame, make([]byte, max(0, 60-len(frame)))...)
}

// worldwide is a random global address.
func worldwide(r *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(16 + r.IntN(80)), byte(r.IntN(256)), byte(r.IntN(256)), byte(1 + r.IntN(254))})
}

// synBytes is the header that begins a connection (RFC 9293 section 3.1).
func synBytes(from, to netip.Addr, source, destination uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, source)
	binary.BigEndian.PutUint16(b[2:], destination)
	binary.BigEndian.PutUint32(b[4:], 1)
	b[12], b[13] = 5<<4, 2
	binary.BigEndian.PutUint16(b[14:], 64240)
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, 6, 0, 20)
	binary.BigEndian.PutUint16(b[16:], checksum.Of(append(pseudo, b...)))
	return b
}

// Run sends it by a device, and returns the number of packets sent.
func (f Flood) Run(ctx context.Context, device string, seed uint64) (int, error) {
	if f.PerBatch <= 0 {
		return 0, fmt.Errorf("a flood of %d packets at once", f.PerBatch)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	sent := 0
	for sent < f.Count {
		tries := make([]Try, min(f.PerBatch, f.Count-sent))
		for i := range tries {
			tries[i] = Try{string(f.Kind), f.frame(r)}
		}
		n, err := Send(ctx, device, tries, 0)
		sent += n
		if err != nil {
			return sent, err
		}
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-time.After(f.Pause):
		}
	}
	return sent, nil
}

// Pace sends datagrams of one flow at a constant rate, until ctx ends or count are
// sent. The receiver counts arrivals.
func Pace(ctx context.Context, to netip.AddrPort, from uint16, count int, pace time.Duration) (sent int, err error) {
	conn, err := net.DialUDP("udp", &net.UDPAddr{Port: int(from)}, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return 0, fmt.Errorf("open UDP socket: %w", err)
	}
	defer conn.Close()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for ; sent < count && ctx.Err() == nil; sent++ {
		_, _ = conn.Write(make([]byte, 64)) // an ICMP error for an earlier one is no reason to end
		<-tick.C
	}
	return sent, nil
}
