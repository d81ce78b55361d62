package lnsrun

import (
	"context"
	"maps"
	"slices"
	"time"

	"weft/internal/aaa"
	"weft/internal/subscriber"
)

// save is a change set on its way to the disk, with the actions that follow once it is written.
type save struct {
	store, leases []subscriber.Stored
	learned       map[string]subscriber.Learned // nil: unchanged
	reported      []entry                       // accounting records to send
	gone          subscriber.ChangeSet
}

func (one *save) empty() bool {
	return len(one.store)+len(one.leases)+len(one.reported)+len(one.gone.GoneTunnels)+len(one.gone.GoneSessions) == 0 && one.learned == nil
}

// changes returns the changes since the last change set.
func (s *subscribers) changes(learned map[string]subscriber.Learned) *save {
	b := s.engine.Take()
	reported, accounts := s.account(b.Accounts)
	one := &save{
		store: slices.Concat(s.unkept, b.Store, accounts, s.accounts.acknowledged()), leases: b.Leases, reported: reported,
		gone: subscriber.ChangeSet{GoneTunnels: b.GoneTunnels, GoneSessions: b.GoneSessions},
	}
	s.unkept = nil
	if !maps.EqualFunc(learned, s.learned, subscriber.Learned.Equal) {
		s.logLearned(learned)
		s.learned, one.learned = learned, learned
	}
	return one
}

// startSave passes the changes to the disk's loop.
func (s *subscribers) startSave(learned map[string]subscriber.Learned) {
	one := s.changes(learned)
	if one.empty() {
		return
	}
	s.saving = one
	ask := context.WithoutCancel(s.ctx)
	s.tasks.Go(func() {
		if err := s.disk.Ask(ask, func(d *disk) { d.save(one) }); err != nil {
			s.log.Error("cannot save sessions", "error", err)
		}
		_ = s.box.Ask(ask, func(s *subscribers) { s.saved(one) }) // if the loop has ended, finish does this
	})
}

// saved carries out what had to wait until a change set was written: it sends the
// accounting records, and removes ended sessions from the datapath, whose counters are
// in these records.
func (s *subscribers) saved(one *save) {
	s.saving = nil
	s.notify(s.ctx, one.reported)
	s.removeSessions(one.gone)
	s.sweepSockets()
	if one.learned != nil {
		s.doors.Replan()
	}
}

// logLearned logs changes of the sessions of this router's own clients.
func (s *subscribers) logLearned(now map[string]subscriber.Learned) {
	for name, l := range now {
		switch was := s.learned[name]; {
		case l.Up && (!was.Up || l.IPv4 != was.IPv4 || l.Delegated != was.Delegated): // a new session, or new addresses
			s.log.Info("L2TP session is up", "client", name, "ipv4", addressText(l.IPv4), "prefix", prefixText(l.Delegated))
		case !l.Up && was.Up:
			s.log.Warn("L2TP session is down", "client", name)
		}
	}
}

// restore takes over the sessions of a previous process.
func (s *subscribers) restore(ctx context.Context, k kept, now time.Time) {
	s.keeps = k.store
	if !k.store {
		return
	}
	s.begunHere = k.begun
	if err := s.engine.Restore(k.sessions, now); err != nil {
		s.log.Error("cannot restore the sessions of the previous process", "error", err)
	}
	if len(k.sessions) > 0 { // sessions continue: no Accounting-On
		for name := range s.accounts.clients {
			s.begunHere[name] = true
		}
	}
	s.unkept = append(s.unkept, s.resumeAccounts(ctx, k.accounts)...)
	for a := range s.engine.Addresses() {
		if s.sockets[a] == nil {
			if err := s.open(ctx, a); err != nil {
				s.log.Error("cannot open the socket of a restored tunnel", "error", err)
			}
		}
	}
	s.learned = map[string]subscriber.Learned{}
	maps.Copy(s.learned, s.engine.Learned())
	s.sweepDatapath()
}

// endAccounts waits for outstanding records, and deletes the acknowledged ones from the
// store. All other tasks have ended; the remaining records are for the next process.
func (s *subscribers) endAccounts(d *disk) {
	var clients []*aaa.Client
	clients = slices.AppendSeq(clients, maps.Values(s.accounts.clients))
	clients = append(clients, s.accounts.past...)
	for _, r := range s.accounts.retired {
		clients = append(clients, r.Client)
	}
	for _, c := range clients {
		c.Wait()
	}
	d.keep(s.accounts.acknowledged())
}
