package nat64run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"weft/internal/allocationlog"
	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/nat64"
	"weft/internal/state"
	"weft/internal/store"
	"weft/internal/syslog"
	"weft/internal/task"
)

// allocations writes the allocation logs of the stateful translators that have one. The
// datapath reports bindings in a ring buffer; bindings that found no room there, or were
// not read, are found by a scan of all bindings.
type allocations struct {
	log     *slog.Logger
	file    *config.File
	wanted  map[int]allocationTask // by translator's id
	blocks  map[int]string         // in force, as text, by translator's id
	epoch   string
	running *allocationRun
}

// allocationTask is what one translator wants.
type allocationTask struct {
	name, file string
	syslog     syslog.Settings
	days, mib  int
	blocks     string // its fixed port blocks, as text; with them bindings are not reported
}

// allocationRun is the task that reads the ring.
type allocationRun struct {
	log      *slog.Logger
	datapath *datapath.Datapath
	tasks    map[int]allocationTask
	epoch    string
	files    map[string]*allocationFile
	senders  map[syslog.Settings]*collector
	task     *task.Task
}

// allocationFile is an open log, and how far it goes.
type allocationFile struct {
	store     *store.Log
	log       *allocationlog.Log
	layouts   *allocationlog.Layouts
	fresh     map[int]bool // translators whose bindings it does not know at all
	unwritten bool         // the last write failed
	warned    uint64       // lost, when it was logged
	until     time.Time    // everything from before is in it
	lost      uint64
	known     bool // until and lost are of these tables
}

// every is how often the ring is read: it has room for 58,000 bindings.
const (
	every     = 250 * time.Millisecond
	writeMost = 16384 // in one block
)

// apply starts and stops so that it is as f wants it.
func (a *allocations) apply(ctx context.Context, d *datapath.Datapath, f *config.File) error {
	wanted, epoch, err := allocationTasks(d, f)
	if err != nil {
		return fmt.Errorf("allocations are not logged: %w", err)
	}
	defer a.keepBlocks(d, f) // after they are in the log
	a.file = f
	if maps.Equal(wanted, a.wanted) && epoch == a.epoch {
		return nil
	}
	a.leave(wanted)
	a.end()
	a.wanted, a.epoch = wanted, epoch
	if len(wanted) == 0 {
		return nil
	}
	r := &allocationRun{log: a.log, datapath: d, tasks: wanted, epoch: epoch, files: map[string]*allocationFile{}, senders: map[syslog.Settings]*collector{}}
	if err := r.open(f); err != nil {
		a.wanted = nil // the next round tries again
		r.close()
		return fmt.Errorf("allocations are not logged: %w", err)
	}
	first := true
	r.task = task.Keep(ctx, task.Kept{Name: "log of allocations", Log: a.log, Run: func(ctx context.Context, works func()) error {
		return r.run(ctx, works, &first)
	}})
	a.running = r
	return nil
}

func allocationTasks(d *datapath.Datapath, f *config.File) (map[int]allocationTask, string, error) {
	translators, err := nat64table.Of(d).Translators()
	if err != nil {
		return nil, "", err
	}
	wanted := map[int]allocationTask{}
	for _, t := range translators {
		c := nat64.From(f, t.Name)
		if c == nil || c.Mode != nat64.StatefulMode || c.AllocationLog == "" && c.AllocationSyslog == "" {
			continue
		}
		task := allocationTask{t.Name, c.AllocationLog, syslog.Settings{To: c.AllocationSyslog, CA: c.AllocationSyslogCA}, c.AllocationLogDays, c.AllocationLogMiB, ""}
		if l, fixed := c.Layout(); fixed {
			task.blocks = fmt.Sprint(l, l.Static)
		}
		wanted[t.ID] = task
	}
	epoch, err := nat64table.Of(d).Epoch()
	return wanted, epoch, err
}

// end ends the task, with everything written that has happened.
func (a *allocations) end() {
	if a.running != nil {
		a.running.task.Stop()
		a.running.close()
		a.running = nil
	}
}

func (r *allocationRun) open(f *config.File) error {
	if err := r.openAll(); err != nil {
		return err
	}
	return r.setLayouts(f)
}

func (r *allocationRun) openAll() error {
	for _, t := range r.tasks {
		if t.syslog.To != "" && r.senders[t.syslog] == nil {
			s, err := syslog.Open(t.syslog)
			if err != nil {
				return err
			}
			r.senders[t.syslog] = &collector{Sender: s}
		}
		if t.file == "" || r.files[t.file] != nil {
			continue
		}
		store, err := store.OpenLog(t.file, int64(t.mib)<<20)
		if err != nil {
			return err
		}
		if store.Damaged != nil {
			r.log.Warn("the allocation log was damaged; earlier allocations are in the file that is set aside", "file", t.file, "error", store.Damaged)
		}
		keepFor := time.Duration(t.days) * 24 * time.Hour
		file := &allocationFile{store: store, log: allocationlog.New(store, keepFor), layouts: allocationlog.NewLayouts(store, keepFor), fresh: map[int]bool{}}
		r.files[t.file] = file
		at, marks, found, err := file.log.Last()
		if err != nil {
			return err
		}
		switch {
		case found && marks.Epoch == r.epoch:
			file.until, file.lost, file.known = at, marks.Lost, true
		case found:
			if err := file.log.Restart(time.Now(), at, allocationlog.Marks{Epoch: r.epoch}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *allocationRun) close() {
	for _, f := range r.files {
		if err := f.store.Close(); err != nil {
			r.log.Error("cannot close the allocation log", "error", err)
		}
	}
	for _, s := range r.senders {
		s.Close()
	}
}

// run reads the ring until ctx ends. first: nothing was read since the files were opened.
func (r *allocationRun) run(ctx context.Context, works func(), first *bool) error {
	if !r.notifiesAny() {
		works()
		r.wait(ctx) // blocks are fixed: nothing happens
		return nil
	}
	events, err := nat64table.Of(r.datapath).BindingEvents()
	if err != nil {
		return err
	}
	defer events.Close()
	works()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var logged time.Time
	for {
		last := ctx.Err() != nil
		r.listen()
		if err := r.round(events, *first); err != nil && time.Since(logged) > time.Minute {
			r.log.Error("cannot write the allocation log; weft tries again with the bindings that still exist", "error", err)
			logged = time.Now()
		}
		*first = false
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// round writes what the ring has, and heals what it had no room for.
func (r *allocationRun) round(events *nat64table.BindingEvents, first bool) error {
	for {
		now := time.Now()
		list, err := events.Read(writeMost)
		if err != nil {
			return err
		}
		lost, err := events.Lost()
		if err != nil {
			return err
		}
		r.notify(list)
		for path, f := range r.files {
			err = errors.Join(err, r.write(path, f, now, lost, list, first))
		}
		if err != nil || len(list) < writeMost {
			return err
		}
	}
}

// overlap is how much before the last block a look through the bindings
// begins: times are rounded to ticks, and a process that was killed had events
// that it had not written.
const overlap = 2 * time.Second

func (r *allocationRun) write(path string, f *allocationFile, now time.Time, lost uint64, list []state.BindingEvent, first bool) error {
	list = slices.DeleteFunc(slices.Clone(list), func(e state.BindingEvent) bool { return !r.notifies(e.Translator, path) })
	marks := allocationlog.Marks{Epoch: r.epoch, Lost: lost}
	missed := f.known && lost != f.lost
	var err error
	switch {
	case missed || first || f.unwritten:
		var bound []state.BindingEvent
		if bound, err = r.bound(path, f, list); err != nil {
			break
		}
		if missed && f.warned != lost {
			f.warned = lost
			r.log.Warn("events of bindings were lost; a scan has found the bindings that still exist", "events", lost-f.lost)
		}
		if missed || f.unwritten {
			err = f.log.Gap(now, f.until, marks, append(list, bound...))
		} else if n := len(list) + len(bound); n > 0 || !f.known {
			err = f.log.Add(now, marks, append(list, bound...))
		}
	case len(list) > 0:
		err = f.log.Add(now, marks, list)
	}
	if err != nil {
		if !f.known {
			f.known, f.lost = true, lost
		}
		f.unwritten = true // the next round looks through the bindings
		return err
	}
	f.until, f.lost, f.known, f.unwritten = now, lost, true, false
	clear(f.fresh)
	return nil
}

// bound returns the bindings of a file's translators that are not among the
// events, and that the file does not have yet.
func (r *allocationRun) bound(path string, f *allocationFile, events []state.BindingEvent) ([]state.BindingEvent, error) {
	since := f.until.Add(-overlap)
	known := map[string]bool{}
	key := func(e state.BindingEvent) string { return fmt.Sprint(e.Protocol, e.IPv4, e.IPv6) }
	for _, e := range events {
		if e.Made {
			known[key(e)] = true
		}
	}
	var list []state.BindingEvent
	now := time.Now()
	for b, err := range nat64table.Of(r.datapath).Bindings() {
		if err != nil {
			return nil, err
		}
		made := now.Add(-b.Age)
		e := state.BindingEvent{Made: true, Translator: b.Translator, Protocol: b.Protocol, IPv6: b.IPv6, IPv4: b.IPv4, At: made, Since: made}
		if r.notifies(b.Translator, path) && (f.fresh[b.Translator] || !made.Before(since)) && !known[key(e)] {
			list = append(list, e)
		}
	}
	return list, nil
}

// tell sends events to the collectors.
func (r *allocationRun) notify(list []state.BindingEvent) {
	for _, e := range list {
		t := r.tasks[e.Translator]
		s := r.senders[t.syslog]
		if s == nil || t.blocks != "" {
			continue
		}
		id, text := "BOUND", fmt.Sprintf("translator=%s protocol=%s ipv6=%s ipv4=%s", t.name, state.ProtocolName(e.Protocol), e.IPv6, e.IPv4)
		if !e.Made {
			id, text = "RELEASED", fmt.Sprintf("%s since=%s", text, e.Since.UTC().Format(time.RFC3339Nano))
		}
		s.Send(e.At, id, text)
	}
}
