package nat64table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"weft/internal/datapath"
	"weft/internal/state"
)

// changesBytes is the size of the ring buffer of session events for other routers:
// about 14,000 events.
const changesBytes = 1 << 20

// Sharer exports session events to other routers and imports theirs (session
// synchronisation).
type Sharer struct {
	datapath Table
	program  *ebpf.Program
	records  *ebpf.Map
	sessions *ebpf.Map
	lost     *ebpf.Map
	ring     *ringbuf.Reader
	now      func() uint32 // ticks

	mu     sync.Mutex // one run at a time: there is one table of records
	keys   []uint32
	values []sessionValue
	record ringbuf.Record
}

// Sharer opens it; Close releases it.
func (d Table) Sharer() (*Sharer, error) {
	s := &Sharer{datapath: d, now: datapath.NowTicks, values: make([]sessionValue, importMost)}
	for i := range uint32(importMost) {
		s.keys = append(s.keys, i)
	}
	var err error
	if s.program, err = d.core.Load("nat64_import"); err != nil {
		return nil, err
	}
	var changes *ebpf.Map
	for name, m := range map[string]**ebpf.Map{
		"nat64_imports": &s.records, "nat64_sessions": &s.sessions,
		"nat64_changes": &changes, "nat64_lost": &s.lost,
	} {
		if *m, err = d.core.Map(name); err != nil {
			return nil, err
		}
	}
	if s.ring, err = ringbuf.NewReader(changes); err != nil {
		return nil, fmt.Errorf("read map nat64_changes: %w", err)
	}
	return s, nil
}

// Close closes the ring buffer.
func (s *Sharer) Close() error { return s.ring.Close() }

// Identity identifies these tables: no others had or will have it.
func (s *Sharer) Identity() (uint64, error) {
	id, ok := datapath.MapID(s.sessions)
	if !ok {
		return 0, errors.New("the kernel does not report the id of map nat64_sessions")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, fmt.Errorf("read the boot id: %w", err)
	}
	sum := uint64(14695981039346656037) // FNV-1a
	for _, b := range binary.LittleEndian.AppendUint32(boot, uint32(id)) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return sum, nil
}

// Empty reports whether there are no sessions.
func (s *Sharer) Empty() bool {
	var k sessionKey
	return errors.Is(s.sessions.NextKey(nil, &k), ebpf.ErrKeyNotExist)
}

// Changes calls see for each event since the last call, at most that many.
func (s *Sharer) Changes(most int, see func(state.SessionChange)) (int, error) {
	if s.ring.AvailableBytes() == 0 { // the usual case, and no system call
		return 0, nil
	}
	s.ring.SetDeadline(time.Unix(1, 0)) // only what is there, without waiting
	now := s.now()
	for n := range most {
		err := s.ring.ReadInto(&s.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("read map nat64_changes: %w", err)
		}
		v, ok := decodeChange(s.record.RawSample)
		if ok {
			see(state.SessionChange{Shared: decodeShared(v, now), Ended: v.Slot == nat64Ended})
		}
	}
	return most, nil
}

// Lost returns the number of events so far for which the ring buffer had no room.
func (s *Sharer) Lost() (uint64, error) {
	var each []uint64
	if err := s.lost.Lookup(uint32(lostChanges), &each); err != nil {
		return 0, fmt.Errorf("read map nat64_lost: %w", err)
	}
	var sum uint64
	for _, n := range each {
		sum += n
	}
	return sum, nil
}

// Listing dumps all sessions. Sessions that are made or end meanwhile may be
// included or not.
type Dump struct {
	sharer *Sharer
	at     ebpf.MapBatchCursor
	keys   []sessionKey
	values []sessionValue
	done   bool
}

// List begins a dump.
func (s *Sharer) List() *Dump {
	return &Dump{sharer: s, keys: make([]sessionKey, datapath.BatchSize), values: make([]sessionValue, datapath.BatchSize)}
}

// Next calls see for some thousand more, and returns false when there are none.
func (l *Dump) Next(see func(state.ListedSession)) (bool, error) {
	if l.done {
		return false, nil
	}
	n, err := l.sharer.sessions.BatchLookup(&l.at, l.keys, l.values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, fmt.Errorf("read map nat64_sessions: %w", err)
	}
	l.done = err != nil
	now := l.sharer.now()
	for _, v := range l.values[:n] {
		word := v.Word
		flags := uint8(word >> nat64PackedFlags)
		shared := decodeShared(v, now)
		if state.SessionState(word>>nat64PackedState) == state.SessionDead || shared.Left <= 0 {
			continue
		}
		see(state.ListedSession{Shared: shared, Remote: flags&sessionRemote != 0, Owner: flags >> sessionOwnerShift, Round: flags&sessionRound != 0})
	}
	return true, nil
}

// Adopt imports sessions, or ends them, and counts the results.
func (s *Sharer) Import(list []state.Import) (results [state.ImportResults]uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(list) > 0 {
		part := list[:min(len(list), importMost)]
		list = list[len(part):]
		if err := s.importing(part, 3, &results); err != nil {
			return results, err
		}
	}
	return results, nil
}

// adopt imports sessions, and repeats a few times those that another CPU has
// disturbed.
func (s *Sharer) importing(list []state.Import, tries int, results *[state.ImportResults]uint64) error {
	for i, a := range list {
		s.values[i] = encodeImport(a)
	}
	if _, err := s.records.BatchUpdate(s.keys[:len(list)], s.values[:len(list)], nil); err != nil {
		return fmt.Errorf("write to map nat64_imports: %w", err)
	}
	verdict, err := s.program.Run(&ebpf.RunOptions{Data: make([]byte, 64), DataOut: make([]byte, 128), Context: datapath.SKBuff{Mark: uint32(len(list))}})
	if err == nil && verdict != 0 {
		err = fmt.Errorf("it answered %d", verdict)
	}
	if err != nil {
		return fmt.Errorf("run program nat64_import: %w", err)
	}
	var at ebpf.MapBatchCursor
	keys := make([]uint32, len(list))
	n, err := s.records.BatchLookup(&at, keys, s.values[:len(list)], nil)
	if n != len(list) {
		return fmt.Errorf("read map nat64_imports: %w", errors.Join(err, fmt.Errorf("%d of %d records", n, len(list))))
	}
	var again []state.Import
	for i := range list {
		r := min(state.ImportResult(s.values[i].Slot), state.ImportAgain)
		if r == state.ImportAgain && tries > 1 {
			again = append(again, list[i])
			continue
		}
		results[r]++
	}
	if len(again) == 0 {
		return nil
	}
	return s.importing(again, tries-1, results)
}

func decodeChange(raw []byte) (v sessionValue, ok bool) {
	if len(raw) < int(unsafe.Sizeof(v)) {
		return v, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), raw)
	return v, true
}

func decodeShared(v sessionValue, now uint32) state.Shared {
	return state.Shared{
		Translator: int(v.Translator), Protocol: v.Protocol, State: state.SessionState(v.Word >> nat64PackedState),
		IPv6: addrPort6(v.Client.U8, v.Port), IPv4: addrPort4(v.Pool, v.PoolPort),
		Remote6: netip.AddrFrom16(v.Remote6.U8), Remote4: addrPort4(v.Remote, v.RemotePort),
		Left: since(now, uint32(v.Word)), Age: since(v.Made, now),
	}
}

func encodeImport(a state.Import) sessionValue {
	flags := uint64(sessionRemote) | uint64(a.Owner)<<sessionOwnerShift
	if a.Round {
		flags |= sessionRound
	}
	v := sessionValue{
		Word: uint64(ticks(max(a.Left, 0))) | uint64(a.State)<<nat64PackedState | flags<<nat64PackedFlags,
		Port: datapath.Wire16(a.IPv6.Port()), Pool: datapath.Wire32(a.IPv4.Addr()), PoolPort: datapath.Wire16(a.IPv4.Port()),
		Remote: datapath.Wire32(a.Remote4.Addr()), RemotePort: datapath.Wire16(a.Remote4.Port()),
		Protocol: a.Protocol, Translator: uint8(a.Translator), Slot: uint32(a.Want), Made: ticks(max(a.Age, 0)),
	}
	v.Client.U8, v.Remote6.U8 = a.IPv6.Addr().As16(), a.Remote6.As16()
	return v
}
