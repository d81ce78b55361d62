package netfilter

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Messages and attributes of nftables' tracing (linux/netfilter/nf_tables.h,
// enum nft_trace_attributes).
const (
	groupNFTrace   = 9          // NFNLGRP_NFTRACE
	nftTrace       = 10<<8 | 17 // NFNL_SUBSYS_NFTABLES, NFT_MSG_TRACE
	nfDrop         = uint32(0)  // NF_DROP
	traceTable     = 1
	traceChain     = 2
	traceHandle    = 3
	traceType      = 4
	traceVerdict   = 5
	traceID        = 6
	traceNetwork   = 8
	traceTransport = 9
	traceIIF       = 10
	tracePolicy    = 16

	traceTypePolicy = 1 // NFT_TRACETYPE_POLICY
	traceTypeRule   = 3 // NFT_TRACETYPE_RULE
	verdictCode     = 1 // NFTA_VERDICT_CODE

	familyInet, familyIPv4, familyIPv6 = 1, 2, 10 // NFPROTO_*
)

// Refusals are the events of packets that the ruleset refuses.
type Refusals struct {
	*netfilterEvents
	open map[uint32]state.RefusedPacket // traced packets by the kernel's number for them
}

// openMax limits the packets whose verdict is awaited.
const openMax = 4096

// OpenRefusals opens them. Follow must run for events to be read.
func OpenRefusals() (*Refusals, error) {
	n, err := subscribeNetfilter(groupNFTrace, true)
	if err != nil {
		return nil, fmt.Errorf("subscribe to nftables' tracing: %w", err)
	}
	return &Refusals{n, map[uint32]state.RefusedPacket{}}, nil
}

// Wake receives after events have come.
func (r *Refusals) Wake() <-chan struct{} { return r.wake }

// Close closes the socket.
func (r *Refusals) Close() error { return r.socket.Close() }

// Follow reads events until ctx ends.
func (r *Refusals) Follow(ctx context.Context) { r.follow(ctx) }

// Take calls use for refused packets, from at most that many messages.
func (r *Refusals) Take(most int, use func(state.RefusedPacket)) {
	queue, err := r.oldest(most)
	if err != nil {
		clear(r.open) // a sample is a sample
	}
	for _, piece := range queue {
		for h, b := range nlconn.Messages(piece) {
			if h.Type == nftTrace {
				r.take(b, use)
			}
		}
	}
}

func (r *Refusals) take(b []byte, use func(state.RefusedPacket)) {
	t, err := parseTrace(b)
	if err != nil {
		return
	}
	if t.table == state.RefusalTable {
		if p, ok := t.packet(); ok {
			if len(r.open) >= openMax {
				clear(r.open)
			}
			r.open[t.id] = p
		}
		return
	}
	p, known := r.open[t.id]
	if !known {
		return // traced by another program
	}
	if to := t.destination(); to.IsValid() {
		p.To = to
		r.open[t.id] = p
	}
	switch {
	case t.family != familyInet && t.family != familyIPv4 && t.family != familyIPv6:
		delete(r.open, t.id) // bridges and devices decide on frames
	case t.verdict == nfDrop && (t.kind == traceTypeRule || t.kind == traceTypePolicy):
		delete(r.open, t.id)
		p.Family, p.Table, p.Chain, p.Rule = t.family, t.table, t.chain, t.rule
		use(p)
	}
}

// traced is one message.
type traced struct {
	family             uint8
	id, kind, verdict  uint32
	iif                uint32
	rule               uint64
	table, chain       string
	network, transport []byte
}

// parseTrace reads the body of an NFT_MSG_TRACE. Its numbers are in network
// byte order.
func parseTrace(b []byte) (traced, error) {
	t := traced{verdict: ^uint32(0)}
	if len(b) < sizeofNfgenmsg {
		return t, nlconn.ErrShort
	}
	t.family = b[0]
	for kind, v := range nlconn.Attributes(b[sizeofNfgenmsg:]) {
		switch kind {
		case traceTable:
			t.table = nlconn.Text(v)
		case traceChain:
			t.chain = nlconn.Text(v)
		case traceHandle:
			if len(v) == 8 {
				t.rule = binary.BigEndian.Uint64(v)
			}
		case traceType:
			t.kind = big32(v)
		case traceID:
			t.id = big32(v)
		case traceIIF:
			t.iif = big32(v)
		case traceNetwork:
			t.network = v
		case traceTransport:
			t.transport = v
		case tracePolicy:
			t.verdict = big32(v)
		case traceVerdict:
			for inner, code := range nlconn.Attributes(v) {
				if inner == verdictCode && len(code) == 4 {
					t.verdict = big32(code)
				}
			}
		}
	}
	return t, nil
}

func big32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// destination is the packet's destination as this chain sees it.
func (t traced) destination() (a netip.Addr) {
	switch {
	case len(t.network) >= 20 && t.network[0]>>4 == 4:
		return nlconn.Address(t.network[16:20])
	case len(t.network) >= 40 && t.network[0]>>4 == 6:
		return nlconn.Address(t.network[24:40])
	}
	return a
}

// packet is the flow of a traced packet as it arrives: without options, whole,
// with ports or an echo's identifier, as the programs know flows.
func (t traced) packet() (p state.RefusedPacket, ok bool) {
	n, h := t.network, t.transport
	if len(h) < 8 || t.iif == 0 {
		return p, false
	}
	var protocol uint8
	switch {
	case len(n) >= 20 && n[0] == 0x45 && binary.BigEndian.Uint16(n[6:])&0x3fff == 0:
		protocol = n[9]
		p.Tuple.Src, p.Tuple.Dst = nlconn.Address(n[12:16]).As16(), nlconn.Address(n[16:20]).As16()
	case len(n) >= 40 && n[0]>>4 == 6:
		protocol = n[6]
		p.Tuple.Src, p.Tuple.Dst = [16]byte(n[8:24]), [16]byte(n[24:40])
	default:
		return p, false
	}
	p.Interface, p.Tuple.Protocol = t.iif, protocol
	switch protocol {
	case unix.IPPROTO_TCP:
		if len(h) < 14 {
			return p, false
		}
		p.Opens = h[13]&0x17 == 0x02 // SYN, and neither ACK, RST nor FIN
		fallthrough
	case unix.IPPROTO_UDP:
		p.Tuple.SrcPort, p.Tuple.DstPort = binary.BigEndian.Uint16(h), binary.BigEndian.Uint16(h[2:])
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		p.Tuple.SrcPort, p.Tuple.DstPort = binary.BigEndian.Uint16(h[4:]), uint16(h[0])
		if echo := h[0] == 8 || h[0] == 0; protocol == unix.IPPROTO_ICMP && !echo || h[1] != 0 {
			return p, false
		}
		if echo := h[0] == 128 || h[0] == 129; protocol == unix.IPPROTO_ICMPV6 && !echo {
			return p, false
		}
	default:
		return p, false
	}
	return p, protocol != unix.IPPROTO_TCP || p.Opens
}
