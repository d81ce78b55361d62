package lns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
	"weft/internal/lab/probe/lac"
)

const frameMax = 1536 // FRAME_MAX of lns.bpf.c

// drained is how long the last packets may stay in the server's queues.
const drained = 5 * time.Millisecond

// traffic makes the packets of one direction and length, and counts those that
// have crossed.
type traffic struct {
	from, to *netspace.Space
	objects  trafficObjects
	program  *ebpf.Program
	sink     *ebpf.Program
	frame    []byte
}

func newTraffic(p *rig.Path, m measurement, sessions []*lac.Session) (*traffic, error) {
	t := &traffic{from: p.Left, to: p.Right}
	device := "lan"
	if m.down {
		t.from, t.to, device = p.Right, p.Left, "wan"
	}
	own, err := rig.MAC(t.from, "eth0")
	if err != nil {
		return nil, err
	}
	router, err := rig.MAC(p.Router, device)
	if err != nil {
		return nil, err
	}
	index, err := rig.DeviceIndex(t.from, "eth0")
	if err != nil {
		return nil, err
	}
	zero := netip.IPv4Unspecified()
	d := rig.Datagrams{FromMAC: own, ToMAC: router, From: zero, To: right.Host[1].Addr(), Length: m.length}
	if m.down {
		d.From, d.To = d.To, d.From
	}
	if t.frame, err = d.Frame(); err != nil {
		return nil, err
	}
	if !m.down {
		t.frame = wrapped(t.frame)
	}
	spec, err := loadTraffic()
	if err != nil {
		return nil, fmt.Errorf("read the generator's object: %w", err)
	}
	var whole [frameMax]byte
	copy(whole[:], t.frame)
	err = errors.Join(
		spec.Variables["frame"].Set(whole), spec.Variables["frame_len"].Set(uint32(len(t.frame))),
		spec.Variables["sessions"].Set(uint32(len(sessions))), spec.Variables["out"].Set(uint32(index)), rlimit.RemoveMemlock())
	if err != nil {
		return nil, fmt.Errorf("set up the generator: %w", err)
	}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, fmt.Errorf("load the generator: %w", err)
	}
	t.program, t.sink = t.objects.Lac, t.objects.Landed
	if m.down {
		t.program, t.sink = t.objects.Core, t.objects.Tunnelled
	}
	if m.switched {
		t.sink = t.objects.Tunnelled
	}
	return t, t.fill(sessions)
}

// wrapped puts a frame's packet into a data packet of session 0.
func wrapped(frame []byte) []byte {
	ip := frame[14:]
	out := make([]byte, 0, len(frame)+overhead)
	out = append(out, frame[:14]...)
	out = append(out, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0)
	binary.BigEndian.PutUint16(out[16:], uint16(len(ip)+overhead))
	out = append(append(out, peer.Addr().AsSlice()...), here.Addr().AsSlice()...)
	var sum uint32
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(out[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(out[24:], ^uint16(sum&0xffff+sum>>16))
	out = append(out, 6, 0xa5, 6, 0xa5, 0, 0, 0, 0) // UDP, ports 1701, without checksum
	binary.BigEndian.PutUint16(out[38:], uint16(len(ip)+overhead-20))
	out = append(out, 0, 2, 0, 0, 0, 0, 0xff, 3, 0, 0x21)
	return append(out, ip...)
}

// fill gives the sessions to the programs. Ids are in network byte order.
func (t *traffic) fill(sessions []*lac.Session) error {
	keys, values := make([]uint32, len(sessions)), make([]trafficSession, len(sessions))
	for i, s := range sessions {
		var tunnel, id [2]byte
		binary.BigEndian.PutUint16(tunnel[:], s.Tunnel().Peer)
		binary.BigEndian.PutUint16(id[:], s.Peer)
		keys[i] = uint32(i)
		values[i] = trafficSession{
			Tunnel: binary.NativeEndian.Uint16(tunnel[:]), Session: binary.NativeEndian.Uint16(id[:]), Addr: binary.NativeEndian.Uint32(s.Addr[:]),
		}
	}
	if _, err := t.objects.Table.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("tell the generator of sessions: %w", err)
	}
	return nil
}

// burst sends for some time, and returns the number of packets that have arrived.
func (t *traffic) burst(atLeast time.Duration) (came uint64, err error) {
	l, err := rig.AttachXDP(t.to, "eth0", t.sink)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	before, err := t.received()
	if err != nil {
		return 0, err
	}
	if _, err := rig.Send(t.from, t.program, t.frame, atLeast); err != nil {
		return 0, err
	}
	time.Sleep(drained)
	after, err := t.received()
	if err == nil && after == before {
		err = errors.New("no packet has arrived")
	}
	return after - before, err
}

func (t *traffic) received() (n uint64, err error) {
	var perCPU []uint64
	if err := t.objects.Counts.Lookup(uint32(1), &perCPU); err != nil {
		return 0, fmt.Errorf("read how many packets arrived: %w", err)
	}
	for _, v := range perCPU {
		n += v
	}
	return n, nil
}

// Close closes the programs.
func (t *traffic) Close() error { return t.objects.Close() }
