package datapathtest

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"weft/internal/state"
)

// road is one way through the programs; every vector goes along all of them
// that take its family.
type Variant struct {
	Name    string
	Program string
	Bypass  bool
	Takes4  bool // translates IPv4; the stack does without (it routes to translator_egress)
}

func Variants() []Variant {
	return []Variant{
		{"xdp", "ingress_xdp", true, true},
		{"tc", "ingress_tc", true, true},
		{"tc to the stack", "ingress_tc", false, false},
		{"translator", "translator_egress", false, true},
	}
}

func IsIPv4(ip []byte) bool { return len(ip) > 0 && ip[0]>>4 == 4 }

// side returns the device that a packet of a family comes in by.
func Side(ip []byte) string {
	if IsIPv4(ip) {
		return "wan"
	}
	return "lan"
}

// from returns the device that a packet came by; none if this host made it, as
// all IPv6 that the stack routes to the translator's device.
func (r Variant) From(ip []byte) string {
	if r.Name == "translator" && !IsIPv4(ip) {
		return ""
	}
	return Side(ip)
}

// meets returns what a road makes of a packet that is to meet outcome, which is
// that of the translation itself: Forward6to4, Forward4to6, slow, pass or drop.
func (r Variant) Meets(outcome state.Outcome, ipv4 bool) state.Outcome {
	switch {
	case outcome == state.Forward6to4 && r.Bypass:
		return state.Forward6to4Bypass
	case outcome == state.Forward4to6 && r.Bypass:
		return state.Forward4to6Bypass
	case outcome.Verdict() == state.Slow && (r.Name == "xdp" || r.Bypass && ipv4):
		return state.PassSlow
	case outcome == state.PassNotTranslated && r.Name == "translator":
		return state.DropDestinationUnmapped
	}
	return outcome
}

// verdict returns what the program must return for an outcome.
func (r Variant) Verdict(o state.Outcome) uint32 {
	const next = 1<<32 - 1 // TCX_NEXT, -1
	codes := map[state.Verdict]uint32{state.Forward: 7, state.Slow: 7, state.Pass: next, state.Drop: 2}
	switch {
	case r.Name == "xdp": // XDP_REDIRECT, XDP_PASS, XDP_DROP
		codes = map[state.Verdict]uint32{state.Forward: 4, state.Pass: 2, state.Drop: 1}
	case r.Name == "translator":
		codes[state.Slow] = next
		if o == state.PassToStack {
			return 7
		}
		if o.Verdict() == state.Pass {
			return 2 // no other host is behind the device
		}
	}
	return codes[o.Verdict()]
}

// outcome returns the one outcome that was counted.
func (r Variant) Outcome(res Result) (state.Outcome, error) {
	if res.Err != nil {
		return 0, res.Err
	}
	if len(res.Counted) != 1 {
		return 0, fmt.Errorf("counted %v, want one counter up by one", res.Counted)
	}
	for o := range state.OutcomeCount {
		if res.Counted[r.Program+" "+o.String()] == 1 {
			return o, nil
		}
	}
	return 0, fmt.Errorf("counted %v, want a counter of %s up by one", res.Counted, r.Program)
}

// Check compares the result for frame with the outcome and, if the packet is
// translated, with the packet wanted; its TTL is as it came. A packet that is not
// translated must be unchanged. The identification of an IPv4 packet is not
// compared.
func (r Variant) Check(b *Bench, frame []byte, res Result, want state.Outcome, packet []byte) error {
	got, err := r.Outcome(res)
	if err != nil {
		return err
	}
	if packet != nil && (got.Verdict() == state.Forward || got == state.PassToStack) {
		frame = r.leaves(b, frame, res.Frame, got, packet)
	}
	if got.Verdict() == state.Slow && r.Name != "xdp" {
		if frame, err = b.noted(frame, res.Frame, got); err != nil {
			return err
		}
	}
	return Differs(res, got, want, r.Verdict(got), frame)
}

// noted returns frame with the note for the slow path that a program has made of
// its link addresses (struct slow_note of bpf/lib/slow.h), if that is right.
func (b *Bench) noted(frame, got []byte, o state.Outcome) ([]byte, error) {
	if len(got) < 14 || got[0] != 0x06 || got[1] != 'w' || state.Outcome(got[2]) != o {
		return nil, fmt.Errorf("%s has no note of it: %x", o, got[:min(len(got), 14)])
	}
	in, index := binary.BigEndian.Uint16(got[6:]), binary.BigEndian.Uint32(got[8:])
	wantIn := uint16(0)
	for _, l := range b.Links {
		if l.Index == int(index) {
			wantIn = uint16(l.MTU)
		}
	}
	if in != wantIn || index != 0 && wantIn == 0 {
		return nil, fmt.Errorf("%s came by interface %d with MTU %d: want %d", o, index, in, wantIn)
	}
	return append(bytes.Clone(got[:12]), frame[12:]...), nil
}

// leaves returns the frame that carries packet away on this path.
func (r Variant) leaves(b *Bench, frame, got []byte, o state.Outcome, packet []byte) []byte {
	packet = bytes.Clone(packet)
	out := "wan"
	if IsIPv4(packet) {
		if len(got) >= 14+20 {
			copy(packet[4:6], got[14+4:14+6])
		}
	} else {
		out = "lan"
	}
	if o == state.Forward6to4Bypass || o == state.Forward4to6Bypass {
		packet = FewerHops(packet)
	}
	if IsIPv4(packet) {
		Healed(packet)
	}
	macs := bytes.Clone(frame[:12])
	switch {
	case r.Name == "xdp":
		from, to := b.Links[out].MAC, map[string][6]byte{"lan": Mac6, "wan": Mac4}[out]
		macs = append(append([]byte{}, to[:]...), from[:]...)
	case o == state.Forward6to4 && r.Name != "translator":
		mac := b.Links["nat64-main"].MAC
		for _, d := range b.Desired {
			if d, ok := d.(state.Device); ok {
				mac = d.MAC
			}
		}
		copy(macs, mac[:])
	}
	kind := uint16(0x86dd)
	if IsIPv4(packet) {
		kind = 0x0800
	}
	return append(binary.BigEndian.AppendUint16(macs, kind), packet...)
}

// fewerHops returns packet with its TTL one lower.
func FewerHops(packet []byte) []byte {
	if IsIPv4(packet) {
		packet[8]--
	} else {
		packet[7]--
	}
	return packet
}

// takeVariant prepares the tables for a road.
func (b *Bench) TakeVariant(r Variant) {
	b.T.Helper()
	b.SetPorts(func(p *state.IngressEntry) { p.Roles = p.Roles.With(state.RoleBypass, r.Bypass) })
}

// Differs explains how a result differs from what was wanted.
func Differs(res Result, got, want state.Outcome, verdict uint32, frame []byte) error {
	switch {
	case got != want:
		return fmt.Errorf("met %s, want %s", got, want)
	case res.Verdict != verdict:
		return fmt.Errorf("returned %d for %s, want %d", int32(res.Verdict), got, int32(verdict))
	case !bytes.Equal(res.Frame, frame):
		return fmt.Errorf("%s made\n     %x, want\n     %x", got, res.Frame, frame)
	}
	return nil
}
