package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"weft/internal/aaa"
	"weft/internal/config"
	"weft/internal/feature/access"
)

// accounts are the RADIUS clients of the [access.NAME] sections, and who may
// give orders.
type accounts struct {
	log     *slog.Logger
	clients map[string]*aaa.Client
	servers map[string][]aaa.Server
	dynamic map[netip.Addr]*aaa.Dynamic
	issuers map[netip.Addr][]aaa.Issuer
	self    aaa.NAS
}

func newAccounts(log *slog.Logger) *accounts {
	return &accounts{
		log: log, clients: map[string]*aaa.Client{}, servers: map[string][]aaa.Server{},
		dynamic: map[netip.Addr]*aaa.Dynamic{}, issuers: map[netip.Addr][]aaa.Issuer{},
	}
}

// serveAccounts makes clients and listeners those of f. The lock is held.
func (s *subscribers) serveAccounts(ctx context.Context, f *config.File) {
	a := s.accounts
	issuers := map[netip.Addr][]aaa.Issuer{}
	keep := map[string]bool{}
	a.self = aaa.NAS{}
	for _, name := range f.Names("access") {
		c := access.From(f, name)
		var servers []aaa.Server
		for _, r := range c.RADIUS {
			servers = append(servers, aaa.Server{Auth: r.Server, Accounting: r.Accounting, Secret: r.Secret, Timeout: r.Timeout, Tries: r.Tries})
		}
		a.self.Names = append(a.self.Names, cmp.Or(c.NASIdent, c.HostName))
		a.self.Addresses = append(a.self.Addresses, c.Listen...)
		for _, at := range c.Listen {
			for _, d := range c.Dynamic {
				issuers[at] = append(issuers[at], aaa.Issuer{Client: d.Client, Secret: d.Secret, Unsigned: d.Unsigned})
			}
		}
		if len(servers) == 0 {
			continue
		}
		keep[name] = true
		if !reflect.DeepEqual(a.servers[name], servers) {
			old := a.clients[name]
			a.servers[name] = servers
			a.clients[name] = aaa.NewClient(s.log, cmp.Or(c.NASIdent, c.HostName), servers)
			if old != nil {
				for _, one := range old.HandOver() { // the new servers may be there because the old ones are not
					a.clients[name].Account(ctx, one.Account, one.Total)
				}
				time.AfterFunc(askTime, old.Close) // when nobody waits for it any more
			}
		}
	}
	for name := range a.clients {
		if !keep[name] {
			delete(a.clients, name)
			delete(a.servers, name)
		}
	}
	a.issuers = issuers
	for at := range issuers {
		if a.dynamic[at] != nil {
			continue
		}
		d, err := aaa.ListenDynamic(ctx, at, func() []aaa.Issuer {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.accounts.issuers[at]
		}, func() aaa.NAS {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.accounts.self
		}, s)
		if err != nil {
			s.log.Error("orders to change sessions cannot be taken", "address", at.String(), "error", err)
			continue
		}
		a.dynamic[at] = d
		context.AfterFunc(ctx, func() { _ = d.Close() })
	}
	for at, d := range a.dynamic {
		if len(issuers[at]) == 0 {
			_ = d.Close()
			delete(a.dynamic, at)
		}
	}
}

// askTime bounds a question to all servers.
const askTime = 50 * time.Second

// Ask finds out who a subscriber is.
func (s *subscribers) Ask(q access.Question) {
	client, ctx := s.accounts.clients[q.Access], s.ctx
	s.tasks.Go(func() {
		v := access.Verdict{Text: "Nobody can be asked"}
		switch {
		case q.Hash != "":
			s.comparing <- struct{}{}
			v = aaa.Compare(q)
			<-s.comparing
		case client != nil:
			inner, cancel := context.WithTimeout(ctx, askTime)
			got, err := client.Authenticate(inner, q)
			cancel()
			if err == nil {
				v = got
			} else if ctx.Err() == nil {
				s.log.Warn("a subscriber cannot be authenticated", "access", q.Access, "login", q.Login, "error", err)
			}
		}
		s.mu.Lock()
		s.engine.Answer(q, v, time.Now())
		s.mu.Unlock()
		s.wake()
	})
}

// Disconnect and Change carry out orders.
func (s *subscribers) Disconnect(m access.Match) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	return s.engine.Kick(m, time.Now())
}

func (s *subscribers) Change(m access.Match, c access.Change) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	return s.engine.Change(m, c, time.Now())
}

// account tells what sessions carry: what the datapath counted, read before it
// forgets, and what went the slow path.
func (s *subscribers) account(ctx context.Context, list []access.Account) {
	if len(list) == 0 {
		return
	}
	ids := make([]uint16, 0, len(list))
	for _, a := range list {
		ids = append(ids, a.Session)
	}
	counted := s.counters(ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range list {
		client := s.accounts.clients[a.Access]
		if client == nil {
			continue
		}
		total := a.Slow
		if c, ok := counted[a.Session]; ok {
			total.UpPackets += c.UpPackets
			total.UpBytes += c.UpBytes
			total.DownPackets += c.DownPackets
			total.DownBytes += c.DownBytes
		}
		client.Account(ctx, a, total)
	}
}
