package subscribertable

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Subscribers are the L2TP sessions, in tables that the programs read and count in.
// They are pinned: a process that opens them finds the earlier content. Only one may
// write at a time.
type Subscribers struct {
	d                      Table
	tunnels, own4, own6, n *ebpf.Map
	groups                 []groupValue // of sessions; in the kernel's memory, as the next two
	states                 []sessionState
	lines                  *ownerLines
	memory                 [][]byte

	mu     sync.Mutex
	known  map[uint16][]owned // addresses and prefixes of each session
	owner  map[owned]uint16
	counts [2][129]int // prefixes by family (0 is IPv4) and length
	tables map[int]int // route table of each access
	fresh  uint32      // which writing of accesses they are of

	lengths *lengthsValue // as they were written last
}

// owned is an address or prefix of a subscriber, in a route table.
type owned struct {
	prefix netip.Prefix
	table  int
}

// Subscribers opens the tables.
func (d Table) Subscribers() (*Subscribers, error) {
	s := &Subscribers{d: d, known: map[uint16][]owned{}, owner: map[owned]uint16{}}
	for name, m := range map[string]**ebpf.Map{
		"l2tp_tunnels": &s.tunnels, "l2tp_owners4": &s.own4, "l2tp_owners6": &s.own6, "l2tp_owner_lengths": &s.n,
	} {
		var err error
		if *m, err = d.core.Map(name); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Subscribers) open() error {
	if err := s.mapTables(); err != nil {
		return err
	}
	return s.learn()
}

func (s *Subscribers) mapTables() (err error) {
	if s.groups, err = mapArray[groupValue](s, "l2tp_sessions"); err != nil {
		return err
	}
	if s.states, err = mapArray[sessionState](s, "l2tp_states"); err != nil {
		return err
	}
	lines, err := mapArray[lineValue](s, "l2tp_lines")
	if err != nil {
		return err
	}
	s.lines = newOwnerLines(lines)
	return nil
}

// mapArray maps an array's values into memory: they are a multiple of eight
// bytes each, and the first starts a page.
func mapArray[V any](s *Subscribers, name string) ([]V, error) {
	m, err := s.d.core.Map(name)
	if err != nil {
		return nil, err
	}
	var one V
	memory, err := datapath.MapMemory(m, int(m.MaxEntries())*int(unsafe.Sizeof(one)), unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	s.memory = append(s.memory, memory)
	return unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(memory))), m.MaxEntries()), nil
}

// Close lets go of the tables; they stay as they are.
func (s *Subscribers) Close() error {
	s.groups, s.states, s.lines = nil, nil, nil
	var errs []error
	for _, m := range s.memory {
		errs = append(errs, unix.Munmap(m))
	}
	s.memory = nil
	return errors.Join(errs...)
}

// learn reads the existing sessions and their addresses.
func (s *Subscribers) learn() error {
	_, sessions, err := s.read()
	if err != nil {
		return err
	}
	for _, x := range sessions {
		s.known[x.Local] = nil
	}
	var stray, hashed []owned
	note := func(o owned, id uint32) {
		if _, ok := s.known[uint16(id)]; !ok {
			stray = append(stray, o) // its writer was killed before it finished
			return
		}
		s.known[uint16(id)] = append(s.known[uint16(id)], o)
		s.owner[o] = uint16(id)
		s.count(o, 1)
	}
	for o, err := range s.allOwned() {
		if err != nil {
			return err
		}
		note(o.owned, o.session)
		if !o.inLine {
			hashed = append(hashed, o.owned)
		}
	}
	for _, o := range hashed {
		s.lines.leave(o)
	}
	return s.deleteOwned(stray)
}

// check returns an error for values that the tables cannot hold.
func (s *Subscribers) check(tunnels []state.L2TPTunnel, sessions []state.L2TPSession) error {
	for _, t := range tunnels {
		switch {
		case t.Local == 0 || uint32(t.Local) >= s.tunnels.MaxEntries():
			return fmt.Errorf("put tunnel %d: ids are 1 to %d", t.Local, s.tunnels.MaxEntries()-1)
		case !t.LocalAddr.IsValid() || t.LocalAddr.Addr().Is4() != t.Peer.Addr().Is4():
			return fmt.Errorf("put tunnel %d: %s and %s are not two ends of one family", t.Local, t.LocalAddr, t.Peer)
		}
	}
	for _, x := range sessions {
		switch {
		case x.Local == 0 || int(x.Local) >= len(s.states):
			return fmt.Errorf("put session %d: ids are 1 to %d", x.Local, len(s.states)-1)
		case x.LNS < 0 || x.LNS >= state.LNSesMax:
			return fmt.Errorf("put session %d: there is no access %d", x.Local, x.LNS)
		case uint32(x.Tunnel) >= s.tunnels.MaxEntries():
			return fmt.Errorf("put session %d: there is no tunnel %d", x.Local, x.Tunnel)
		}
	}
	return nil
}

// Put adds or changes tunnels and sessions. An existing session keeps its counters.
// If two sessions have one address, the last one owns it. A session's addresses are
// written before the session itself, so that programs which know the session know
// its sources. If all new entries are in mapped memory, as those of dense pools are,
// no system call is needed.
func (s *Subscribers) Put(tunnels []state.L2TPTunnel, sessions []state.L2TPSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(tunnels, sessions); err != nil {
		return err
	}
	if err := s.readTables(); err != nil {
		return err
	}
	if err := updateAll(s.tunnels, tunnels, func(t state.L2TPTunnel) (uint32, tunnelValue) {
		return uint32(t.Local), encodeTunnel(t)
	}); err != nil {
		return fmt.Errorf("put tunnels: %w", err)
	}
	var gone, fresh []owned
	for _, x := range sessions {
		if _, ok := s.known[x.Local]; !ok {
			lnsAt(s.groups, x.Local).clear()
			s.states[x.Local] = sessionState{Sequence: uint32(x.First)}
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
	// an address that one session lost may have been given to another in the same
	// batch
	gone = slices.DeleteFunc(gone, func(o owned) bool { _, ok := s.owner[o]; return ok })
	err := errors.Join(s.deleteOwned(gone), s.writeOwned(fresh))
	for _, x := range sessions {
		lnsAt(s.groups, x.Local).write(encodeSession(x))
	}
	return err
}

// Retire stops all traffic of sessions: programs do not know them any more. Their
// counters stay unchanged, and they keep their addresses until they are removed.
func (s *Subscribers) Retire(sessions []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sessions {
		if _, ok := s.known[id]; ok {
			lnsAt(s.groups, id).forget()
		}
	}
}

// Remove removes sessions, then tunnels, by local id; missing ones are no error.
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
	for _, id := range there {
		lnsAt(s.groups, id).forget()
	}
	tunnels = slices.DeleteFunc(slices.Clone(tunnels), func(id uint16) bool { return uint32(id) >= s.tunnels.MaxEntries() })
	if err := updateAll(s.tunnels, tunnels, func(id uint16) (uint32, tunnelValue) { return uint32(id), tunnelValue{} }); err != nil {
		return fmt.Errorf("remove tunnels: %w", err)
	}
	return nil
}

// Counters reads the counters of sessions; nil means all.
func (s *Subscribers) Counters(sessions []uint16) ([]state.LNSCounters, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sessions == nil {
		sessions = make([]uint16, 0, len(s.known))
		for id := range s.known {
			sessions = append(sessions, id)
		}
		slices.Sort(sessions)
	}
	list := make([]state.LNSCounters, 0, len(sessions))
	for _, id := range sessions {
		if _, ok := s.known[id]; ok {
			list = append(list, lnsAt(s.groups, id).counters(id, &s.states[id]))
		}
	}
	return list, nil
}

// Sequence takes the next sequence number of a session's data, which the
// programs count on too (RFC 2661 section 5.4).
func (s *Subscribers) Sequence(session uint16) uint16 {
	if int(session) >= len(s.states) {
		return 0
	}
	return uint16(atomic.AddUint32(&s.states[session].Sequence, 1) - 1)
}

// List returns all tunnels and sessions.
func (s *Subscribers) List() ([]state.L2TPTunnel, []state.L2TPSession, error) {
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

func (s *Subscribers) read() (tunnels []state.L2TPTunnel, sessions []state.L2TPSession, err error) {
	for t, err := range datapath.Entries(s.d.core, "l2tp_tunnels", decodeTunnel) {
		if err != nil {
			return nil, nil, err
		}
		tunnels = append(tunnels, t)
	}
	for id := range s.states {
		if x, ok := lnsAt(s.groups, uint16(id)).decode(uint16(id)); ok {
			sessions = append(sessions, x)
		}
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
