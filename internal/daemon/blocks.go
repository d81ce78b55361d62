package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/feature/guard"
	"weft/internal/feature/guard/guardrun"
	"weft/internal/kernel"
	"weft/internal/paths"
	"weft/internal/state"
)

// guardList is what the guard's list is written to: the datapath.
type guardList interface {
	SetGuardList([]state.GuardEntry) error
	PutGuardEntry(state.GuardEntry) error
	RemoveGuardEntry(netip.Prefix) error
}

// blocks keeps the guard's list what weft.toml, the files that it names, and
// weft block say. It looks once a second whether one of them has changed.
type blocks struct {
	log   *slog.Logger
	place paths.Dirs
	list  guardList
	nft   *kernel.Kernel // for sets
	tasks sync.WaitGroup
	mu    sync.Mutex
	file  *config.File   // of the task; nil: nothing is guarded
	begun bool           // the task runs
	poke  chan struct{}  // the configuration is another
	first chan struct{}  // closed once the first list is in force, or cannot be
	told  *api.BlockList // as it is in force; nil: it was not read yet
}

const blocksLook = time.Second

// largeList is from how many entries on the memory is given back at once that
// writing a list took.
const largeList = 100_000

func newBlocks(log *slog.Logger, p paths.Dirs, list guardList, k *kernel.Kernel) *blocks {
	return &blocks{log: log, place: p, list: list, nft: k, poke: make(chan struct{}, 1), first: make(chan struct{})}
}

// inForce gives what is closed once the list is in force that was wanted first,
// as far as it could be read; nil if none is wanted.
func (b *blocks) inForce() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun {
		return nil
	}
	return b.first
}

// set makes f what the list is made of.
func (b *blocks) set(ctx context.Context, f *config.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == f {
		return
	}
	guarded := len(f.Names("guard")) > 0
	if !guarded && !b.begun {
		return
	}
	b.file = f
	select {
	case b.poke <- struct{}{}:
	default:
	}
	if !b.begun {
		b.begun = true
		b.tasks.Go(func() { b.run(ctx) })
	}
}

func (b *blocks) wait() { b.tasks.Wait() }

func (b *blocks) run(ctx context.Context) {
	tick := time.NewTicker(blocksLook)
	defer tick.Stop()
	w := &blockWriter{blocks: b, files: map[string]*listFile{}, wrong: map[string]*listFile{}, sets: map[string]*blockSet{}, reader: b.nft}
	var changed <-chan struct{} // the ruleset has, while sets are of interest
	begun := sync.OnceFunc(func() { close(b.first) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			w.ruleset = true
			select { // changes come in bursts
			case <-ctx.Done():
			case <-time.After(lookAfter):
			}
		case <-b.poke:
			w.changed = true
		case <-tick.C:
		}
		b.mu.Lock()
		f := b.file
		b.mu.Unlock()
		if changed == nil && len(guard.BlockOf(f).Sets) > 0 {
			changed = b.rulesetNews(ctx)
		}
		if err := w.follow(ctx, f, time.Now()); err != nil && ctx.Err() == nil && err.Error() != w.said {
			b.log.Error("not all of the block list could be read", "error", err)
			w.said = err.Error()
		}
		w.tell(f)
		begun()
	}
}

// rulesetNews has something whenever the ruleset changed; nil if it cannot be
// followed, which is told, and then sets are read as seldom as silent ones.
func (b *blocks) rulesetNews(ctx context.Context) <-chan struct{} {
	news, err := b.nft.RulesetNews()
	if err != nil {
		b.log.Error("changes of sets are not heard of", "error", err)
		return nil
	}
	b.tasks.Go(func() { news.Follow(ctx) })
	return news.Wake()
}

// blockWriter is what the task knows.
type blockWriter struct {
	*blocks
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
	said    string
}

// listFile is a file as it was read last.
type listFile struct {
	stamp    time.Time
	size     int64
	inode    uint64
	prefixes []netip.Prefix
}

// follow writes the list anew if anything that it is made of has changed.
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
	if err := errors.Join(errs...); err != nil {
		return err
	}
	w.said = ""
	return nil
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
		w.log.Info("the block list was written", "entries", len(entries))
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

// read reads a list again if the file is another. One that cannot be read, or
// has a mistake, leaves what it said before in force. Of one that nobody has read
// before, the lines are in force that are right.
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
	file, err := os.Open(name)
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
	file, stamp, err := openIfNewer(guardrun.BlockedFile(w.place), &w.runtime)
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
	var list []guard.Blocked
	if err := json.NewDecoder(file).Decode(&list); err != nil {
		return fmt.Errorf("read %s: %w", file.Name(), err)
	}
	w.blocked, w.runtime, w.changed = list, *stamp, true
	return nil
}
