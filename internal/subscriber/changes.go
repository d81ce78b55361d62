package subscriber

import (
	"cmp"
	"slices"

	"weft/internal/addresspool"
	"weft/internal/l2tp"
	"weft/internal/state"
)

// pending are the changes for the datapath.
type pending struct {
	tunnels, sessions map[uint16]bool // new or changed
	gone              []uint16        // sessions
	ended             int             // of gone, those that SessionDelta has given
	accounts          []*Account
	stored            map[uint16]bool // sessions; false: gone
	leases            map[string]addresspool.Lease
}

func (p *pending) clear() {
	*p = pending{tunnels: map[uint16]bool{}, sessions: map[uint16]bool{}, leases: map[string]addresspool.Lease{}, stored: map[uint16]bool{}}
}

// ChangeSet is what has happened since the last one: sessions for the datapath, as
// far as no SessionDelta has them, and accounts. Counters of sessions
// that are gone are to be read before they are removed from the datapath; after that
// Left is called.
type ChangeSet struct {
	Tunnels      []state.L2TPTunnel
	Sessions     []state.L2TPSession
	GoneTunnels  []uint16
	GoneSessions []uint16
	Accounts     []*Account
	Store        []Stored
	Leases       []Stored // what logins were given, by section and login
}

// Empty reports whether nothing has happened.
func (b ChangeSet) Empty() bool {
	return len(b.Tunnels)+len(b.Sessions)+len(b.GoneTunnels)+len(b.GoneSessions)+len(b.Accounts)+len(b.Store)+len(b.Leases) == 0
}

// Take returns the batch and begins a new one.
func (e *Engine) Take() ChangeSet {
	p := &e.pending
	if len(p.tunnels)+len(p.sessions)+len(p.gone)+len(p.accounts)+len(p.stored)+len(p.leases) == 0 && !e.l2tp.Changed() {
		return ChangeSet{}
	}
	t, l := e.SessionDelta(), e.l2tp.TakeChanges()
	b := ChangeSet{
		Tunnels: t.Tunnels, Sessions: t.Sessions, GoneTunnels: l.Gone, GoneSessions: p.gone,
		Accounts: p.accounts, Store: e.toStore(l.Stored, p.stored), Leases: toLeases(p.leases),
	}
	p.clear()
	return b
}

// SessionDelta is what has to be in the datapath before a peer receives a message about it:
// a subscriber whose last answer has come may send at once.
type SessionDelta struct {
	Tunnels  []state.L2TPTunnel
	Sessions []state.L2TPSession
	Ended    []uint16 // sessions: nothing is theirs any more. The next batch has them too
}

// Empty reports whether nothing has happened.
func (t SessionDelta) Empty() bool { return len(t.Tunnels)+len(t.Sessions)+len(t.Ended) == 0 }

// SessionDelta returns what has come, changed and gone since the last one.
func (e *Engine) SessionDelta() (t SessionDelta) {
	p := &e.pending
	t.Ended, p.ended = p.gone[p.ended:], len(p.gone)
	if len(p.tunnels)+len(p.sessions) == 0 {
		return t
	}
	for id := range p.tunnels {
		if one := e.l2tp.Tunnel(id); one != nil && one.State() == l2tp.TunnelUp {
			t.Tunnels = append(t.Tunnels, one.Owner().(*tunnel).asState())
		}
	}
	for id := range p.sessions {
		if one := e.sessions[id]; one != nil {
			t.Sessions = append(t.Sessions, one.asState())
		}
	}
	slices.SortFunc(t.Sessions, func(a, b state.L2TPSession) int { return cmp.Compare(a.Local, b.Local) })
	clear(p.tunnels)
	clear(p.sessions)
	return t
}

// Left says that what is gone was removed.
func (e *Engine) Left(tunnels, sessions []uint16) { e.l2tp.Released(tunnels, sessions) }
