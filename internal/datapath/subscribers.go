package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// Subscribers are the sessions of access, in tables that the programs read and
// count in. They are pinned: who opens them finds what was there before. One
// of these at a time may write.
type Subscribers struct {
	d                                *Datapath
	tunnels, sessions, own4, own6, n *ebpf.Map
	states                           []sessionState // in the kernel's memory
	memory                           []byte

	mu     sync.Mutex
	known  map[uint16][]owned // what each session has
	owner  map[owned]uint16
	counts [2][129]int // prefixes by family (0 is IPv4) and length
	tables map[int]int // route table of each access
}

// owned is an address or prefix of a subscriber, in a route table.
type owned struct {
	prefix netip.Prefix
	table  int
}

// Subscribers opens the tables.
func (d *Datapath) Subscribers() (*Subscribers, error) {
	s := &Subscribers{d: d, known: map[uint16][]owned{}, owner: map[owned]uint16{}}
	for name, m := range map[string]**ebpf.Map{
		"l2tp_tunnels": &s.tunnels, "l2tp_sessions": &s.sessions,
		"l2tp_owners4": &s.own4, "l2tp_owners6": &s.own6, "l2tp_owner_lengths": &s.n,
	} {
		var err error
		if *m, err = d.mapNamed(name); err != nil {
			return nil, err
		}
	}
	states, err := d.mapNamed("l2tp_states")
	if err != nil {
		return nil, err
	}
	size := int(states.MaxEntries()) * int(unsafe.Sizeof(sessionState{}))
	if s.memory, err = mapMemory(states, size, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	// values are a multiple of eight bytes, and the first starts a page
	s.states = unsafe.Slice((*sessionState)(unsafe.Pointer(unsafe.SliceData(s.memory))), states.MaxEntries())
	if err := s.learn(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close lets go of the tables; they stay as they are.
func (s *Subscribers) Close() error {
	s.states = nil
	return unix.Munmap(s.memory)
}

// learn reads who is there and what they have.
func (s *Subscribers) learn() error {
	_, sessions, err := s.read()
	if err != nil {
		return err
	}
	for _, x := range sessions {
		s.known[x.Local] = nil
	}
	var stray []owned
	note := func(o owned, id uint32) bool {
		if _, ok := s.known[uint16(id)]; !ok {
			stray = append(stray, o) // whoever wrote it did not get to the end
			return false
		}
		s.known[uint16(id)] = append(s.known[uint16(id)], o)
		s.owner[o] = uint16(id)
		s.count(o, 1)
		return false
	}
	for _, err := range entries(s.d, "l2tp_owners4", func(k ownerKey4, id uint32) (struct{}, bool) {
		return struct{}{}, note(decodeOwner4(k), id)
	}) {
		if err != nil {
			return err
		}
	}
	for _, err := range entries(s.d, "l2tp_owners6", func(k ownerKey6, id uint32) (struct{}, bool) {
		return struct{}{}, note(decodeOwner6(k), id)
	}) {
		if err != nil {
			return err
		}
	}
	return s.deleteOwned(stray)
}

func (s *Subscribers) count(o owned, by int) {
	family := 0
	if o.prefix.Addr().Is6() {
		family = 1
	}
	s.counts[family][o.prefix.Bits()] += by
}

// check tells what the tables cannot hold.
func (s *Subscribers) check(tunnels []state.AccessTunnel, sessions []state.AccessSession) error {
	for _, t := range tunnels {
		switch {
		case t.Local == 0 || uint32(t.Local) >= s.tunnels.MaxEntries():
			return fmt.Errorf("put tunnel %d: ids are 1 to %d", t.Local, s.tunnels.MaxEntries()-1)
		case !t.Here.IsValid() || t.Here.Addr().Is4() != t.Peer.Addr().Is4():
			return fmt.Errorf("put tunnel %d: %s and %s are not two ends of one family", t.Local, t.Here, t.Peer)
		}
	}
	for _, x := range sessions {
		switch {
		case x.Local == 0 || uint32(x.Local) >= s.sessions.MaxEntries():
			return fmt.Errorf("put session %d: ids are 1 to %d", x.Local, s.sessions.MaxEntries()-1)
		case x.Access < 0 || x.Access >= state.AccessesMax:
			return fmt.Errorf("put session %d: there is no access %d", x.Local, x.Access)
		case uint32(x.Tunnel) >= s.tunnels.MaxEntries():
			return fmt.Errorf("put session %d: there is no tunnel %d", x.Local, x.Tunnel)
		}
	}
	return nil
}

// Put adds or changes tunnels and sessions. A session that was there keeps its
// counters. Of two sessions with one address the last has it.
func (s *Subscribers) Put(tunnels []state.AccessTunnel, sessions []state.AccessSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(tunnels, sessions); err != nil {
		return err
	}
	if err := s.readTables(); err != nil {
		return err
	}
	if err := updateAll(s.tunnels, tunnels, func(t state.AccessTunnel) (uint32, tunnelValue) {
		return uint32(t.Local), encodeTunnel(t)
	}); err != nil {
		return fmt.Errorf("put tunnels: %w", err)
	}
	var gone, fresh []owned
	for _, x := range sessions {
		if _, ok := s.known[x.Local]; !ok {
			s.states[x.Local] = sessionState{}
		}
		now := s.ownedBy(x)
		for _, o := range s.known[x.Local] {
			if !slices.Contains(now, o) && s.owner[o] == x.Local {
				delete(s.owner, o)
				s.count(o, -1)
				gone = append(gone, o)
			}
		}
		for _, o := range now {
			was, had := s.owner[o]
			if had && was == x.Local {
				continue
			}
			if !had {
				s.count(o, 1)
			}
			s.owner[o] = x.Local
			fresh = append(fresh, o)
		}
		s.known[x.Local] = now
	}
	// what one session lost another may have been given in the same batch
	gone = slices.DeleteFunc(gone, func(o owned) bool { _, ok := s.owner[o]; return ok })
	if err := s.deleteOwned(gone); err != nil {
		return err
	}
	if err := updateAll(s.sessions, sessions, func(x state.AccessSession) (uint32, sessionLine) {
		return uint32(x.Local), encodeSession(x)
	}); err != nil {
		return fmt.Errorf("put sessions: %w", err)
	}
	return s.writeOwned(fresh)
}

// ownedBy lists what a session has, each once.
func (s *Subscribers) ownedBy(x state.AccessSession) []owned {
	list := make([]owned, 0, len(x.Prefixes)+2)
	add := func(p netip.Prefix) {
		o := owned{p, s.tables[x.Access]}
		if p.IsValid() && !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	for _, a := range []netip.Addr{x.IPv4, x.IPv6} {
		if a.IsValid() {
			add(netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for _, p := range x.Prefixes {
		add(p.Masked())
	}
	return list
}

// readTables learns by which table each access routes.
func (s *Subscribers) readTables() error {
	accesses, err := s.d.Accesses()
	s.tables = map[int]int{}
	for _, a := range accesses {
		s.tables[a.ID] = a.Table
	}
	return err
}

func (s *Subscribers) writeOwned(list []owned) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.writeLengths(); err != nil {
		return err
	}
	four, six := byFamily(list)
	if err := updateAll(s.own4, four, func(o owned) (ownerKey4, uint32) { return encodeOwner4(o), uint32(s.owner[o]) }); err != nil {
		return fmt.Errorf("put subscribers' addresses: %w", err)
	}
	if err := updateAll(s.own6, six, func(o owned) (ownerKey6, uint32) { return encodeOwner6(o), uint32(s.owner[o]) }); err != nil {
		return fmt.Errorf("put subscribers' addresses: %w", err)
	}
	return nil
}

func (s *Subscribers) deleteOwned(list []owned) error {
	for _, o := range list {
		var err error
		if o.prefix.Addr().Is4() {
			err = s.own4.Delete(encodeOwner4(o))
		} else {
			err = s.own6.Delete(encodeOwner6(o))
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove subscriber's %s: %w", o.prefix, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return s.writeLengths()
}

// writeLengths tells the programs which lengths of prefixes to try.
func (s *Subscribers) writeLengths() error {
	var v lengthsValue
	for family, into := range []*[16]uint8{&v.Bits4, &v.Bits6} {
		n := 0
		for bits := 128; bits >= 0; bits-- {
			if s.counts[family][bits] == 0 {
				continue
			}
			if n == len(into) {
				return fmt.Errorf("put subscribers' prefixes: more than %d different lengths of prefixes", len(into))
			}
			into[n] = uint8(bits)
			n++
		}
		for ; n < len(into); n++ {
			into[n] = 255
		}
	}
	if err := s.n.Put(uint32(0), v); err != nil {
		return fmt.Errorf("write lengths of prefixes: %w", err)
	}
	return nil
}

// Remove takes away sessions, then tunnels, by local id; those that are not
// there are no error.
func (s *Subscribers) Remove(tunnels, sessions []uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []owned
	var there []uint16
	for _, id := range sessions {
		list, ok := s.known[id]
		if !ok {
			continue
		}
		there = append(there, id)
		delete(s.known, id)
		for _, o := range list {
			if s.owner[o] == id {
				delete(s.owner, o)
				s.count(o, -1)
				gone = append(gone, o)
			}
		}
	}
	if err := s.deleteOwned(gone); err != nil {
		return err
	}
	if err := updateAll(s.sessions, there, func(id uint16) (uint32, sessionLine) { return uint32(id), sessionLine{} }); err != nil {
		return fmt.Errorf("remove sessions: %w", err)
	}
	tunnels = slices.DeleteFunc(slices.Clone(tunnels), func(id uint16) bool { return uint32(id) >= s.tunnels.MaxEntries() })
	if err := updateAll(s.tunnels, tunnels, func(id uint16) (uint32, tunnelValue) { return uint32(id), tunnelValue{} }); err != nil {
		return fmt.Errorf("remove tunnels: %w", err)
	}
	return nil
}

// Counters reads what sessions have carried; nil is all that there are.
func (s *Subscribers) Counters(sessions []uint16) ([]state.AccessCounters, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sessions == nil {
		sessions = make([]uint16, 0, len(s.known))
		for id := range s.known {
			sessions = append(sessions, id)
		}
		slices.Sort(sessions)
	}
	list := make([]state.AccessCounters, 0, len(sessions))
	for _, id := range sessions {
		if _, ok := s.known[id]; ok {
			list = append(list, decodeCounters(id, &s.states[id]))
		}
	}
	return list, nil
}

// List gives what is in the tables.
func (s *Subscribers) List() ([]state.AccessTunnel, []state.AccessSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tunnels, sessions, err := s.read()
	for i := range sessions {
		x := &sessions[i]
		for _, o := range s.known[x.Local] {
			if o.prefix.Addr() != x.IPv4 && o.prefix.Addr() != x.IPv6 || !o.prefix.IsSingleIP() {
				x.Prefixes = append(x.Prefixes, o.prefix)
			}
		}
		slices.SortFunc(x.Prefixes, netip.Prefix.Compare)
	}
	return tunnels, sessions, err
}

func (s *Subscribers) read() (tunnels []state.AccessTunnel, sessions []state.AccessSession, err error) {
	for t, err := range entries(s.d, "l2tp_tunnels", decodeTunnel) {
		if err != nil {
			return nil, nil, err
		}
		tunnels = append(tunnels, t)
	}
	for x, err := range entries(s.d, "l2tp_sessions", decodeSession) {
		if err != nil {
			return nil, nil, err
		}
		sessions = append(sessions, x)
	}
	return tunnels, sessions, nil
}

func byFamily(list []owned) (four, six []owned) {
	for _, o := range list {
		if o.prefix.Addr().Is4() {
			four = append(four, o)
		} else {
			six = append(six, o)
		}
	}
	return four, six
}

// updateAll writes all entries with one call.
func updateAll[T, K, V any](m *ebpf.Map, list []T, encode func(T) (K, V)) error {
	if len(list) == 0 {
		return nil
	}
	keys, values := make([]K, len(list)), make([]V, len(list))
	for i, t := range list {
		keys[i], values[i] = encode(t)
	}
	_, err := m.BatchUpdate(keys, values, nil)
	return err
}
