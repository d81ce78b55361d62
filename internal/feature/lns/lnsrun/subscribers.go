package lnsrun

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"weft/internal/config"
	"weft/internal/feature/lns"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// subscribers is the state of one loop: the engine of the [lns.NAME] and
// [l2tp_client.NAME] sections, with its sockets, user-space ends of devices, RADIUS
// clients and routes. Only functions that the loop runs touch it; readers of sockets and
// devices, password checks, RADIUS and the disk ask it through box. The loop itself never
// waits for any of them: a send that does not fit is dropped (datagrams.Send), and change
// sets go to another loop (disk), one at a time.
type subscribers struct {
	log   *slog.Logger
	doors runner.Doors
	box   task.Mailbox[*subscribers]
	ctx   context.Context // of the tasks that ask the loop; Close cancels it
	tasks task.Tasks
	guard task.Guard // of messages that the engine handles
	wake  task.Wake  // accounting records are acknowledged

	engine    *subscriber.Engine
	begun     bool
	sockets   map[netip.AddrPort]datagrams
	kept      map[netip.AddrPort]bool // sockets of listen; the others are clients'
	unsent    uint64                  // datagrams dropped because a socket's buffer was full
	servers   map[string]string       // client -> server
	devices   map[int]string
	taps      map[string]*tap
	learned   map[string]subscriber.Learned
	path      sessionTables // nil: no datapath
	said      []message     // of the engine; sent after the datapath has the changes that led to them
	accounts  *accounts
	routes    subscriberRoutes
	captures  captures
	comparing queue       // logins to compare with bcrypt hashes: one comparison takes about 50 ms of CPU time
	settings  lnsSettings // the current ones, without the users of files
	users     map[string][]lns.User
	swept     bool
	changed   int             // sessions that began or ended since the last look
	stormy    bool            // a storm goes on
	garbage   int             // GOGC outside storms
	covered   []netip.Prefix  // prefixes of the plan's routes
	begunHere map[string]bool // sections that have sent Accounting-On

	disk   *task.Loop[*disk]
	keeps  bool                // the store is open
	unkept []subscriber.Stored // changes of the store besides the engine's
	saving *save               // on its way to the disk; nil: none
}

func newSubscribers(ctx context.Context, d runner.Doors, hosts subscriber.HostResponder) *subscribers {
	s := &subscribers{
		log: d.Log, doors: d, box: task.NewMailbox[*subscribers](), ctx: ctx, wake: task.NewWake(),
		sockets: map[netip.AddrPort]datagrams{}, kept: map[netip.AddrPort]bool{},
		servers: map[string]string{}, devices: map[int]string{}, taps: map[string]*tap{},
		learned: map[string]subscriber.Learned{}, accounts: newAccounts(d.Log),
		routes: subscriberRoutes{of: map[uint16][]netip.Prefix{}}, comparing: queue{most: max(1, runtime.NumCPU()/2)},
		begunHere: map[string]bool{},
	}
	s.engine = subscriber.NewEngine(s, hosts, func(b []byte) { _, _ = rand.Read(b) }) // it never fails
	return s
}

// get asks the loop for a value; the zero value if it has ended.
func get[T any](ctx context.Context, box task.Mailbox[*subscribers], f func(*subscribers) T) (v T) {
	_ = box.Ask(ctx, func(s *subscribers) { v = f(s) }) // a loop that has ended has nothing to show
	return v
}

// run is the loop. It carries out requests and due work, and then the engine's
// decisions.
func (s *subscribers) run(ctx context.Context, works func()) error {
	works()
	timer := time.NewTimer(0)
	defer timer.Stop()
	look := time.NewTicker(lookIdle)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			s.box.Close()
			return nil
		case f := <-s.box.Asked():
			f(s)
		case <-s.wake:
		case <-timer.C:
		case <-look.C:
			s.lookForIdle()
			s.giveBack()
		}
		s.carryOut(time.Now())
		timer.Reset(s.untilDue())
	}
}

// untilDue is the time until the next due work.
func (s *subscribers) untilDue() time.Duration {
	if at := s.engine.Due(); !at.IsZero() {
		return max(time.Until(at), 0)
	}
	return time.Hour
}

// carryOut does the due work, updates datapath, routes and peers, and passes the changes
// to the disk, unless a change set is on its way there: then the next one grows.
func (s *subscribers) carryOut(now time.Time) {
	if !s.begun {
		return
	}
	s.engine.Tick(now)
	s.settle()
	s.logLogins()
	learned := s.engine.Learned()
	if !s.swept {
		s.swept = true
		s.sweepRoutes(learned)
	}
	s.pace()
	s.hold(learned)
	if s.saving == nil {
		s.startSave(learned)
	}
}

// set configures the sections as in f; k is what the files hold of them.
func (s *subscribers) set(ctx context.Context, f *config.File, facts state.Facts, k kept) {
	servers, clients := lns.Settings(f, facts)
	s.devices = lns.Devices(f, facts)
	covered := coveredBy(servers)
	moved := !slices.Equal(covered, s.covered)
	s.covered = covered
	s.settings = lnsSettings{file: f, servers: servers, clients: clients}
	s.listen(ctx, servers)
	s.serveTaps(facts)
	s.serveAccounts(ctx, f)
	s.servers = map[string]string{}
	for _, c := range clients {
		s.servers[c.Name] = c.Server
	}
	now := time.Now()
	first := !s.begun
	if first {
		s.begun = true
		s.openDatapath()
	}
	s.users = k.users
	s.apply(now)
	s.engine.RestoreLeases(k.leases)
	if first {
		s.restore(ctx, k, now)
	}
	s.announce(ctx, f, now)
	if moved { // an address that the pool's route covered may need a route of its own now
		s.engine.PutAgain()
	}
}

// finish carries out the engine's last decisions, after the loop and its tasks have
// ended. Peers get no message: sessions continue, and the next process takes them over.
func (s *subscribers) finish(d *disk) {
	if s.saving != nil {
		s.saved(s.saving)
	}
	if s.begun {
		s.carryOutOn(d)
		s.endAccounts(d)
	}
}

// carryOutOn is the last carryOut: it waits for the disk.
func (s *subscribers) carryOutOn(d *disk) {
	s.engine.Tick(time.Now())
	s.settle()
	if one := s.changes(s.engine.Learned()); !one.empty() {
		d.save(one)
		s.saved(one)
	}
}

// addressText and prefixText format for the log.
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
