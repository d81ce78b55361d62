package lnsrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/aaa"
	"weft/internal/subscriber"
)

// accountKey is the prefix of the store's keys for accounting records that no RADIUS
// server has acknowledged yet. A number follows, so that their order is kept.
const accountKey = "account/"

func accountName(number uint64) string { return fmt.Sprintf("%s%016x", accountKey, number) }

// entry is an accounting record and the RADIUS client that sends it.
type entry struct {
	client *aaa.Client
	record *aaa.Record
}

// account makes accounting records of sessions. Their totals are the counters of the
// datapath, read before they are deleted, and of the slow path. store has the records
// that must outlive this process; they are written together with the changes of the
// sessions, so that each Stop is sent once and none is lost.
func (s *subscribers) account(list []*subscriber.Account) (reported []entry, store []subscriber.Stored) {
	if len(list) == 0 {
		return nil, nil
	}
	ids := make([]uint16, 0, len(list))
	for _, a := range list {
		ids = append(ids, a.Session)
	}
	counted := s.counters(ids)
	for _, a := range list {
		client := s.accounts.client(a.LNS, a.Started)
		if client == nil {
			continue
		}
		total := a.Slow
		if c, ok := counted[a.Session]; ok {
			s.addCounted(a, &total, subscriber.Traffic{UpPackets: c.UpPackets, UpBytes: c.UpBytes, DownPackets: c.DownPackets, DownBytes: c.DownBytes})
		}
		one := &aaa.Record{Account: accountingRequest(a), Total: traffic(total)}
		reported = append(reported, entry{client, one})
		if a.Kind == subscriber.AccountInterim || !s.keeps {
			continue // the next process sends one with higher totals
		}
		value, err := json.Marshal(one)
		if err != nil {
			s.log.Error("cannot encode an accounting record; it is lost if weft stops before a server acknowledges it", "login", a.Login, "session", a.ID, "error", err)
			continue
		}
		s.accounts.number++
		one.Number = s.accounts.number
		store = append(store, subscriber.Stored{Key: accountName(one.Number), Value: value})
	}
	return reported, store
}

// addCounted adds the datapath's counters to an accounting record: those of the
// session, less what it had counted for an earlier login.
func (s *subscribers) addCounted(a *subscriber.Account, total *subscriber.Traffic, counted subscriber.Traffic) {
	if a.Next != nil {
		*a.Next = counted
		s.engine.Counted(a.Session)
	}
	var base subscriber.Traffic
	if a.Base != nil {
		base = *a.Base
	}
	total.UpPackets += counted.UpPackets - min(base.UpPackets, counted.UpPackets)
	total.UpBytes += counted.UpBytes - min(base.UpBytes, counted.UpBytes)
	total.DownPackets += counted.DownPackets - min(base.DownPackets, counted.DownPackets)
	total.DownBytes += counted.DownBytes - min(base.DownBytes, counted.DownBytes)
}

// logLogins logs accepted and rejected logins, and logouts.
func (s *subscribers) logLogins() {
	list, omitted := s.engine.Logins()
	for _, l := range list {
		about := []any{"lns", l.LNS, "login", l.Login, "calling", l.Calling, "lac", l.LAC.String(), "session", l.Session}
		if l.Kind != subscriber.LoginRefused {
			about = append(about, "ipv4", addressText(l.IPv4), "prefix", prefixText(l.Prefix), "delegated", prefixText(l.Delegated))
		}
		switch l.Kind {
		case subscriber.LoggedIn:
			s.log.Info("subscriber logged in", about...)
		case subscriber.LoginRefused:
			s.log.Info("login rejected", append(about, "reason", l.Reason)...)
		case subscriber.LoggedOut:
			s.log.Info("subscriber logged out", append(about, "reason", l.Reason, "lasted", l.Lasted.Round(time.Second).String())...)
		}
	}
	if omitted > 0 {
		s.log.Info("login messages suppressed", "omitted", omitted)
	}
}

// tell passes accounting records to the RADIUS clients, after they have been stored.
func (s *subscribers) notify(ctx context.Context, list []entry) {
	for _, e := range list {
		e.client.Account(ctx, e.record)
	}
}

// retiree is the client of a section that no longer has RADIUS servers.
type retiree struct {
	*aaa.Client
	since time.Time
}

// client returns the client for accounting records of a session of a section; nil: there
// is none. A section that has lost its servers keeps the client for sessions that
// began before.
func (a *accounts) client(section string, began time.Time) *aaa.Client {
	if c := a.clients[section]; c != nil {
		return c
	}
	if r, there := a.retired[section]; there && began.Before(r.since) {
		return r.Client
	}
	return nil
}

// settled gives the records that the store can delete.
func (a *accounts) acknowledged() (gone []subscriber.Stored) {
	take := func(c *aaa.Client) {
		for _, number := range c.Acknowledged() {
			gone = append(gone, subscriber.Stored{Key: accountName(number)})
		}
	}
	for _, c := range a.clients {
		take(c)
	}
	for section, r := range a.retired {
		idle := r.Waiting() == 0
		take(r.Client)
		if idle && time.Since(r.since) > askTime { // its last record was acknowledged
			r.End()
			r.Close()
			delete(a.retired, section)
		}
	}
	a.past = slices.DeleteFunc(a.past, func(c *aaa.Client) bool {
		idle := c.Waiting() == 0
		take(c)
		return idle
	})
	return gone
}

// retire keeps the client of a section that was removed, or has lost its servers: its
// sessions may end at this moment, and records wait to be sent. If the section returns,
// its new client takes them over.
func (a *accounts) retire(section string) {
	a.retired[section] = retiree{a.clients[section], time.Now()}
	delete(a.clients, section)
	delete(a.servers, section)
}

// resumeAccounts sends the records that the previous process could not send. It gives
// the changes to the store: records under a new name, and names to delete.
func (s *subscribers) resumeAccounts(ctx context.Context, kept []subscriber.Stored) (changes []subscriber.Stored) {
	for _, k := range kept {
		var one aaa.Record
		err := json.Unmarshal(k.Value, &one)
		if err == nil && one.Account == nil {
			err = errors.New("the stored value has no accounting record")
		}
		if err != nil {
			s.log.Error("lost an accounting record of the previous process", "error", err)
			changes = append(changes, subscriber.Stored{Key: k.Key})
			continue
		}
		one.Number, _ = strconv.ParseUint(strings.TrimPrefix(k.Key, accountKey), 16, 64)
		if k.Key != accountName(one.Number) {
			// another build has stored it
			one.Number = s.accounts.number + 1
			changes = append(changes, subscriber.Stored{Key: k.Key}, subscriber.Stored{Key: accountName(one.Number), Value: k.Value})
		}
		s.accounts.number = max(s.accounts.number, one.Number)
		if client := s.accounts.clients[one.Account.Section]; client != nil {
			client.Account(ctx, &one)
			continue
		}
		s.accounts.orphans[one.Account.Section] = append(s.accounts.orphans[one.Account.Section], &one)
	}
	for section, list := range s.accounts.orphans {
		s.log.Warn("accounting records of the previous process wait until their section has RADIUS servers", "lns", section, "accounts", len(list))
	}
	return changes
}
