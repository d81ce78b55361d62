package guardrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/datapath/guardtable"
	"weft/internal/feature/guard"
	"weft/internal/kernel/netfilter"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store/statefile"
	"weft/internal/task"
)

// guardList is what the guard's list is written to: the datapath.
type guardList interface {
	SetGuardList([]state.GuardEntry) error
	PutGuardEntry(state.GuardEntry) error
	RemoveGuardEntry(netip.Prefix) error
}

// Runner keeps the guard's list what weft.toml, the files that it names, and
// weft block say. It looks once a second whether one of them has changed.
type Runner struct {
	doors runner.Doors
	loop  *task.Loop[*blocking]
	first *task.Gate // the first list is in force, or cannot be
}

// blocking is what the runner's loop owns.
type blocking struct {
	task *task.Task        // nil: nothing was guarded so far
	next chan *config.File // one: the last that was applied
	file *config.File
	list atomic.Pointer[inForce]
}

// inForce is the list as the programs have it.
type inForce struct {
	guarded bool
	entries int
	// commands is when what weft block noted was changed last.
	commands time.Time
	known    bool  // nothing waits to be written
	fault    error // what of it could not be read
}

const blocksLook = time.Second

// largeList is from how many entries on the memory is given back at once that
// writing a list took.
const largeList = 100_000

// New makes the runner. ctx ends when the router stops.
func New(ctx context.Context, d runner.Doors) runner.Runner {
	return &Runner{d, task.StartLoop(ctx, "guard", &blocking{next: make(chan *config.File, 1)}, nil), task.NewGate()}
}

// Ready returns what is closed once the list is in force that was wanted first,
// as far as it could be read; nil if none is wanted.
func (r *Runner) Ready() <-chan struct{} {
	if !task.Get(context.Background(), r.loop, func(b *blocking) bool { return b.task != nil }) {
		return nil
	}
	return r.first.Opened()
}

// Awaited returns what Ready waits for: until then what the list blocks is let in.
func (r *Runner) Awaited() string {
	return "reading the block list"
}

// Apply makes the file what the list is made of.
func (r *Runner) Apply(ctx context.Context, round runner.Round) error {
	f := round.File
	return r.loop.Ask(ctx, func(b *blocking) {
		if b.file == f || len(f.Names("guard")) == 0 && b.task == nil {
			return
		}
		b.file = f
		select {
		case <-b.next: // not taken yet
		default:
		}
		b.next <- f
		if b.task == nil {
			w := &blockWriter{doors: r.doors, list: guardtable.Of(r.doors.Datapath), reader: netfilter.NFT{}, files: map[string]*listFile{}, wrong: map[string]*listFile{}, sets: map[string]*blockSet{}}
			b.task = task.Keep(ctx, task.Kept{Name: "block list", Log: r.doors.Log, Run: func(ctx context.Context, works func()) error {
				return w.run(ctx, works, b.next, func(l *inForce) {
					b.list.Store(l)
					r.first.Open()
				})
			}})
		}
	})
}

// Status reports whether the block list is in force as a whole.
func (r *Runner) Status(ctx context.Context) []state.Health {
	return task.Get(ctx, r.loop, func(b *blocking) []state.Health {
		l := b.list.Load()
		if b.task == nil || l != nil && !l.guarded {
			return nil
		}
		fault := b.task.Fault()
		if l != nil && fault == nil {
			fault = l.fault
		}
		return []state.Health{state.HealthOf("guard", "", fault, "the readable entries are in force; correct the cause above, weft reads the lists again by itself")}
	})
}

// Close stops the task; what is blocked stays blocked.
func (r *Runner) Close() error {
	if t := task.Close(r.loop).task; t != nil {
		t.Stop()
	}
	return nil
}

// BlockList returns the list in force; empty: nothing is guarded, or it is not known.
func (r *Runner) BlockList(ctx context.Context) []guard.BlockList {
	l := task.Get(ctx, r.loop, func(b *blocking) *inForce { return b.list.Load() })
	if l == nil || !l.known || !l.guarded {
		return nil
	}
	return []guard.BlockList{{Entries: l.entries, Commands: l.commands}}
}

// run keeps the list until ctx ends. inForce is called after each look.
func (w *blockWriter) run(ctx context.Context, works func(), next <-chan *config.File, put func(*inForce)) error {
	g := task.NewGroup(ctx)
	defer func() { _ = g.Stop() }()
	ctx = g.Context()
	tick := time.NewTicker(blocksLook)
	defer tick.Stop()
	var changed <-chan struct{} // the ruleset has, while sets are of interest
	works()
	for {
		select {
		case <-ctx.Done():
			return g.Stop()
		case <-changed:
			w.ruleset = true
			task.Pause(ctx, rulesetPause) // changes come in bursts
		case w.file = <-next:
			w.changed = true
		case <-tick.C:
		}
		if w.file == nil {
			continue
		}
		if changed == nil && len(guard.BlockOf(w.file).Sets) > 0 {
			changed = w.rulesetEvents(g)
		}
		err := w.follow(ctx, w.file, time.Now())
		if w.said.Changed(err) && err != nil && ctx.Err() == nil {
			w.doors.Log.Error("cannot read parts of the block list", "error", err)
		}
		put(&inForce{
			guarded: len(w.file.Names("guard")) > 0, known: !w.changed, fault: err,
			entries: len(w.written), commands: w.runtime.stamp,
		})
	}
}

// rulesetPause is the pause before sets are read after a change.
const rulesetPause = 50 * time.Millisecond

// rulesetEvents has something whenever the ruleset changed; nil if it cannot be
// followed, and then sets are read as seldom as silent ones.
func (w *blockWriter) rulesetEvents(g *task.Group) <-chan struct{} {
	events, err := netfilter.OpenRulesetEvents()
	if err != nil {
		w.doors.Log.Error("cannot subscribe to changes of nftables sets", "error", err)
		return nil
	}
	g.Go(func(ctx context.Context) error { events.Follow(ctx); return nil })
	return events.Wake()
}

// blockWriter is what the task knows.
type blockWriter struct {
	doors   runner.Doors
	list    guardList
	file    *config.File
	files   map[string]*listFile
	wrong   map[string]*listFile // with mistakes: not read again until they are others
	sets    map[string]*blockSet
	reader  setReader
	ruleset bool // it changed since sets were read
	runtime listFile
	blocked []guard.Blocked
	changed bool
	expires time.Time // when the next blocked source is let in again; zero: never
	written []state.GuardEntry
	whole   bool // written is what the list holds
	said    task.OnChange
}

// listFile is a file as it was read last.
type listFile struct {
	stamp    time.Time
	size     int64
	inode    uint64
	prefixes []netip.Prefix
}

// follow writes the list again if one of its sources has changed.
func (w *blockWriter) follow(ctx context.Context, f *config.File, now time.Time) error {
	block := guard.BlockOf(f)
	errs := []error{w.readSets(ctx, block.Sets, now)}
	for _, name := range block.Files {
		errs = append(errs, w.read(name))
	}
	for _, files := range []map[string]*listFile{w.files, w.wrong} {
		maps.DeleteFunc(files, func(name string, _ *listFile) bool { return !slices.Contains(block.Files, name) })
	}
	errs = append(errs, w.readRuntime())
	if !w.expires.IsZero() && !now.Before(w.expires) {
		w.changed = true
	}
	if w.changed {
		if err := w.write(f, block, now); err != nil {
			errs = append(errs, err)
		} else {
			w.changed = false
		}
	}
	return errors.Join(errs...)
}

func (w *blockWriter) write(f *config.File, block *guard.Block, now time.Time) error {
	var entries []state.GuardEntry
	if len(f.Names("guard")) > 0 {
		l := guard.Lists{Block: block, Blocked: w.blocked}
		for _, name := range f.Names("guard") {
			l.Bogons = l.Bogons || guard.From(f, name).Bogons
		}
		for _, name := range block.Files {
			if file := w.files[name]; file != nil {
				l.Files = append(l.Files, file.prefixes)
			}
		}
		for _, name := range block.Sets {
			if set := w.sets[name]; set != nil {
				l.Files = append(l.Files, set.prefixes)
			}
		}
		entries = l.Entries(now)
	}
	w.expires = time.Time{}
	for _, b := range w.blocked {
		if b.Until.After(now) && (w.expires.IsZero() || b.Until.Before(w.expires)) {
			w.expires = b.Until
		}
	}
	put, gone := guard.Changes(w.written, entries)
	if !w.whole || len(put)+len(gone) > max(64, len(entries)/50) {
		w.whole = false
		if err := w.list.SetGuardList(entries); err != nil {
			return err
		}
		w.doors.Log.Info("block list written", "entries", len(entries))
		w.written, w.whole = entries, true
		if len(entries) >= largeList {
			debug.FreeOSMemory() // as much again was needed for a moment, and routers are small
		}
		return nil
	}
	w.whole = false
	for _, e := range put {
		if err := w.list.PutGuardEntry(e); err != nil {
			return err
		}
	}
	for _, p := range gone {
		if err := w.list.RemoveGuardEntry(p); err != nil {
			return err
		}
	}
	w.written, w.whole = entries, true
	return nil
}

// read reads a list again if the file has changed. A list that cannot be read, or has a
// mistake, keeps its previous content in force. Of a list without previous content the
// valid lines are in force.
func (w *blockWriter) read(name string) error {
	known := w.files[name]
	if wrong := w.wrong[name]; wrong != nil {
		known = wrong
	}
	file, stamp, err := openIfNewer(name, known)
	if err != nil || file == nil {
		return err
	}
	defer file.Close()
	stamp.prefixes, err = guard.ReadFile(name, file)
	if err == nil {
		delete(w.wrong, name)
	} else {
		w.wrong[name] = &listFile{stamp: stamp.stamp, size: stamp.size, inode: stamp.inode}
		if w.files[name] != nil {
			return fmt.Errorf("%w; what the file said before stays in force", err)
		}
		err = fmt.Errorf("%w; %d of its lines are in force", err, len(stamp.prefixes))
	}
	w.files[name], w.changed = stamp, true
	return err
}

// openIfNewer opens a file unless it is the one that known was read from.
func openIfNewer(name string, known *listFile) (*os.File, *listFile, error) {
	file, err := statefile.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read block list: %w", err)
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read block list %s: %w", name, err), file.Close())
	}
	stamp := &listFile{stamp: time.Unix(s.Mtim.Unix()), size: s.Size, inode: s.Ino}
	if known != nil && known.stamp.Equal(stamp.stamp) && known.size == stamp.size && known.inode == stamp.inode {
		return nil, nil, file.Close()
	}
	return file, stamp, nil
}

func (w *blockWriter) readRuntime() error {
	file, stamp, err := openIfNewer(BlockedFile(w.doors.Paths), &w.runtime)
	if errors.Is(err, fs.ErrNotExist) {
		if len(w.blocked) > 0 {
			w.blocked, w.runtime, w.changed = nil, listFile{}, true
		}
		return nil
	}
	if err != nil || file == nil {
		return err
	}
	defer file.Close()
	var list []note
	if err := json.NewDecoder(file).Decode(&list); err != nil {
		return &statefile.Damaged{Path: file.Name(), Err: err}
	}
	w.blocked, w.runtime, w.changed = readNotes(list, time.Now(), statefile.Boottime()), *stamp, true
	return nil
}
