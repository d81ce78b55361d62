package allocationlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Layout says which subscriber has which ports for good (RFC 7422). It is kept
// as JSON: the names of its fields stay.
type Layout struct {
	Pools          []LayoutPool   `json:"pools"`
	Block          int            `json:"port_block"`
	Subscribers    netip.Prefix   `json:"subscribers"`
	SubscriberBits int            `json:"subscriber_prefix_len"`
	Static         []LayoutStatic `json:"static,omitempty"`
}

// LayoutPool is a pool as blocks are counted in it.
type LayoutPool struct {
	IPv4 netip.Prefix `json:"ipv4"`
	Low  uint16       `json:"low"`
	High uint16       `json:"high"`
}

// LayoutStatic is a static binding, which may lie in anybody's block.
type LayoutStatic struct {
	Protocol uint8          `json:"protocol"`
	IPv6     netip.AddrPort `json:"ipv6"`
	IPv4     netip.AddrPort `json:"ipv4"`
}

// Owner returns the subscriber that has a port of a protocol: the reverse of
// what the programs do.
func (l Layout) Owner(a netip.AddrPort) (netip.Prefix, bool) {
	number, ours := uint64(0), false
	for _, p := range l.Pools {
		blocks := uint64(int(p.High)-int(p.Low)+1) / uint64(l.Block)
		if !p.IPv4.Contains(a.Addr()) {
			number += blocks << (32 - p.IPv4.Bits())
			continue
		}
		block := uint64(a.Port()-p.Low) / uint64(l.Block)
		if a.Port() < p.Low || a.Port() > p.High || block >= blocks {
			return netip.Prefix{}, false
		}
		four, base := a.Addr().As4(), p.IPv4.Masked().Addr().As4()
		number += uint64(binary.BigEndian.Uint32(four[:])-binary.BigEndian.Uint32(base[:]))*blocks + block
		ours = true
		break
	}
	if !ours || number>>(l.SubscriberBits-l.Subscribers.Bits()) != 0 {
		return netip.Prefix{}, false
	}
	prefix := l.Subscribers.Masked().Addr().As16()
	high := binary.BigEndian.Uint64(prefix[:]) | number<<(64-l.SubscriberBits)
	binary.BigEndian.PutUint64(prefix[:], high)
	return netip.PrefixFrom(netip.AddrFrom16(prefix), l.SubscriberBits), true
}

// Static gives the node that a port of a protocol is bound to for good.
func (l Layout) StaticOwner(a netip.AddrPort, protocol uint8) (netip.AddrPort, bool) {
	for _, s := range l.Static {
		if s.IPv4 == a && s.Protocol == protocol {
			return s.IPv6, true
		}
	}
	return netip.AddrPort{}, false
}

// Has reports whether a node may have a port.
func (l Layout) Has(node, a netip.AddrPort, protocol uint8) bool {
	if to, ok := l.StaticOwner(a, protocol); ok {
		return to == node
	}
	owner, ok := l.Owner(a)
	return ok && owner.Contains(node.Addr())
}

// String is the form in messages to syslog collectors.
func (l Layout) String() string {
	var pools []string
	for _, p := range l.Pools {
		pools = append(pools, fmt.Sprintf("%s:%d-%d", p.IPv4, p.Low, p.High))
	}
	return fmt.Sprintf("port_block=%d subscribers=%s subscriber_prefix_len=%d pools=%s", l.Block, l.Subscribers, l.SubscriberBits, strings.Join(pools, ","))
}

// LayoutStore keeps notes under their times, on the disk.
type LayoutStore interface {
	Note(time uint64, text []byte, before uint64) error
	Notes(see func(time uint64, text []byte) bool) error
}

// Layouts is the history of the fixed blocks: from when on which was in force.
type Layouts struct {
	store     LayoutStore
	retention retention
}

// NewLayouts returns the history in a store; what was over longer ago than keep
// is forgotten.
func NewLayouts(store LayoutStore, keep time.Duration) *Layouts {
	return &Layouts{store, retention{keep: keep}}
}

// layoutNote says which layouts are in force from its time on, all of them: the
// history is whole as long as the last note from before a time is there.
type layoutNote map[string]Layout // by translator

// Term is a layout and when it was in force.
type Term struct {
	Translator  string
	Layout      Layout
	From, Until time.Time // until is zero if it is still
}

// sound refuses what no configuration can have said.
func (n layoutNote) sound() error {
	for name, l := range n {
		width := l.SubscriberBits - l.Subscribers.Bits()
		if l.Block < 1 || !l.Subscribers.IsValid() || !l.Subscribers.Addr().Is6() || width < 0 || width > 32 || l.SubscriberBits > 64 {
			return fmt.Errorf("the blocks of %s cannot be", name)
		}
		for _, p := range l.Pools {
			if !p.IPv4.IsValid() || !p.IPv4.Addr().Is4() || p.High < p.Low {
				return fmt.Errorf("the pools of %s cannot be", name)
			}
		}
	}
	return nil
}

func (l *Layouts) notes() (times []time.Time, notes []layoutNote, err error) {
	var broken error
	err = l.store.Notes(func(at uint64, text []byte) bool {
		var n layoutNote
		if broken = errors.Join(json.Unmarshal(text, &n), n.sound()); broken != nil {
			broken = fmt.Errorf("read the layout of %s: %w", time.Unix(0, int64(at)).UTC().Format(time.RFC3339), broken)
			return false
		}
		times, notes = append(times, time.Unix(0, int64(at))), append(notes, n)
		return true
	})
	if err == nil {
		err = broken
	}
	return times, notes, err
}

// LayoutChange is what Set has found: the names of translators.
type LayoutChange struct {
	Fixed   []string // have blocks now, and had none
	Free    []string // have none any more
	Changed []string // have others
}

// Set returns which layouts are in force from now on.
func (l *Layouts) Set(now time.Time, present map[string]Layout) (c LayoutChange, err error) {
	_, notes, err := l.notes()
	if err != nil {
		return c, err
	}
	var was layoutNote
	if len(notes) > 0 {
		was = notes[len(notes)-1]
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		old, had := was[name]
		switch {
		case !had:
			c.Fixed = append(c.Fixed, name)
		case !old.equal(present[name]):
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, has := present[name]; !has {
			c.Free = append(c.Free, name)
		}
	}
	if len(c.Fixed)+len(c.Free)+len(c.Changed) == 0 {
		return c, nil
	}
	text, err := json.Marshal(layoutNote(present))
	if err != nil {
		return c, err
	}
	return c, l.store.Note(nanoseconds(now), text, l.retention.oldest(now, time.Time{}))
}

func (l Layout) equal(o Layout) bool {
	return l.Block == o.Block && l.Subscribers == o.Subscribers && l.SubscriberBits == o.SubscriberBits &&
		slices.Equal(l.Pools, o.Pools) && slices.Equal(l.Static, o.Static)
}

// At returns the layouts that were in force at a time, with both where one
// followed another just then.
func (l *Layouts) At(t time.Time) (list []Term, err error) {
	times, notes, err := l.notes()
	if err != nil {
		return nil, err
	}
	// the note of each name's present term
	open := map[string]Term{}
	end := func(term Term, until time.Time) {
		term.Until = until
		if !term.From.After(t.Add(rounding)) && (until.IsZero() || until.After(t.Add(-rounding))) {
			list = append(list, term)
		}
	}
	for i, n := range notes {
		for _, name := range slices.Sorted(maps.Keys(open)) {
			if now, still := n[name]; !still || !now.equal(open[name].Layout) {
				end(open[name], times[i])
				delete(open, name)
			}
		}
		for name, layout := range n {
			if _, known := open[name]; !known {
				open[name] = Term{Translator: name, Layout: layout, From: times[i]}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		end(open[name], time.Time{})
	}
	return list, nil
}
