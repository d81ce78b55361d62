package sessionsync

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/internal/state"
	"weft/wire/sessionsync"
)

// Received takes a message of a peer's stream. missed: there were others before
// it that are lost. behind: so many follow.
func (s *Service) Received(name string, data []byte, missed bool, behind uint64, now time.Time) {
	p := s.peers[name]
	if p == nil {
		return
	}
	p.stats.Messages++
	p.stats.Behind = behind
	if missed {
		p.stats.Gaps++
		p.missed()
	}
	m, err := sessionsync.Parse(data)
	if err != nil {
		p.stats.Refused++
		p.stats.Error = fmt.Sprintf("a message: %v", err)
		return
	}
	switch m.Kind {
	case sessionsync.Begin:
		p.round, p.whole, p.sweep = m.Dump, true, nil
	case sessionsync.Part, sessionsync.End:
		p.whole = p.whole && m.Dump == p.round
	}
	if err := s.importing(p, m); err != nil {
		s.err = err
	}
	if m.Kind == sessionsync.End && p.whole {
		s.complete(p, m, now)
	}
}

// complete ends a listing of which nothing was missed. What it did not have is
// over, unless its router has forgotten it itself.
func (s *Service) complete(p *peer, m *sessionsync.Message, now time.Time) {
	p.ask, p.notified, p.whole = false, true, false
	p.stats.Dumps++
	p.stats.Listed = now
	if !m.Partial {
		p.sweep = s.Table.List()
	}
	if s.fresh && !slices.ContainsFunc(s.order, func(name string) bool { return !s.peers[name].notified }) {
		s.fresh, s.want = false, true
		if s.InSync != nil {
			s.InSync()
		}
	}
}

func (s *Service) importing(p *peer, m *sessionsync.Message) error {
	list := make([]state.Import, 0, len(m.Records))
	for _, r := range m.Records {
		id, shared := s.Translators[r.Translator]
		if !shared {
			p.stats.Foreign++
			continue
		}
		a := state.Import{Shared: r.Shared, Owner: p.owner, Round: p.round&1 != 0}
		a.Translator = id
		switch {
		case r.What == sessionsync.Put:
			a.Want = state.ImportPut
		case r.What == sessionsync.Ending:
			a.Want = state.ImportEnd
		case s.fresh:
			a.Want = state.ImportReplicate
		default:
			a.Want = state.ImportMark
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil
	}
	results, err := s.Table.Import(list)
	p.stats.count(results)
	if err != nil {
		p.missed()
		return fmt.Errorf("take over sessions of %s: %w", p.name, err)
	}
	return nil
}

// forget ends sessions that were not in their routers' last listings, some at
// a time.
func (s *Service) forget() error {
	for _, name := range s.order {
		p := s.peers[name]
		if p.sweep == nil {
			continue
		}
		var over []state.Import
		more, err := p.sweep(func(l state.ListedSession) {
			if l.Remote && l.Owner == p.owner && l.Round != (p.round&1 != 0) {
				over = append(over, state.Import{Shared: l.Shared, Want: state.ImportEnd, Owner: p.owner})
			}
		})
		if !more || err != nil {
			p.sweep = nil
		}
		results, failed := s.Table.Import(over)
		p.stats.Swept += results[state.ImportEnded]
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("end sessions that %s does not have: %w", name, err)
		}
	}
	return nil
}
