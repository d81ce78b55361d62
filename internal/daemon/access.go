package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weft/internal/config"
	"weft/internal/feature/access"
	"weft/internal/keep"
	"weft/internal/l2tpio"
	"weft/internal/slowpath"
	"weft/internal/state"
)

// subscribers runs the engine of the [access.NAME] and [l2tp_client.NAME]
// sections: its sockets, its devices' user-space ends, its clock, its store.
type subscribers struct {
	log    *slog.Logger
	dir    string
	found  chan<- struct{} // told when a client has learned something
	router *Router

	mu       sync.Mutex // of the engine and all below
	engine   *access.Engine
	begun    bool
	sockets  map[netip.AddrPort]*l2tpio.Socket
	kept     map[netip.AddrPort]bool // sockets of listen; others are clients'
	servers  map[string]string       // client -> server
	devices  map[int]string
	taps     map[string]*tap
	news     chan struct{} // the engine has been fed
	ctx      context.Context
	store    *keep.File
	learned  map[string]access.Learned
	tasks    sync.WaitGroup
	path     access.Sessions // nil: there is no datapath
	accounts *accounts
	routes   subscriberRoutes
	swept    bool
	covered  []netip.Prefix // by routes of the plan
}

// tap is a device's user-space end.
type tap struct {
	device *slowpath.Device
	cancel context.CancelFunc
}

func newSubscribers(log *slog.Logger, r *Router, found chan<- struct{}) *subscribers {
	s := &subscribers{
		log: log, dir: r.Place.Run, found: found, router: r, sockets: map[netip.AddrPort]*l2tpio.Socket{}, kept: map[netip.AddrPort]bool{},
		servers: map[string]string{}, devices: map[int]string{}, taps: map[string]*tap{}, news: make(chan struct{}, 1),
		learned: map[string]access.Learned{}, accounts: newAccounts(log),
		routes: subscriberRoutes{of: map[uint16][]netip.Prefix{}},
	}
	s.engine = access.NewEngine(s, func(b []byte) { _, _ = rand.Read(b) }) // it never fails
	return s
}

func clientFile(dir string) string { return filepath.Join(dir, "l2tp.json") }

// readClients reads what clients have learned; nothing is there after a boot.
func readClients(dir string) (map[string]state.L2TPClient, error) {
	m := map[string]state.L2TPClient{}
	text, err := os.ReadFile(clientFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read what L2TP servers gave: %w", err)
	}
	return m, nil
}

// set makes the sections those of f.
func (s *subscribers) set(ctx context.Context, f *config.File, facts state.Facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	servers, clients := access.Settings(f, facts)
	if len(servers)+len(clients) == 0 && !s.begun {
		return
	}
	s.devices = access.Devices(f, facts)
	s.covered = coveredBy(servers)
	s.listen(ctx, servers)
	s.serveTaps(ctx, facts)
	s.serveAccounts(ctx, f)
	s.servers = map[string]string{}
	for _, c := range clients {
		s.servers[c.Name] = c.Server
	}
	now := time.Now()
	first := !s.begun
	if first {
		s.begun, s.ctx = true, ctx
		s.openDatapath()
	}
	s.engine.Set(servers, clients, now)
	if first {
		s.restore(ctx, now)
		s.tasks.Go(func() { s.work(ctx) })
	}
	s.wake()
}

// listen opens and closes sockets so that they are those of the sections.
func (s *subscribers) listen(ctx context.Context, servers []access.ServerSettings) {
	wanted := map[netip.AddrPort]bool{}
	for _, one := range servers {
		for _, a := range one.Listen {
			wanted[a] = true
			if s.sockets[a] != nil {
				continue
			}
			if err := s.open(ctx, a); err != nil {
				s.log.Error("LACs cannot reach this router", "access", one.Name, "error", err)
			}
		}
	}
	for a := range s.kept {
		if !wanted[a] {
			_ = s.sockets[a].Close()
			delete(s.sockets, a)
		}
	}
	maps.DeleteFunc(wanted, func(a netip.AddrPort, _ bool) bool { return s.sockets[a] == nil })
	s.kept = wanted
}

func (s *subscribers) open(ctx context.Context, at netip.AddrPort) error {
	socket, err := l2tpio.Open(ctx, at)
	if err == nil {
		s.take(ctx, socket)
	}
	return err
}

// take reads a socket from now on.
func (s *subscribers) take(ctx context.Context, socket *l2tpio.Socket) {
	here := socket.Here()
	s.sockets[here] = socket
	s.tasks.Go(func() {
		stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
		defer stop()
		b := make([]byte, 65536)
		for {
			n, from, err := socket.Receive(b)
			if err != nil {
				return // it was closed
			}
			s.mu.Lock()
			s.engine.Receive(here, from, b[:n], time.Now())
			s.mu.Unlock()
			s.wake()
		}
	})
}

func (s *subscribers) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// serveTaps keeps the user-space ends of the devices.
func (s *subscribers) serveTaps(ctx context.Context, facts state.Facts) {
	wanted := map[string]bool{}
	for _, name := range s.devices {
		wanted[name] = true
		link, there := facts.Link(name)
		if s.taps[name] != nil || !there {
			continue
		}
		device, err := slowpath.Open(name, link.MAC)
		if err != nil {
			s.log.Error("no slow path for subscribers", "device", name, "error", err)
			continue
		}
		inner, cancel := context.WithCancel(ctx)
		t := &tap{device, cancel}
		s.taps[name] = t
		s.tasks.Go(func() { s.serveTap(inner, name, t) })
	}
	for name, t := range s.taps {
		if !wanted[name] {
			t.cancel()
			delete(s.taps, name)
		}
	}
}

func (s *subscribers) serveTap(ctx context.Context, name string, t *tap) {
	defer t.device.Close()
	err := t.device.Serve(ctx, func(ip []byte, _ state.Arrival) []slowpath.Packet {
		s.mu.Lock()
		s.engine.Transmit(name, ip)
		s.mu.Unlock()
		return nil
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	s.log.Warn("slow path of subscribers interrupted", "device", name, "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taps[name] == t {
		delete(s.taps, name) // the event loop makes it anew
	}
}

// Send, Deliver, Reply, Ask and Dial are what the engine needs; it calls them
// while the lock is held.
func (s *subscribers) Send(here, peer netip.AddrPort, b []byte) {
	if socket := s.sockets[here]; socket != nil {
		socket.Send(b, peer)
	}
}

func (s *subscribers) Deliver(id int, ip []byte) { s.put(id, ip, false) }

func (s *subscribers) Reply(id int, ip []byte) { s.put(id, ip, true) }

func (s *subscribers) put(id int, ip []byte, own bool) {
	if t := s.taps[s.devices[id]]; t != nil {
		_ = t.device.Put(slowpath.Packet{Bytes: ip, Local: own}) // lost like any packet that the stack refuses
	}
}

// dialTime bounds finding a server.
const dialTime = 10 * time.Second

func (s *subscribers) Dial(name string) {
	server, ctx := s.servers[name], s.ctx
	s.tasks.Go(func() {
		target, err := access.ServerAddress(server)
		var socket *l2tpio.Socket
		var peer netip.AddrPort
		if err == nil {
			inner, cancel := context.WithTimeout(ctx, dialTime)
			socket, peer, err = l2tpio.Dial(inner, target)
			cancel()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.engine.NotDialed(name, err.Error(), time.Now())
		} else {
			s.take(ctx, socket)
			s.engine.Dialed(name, socket.Here(), peer, time.Now())
		}
		s.wake()
	})
}

// work does what is due, and carries out what the engine decided.
func (s *subscribers) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := time.NewTicker(lookIdle)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			s.carryOut(ctx)
			return
		case <-s.news:
		case <-timer.C:
		case <-look.C:
			s.lookForIdle()
		}
		s.carryOut(ctx)
		timer.Reset(s.untilDue())
	}
}

// untilDue is how long nothing is to be done.
func (s *subscribers) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.engine.Due(); !at.IsZero() {
		return max(time.Until(at), 0)
	}
	return time.Hour
}

// carryOut tells datapath and store what has happened.
func (s *subscribers) carryOut(ctx context.Context) {
	s.mu.Lock()
	s.engine.Tick(time.Now())
	b := s.engine.Take()
	learned := s.engine.Learned()
	s.routes.covered = s.covered
	s.mu.Unlock()
	if !s.swept {
		s.swept = true
		s.sweepRoutes(b)
	}
	if !b.Empty() {
		s.account(ctx, b.Accounts)
		s.tellDatapath(b)
		s.route(b)
		s.keep(b.Store)
		s.sweepSockets()
	}
	s.learn(learned)
}

// learn keeps what clients have got, and tells.
func (s *subscribers) learn(now map[string]access.Learned) {
	if maps.EqualFunc(now, s.learned, access.Learned.Equal) {
		return
	}
	for name, l := range now {
		switch was := s.learned[name]; {
		case l.Up && !was.Up:
			s.log.Info("L2TP session is up", "client", name, "ipv4", l.IPv4.String(), "prefix", l.Delegated.String())
		case !l.Up && was.Up:
			s.log.Warn("L2TP session is down", "client", name)
		}
	}
	s.learned = now
	text, err := json.Marshal(now)
	if err == nil {
		file := clientFile(s.dir)
		if err = os.WriteFile(file+".new", text, 0o600); err == nil {
			err = os.Rename(file+".new", file)
		}
	}
	if err != nil {
		s.log.Error("what an L2TP server gave cannot be kept", "error", err)
		return
	}
	select {
	case s.found <- struct{}{}:
	default:
	}
}

// sweepSockets closes clients' sockets that no tunnel has any more.
func (s *subscribers) sweepSockets() {
	s.mu.Lock()
	defer s.mu.Unlock()
	inUse := s.engine.Addresses()
	for a, socket := range s.sockets {
		if !s.kept[a] && !inUse[a] {
			_ = socket.Close()
			delete(s.sockets, a)
		}
	}
}

func (s *subscribers) storeFile() string { return filepath.Join(s.dir, "subscribers.db") }

// restore takes over what another process has kept.
func (s *subscribers) restore(ctx context.Context, now time.Time) {
	file, err := keep.Open(s.storeFile())
	if err != nil {
		s.log.Error("sessions will not outlive this process", "error", err)
		return
	}
	s.store = file
	var list []access.Stored
	err = file.Each(func(key, value []byte) error {
		list = append(list, access.Stored{Key: string(key), Value: append([]byte{}, value...)})
		return nil
	})
	if err == nil {
		err = s.engine.Restore(list, now)
	}
	if err != nil {
		s.log.Error("sessions of the process before are lost", "error", err)
	}
	for a := range s.engine.Addresses() {
		if s.sockets[a] == nil {
			if err := s.open(ctx, a); err != nil {
				s.log.Error("a tunnel's address is taken", "error", err)
			}
		}
	}
	s.learned = map[string]access.Learned{}
	maps.Copy(s.learned, s.engine.Learned())
	s.sweepDatapath()
}

// keep writes what has changed.
func (s *subscribers) keep(list []access.Stored) {
	if s.store == nil || len(list) == 0 {
		return
	}
	changes := make([]keep.Change, 0, len(list))
	for _, k := range list {
		changes = append(changes, keep.Change{Key: []byte(k.Key), Value: k.Value})
	}
	if err := s.store.Apply(changes); err != nil {
		s.log.Error("sessions cannot be kept", "error", err)
	}
}

// wait ends the tasks. Nobody is told: sessions go on, and the next process
// takes them over.
func (s *subscribers) wait() {
	s.tasks.Wait()
	if s.store != nil {
		_ = s.store.Close()
	}
}
