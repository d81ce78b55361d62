package accessrun

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"weft/internal/config"
	"weft/internal/feature/access"
	"weft/internal/runner"
	"weft/internal/slowpath"
	"weft/internal/state"
	"weft/internal/store"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// subscribers runs the engine of the [access.NAME] and [l2tp_client.NAME]
// sections: its sockets, its devices' user-space ends, its clock, its store.
type subscribers struct {
	log   *slog.Logger
	dir   string
	doors runner.Doors

	mu         sync.Mutex // of the engine and all below
	engine     *access.Engine
	begun      bool
	sockets    map[netip.AddrPort]datagrams
	kept       map[netip.AddrPort]bool // sockets of listen; others are clients'
	servers    map[string]string       // client -> server
	devices    map[int]string
	taps       map[string]*tap
	news       chan struct{} // the engine has been fed
	ctx        context.Context
	store      *store.File
	leases     map[string]*store.File // what logins were given, by section
	leasePaths map[string]string
	learned    map[string]access.Learned
	tasks      task.Tasks
	path       access.Sessions // nil: there is no datapath
	said       []message       // by the engine, until the datapath knows what led to it
	accounts   *accounts
	routes     subscriberRoutes
	captures   captures
	// comparing are passwords that are compared with their hashes: one keeps a CPU
	// busy for some 50 ms.
	comparing queue
	settings  accessSettings // as they were set last, without the users of files
	files     map[string]*usersFile
	swept     bool
	changed   int             // sessions that came or went since the last look
	stormy    bool            // many did
	garbage   int             // how much there may be of it when they do not (GOGC)
	covered   []netip.Prefix  // by routes of the plan
	begunHere map[string]bool // sections whose RADIUS servers know that they began
}

// tap is a device's user-space end.
type tap struct {
	device device
	cancel context.CancelFunc
}

// device is a *slowpath.Device.
type device interface {
	Serve(ctx context.Context, handle func(ip []byte, how state.Arrival) []slowpath.Packet) error
	Put(slowpath.Packet) error
	Close() error
}

func newSubscribers(d runner.Doors, hosts access.HostResponder) *subscribers {
	s := &subscribers{
		log: d.Log, dir: d.Paths.Run, doors: d, sockets: map[netip.AddrPort]datagrams{}, kept: map[netip.AddrPort]bool{},
		servers: map[string]string{}, devices: map[int]string{}, taps: map[string]*tap{}, news: make(chan struct{}, 1),
		leases: map[string]*store.File{}, leasePaths: map[string]string{},
		learned: map[string]access.Learned{}, accounts: newAccounts(d.Log),
		routes: subscriberRoutes{of: map[uint16][]netip.Prefix{}}, comparing: queue{most: max(1, runtime.NumCPU()/2)},
		files: map[string]*usersFile{},
	}
	s.engine = access.NewEngine(s, hosts, func(b []byte) { _, _ = rand.Read(b) }) // it never fails
	return s
}

func clientFile(dir string) string { return filepath.Join(dir, "l2tp.json") }

// readClients reads what clients have learned; nothing is there after a boot.
func readClients(dir string) (map[string]state.L2TPClient, error) {
	m := map[string]state.L2TPClient{}
	if _, err := statefile.Read(clientFile(dir), &m); err != nil {
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
	covered := coveredBy(servers)
	moved := !slices.Equal(covered, s.covered)
	s.covered = covered
	s.settings = accessSettings{file: f, servers: servers, clients: clients}
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
	s.readUsers()
	s.apply(now)
	s.setLeases(f)
	if first {
		s.restore(ctx, now)
		s.announce(ctx, f, now)
		s.tasks.Go(func() { s.work(ctx) })
		s.tasks.Go(func() { s.followUsers(ctx) })
	} else {
		s.announce(ctx, f, now)
	}
	if moved { // what a pool's route led to may need one of its own now
		s.engine.PutAgain()
	}
	s.wake()
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
		s.settle()
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
			s.mu.Lock()
			s.giveBack()
			s.mu.Unlock()
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

// carryOut does what is due, and tells store, servers and datapath of what has
// happened.
func (s *subscribers) carryOut(ctx context.Context) {
	s.mu.Lock()
	s.engine.Tick(time.Now())
	s.settle()
	b := s.engine.Take()
	learned := s.engine.Learned()
	settled := s.accounts.settled()
	if !s.swept {
		s.swept = true
		s.sweepRoutes(learned)
	}
	s.pace()
	s.mu.Unlock()
	if b.Empty() {
		s.keep(settled)
	} else {
		told, books := s.account(b.Accounts)
		s.keep(slices.Concat(b.Store, books, settled))
		s.tell(ctx, told)
		s.removeSessions(b)
		s.keepLeases(b.Leases)
		s.sweepSockets()
	}
	s.hold(learned)
	s.learn(learned)
}

// learn keeps what clients have got, and tells.
func (s *subscribers) learn(now map[string]access.Learned) {
	if maps.EqualFunc(now, s.learned, access.Learned.Equal) {
		return
	}
	for name, l := range now {
		switch was := s.learned[name]; {
		case l.Up && (!was.Up || l.IPv4 != was.IPv4 || l.Delegated != was.Delegated): // one after the other
			s.log.Info("L2TP session is up", "client", name, "ipv4", addressText(l.IPv4), "prefix", prefixText(l.Delegated))
		case !l.Up && was.Up:
			s.log.Warn("L2TP session is down", "client", name)
		}
	}
	s.learned = now
	if err := statefile.Write(clientFile(s.dir), now); err != nil {
		s.log.Error("what an L2TP server gave cannot be kept", "error", err)
		return
	}
	s.doors.Replan()
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return "none"
	}
	return a.String()
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return "none"
	}
	return p.String()
}

// wait ends the tasks. Nobody is told: sessions go on, and the next process
// takes them over.
func (s *subscribers) wait() {
	s.tasks.Wait()
	if s.store != nil {
		s.endAccounts()
		_ = s.store.Close()
	}
	for _, file := range s.leases {
		_ = file.Close()
	}
}
