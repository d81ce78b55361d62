package lnsrun

import (
	"context"
	"maps"
	"slices"
	"time"

	"weft/internal/aaa"
	"weft/internal/subscriber"
)

// save is a change set on its way to the disk, and what is to be done once it is there.
type save struct {
	store, leases []subscriber.Stored
	learned       map[string]subscriber.Learned // nil: it has not changed
	told          []entry                       // accounts
	gone          subscriber.ChangeSet
}

func (one *save) empty() bool {
	return len(one.store)+len(one.leases)+len(one.told)+len(one.gone.GoneTunnels)+len(one.gone.GoneSessions) == 0 && one.learned == nil
}

// changes takes what has changed since the last change set.
func (s *subscribers) changes(learned map[string]subscriber.Learned) *save {
	b := s.engine.Take()
	told, accounts := s.account(b.Accounts)
	one := &save{
		store: slices.Concat(s.unkept, b.Store, accounts, s.accounts.settled()), leases: b.Leases, told: told,
		gone: subscriber.ChangeSet{GoneTunnels: b.GoneTunnels, GoneSessions: b.GoneSessions},
	}
	s.unkept = nil
	if !maps.EqualFunc(learned, s.learned, subscriber.Learned.Equal) {
		s.logLearned(learned)
		s.learned, one.learned = learned, learned
	}
	return one
}

// startSave hands what has changed to the disk.
func (s *subscribers) startSave(learned map[string]subscriber.Learned) {
	one := s.changes(learned)
	if one.empty() {
		return
	}
	s.saving = one
	ask := context.WithoutCancel(s.ctx)
	s.tasks.Go(func() {
		if err := s.disk.Ask(ask, func(d *disk) { d.save(one) }); err != nil {
			s.log.Error("sessions cannot be kept", "error", err)
		}
		_ = s.box.Ask(ask, func(s *subscribers) { s.saved(one) }) // if the loop has ended, finish does it
	})
}

// saved does what may be done once a change set is on the disk: RADIUS servers are told,
// and what is gone leaves the datapath, now that its counters were read.
func (s *subscribers) saved(one *save) {
	s.saving = nil
	s.tell(s.ctx, one.told)
	s.removeSessions(one.gone)
	s.sweepSockets()
	if one.learned != nil {
		s.doors.Replan()
	}
}

// logLearned says which sessions of this router's own have come and gone.
func (s *subscribers) logLearned(now map[string]subscriber.Learned) {
	for name, l := range now {
		switch was := s.learned[name]; {
		case l.Up && (!was.Up || l.IPv4 != was.IPv4 || l.Delegated != was.Delegated): // one after the other
			s.log.Info("L2TP session is up", "client", name, "ipv4", addressText(l.IPv4), "prefix", prefixText(l.Delegated))
		case !l.Up && was.Up:
			s.log.Warn("L2TP session is down", "client", name)
		}
	}
}

// restore takes over what another process has kept.
func (s *subscribers) restore(ctx context.Context, k kept, now time.Time) {
	s.keeps = k.store
	if !k.store {
		return
	}
	s.begunHere = k.begun
	if err := s.engine.Restore(k.sessions, now); err != nil {
		s.log.Error("sessions of the process before are lost", "error", err)
	}
	if len(k.sessions) > 0 { // sessions go on: nothing has begun anew
		for name := range s.accounts.clients {
			s.begunHere[name] = true
		}
	}
	s.unkept = append(s.unkept, s.resumeAccounts(ctx, k.accounts)...)
	for a := range s.engine.Addresses() {
		if s.sockets[a] == nil {
			if err := s.open(ctx, a); err != nil {
				s.log.Error("a tunnel's address is taken", "error", err)
			}
		}
	}
	s.learned = map[string]subscriber.Learned{}
	maps.Copy(s.learned, s.engine.Learned())
	s.sweepDatapath()
}

// endAccounts waits for what is on its way, and forgets what was told. Nothing else
// works any more; the rest is in the store, for the next process.
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
	d.keep(s.accounts.settled())
}
