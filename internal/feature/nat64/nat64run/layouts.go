package nat64run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weft/internal/allocationlog"
	"weft/internal/config"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/nat64"
	"weft/internal/state"
)

// tells asks whether any translator tells of its bindings one by one.
func (r *allocationRun) notifiesAny() bool {
	for _, t := range r.tasks {
		if t.blocks == "" {
			return true
		}
	}
	return false
}

// tells asks it of one, and whether they belong into a file.
func (r *allocationRun) notifies(id int, path string) bool {
	return r.tasks[id].file == path && r.tasks[id].blocks == ""
}

// setLayouts writes down which blocks are in force from now on, and hands
// bindings over where a translator begins or ends to have blocks: with blocks
// none is written down.
func (r *allocationRun) setLayouts(f *config.File) error {
	for path, file := range r.files {
		change, err := file.layouts.Set(time.Now(), layoutsIn(f, r.tasks, path))
		if err != nil {
			return err
		}
		for _, name := range slices.Concat(change.Fixed, change.Changed, change.Free) {
			r.log.Info("the port blocks have changed", "translator", name, "log", path)
		}
		for id, t := range r.tasks {
			file.fresh[id] = file.fresh[id] || slices.Contains(change.Free, t.name)
		}
		if err := r.handOver(file, change.Fixed); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.tasks)) {
		t := r.tasks[id]
		if l, fixed := nat64.From(f, t.name).Layout(); fixed && r.senders[t.syslog] != nil {
			r.senders[t.syslog].Send(time.Now(), "LAYOUT", fmt.Sprintf("translator=%s %s", t.name, l))
		}
	}
	return nil
}

// layoutsIn returns the blocks of translators whose history is in a file.
func layoutsIn(f *config.File, tasks map[int]allocationTask, path string) map[string]allocationlog.Layout {
	all := map[string]allocationlog.Layout{}
	for _, t := range tasks {
		if t.file != path {
			continue
		}
		if l, fixed := nat64.From(f, t.name).Layout(); fixed {
			all[t.name] = l
		}
	}
	return all
}

// handOver ends, in the log, the bindings of translators that have blocks now.
func (r *allocationRun) handOver(file *allocationFile, names []string) error {
	if len(names) == 0 || !file.known {
		return nil
	}
	now := time.Now()
	var list []state.BindingEvent
	for b, err := range nat64table.Of(r.datapath).Bindings() {
		if err != nil {
			return err
		}
		if slices.Contains(names, r.tasks[b.Translator].name) {
			list = append(list, state.BindingEvent{Translator: b.Translator, Protocol: b.Protocol, IPv6: b.IPv6, IPv4: b.IPv4, At: now, Since: now.Add(-b.Age)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return file.log.Add(now, allocationlog.Marks{Epoch: r.epoch, Lost: file.lost}, list)
}

// leave writes into files that are not kept from now on, or not by the same
// translators, that their blocks end.
func (a *allocations) leave(wanted map[int]allocationTask) {
	if a.running == nil {
		return
	}
	for path, file := range a.running.files {
		if slices.ContainsFunc(slices.Collect(maps.Values(wanted)), func(t allocationTask) bool { return t.file == path }) {
			continue // the next process that opens it logs this
		}
		if _, err := file.layouts.Set(time.Now(), nil); err != nil {
			a.log.Error("cannot close the allocation log", "error", err)
		}
	}
}

// keepBlocks ends bindings outside the port blocks in force, after the blocks have
// changed: the port may now belong to another subscriber.
func (a *allocations) keepBlocks(d *datapath.Datapath, f *config.File) {
	translators, err := nat64table.Of(d).Translators()
	if err != nil {
		a.log.Error("cannot check the bindings against the port blocks", "error", err)
		return
	}
	blocks := map[int]allocationlog.Layout{}
	now := map[int]string{}
	for _, t := range translators {
		c := nat64.From(f, t.Name)
		if c == nil {
			continue
		}
		if l, fixed := c.Layout(); fixed {
			now[t.ID] = fmt.Sprint(l, l.Static)
			if a.blocks[t.ID] != now[t.ID] {
				blocks[t.ID] = l
			}
		}
	}
	if len(blocks) > 0 {
		n, err := endOutside(d, blocks)
		if err != nil {
			a.log.Error("cannot end sessions outside their port blocks", "error", err)
			return // and try again with the next change
		}
		if n > 0 {
			a.log.Warn("ended sessions with ports outside their port blocks", "sessions", n)
		}
	}
	a.blocks = now
}

func endOutside(d *datapath.Datapath, blocks map[int]allocationlog.Layout) (int, error) {
	var end []nat64table.Session
	for s, err := range nat64table.Of(d).Sessions() {
		if err != nil {
			return 0, err
		}
		if l, fixed := blocks[s.Translator]; fixed && !l.Has(s.IPv6, s.IPv4, s.Protocol) {
			end = append(end, s)
		}
	}
	if len(end) == 0 {
		return 0, nil
	}
	return nat64table.Of(d).End(end)
}
