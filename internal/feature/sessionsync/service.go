package sessionsync

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weft/internal/state"
	"weft/wire/sessionsync"
)

// Table is this router's sessions. The datapath satisfies it.
type Table interface {
	// Changes gives what happened to its own sessions since it was asked last.
	Changes(most int, see func(state.SessionChange)) (int, error)
	// Lost gives how many changes have found no room, ever.
	Lost() (uint64, error)
	// List begins a listing of all sessions; each call of what it gives gives
	// some of them, and false when there are none left.
	List() func(see func(state.ListedSession)) (bool, error)
	Import([]state.Import) ([state.ImportResults]uint64, error)
}

// Stream is where messages go.
type Stream interface {
	Publish(message []byte) error
	Ask(peer string) error // for a listing
	// Behind tells how far the slowest reader is behind, from 0 to 1: then it
	// loses something.
	Behind() float64
}

// Options of a Service.
type Options struct {
	Name        string
	Peers       []string
	Translators map[string]int // shared ones, NAME -> id
	Table       Table
	Stream      Stream
	Fresh       bool   // the tables are new: no peer has sent its sessions yet
	InSync      func() // called once that has changed
}

const (
	changesAtOnce = 16384           // of the ring, in one tick
	listPause     = 2 * time.Second // between the starts of two listings
	askPause      = 2 * time.Second // between questions to one peer
	listRoom      = 0.25            // of the stream, that a listing may be ahead of who reads it
	lostPause     = time.Second     // between looks for lost changes, if there are none that came
)

// Service tells other routers what happens to this one's sessions, and takes
// over what they tell. It is fed events and the time by one goroutine and does
// nothing else by itself.
type Service struct {
	Options
	ids   map[int]string // of translators
	peers map[string]*peer
	order []string // peers; the place is the owner's number
	fresh bool

	open     bool   // the own stream can be written
	lost     uint64 // changes that found no room, as known
	lostAt   time.Time
	dump     *dump
	listed   uint32 // number of the last listing
	listedAt time.Time
	want     bool // another listing
	buffer   []sessionsync.Record
	message  []byte
	stats    Sent
	err      error // of the table
}

type dump struct {
	next func(func(state.ListedSession)) (bool, error)
}

// peer is another router, as this one knows it.
type peer struct {
	name     string
	owner    uint8
	stats    Received
	ask      bool // for a listing
	askedAt  time.Time
	round    uint32 // listing that it is in, or was in last
	whole    bool   // nothing of it was missed since it began
	notified bool   // one was whole
	sweep    func(func(state.ListedSession)) (bool, error)
}

// NewService makes a service. Nothing is connected yet.
func NewService(o Options) *Service {
	s := &Service{Options: o, ids: map[int]string{}, peers: map[string]*peer{}, order: slices.Sorted(slices.Values(o.Peers)), fresh: o.Fresh}
	for name, id := range o.Translators {
		s.ids[id] = name
	}
	for i, name := range s.order {
		s.peers[name] = &peer{name: name, owner: uint8(i)}
	}
	s.lost, s.err = o.Table.Lost()
	return s
}

// Opened says that the own stream is new: it has nothing yet.
func (s *Service) Opened() {
	s.open, s.want, s.dump = true, true, nil
	s.stats.Opened++
}

// Asked says that a peer wants a listing.
func (s *Service) Asked(name string) {
	if s.peers[name] != nil {
		s.want = true
	}
}

// Joined says that a peer's stream is read; seamless: nothing was missed.
func (s *Service) Joined(name string, seamless bool, now time.Time) {
	p := s.peers[name]
	if p == nil {
		return
	}
	p.stats.Connected, p.stats.Since, p.stats.Error = true, now, ""
	if !seamless {
		p.missed()
	}
}

// Left says that a peer's stream cannot be read.
func (s *Service) Left(name string, why error, now time.Time) {
	p := s.peers[name]
	if p == nil {
		return
	}
	if p.stats.Connected || p.stats.Since.IsZero() {
		p.stats.Since = now
	}
	p.stats.Connected = false
	if why != nil {
		p.stats.Error = why.Error()
	}
}

// missed has the peer asked for all it has, because some of its news are lost.
func (p *peer) missed() { p.ask, p.whole, p.sweep = true, false, nil }

// Tick does what is due. It is called some fifty times a second.
func (s *Service) Tick(now time.Time) {
	s.err = errors.Join(s.notify(now), s.list(now), s.forget())
	for _, name := range s.order {
		p := s.peers[name]
		// one that is being listened to, with nothing missed, will do
		if p.ask && !p.whole && p.stats.Connected && now.Sub(p.askedAt) >= askPause {
			p.askedAt = now
			if s.Stream.Ask(name) == nil {
				p.stats.Asked++
			}
		}
	}
}

// tell passes on what has changed.
func (s *Service) notify(now time.Time) error {
	n, err := s.Table.Changes(changesAtOnce, func(c state.SessionChange) {
		r := sessionsync.Record{What: sessionsync.Put, Shared: c.Shared}
		if c.Ended {
			r.What = sessionsync.Ending
		}
		s.add(sessionsync.Live, r)
	})
	s.flush(sessionsync.Live)
	if err != nil {
		return fmt.Errorf("read changes: %w", err)
	}
	if n == 0 && now.Sub(s.lostAt) < lostPause {
		return nil
	}
	s.lostAt = now
	lost, err := s.Table.Lost()
	if err != nil {
		return err
	}
	if lost != s.lost {
		s.stats.Lost += lost - s.lost
		s.lost, s.want = lost, true
	}
	return nil
}

// list goes on with a listing, or begins one. Each part is read and sent before
// the next changes are looked at: what is in the stream is in order.
func (s *Service) list(now time.Time) error {
	if s.dump == nil && s.want && s.open && (s.listedAt.IsZero() || now.Sub(s.listedAt) >= listPause) {
		s.want, s.listedAt = false, now
		s.listed++
		s.dump = &dump{s.Table.List()}
		s.publish(sessionsync.Begin)
	}
	if s.dump == nil || s.Stream.Behind() > listRoom {
		return nil
	}
	more, err := s.dump.next(func(l state.ListedSession) {
		r := sessionsync.Record{What: sessionsync.Put, Shared: l.Shared}
		if l.Remote {
			r.What = sessionsync.Replicate
		}
		s.add(sessionsync.Part, r)
	})
	if s.dump == nil {
		return err // the stream broke meanwhile
	}
	s.flush(sessionsync.Part)
	if err != nil {
		s.dump, s.want = nil, true
		return fmt.Errorf("list sessions: %w", err)
	}
	if !more && s.dump != nil {
		s.dump = nil
		s.stats.Dumps++
		s.stats.Listed = now
		s.publish(sessionsync.End)
	}
	return nil
}

// add puts a record into the next message, which leaves when it is full.
func (s *Service) add(kind sessionsync.Kind, r sessionsync.Record) {
	name, shared := s.ids[r.Shared.Translator]
	if !shared {
		return
	}
	r.Translator = name
	s.buffer = append(s.buffer, r)
	if len(s.buffer) >= messageRecords {
		s.flush(kind)
	}
}

// messageRecords fills a message of some 30 KB.
const messageRecords = 512

func (s *Service) flush(kind sessionsync.Kind) {
	if len(s.buffer) > 0 {
		s.publish(kind)
	}
}

// publish sends a message. If the stream does not accept it, the stream is created again
// and a full dump follows; there is no use in further attempts until then.
func (s *Service) publish(kind sessionsync.Kind) {
	m := sessionsync.Message{Kind: kind, Partial: s.fresh, Dump: s.listed, Records: s.buffer}
	defer func() { s.buffer = s.buffer[:0] }()
	if !s.open {
		s.stats.Unsent += uint64(len(s.buffer))
		return
	}
	var err error
	if s.message, err = m.Append(s.message[:0]); err == nil {
		err = s.Stream.Publish(slices.Clone(s.message))
	}
	if err != nil {
		s.stats.Unsent += uint64(len(s.buffer))
		s.stats.Error = err.Error()
		s.want, s.dump = true, nil
		return
	}
	s.stats.Error = ""
	s.stats.Messages++
	s.stats.Sessions += uint64(len(s.buffer))
	s.stats.Bytes += uint64(len(s.message))
}

// Err is what keeps the tables from being shared, nil if nothing does.
func (s *Service) Err() error { return s.err }

// Status returns what there is to show.
func (s *Service) Status() Status {
	t := Status{Name: s.Name, Translators: slices.Sorted(maps.Keys(s.Translators)), Fresh: s.fresh, Sent: s.stats}
	if s.err != nil {
		t.Error = s.err.Error()
	}
	for _, name := range s.order {
		r := s.peers[name].stats
		r.Peer = name
		t.Peers = append(t.Peers, r)
	}
	slices.SortFunc(t.Peers, func(a, b Received) int { return cmp.Compare(a.Peer, b.Peer) })
	return t
}
