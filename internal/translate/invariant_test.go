package translate_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"weft/internal/state"
	"weft/internal/translate"
	"weft/wire/checksum/checksumtest"
)

// This file says, without the translator's own code, what must hold for every
// packet and its translation.

// view is what a packet carries beneath its headers.
type view struct {
	src, dst netip.Addr
	protocol byte // 58 and 1 both as they are
	payload  []byte
	offset   int
	more     bool
	fragment bool // has fragment header or fields
	ok       bool // parsed to the end of the headers
}

func be16(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

func see6(pkt []byte) view {
	if len(pkt) < 40 || pkt[0]>>4 != 6 || 40+be16(pkt[4:]) > len(pkt) {
		return view{}
	}
	pkt = pkt[:40+be16(pkt[4:])]
	v := view{src: netip.AddrFrom16([16]byte(pkt[8:24])), dst: netip.AddrFrom16([16]byte(pkt[24:40]))}
	next, rest := pkt[6], pkt[40:]
	for next == 0 || next == 43 || next == 44 || next == 60 {
		if len(rest) < 8 {
			return view{}
		}
		length := 8
		if next == 44 {
			v.fragment, v.offset, v.more = true, be16(rest[2:])&^7, rest[3]&1 != 0
		} else if length += 8 * int(rest[1]); length > len(rest) {
			return view{}
		}
		next, rest = rest[0], rest[length:]
	}
	v.protocol, v.payload, v.ok = next, rest, true
	return v
}

func see4(pkt []byte) view {
	if len(pkt) < 20 || pkt[0]>>4 != 4 {
		return view{}
	}
	ihl, total := int(pkt[0]&15)*4, be16(pkt[2:])
	if ihl < 20 || total < ihl || total > len(pkt) {
		return view{}
	}
	word := be16(pkt[6:])
	return view{src: netip.AddrFrom4([4]byte(pkt[12:16])), dst: netip.AddrFrom4([4]byte(pkt[16:20])),
		protocol: pkt[9], payload: pkt[ihl:total], offset: word & 0x1fff * 8, more: word&0x2000 != 0,
		fragment: word&0x3fff != 0, ok: true}
}

func (v view) whole() bool { return v.ok && v.offset == 0 && !v.more }

// sound reports whether the transport checksum is right; known is false where
// there is none to judge.
func (v view) sound() (right, known bool) {
	length := len(v.payload)
	var at int
	switch v.protocol {
	case 6:
		at = 18
	case 17:
		if length < 8 {
			return false, false
		}
		if length = be16(v.payload[4:]); length > len(v.payload) || length < 8 || be16(v.payload[6:]) == 0 {
			return false, false
		}
	case 1, 58:
		at = 8
	default:
		return false, false
	}
	if len(v.payload) < at {
		return false, false
	}
	if v.protocol == 1 {
		return onesSum(v.payload) == 0xffff, true
	}
	header := append(v.src.AsSlice(), v.dst.AsSlice()...)
	header = binary.BigEndian.AppendUint32(header, uint32(length))
	return onesSum(header, []byte{0, v.protocol}, v.payload[:length]) == 0xffff, true
}

// join puts the fragments of one packet together, which must follow each other.
func join(views []view) (view, error) {
	out := views[0]
	out.payload = bytes.Clone(out.payload)
	for i, v := range views {
		if !v.ok {
			return view{}, fmt.Errorf("packet %d does not parse", i)
		}
		if i == 0 {
			continue
		}
		if v.offset != out.offset+len(out.payload) || v.src != out.src || v.dst != out.dst ||
			v.protocol != out.protocol || !views[i-1].more {
			return view{}, fmt.Errorf("fragment %d does not continue the one before", i)
		}
		out.payload, out.more = append(out.payload, v.payload...), v.more
	}
	return out, nil
}

func checkHeader4(pkt []byte) error {
	if len(pkt) < 20 || pkt[0] != 0x45 || be16(pkt[2:]) != len(pkt) {
		return fmt.Errorf("bad IPv4 header or length: %x", pkt)
	}
	if onesSum(pkt[:20]) != 0xffff {
		return fmt.Errorf("IPv4 header checksum is wrong: %x", pkt[:20])
	}
	return nil
}

func checkHeader6(pkt []byte) error {
	if len(pkt) < 40 || pkt[0]>>4 != 6 || 40+be16(pkt[4:]) != len(pkt) {
		return fmt.Errorf("bad IPv6 header or length: %x", pkt)
	}
	return nil
}

// checkOutcome returns what the parts of a Result have to do with each other.
func checkOutcome(r translate.Result, forward state.Outcome) error {
	if r.Outcome == state.OutcomeNone || r.Outcome >= state.OutcomeCount {
		return fmt.Errorf("outcome %d", r.Outcome)
	}
	if (r.Outcome == forward) != (len(r.Out) > 0) {
		return fmt.Errorf("%v with %d packets", r.Outcome, len(r.Out))
	}
	if r.Reply != nil && r.Outcome.Verdict() != state.Drop {
		return fmt.Errorf("%v with a reply", r.Outcome)
	}
	return nil
}

// compare holds the packet that came in against those that went out.
func compare(in view, outs []view, lengthMayChange bool) error {
	out, err := join(outs)
	if err != nil {
		return err
	}
	if in.offset != out.offset || in.more != out.more {
		return fmt.Errorf("offset %d more %v became %d %v", in.offset, in.more, out.offset, out.more)
	}
	if !lengthMayChange && len(in.payload) != len(out.payload) {
		return fmt.Errorf("payload of %d bytes became %d", len(in.payload), len(out.payload))
	}
	if !in.whole() {
		return nil
	}
	inRight, inKnown := in.sound()
	outRight, outKnown := out.sound()
	if inKnown && (!outKnown || inRight != outRight) {
		return fmt.Errorf("checksum was right: %v, is right: %v (known %v)", inRight, outRight, outKnown)
	}
	return nil
}

// check6 runs an IPv6 packet through c and says what is wrong with the result.
func check6(c *translate.Config, pkt []byte) (translate.Result, error) {
	before := bytes.Clone(pkt)
	r := c.Translate6(pkt)
	if !bytes.Equal(pkt, before) {
		return r, fmt.Errorf("the packet was written to")
	}
	if err := checkOutcome(r, state.Forward6to4); err != nil {
		return r, err
	}
	if err := checkReply6(c, pkt, r.Reply); err != nil || len(r.Out) == 0 {
		return r, err
	}
	var outs []view
	for _, p := range r.Out {
		if err := checkHeader4(p); err != nil {
			return r, err
		}
		if c.MTU4 != 0 && len(p) > c.MTU4 {
			return r, fmt.Errorf("%d bytes on a link of %d", len(p), c.MTU4)
		}
		outs = append(outs, see4(p))
	}
	in := see6(pkt)
	return r, compare(in, outs, in.protocol == 58 && in.payload[0] < 128)
}

// check4 is check6 for IPv4 packets.
func check4(c *translate.Config, pkt []byte) (translate.Result, error) {
	before := bytes.Clone(pkt)
	r := c.Translate4(pkt)
	if !bytes.Equal(pkt, before) {
		return r, fmt.Errorf("the packet was written to")
	}
	if err := checkOutcome(r, state.Forward4to6); err != nil {
		return r, err
	}
	if err := checkReply4(c, pkt, r.Reply); err != nil || len(r.Out) == 0 {
		return r, err
	}
	var outs []view
	for _, p := range r.Out {
		if err := checkHeader6(p); err != nil {
			return r, err
		}
		if c.MTU6 != 0 && len(p) > c.MTU6 {
			return r, fmt.Errorf("%d bytes on a link of %d", len(p), c.MTU6)
		}
		v := see6(p)
		if v.fragment != (len(r.Out) > 1 || see4(pkt).fragment) {
			return r, fmt.Errorf("fragment header: %v", v.fragment)
		}
		outs = append(outs, v)
	}
	in := see4(pkt)
	return r, compare(in, outs, in.protocol == 1 && in.payload[0] != 0 && in.payload[0] != 8)
}

func checkReply6(c *translate.Config, pkt, reply []byte) error {
	if reply == nil {
		return nil
	}
	if err := checkHeader6(reply); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	v, in := see6(reply), see6(pkt)
	if right, known := v.sound(); !right || !known || v.protocol != 58 || v.payload[0] > 4 || len(reply) > 1280 {
		return fmt.Errorf("reply is no ICMPv6 error: %x", reply)
	}
	if v.dst != netip.AddrFrom16([16]byte(pkt[8:24])) || v.src != c.Router6 || !bytes.HasPrefix(pkt, v.payload[8:]) {
		return fmt.Errorf("reply goes astray or misquotes: %x", reply)
	}
	if in.ok && in.protocol == 58 && in.offset == 0 && len(in.payload) > 0 && in.payload[0] < 128 {
		return fmt.Errorf("an error was answered with an error")
	}
	return nil
}

func checkReply4(c *translate.Config, pkt, reply []byte) error {
	if reply == nil {
		return nil
	}
	if err := checkHeader4(reply); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	v, in := see4(reply), see4(pkt)
	if right, known := v.sound(); !right || !known || v.protocol != 1 || len(reply) > 576 {
		return fmt.Errorf("reply is no ICMPv4 error: %x", reply)
	}
	if v.dst != in.src || v.src != c.Router4 || !bytes.HasPrefix(pkt, v.payload[8:]) {
		return fmt.Errorf("reply goes astray or misquotes: %x", reply)
	}
	if in.offset != 0 || in.protocol == 1 && bytes.IndexByte([]byte{3, 4, 5, 11, 12}, in.payload[0]) >= 0 {
		return fmt.Errorf("a fragment or an error was answered with an error")
	}
	return nil
}

// onesSum is the sum that the second implementation of the checksum gives.
func onesSum(parts ...[]byte) int { return int(^checksumtest.Of(parts...)) }
