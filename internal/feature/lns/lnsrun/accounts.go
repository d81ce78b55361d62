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

// accountKey is where the store has accounts that no RADIUS server has taken yet: a
// number follows, so that they come back in their order.
const accountKey = "account/"

func accountName(number uint64) string { return fmt.Sprintf("%s%016x", accountKey, number) }

// entry is an account, and whose servers are told of it.
type entry struct {
	client *aaa.Client
	record *aaa.Record
}

// account makes what RADIUS is told of sessions: what the datapath counted, read
// before it forgets, and what went the slow path. What has to outlive this process
// is for the store, together with what the sessions became: an end that is told is
// told once, and none is forgotten.
func (s *subscribers) account(list []*subscriber.Account) (told []entry, store []subscriber.Stored) {
	if len(list) == 0 {
		return nil, nil
	}
	ids := make([]uint16, 0, len(list))
	for _, a := range list {
		ids = append(ids, a.Session)
	}
	counted := s.counters(ids)
	for _, a := range list {
		client := s.accounts.client(a.Access, a.Started)
		if client == nil {
			continue
		}
		total := a.Slow
		if c, ok := counted[a.Session]; ok {
			s.addCounted(a, &total, subscriber.Traffic{UpPackets: c.UpPackets, UpBytes: c.UpBytes, DownPackets: c.DownPackets, DownBytes: c.DownBytes})
		}
		one := &aaa.Record{Account: accountingRequest(a), Total: traffic(total)}
		told = append(told, entry{client, one})
		if a.Kind == subscriber.AccountInterim || !s.keeps {
			continue // the next process says more
		}
		value, err := json.Marshal(one)
		if err != nil {
			s.log.Error("a session's account does not outlive this process", "login", a.Login, "session", a.ID, "error", err)
			continue
		}
		s.accounts.number++
		one.Number = s.accounts.number
		store = append(store, subscriber.Stored{Key: accountName(one.Number), Value: value})
	}
	return told, store
}

// addCounted adds what the datapath has counted of an account: of the session, without
// what it had counted for a login before.
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

// logLogins logs what became of logins.
func (s *subscribers) logLogins() {
	list, omitted := s.engine.Logins()
	for _, l := range list {
		about := []any{"access", l.Access, "login", l.Login, "calling", l.Calling, "lac", l.LAC.String(), "session", l.Session}
		if l.Kind != subscriber.LoginRefused {
			about = append(about, "ipv4", addressText(l.IPv4), "prefix", prefixText(l.Prefix), "delegated", prefixText(l.Delegated))
		}
		switch l.Kind {
		case subscriber.LoggedIn:
			s.log.Info("subscriber logged in", about...)
		case subscriber.LoginRefused:
			s.log.Info("login refused", append(about, "reason", l.Reason)...)
		case subscriber.LoggedOut:
			s.log.Info("subscriber logged out", append(about, "reason", l.Reason, "lasted", l.Lasted.Round(time.Second).String())...)
		}
	}
	if omitted > 0 {
		s.log.Info("more logins than are logged", "omitted", omitted)
	}
}

// tell hands accounts to the servers, once they are kept.
func (s *subscribers) tell(ctx context.Context, list []entry) {
	for _, e := range list {
		e.client.Account(ctx, e.record)
	}
}

// retiree is the client of a section that has no servers any more.
type retiree struct {
	*aaa.Client
	since time.Time
}

// client gives the one that is told of a session of a section; nil: nobody is. A
// section that has no servers any more has sessions that they know of.
func (a *accounts) client(section string, began time.Time) *aaa.Client {
	if c := a.clients[section]; c != nil {
		return c
	}
	if r, there := a.retired[section]; there && began.Before(r.since) {
		return r.Client
	}
	return nil
}

// settled gives what the store need not keep any more.
func (a *accounts) settled() (gone []subscriber.Stored) {
	take := func(c *aaa.Client) {
		for _, number := range c.Settled() {
			gone = append(gone, subscriber.Stored{Key: accountName(number)})
		}
	}
	for _, c := range a.clients {
		take(c)
	}
	for section, r := range a.retired {
		idle := r.Waiting() == 0
		take(r.Client)
		if idle && time.Since(r.since) > askTime { // its sessions have ended long since
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

// retire keeps the client of a section that is no more, or has no servers: its sessions
// may end just now, and what waits still has to be told. One that comes back takes all
// that over.
func (a *accounts) retire(section string) {
	a.retired[section] = retiree{a.clients[section], time.Now()}
	delete(a.clients, section)
	delete(a.servers, section)
}

// resumeAccounts tells what the process before could not; it gives what the store is
// to know of them by another name, or no more.
func (s *subscribers) resumeAccounts(ctx context.Context, kept []subscriber.Stored) (changes []subscriber.Stored) {
	for _, k := range kept {
		var one aaa.Record
		err := json.Unmarshal(k.Value, &one)
		if err == nil && one.Account == nil {
			err = errors.New("there is none in what was kept")
		}
		if err != nil {
			s.log.Error("an account of the process before is lost", "error", err)
			changes = append(changes, subscriber.Stored{Key: k.Key})
			continue
		}
		one.Number, _ = strconv.ParseUint(strings.TrimPrefix(k.Key, accountKey), 16, 64)
		if k.Key != accountName(one.Number) {
			// another build has kept it
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
		s.log.Warn("accounts of the process before wait until their section has RADIUS servers again", "lns", section, "accounts", len(list))
	}
	return changes
}
