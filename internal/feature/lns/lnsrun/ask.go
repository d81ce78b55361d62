package lnsrun

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"weft/internal/aaa"
	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// accounts are the RADIUS clients of the [lns.NAME] sections, and the listeners for
// CoA and Disconnect requests.
type accounts struct {
	log     *slog.Logger
	clients map[string]*aaa.Client
	servers map[string][]aaa.Server
	retired map[string]retiree
	past    []*aaa.Client            // of servers before a reload, while requests are outstanding
	orphans map[string][]*aaa.Record // of the previous process: their sections have no servers now
	number  uint64                   // of the record that was stored last
	asking  map[string]*queue        // of Access-Requests, by section: a section with silent servers delays no other
	dynamic map[netip.Addr]*aaa.Dynamic
	orders  atomic.Pointer[orderSettings] // a copy: packets of unknown senders do not reach the loop
}

// orderSettings are the RADIUS clients that may send CoA and Disconnect requests, by listen address, and this router's NAS attributes.
type orderSettings struct {
	issuers map[netip.Addr][]aaa.Issuer
	self    aaa.NAS
}

func newAccounts(log *slog.Logger) *accounts {
	return &accounts{
		log: log, clients: map[string]*aaa.Client{}, servers: map[string][]aaa.Server{}, asking: map[string]*queue{},
		retired: map[string]retiree{}, orphans: map[string][]*aaa.Record{},
		dynamic: map[netip.Addr]*aaa.Dynamic{},
	}
}

// serveAccounts opens and closes RADIUS clients and listeners as f requires.
func (s *subscribers) serveAccounts(ctx context.Context, f *config.File) {
	a := s.accounts
	issuers := map[netip.Addr][]aaa.Issuer{}
	keep := map[string]bool{}
	self := aaa.NAS{}
	for _, name := range f.Names("lns") {
		c := lns.From(f, name)
		var servers []aaa.Server
		for _, r := range c.RADIUS {
			servers = append(servers, aaa.Server{Auth: r.Server, Accounting: r.Accounting, Secret: r.Secret, Timeout: r.Timeout, Tries: r.Tries, Unsigned: r.Unsigned})
		}
		nas := cmp.Or(c.NASIdent, c.HostName)
		self.Names = append(self.Names, nas)
		self.Addresses = append(self.Addresses, c.Listen...)
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
	a.orders.Store(&orderSettings{issuers, self})
	for at := range issuers {
		if a.dynamic[at] != nil {
			continue
		}
		d, err := aaa.ListenDynamic(ctx, at, func() []aaa.Issuer { return a.orders.Load().issuers[at] }, func() aaa.NAS { return a.orders.Load().self }, radiusOrders{ctx, s.box})
		if err != nil {
			s.log.Error("cannot listen for CoA and Disconnect requests", "address", at.String(), "error", err)
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

// ask gives a section new RADIUS servers. Records that wait for the old servers are
// sent to the new ones, which may have replaced servers that failed.
func (s *subscribers) ask(ctx context.Context, section, nas string, servers []aaa.Server) {
	a := s.accounts
	old, client := a.clients[section], aaa.NewClient(s.log, nas, servers)
	if old == nil {
		old = a.retired[section].Client
	}
	client.WhenAcknowledged(s.wake.Set)
	a.servers[section], a.clients[section] = servers, client
	delete(a.retired, section)
	if old != nil {
		old.HandOver(ctx, client)
		a.past = append(a.past, old)
		time.AfterFunc(askTime, old.Close) // when its last request has timed out
	}
	for _, one := range a.orphans[section] {
		client.Account(ctx, one)
	}
	delete(a.orphans, section)
}

// askTime is the timeout of an Access-Request, over all servers.
const askTime = 50 * time.Second

// question is a login that waits for its authentication.
type question struct {
	request subscriber.AuthRequest
	find    func() subscriber.AuthReply // may block
}

// Authenticate starts the authentication of a subscriber, outside the loop.
func (s *subscribers) Authenticate(q subscriber.AuthRequest) {
	client, ctx := s.accounts.clients[q.LNS], s.ctx
	to, one := &s.comparing, question{q, func() subscriber.AuthReply { return comparePassword(q) }}
	if q.Hash == "" {
		to, one.find = s.accounts.queue(q.LNS), func() subscriber.AuthReply { return s.askServers(ctx, client, q) }
	}
	if to.put(one) {
		s.tasks.Go(func() { s.answerAll(ctx, to, one) })
	}
}

// queue returns the queue of a section's Access-Requests.
func (a *accounts) queue(section string) *queue {
	if a.asking[section] == nil {
		a.asking[section] = &queue{most: aaa.AtATime}
	}
	return a.asking[section]
}

// answerAll answers one question after the other, until none waits.
func (s *subscribers) answerAll(ctx context.Context, from *queue, one question) {
	for more := true; more; {
		v := subscriber.AuthReply{Text: "Login incorrect"}
		if err := task.Call(func() error { v = one.find(); return nil }); err != nil {
			s.log.Error("cannot authenticate a login", "login", one.request.Login, "error", err)
		}
		if ctx.Err() != nil {
			return // the end of this process rejects no login
		}
		request := one.request
		err := s.box.Ask(ctx, func(s *subscribers) {
			// the subscriber may have left while its request was in the queue
			one, more = from.next(func(q question) bool { return s.engine.Waits(q.request) })
			s.engine.Answer(request, v, time.Now())
			s.settle()
		})
		if errors.Is(err, task.ErrEnded) || ctx.Err() != nil {
			return
		}
	}
}

func (s *subscribers) askServers(ctx context.Context, client *aaa.Client, q subscriber.AuthRequest) subscriber.AuthReply {
	cannot := subscriber.AuthReply{Text: "Authentication is not available"}
	if client == nil {
		return cannot
	}
	inner, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := client.Authenticate(inner, accessRequest(q))
	if err != nil && ctx.Err() == nil {
		s.log.Warn("cannot authenticate a subscriber", "lns", q.LNS, "login", q.Login, "error", err)
	}
	if err != nil {
		return cannot
	}
	if len(r.Profile.Remarks) > 0 {
		s.log.Warn("an Access-Accept has values that are not used", "lns", q.LNS, "login", q.Login, "values", strings.Join(r.Profile.Remarks, "; "))
	}
	return replyOf(r)
}

// disconnect and change carry out Disconnect and CoA requests.
func (s *subscribers) disconnect(m subscriber.Match) int {
	defer s.settle()
	return s.engine.Kick(m, time.Now())
}

func (s *subscribers) change(m subscriber.Match, c subscriber.Change) int {
	defer s.settle()
	return s.engine.Change(m, c, time.Now())
}
