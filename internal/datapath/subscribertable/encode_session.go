package subscribertable

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/internal/datapath"
	"weft/internal/state"
)

// sessionGroup is the number of sessions in a value of l2tp_sessions.
const sessionGroup = len(groupValue{}.Up)

// lnsLines are the map entries of one session, or pointers to them.
type lnsLines struct {
	down     *downLine
	up       *upLine
	downRest *downRest
	upRest   *upRest
}

// newLnsLines returns entries that are in no table.
func newLnsLines() lnsLines { return lnsLines{&downLine{}, &upLine{}, &downRest{}, &upRest{}} }

// lnsAt returns the session with an id.
func lnsAt(groups []groupValue, id uint16) lnsLines {
	g, i := &groups[int(id)/sessionGroup], int(id)%sessionGroup
	return lnsLines{&g.Down[i], &g.Up[i], &g.DownRest[i], &g.UpRest[i]}
}

func encodeSession(x state.L2TPSession) lnsLines {
	flags := uint8(l2tpKnown)
	for flag, set := range map[uint8]bool{
		l2tpWalledGarden: x.WalledGarden, l2tpBlocked: x.Blocked, l2tpTrusted: x.Trusted,
		l2tpSequence: x.Sequence, l2tpNoAddress: x.NoAddress, l2tpShortType: x.ShortType, l2tpCapture: x.Capture,
	} {
		if set {
			flags |= flag
		}
	}
	v := newLnsLines()
	down, up := v.down, v.up
	down.Flags, down.Lns, down.Tunnel, down.Mss, down.Rate = flags, uint8(x.LNS), x.Tunnel, x.MSS, rate(x.Down)
	up.Flags, up.Lns, up.Tunnel, up.Rate = flags, uint8(x.LNS), x.Tunnel, rate(x.Up)
	// upstream has flags of its own where downstream ones have no meaning
	up.Flags &^= l2tpSequence | l2tpSwitch
	if x.Numbered {
		up.Flags |= l2tpSequence
	}
	if x.SwitchedTo != 0 {
		up.Flags |= l2tpSwitch
		up.Ip4 = uint32(x.SwitchedTo)
	}
	down.Remote, down.Mtu = datapath.Wire16(x.Remote), x.MTU
	if x.IPv4.IsValid() && x.SwitchedTo == 0 {
		up.Ip4 = datapath.Wire32(x.IPv4)
	}
	if x.IPv6.IsValid() {
		v.downRest.Ip6.U8 = x.IPv6.As16()
	}
	n := 0
	for _, p := range x.Prefixes {
		if n < len(up.Bits6) && p.Addr().Is6() && p.Bits() > 0 && p.Bits() <= 64 {
			a := p.Masked().Addr().As16()
			v.upRest.Net6[n], up.Bits6[n] = binary.BigEndian.Uint64(a[:]), uint8(p.Bits())
			n++
		}
	}
	return v
}

// words are a line's or a rest's.
func words[V downLine | upLine | downRest | upRest](v *V) *[4]uint64 {
	return (*[4]uint64)(unsafe.Pointer(v))
}

// write writes a session's configuration, a word at a time, while programs read it:
// the words with the flags last, so that an entry that is marked as known is
// complete.
func (s lnsLines) write(v lnsLines) {
	type pair struct{ to, from *[4]uint64 }
	down, up := pair{words(s.down), words(v.down)}, pair{words(s.up), words(v.up)}
	for _, one := range []pair{{words(s.downRest), words(v.downRest)}, {words(s.upRest), words(v.upRest)}} {
		for i := range 2 { // the rest is the programs'
			atomic.StoreUint64(&one.to[i], one.from[i])
		}
	}
	for _, i := range []int{2, 3} { // what is counted comes first
		atomic.StoreUint64(&down.to[i], down.from[i])
		atomic.StoreUint64(&up.to[i], up.from[i])
	}
}

// clear makes a session one that has carried nothing.
func (s lnsLines) clear() {
	*s.down, *s.up, *s.downRest, *s.upRest = downLine{}, upLine{}, downRest{}, upRest{}
}

// forget makes programs ignore a session's entries.
func (s lnsLines) forget() {
	atomic.StoreUint64(&words(s.down)[3], 0)
	atomic.StoreUint64(&words(s.up)[3], 0)
}

// decode is the reverse of encodeSession, without the prefixes; false: there is none.
func (s lnsLines) decode(id uint16) (state.L2TPSession, bool) {
	down, up := s.down, s.up
	x := state.L2TPSession{
		Local: id, Remote: datapath.Wire16(down.Remote), Tunnel: down.Tunnel, LNS: int(down.Lns),
		MTU: down.Mtu, MSS: down.Mss, Up: uint64(up.Rate) * 1000, Down: uint64(down.Rate) * 1000,
		WalledGarden: down.Flags&l2tpWalledGarden != 0, Blocked: down.Flags&l2tpBlocked != 0, Trusted: down.Flags&l2tpTrusted != 0,
		Sequence: down.Flags&l2tpSequence != 0, NoAddress: down.Flags&l2tpNoAddress != 0, ShortType: down.Flags&l2tpShortType != 0,
		Capture: down.Flags&l2tpCapture != 0, Numbered: up.Flags&l2tpSequence != 0,
	}
	if up.Flags&l2tpSwitch != 0 {
		x.SwitchedTo = uint16(up.Ip4)
	} else if up.Ip4 != 0 {
		x.IPv4 = datapath.Addr4(up.Ip4)
	}
	if s.downRest.Ip6.U8 != [16]byte{} {
		x.IPv6 = netip.AddrFrom16(s.downRest.Ip6.U8)
	}
	return x, down.Flags&l2tpKnown != 0
}

// counters reads what a session has carried.
func (s lnsLines) counters(id uint16, rest *sessionState) state.LNSCounters {
	up, down := &s.up.Flow, &s.down.Flow
	c := state.LNSCounters{
		Local:     id,
		UpPackets: atomic.LoadUint64(&up.Packets), UpBytes: atomic.LoadUint64(&up.Bytes),
		DownPackets: atomic.LoadUint64(&down.Packets), DownBytes: atomic.LoadUint64(&down.Bytes),
		SeenUp:   time.Duration(atomic.LoadUint64(&s.upRest.Clock.Seen)),
		SeenDown: time.Duration(atomic.LoadUint64(&s.downRest.Clock.Seen)),
	}
	c.Uncaptured = uint64(atomic.LoadUint32(&rest.Uncaptured))
	for i := range c.Drops {
		c.Drops[i] = atomic.LoadUint64(&rest.Drops[i])
	}
	return c
}
