package nat64table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Resolver finds the binding and session of a packet through the programs: it gives
// nat64_resolve, by BPF_PROG_RUN, a small packet with the same addresses. So state
// is created, limited and updated by the same code for every packet.
type Resolver struct {
	datapath Table
	program  *ebpf.Program
	now      func() uint32 // ticks
}

// Resolver loads the program.
func (d Table) Resolver() (*Resolver, error) {
	prog, err := d.core.Load("nat64_resolve")
	if err != nil {
		return nil, err
	}
	return &Resolver{d, prog, datapath.NowTicks}, nil
}

// Resolve returns the addresses and ports after translation, or the outcome that the
// packet has instead.
func (r *Resolver) Resolve(t state.Tuple) (state.Tuple, state.Outcome) {
	frame := probe(t)
	run := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	outcome, err := r.program.Run(&run)
	if err != nil {
		return t, state.DropKernel
	}
	if outcome != uint32(state.OutcomeNone) {
		return t, state.Outcome(outcome)
	}
	got, err := readProbe(run.DataOut, t)
	if err != nil {
		return t, state.DropKernel
	}
	return got, state.OutcomeNone
}

// Session returns the node of a session, by the session's IPv4 side, and the remote
// address as the node sees it.
func (r *Resolver) Session(protocol uint8, pool, remote netip.AddrPort) (client, remote6 netip.AddrPort, ok bool) {
	v, ok := r.session(protocol, pool, remote)
	if !ok {
		return client, remote6, false
	}
	return addrPort6(v.Client.U8, v.Port), addrPort6(v.Remote6.U8, v.RemotePort), true
}

func (r *Resolver) session(protocol uint8, pool, remote netip.AddrPort) (v sessionValue, ok bool) {
	m, err := r.datapath.core.Map("nat64_sessions")
	if err != nil || m.Lookup(encodeSessionKey(protocol, pool, remote), &v) != nil || int32(uint32(v.Word)-r.now()) <= 0 {
		return v, false
	}
	return v, true
}

// Binding returns the pool's address and port that a node's session with a remote
// uses. Several translators may have bound the same port of the node: the one that
// has the session counts.
func (r *Resolver) Binding(protocol uint8, client, remote6, remote netip.AddrPort) (netip.AddrPort, bool) {
	m, err := r.datapath.core.Map("nat64_bib6")
	if err != nil {
		return netip.AddrPort{}, false
	}
	allocators, err := r.datapath.Allocators()
	if err != nil {
		return netip.AddrPort{}, false
	}
	for _, b := range allocators {
		var v binding
		if m.Lookup(encodeBib6Key(b.ID, protocol, client), &v) != nil {
			continue
		}
		pool := addrPort4(v.Pool, v.PoolPort)
		s, ok := r.session(protocol, pool, remote)
		if ok && addrPort6(s.Client.U8, s.Port) == client && netip.AddrFrom16(s.Remote6.U8) == remote6.Addr() {
			return pool, true
		}
	}
	return netip.AddrPort{}, false
}

const (
	probeIPv4 = 14 + 20
	probeIPv6 = 14 + 40
)

// probe makes the smallest packet of a tuple. Transport checksums are not verified;
// that of UDP must not be zero.
func probe(t state.Tuple) []byte {
	var seg []byte
	switch t.Protocol {
	case 6:
		seg = make([]byte, 20)
		seg[12], seg[13] = 5<<4, t.Flags
	case 17:
		seg = make([]byte, 8)
		seg[5], seg[6] = 8, 1
	default:
		seg = make([]byte, 8)
		seg[0] = icmpType(t.From.Addr().Is6(), t.Flags == 1)
	}
	if t.Protocol == 1 {
		binary.BigEndian.PutUint16(seg[4:], t.From.Port())
	} else {
		binary.BigEndian.PutUint16(seg, t.From.Port())
		binary.BigEndian.PutUint16(seg[2:], t.To.Port())
	}
	frame := make([]byte, 14, probeIPv6+len(seg))
	if t.From.Addr().Is6() {
		frame[12], frame[13] = 0x86, 0xdd
		ip := make([]byte, 40)
		ip[0], ip[5], ip[6], ip[7] = 0x60, byte(len(seg)), t.Protocol, 64
		if t.Protocol == 1 {
			ip[6] = 58
		}
		copy(ip[8:], t.From.Addr().AsSlice())
		copy(ip[24:], t.To.Addr().AsSlice())
		return append(append(frame, ip...), seg...)
	}
	frame[12], frame[13] = 0x08, 0x00
	ip := make([]byte, 20)
	ip[0], ip[3], ip[6], ip[8], ip[9] = 0x45, byte(20+len(seg)), 0x40, 64, t.Protocol
	copy(ip[12:], t.From.Addr().AsSlice())
	copy(ip[16:], t.To.Addr().AsSlice())
	var acc uint32
	for i := 0; i < 20; i += 2 {
		acc += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	acc = acc&0xffff + acc>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(acc&0xffff+acc>>16))
	return append(append(frame, ip...), seg...)
}

func icmpType(ipv6, request bool) byte {
	switch {
	case ipv6 && request:
		return 128
	case ipv6:
		return 129
	case request:
		return 8
	}
	return 0
}

var errProbe = errors.New("the program gave no packet back")

// readProbe decodes a translated probe.
func readProbe(frame []byte, t state.Tuple) (state.Tuple, error) {
	head := probeIPv4
	if !t.From.Addr().Is6() {
		head = probeIPv6
	}
	if len(frame) < head+8 {
		return t, fmt.Errorf("read a probe of %d bytes: %w", len(frame), errProbe)
	}
	size := 16
	if head == probeIPv4 {
		size = 4
	}
	from, _ := netip.AddrFromSlice(frame[head-2*size : head-size])
	to, _ := netip.AddrFromSlice(frame[head-size : head])
	a, z := binary.BigEndian.Uint16(frame[head:]), binary.BigEndian.Uint16(frame[head+2:])
	if t.Protocol == 1 {
		a = binary.BigEndian.Uint16(frame[head+4:])
		z = a
	}
	t.From, t.To = netip.AddrPortFrom(from, a), netip.AddrPortFrom(to, z)
	return t, nil
}
