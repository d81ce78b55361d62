package daemon

import (
	"errors"
	"net/netip"
	"slices"

	"weft/internal/api"
	"weft/internal/feature/nat64"
	"weft/internal/state"
	"weft/internal/store"
)

// who answers the API.
func (a *allocations) who(q api.WhoQuery) ([]api.Holder, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil, errors.New("weft run is starting: ask again in a moment")
	}
	rows, asked := a.fixed(q)
	if a.running != nil {
		for path, f := range a.running.files {
			found, err := f.holders(q, a.running.namesIn(path))
			if err != nil {
				return nil, err
			}
			rows, asked = append(rows, found...), true
		}
	}
	if !asked {
		return nil, api.ErrNoAllocations
	}
	return rows, nil
}

func (r *allocationRun) namesIn(path string) map[int]string {
	names := map[int]string{}
	for id, t := range r.tasks {
		if t.file == path {
			names[id] = t.name
		}
	}
	return names
}

// fixed answers for translators whose ports are fixed and that keep no history
// of it.
func (a *allocations) fixed(q api.WhoQuery) (rows []api.Holder, asked bool) {
	for _, name := range a.file.Names("nat64") {
		c := nat64.From(a.file, name)
		l, fixed := c.Layout()
		if !fixed || c.AllocationLog != "" {
			continue
		}
		asked = true
		for _, row := range blockHolders(name, l, q) {
			row.Note = "by the present configuration; without allocation_log nobody knows what it was then"
			rows = append(rows, row)
		}
	}
	return rows, asked
}

// blockHolders says who has a port by fixed blocks: a subscriber, but for what
// is bound to one node for good.
func blockHolders(name string, l nat64.Layout, q api.WhoQuery) (rows []api.Holder) {
	static := map[netip.AddrPort][]uint8{}
	open := protocols(q)
	for _, p := range slices.Clone(open) {
		if node, ok := l.StaticOwner(q.IPv4, p); ok {
			static[node] = append(static[node], p)
			open = slices.DeleteFunc(open, func(o uint8) bool { return o == p })
		}
	}
	for node, list := range static {
		for _, p := range list {
			rows = append(rows, api.Holder{Translator: name, Protocol: state.ProtocolName(p), IPv4: q.IPv4, IPv6: node.String(), Note: "static"})
		}
	}
	owner, ok := l.Owner(q.IPv4)
	switch {
	case !ok || len(open) == 0:
	case len(open) == len(protocols(q)) && q.Protocol == 0:
		rows = append(rows, api.Holder{Translator: name, Protocol: "any", IPv4: q.IPv4, IPv6: owner.String()})
	default:
		for _, p := range open {
			rows = append(rows, api.Holder{Translator: name, Protocol: state.ProtocolName(p), IPv4: q.IPv4, IPv6: owner.String()})
		}
	}
	slices.SortFunc(rows, func(a, b api.Holder) int { return slices.Compare([]byte(a.Protocol), []byte(b.Protocol)) })
	return rows
}

func protocols(q api.WhoQuery) []uint8 {
	if q.Protocol == 0 {
		return []uint8{6, 17, 1}
	}
	return []uint8{q.Protocol}
}

// holders answers from a file: by the blocks that were in force then, and for
// translators without blocks by what was bound.
func (f *allocationFile) holders(q api.WhoQuery, names map[int]string) (rows []api.Holder, err error) {
	terms, err := f.layouts.At(q.At)
	if err != nil {
		return nil, err
	}
	ruled := map[string]bool{}
	for _, term := range terms {
		// just when it begins or ends bindings count, too
		ruled[term.Translator] = ruled[term.Translator] || !q.At.Before(term.From) && (term.Until.IsZero() || q.At.Before(term.Until))
		for _, row := range blockHolders(term.Translator, term.Layout, q) {
			row.From = &term.From
			if !term.Until.IsZero() {
				row.Until = &term.Until
			}
			if row.Note == "" {
				row.Note = "by the fixed blocks of that time"
			}
			rows = append(rows, row)
		}
	}
	for _, p := range protocols(q) {
		h, found, err := f.log.Who(q.IPv4, p, q.At)
		if err != nil {
			return nil, err
		}
		if found && !ruled[names[h.Translator]] {
			rows = append(rows, holder(h, names))
		}
	}
	return rows, nil
}

func holder(h nat64.Holder, names map[int]string) api.Holder {
	row := api.Holder{Translator: names[h.Translator], Protocol: state.ProtocolName(h.Protocol), IPv4: h.IPv4, IPv6: h.IPv6.String(), From: &h.Made}
	if !h.Ended.IsZero() {
		row.Until = &h.Ended
	} else {
		row.Note = "not known to have ended"
	}
	if h.Uncertain {
		row.Note = "events were lost at that time: it may have been somebody else in between"
	}
	return row
}

// WhoInFile answers from a log that no daemon has open.
func WhoInFile(path string, q api.WhoQuery, names map[int]string) ([]api.Holder, error) {
	store, err := store.ReadLog(path)
	if err != nil {
		return nil, err
	}
	f := allocationFile{log: nat64.NewAllocations(store, 0), layouts: nat64.NewLayouts(store, 0)}
	rows, err := f.holders(q, names)
	return rows, errors.Join(err, store.Close())
}
