package accessrun

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
	retired map[string]retiree
	past    []*aaa.Client            // of servers before a reload, while something is on its way
	orphans map[string][]*aaa.Record // of a process before: their sections have no servers now
	number  uint64                   // of the account that was kept last
	asking  map[string]*queue        // of questions, by section: one whose servers are silent delays no other
	dynamic map[netip.Addr]*aaa.Dynamic
	issuers map[netip.Addr][]aaa.Issuer
	self    aaa.NAS
}

func newAccounts(log *slog.Logger) *accounts {
	return &accounts{
		log: log, clients: map[string]*aaa.Client{}, servers: map[string][]aaa.Server{}, asking: map[string]*queue{},
		retired: map[string]retiree{}, orphans: map[string][]*aaa.Record{},
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
		nas := cmp.Or(c.NASIdent, c.HostName)
		a.self.Names = append(a.self.Names, nas)
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
		if old := a.clients[name]; old == nil || old.NAS() != nas || !reflect.DeepEqual(a.servers[name], servers) {
			s.ask(ctx, name, nas, servers)
		}
	}
	for name := range a.clients {
		if !keep[name] {
			a.retire(name)
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
		}, radiusOrders{s})
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

// ask makes a section's servers others. What waits for the old ones is told to the
// new ones: they may be there because the old ones are not.
func (s *subscribers) ask(ctx context.Context, section, nas string, servers []aaa.Server) {
	a := s.accounts
	old, client := a.clients[section], aaa.NewClient(s.log, nas, servers)
	if old == nil {
		old = a.retired[section].Client
	}
	client.WhenSettled(s.wake)
	a.servers[section], a.clients[section] = servers, client
	delete(a.retired, section)
	if old != nil {
		old.HandOver(ctx, client)
		a.past = append(a.past, old)
		time.AfterFunc(askTime, old.Close) // when nobody waits for it any more
	}
	for _, one := range a.orphans[section] {
		client.Account(ctx, one)
	}
	delete(a.orphans, section)
}

// askTime bounds a question to all servers.
const askTime = 50 * time.Second

// Authenticate finds out who a subscriber is.
func (s *subscribers) Authenticate(q access.AuthRequest) {
	client, ctx := s.accounts.clients[q.Access], s.ctx
	to, find := &s.comparing, comparePassword
	if q.Hash == "" {
		to, find = s.accounts.queue(q.Access), func(q access.AuthRequest) access.AuthReply { return s.askServers(ctx, client, q) }
	}
	to.put(&s.tasks, func() { s.answer(q, find) })
}

// queue gives that of a section's questions.
func (a *accounts) queue(section string) *queue {
	if a.asking[section] == nil {
		a.asking[section] = &queue{most: aaa.AtATime}
	}
	return a.asking[section]
}

// answer has a question answered that somebody still waits for: it may have stood
// in a queue for longer than its subscriber.
func (s *subscribers) answer(q access.AuthRequest, find func(access.AuthRequest) access.AuthReply) {
	s.mu.Lock()
	waits := s.engine.Waits(q)
	s.mu.Unlock()
	if !waits {
		return
	}
	v := find(q)
	if s.ctx.Err() != nil {
		return // nobody is refused because this process ends
	}
	s.mu.Lock()
	s.engine.Answer(q, v, time.Now())
	s.settle()
	s.mu.Unlock()
	s.wake()
}

func (s *subscribers) askServers(ctx context.Context, client *aaa.Client, q access.AuthRequest) access.AuthReply {
	cannot := access.AuthReply{Text: "Nobody can be asked"}
	if client == nil {
		return cannot
	}
	inner, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := client.Authenticate(inner, accessRequest(q))
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a subscriber cannot be authenticated", "access", q.Access, "login", q.Login, "error", err)
	}
	if err != nil {
		return cannot
	}
	return replyOf(r)
}

// Disconnect and Change carry out orders.
func (s *subscribers) Disconnect(m access.Match) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	defer s.settle()
	return s.engine.Kick(m, time.Now())
}

func (s *subscribers) Change(m access.Match, c access.Change) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	defer s.settle()
	return s.engine.Change(m, c, time.Now())
}
