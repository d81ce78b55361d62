// Package allocationlog answers who had a port of a translator at a time (RFC 6888 section
// 4, RFC 7422): a log of the bindings that were made and ended, and the history of fixed
// port blocks, both over stores that the caller passes in. It is pure.
package allocationlog

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"
	"time"

	"weft/internal/state"
)

// Log is the log of who had which port when (RFC 6888 section 4): blocks of
// records, in the order of time. A binding is written when it is made and,
// whole, when it has ended: so what has ended is found by looking forward from
// a time, what has not by looking back.
type Log struct {
	store     Store
	retention retention
}

// Store keeps blocks in the order of their times, on the disk. The
// oldest go when they are from before a time, or too many.
type Store interface {
	Append(time uint64, block []byte, before uint64) error
	Forward(from uint64, see func(time uint64, block []byte) bool) error
	Backward(from uint64, see func(time uint64, block []byte) bool) error
}

// New returns the log in a store; what is older than keep is
// forgotten.
func New(store Store, keep time.Duration) *Log {
	return &Log{store, retention{keep: keep}}
}

// Marks say where in the events of the datapath a block ends.
type Marks struct {
	Epoch string // of the tables
	Lost  uint64 // events for which there was no room
}

// records are 44 bytes, in the order of their keys within a block:
//
//	0  address (4), port (2), protocol (1): the key
//	7  kind (1)
//	8  made, nanoseconds since 1970 (8)
//	16 ended, or of a gap its end (8)
//	24 node (16)
//	40 its port (2), translator (1), zero (1)
const (
	recordLen = 44
	keyLen    = 7
)

type recordKind byte

const (
	recordMade  recordKind = 1
	recordEnded recordKind = 2
	// without a key: events were lost in that time
	recordGap recordKind = 3
	// without a key: all that was bound at the first time had ended by the second
	recordRestart recordKind = 4
)

type record struct {
	kind        recordKind
	ipv4, ipv6  netip.AddrPort
	protocol    uint8
	translator  uint8
	made, ended int64
}

func recordKey(a netip.AddrPort, protocol uint8) []byte {
	if !a.IsValid() {
		return make([]byte, keyLen)
	}
	four := a.Addr().As4()
	return append(binary.BigEndian.AppendUint16(four[:], a.Port()), protocol)
}

func (r record) append(to []byte) []byte {
	to = append(append(to, recordKey(r.ipv4, r.protocol)...), byte(r.kind))
	to = binary.BigEndian.AppendUint64(to, uint64(r.made))
	to = binary.BigEndian.AppendUint64(to, uint64(r.ended))
	node := netip.IPv6Unspecified().As16()
	if r.ipv6.IsValid() {
		node = r.ipv6.Addr().As16()
	}
	to = binary.BigEndian.AppendUint16(append(to, node[:]...), r.ipv6.Port())
	return append(to, r.translator, 0)
}

func readRecord(b []byte) record {
	return record{
		kind: recordKind(b[7]), protocol: b[6],
		ipv4: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), binary.BigEndian.Uint16(b[4:])),
		made: int64(binary.BigEndian.Uint64(b[8:])), ended: int64(binary.BigEndian.Uint64(b[16:])),
		ipv6:       netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[24:])), binary.BigEndian.Uint16(b[40:])),
		translator: b[42],
	}
}

// block writes a block: where the events are, how long that is, the records.
func block(m Marks, records []record) []byte {
	slices.SortStableFunc(records, func(a, b record) int {
		return bytes.Compare(recordKey(a.ipv4, a.protocol), recordKey(b.ipv4, b.protocol))
	})
	out := binary.BigEndian.AppendUint64(nil, m.Lost)
	out = append(append(out, byte(len(m.Epoch))), m.Epoch...)
	for _, r := range records {
		out = r.append(out)
	}
	return out
}

// readBlock takes a block apart; of one that is cut there are no records.
func readBlock(b []byte) (m Marks, records []byte) {
	if len(b) < 9 || len(b) < 9+int(b[8]) {
		return m, nil
	}
	end := 9 + int(b[8])
	m = Marks{string(b[9:end]), binary.BigEndian.Uint64(b)}
	records = b[end:]
	return m, records[:len(records)/recordLen*recordLen]
}

// recordsOf returns the records of a key, which lie side by side.
func recordsOf(records, key []byte) (list []record) {
	n := len(records) / recordLen
	at := sort.Search(n, func(i int) bool { return bytes.Compare(records[i*recordLen:i*recordLen+keyLen], key) >= 0 })
	for ; at < n && bytes.Equal(records[at*recordLen:at*recordLen+keyLen], key); at++ {
		list = append(list, readRecord(records[at*recordLen:]))
	}
	return list
}

// Add writes events, up to where m says that the reader is.
func (a *Log) Add(now time.Time, m Marks, events []state.BindingEvent) error {
	records := make([]record, 0, len(events))
	for _, e := range events {
		r := record{kind: recordMade, ipv4: e.IPv4, ipv6: e.IPv6, protocol: e.Protocol, translator: uint8(e.Translator), made: e.Since.UnixNano()}
		if !e.Made {
			r.kind, r.ended = recordEnded, e.At.UnixNano()
		}
		records = append(records, r)
	}
	return a.write(now, m, records)
}

// Gap writes that events were lost since a time; bound are the bindings that
// have been made since and are still there.
func (a *Log) Gap(now, since time.Time, m Marks, bound []state.BindingEvent) error {
	if err := a.Add(now, m, bound); err != nil {
		return err
	}
	return a.write(now, m, []record{{kind: recordGap, made: since.UnixNano(), ended: now.UnixNano()}})
}

// Restart writes that the tables are new ones: what was bound has ended.
func (a *Log) Restart(now, since time.Time, m Marks) error {
	return a.write(now, m, []record{{kind: recordRestart, made: since.UnixNano(), ended: now.UnixNano()}})
}

func (a *Log) write(now time.Time, m Marks, records []record) error {
	var newest time.Time
	if a.retention.last.IsZero() {
		var err error
		if newest, _, _, err = a.Last(); err != nil {
			return err
		}
	}
	return a.store.Append(nanoseconds(now), block(m, records), a.retention.oldest(now, newest))
}

// Last returns the marks of the newest block, and its time.
func (a *Log) Last() (at time.Time, m Marks, found bool, err error) {
	err = a.store.Backward(1<<63, func(t uint64, b []byte) bool {
		m, _ = readBlock(b)
		at, found = time.Unix(0, int64(t)), true
		return false
	})
	return at, m, found, err
}

// Holder is an answer to the question who had a port.
type Holder struct {
	Translator int
	Protocol   uint8
	IPv6, IPv4 netip.AddrPort
	Made       time.Time
	Ended      time.Time // zero: not known to have ended
	Uncertain  bool      // events were lost around that time
}

// rounding is how far times may be off: they are kept in ticks of 67 ms.
const rounding = 100 * time.Millisecond

// Who returns who had a port at a time.
func (a *Log) Who(ipv4 netip.AddrPort, protocol uint8, at time.Time) (Holder, bool, error) {
	key, t := recordKey(ipv4, protocol), at.UnixNano()
	var h Holder
	var found, over, gap bool
	var late *record
	hold := func(r record) {
		h = Holder{int(r.translator), r.protocol, r.ipv6, r.ipv4, time.Unix(0, r.made), time.Time{}, gap}
		if r.ended != 0 {
			h.Ended = time.Unix(0, r.ended)
		}
		found = true
	}
	// who ended after that time, and was there before it?
	err := a.store.Forward(uint64(t), func(_ uint64, b []byte) bool {
		_, records := readBlock(b)
		for _, r := range recordsOf(records, make([]byte, keyLen)) {
			gap = gap || r.kind == recordGap && r.made <= t && t <= r.ended
			over = over || r.kind == recordRestart && r.made >= t
		}
		for _, r := range recordsOf(records, key) {
			switch {
			case r.kind == recordEnded && r.made <= t+int64(rounding) && r.ended >= t-int64(rounding):
				hold(r)
				return false
			case r.made > t+int64(rounding):
				over = true // a later binding of the port
			case r.kind == recordEnded:
				late = nil // that was over already
			case r.kind == recordMade && !over:
				late = &r // written after that time, as after a pause
			}
		}
		return !over
	})
	if err == nil && !found && late != nil {
		hold(*late)
	}
	if err != nil || found {
		return h, found, err
	}
	// who had begun, and had not ended?
	err = a.store.Backward(uint64(at.Add(time.Minute).UnixNano()), func(_ uint64, b []byte) bool {
		_, records := readBlock(b)
		var best *record
		stop := false
		for _, r := range recordsOf(records, key) {
			if r.made > t+int64(rounding) {
				continue
			}
			stop = true
			if best == nil || r.made > best.made || r.made == best.made && r.kind == recordEnded {
				best = &r
			}
		}
		for _, r := range recordsOf(records, make([]byte, keyLen)) {
			gap = gap || r.kind == recordGap && r.made <= t && t <= r.ended
			stop = stop || r.kind == recordRestart && r.ended <= t
		}
		if best != nil && best.kind == recordMade {
			hold(*best)
		}
		return !stop
	})
	return h, found, err
}
