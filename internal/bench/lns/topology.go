package lns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/internal/bench/rig"
	"weft/internal/lab/probe/lac"
	"weft/internal/state"
)

// road is a path with a server and its sessions.
type topology struct {
	*rig.Path
	subject  subject
	weft     string
	progress func(string)
	sessions []*lac.Session
	rate     float64 // sessions that came up in a second
	made, up time.Time
	lac      *lac.LAC
	end      *end
	tables   *tables
	behind   *lac.Behind // sessions go on to there; nil: they end at the server
	traffic  map[measurement]*traffic
	serving  bool
	router   *rig.Receivers // threads in which the server receives; nil: where it was sent from
	closers  []func() error
}

// newTopology makes a path, starts a server on it and sets up its sessions.
func newTopology(ctx context.Context, s subject, sessions int, o Options, xdp, switched bool) (*topology, error) {
	suffix := "tc"
	if xdp {
		suffix = "xdp"
	}
	if switched {
		suffix = "on"
	}
	path, err := rig.NewPath(rig.PathOptions{
		Name: fmt.Sprintf("%s%d-%s", short(s.name), sessions, suffix), Lan: left, Wan: right, Forward: s.forward,
		HostGRO: xdp, RouterGRO: xdp || !s.hooks, NoChecksum: xdp,
	})
	if err != nil {
		return nil, err
	}
	r := &topology{Path: path, subject: s, weft: o.Weft, progress: o.Progress, made: time.Now(), traffic: map[measurement]*traffic{}}
	r.progress("starting " + s.name)
	if switched {
		err = r.serveBehind()
	}
	if err == nil {
		err = s.start(ctx, r, xdp)
	}
	switch {
	case err != nil:
	case s.name == "weft-tables":
		if r.tables, r.sessions, err = newTables(path, sessions, xdp); err == nil {
			r.closers = append(r.closers, r.tables.Close)
		}
	default:
		err = r.bringUp(ctx, sessions)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s with %d sessions: %w", s.name, sessions, err), r.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// part moves the server's packet processing to where it can be measured apart from
// others' work, as a tester and the device under test are two machines (RFC 2544
// section 6): to the receiving threads, and l2tpns's process. The first CPU is the
// server's. Packets for l2tpns are received on the other one: it is offered more
// than it can process, and reception would leave it no time. With one CPU nothing is
// moved.
func (r *topology) part(ctx context.Context) error {
	first, last, err := rig.CPUs()
	if err != nil || first == last || r.router != nil {
		return err
	}
	receive := last
	if r.subject.hooks {
		receive = first
	}
	if r.router, err = r.Receive(ctx, r.Router, receive, "lan", "wan"); err != nil {
		return err
	}
	return r.KeepL2TPNS(first, first)
}

// join reverts that.
func (r *topology) join(ctx context.Context) error {
	first, last, err := rig.CPUs()
	if err != nil || r.router == nil {
		return err
	}
	r.router = nil
	return errors.Join(r.Rejoin(ctx, r.Router, "lan", "wan"), r.KeepL2TPNS(first, last))
}

// work is what a server has done so far.
type work struct {
	threads, process time.Duration
	received         uint64 // packets, in those threads
}

// worked returns it. If the server shares the generator's CPU it is the elapsed
// time.
func (r *topology) worked(device string) (w work, err error) {
	if r.router == nil {
		return work{process: time.Since(r.made)}, nil
	}
	if w.threads, err = r.router.Busy(); err != nil {
		return w, err
	}
	if w.process, err = r.L2TPNSBusy(); err != nil {
		return w, err
	}
	w.received, err = r.ReceivedAt(device)
	return w, err
}

// rate is the number of million packets that the server would forward in a second
// without other work. Packets that were received and not forwarded are not charged:
// an overloaded server drops some.
func (w work) rate(before work, came uint64) float64 {
	received := max(w.received-before.received, came)
	each := (w.process-before.process).Seconds()/float64(came) + (w.threads-before.threads).Seconds()/float64(received)
	return 1 / each / 1e6
}

func short(name string) string { return strings.ReplaceAll(name, "weft-", "w-") }

// atATime is the number of sessions that the concentrator sets up at a time. Those
// of weft are equally fast all at once; l2tpns is fastest with few.
const atATime = 500

// setupMost bounds how long a server may take for all its sessions.
const setupMost = 5 * time.Minute

// bringUp has the concentrator set up sessions.
func (r *topology) bringUp(ctx context.Context, sessions int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, setupMost)
	defer cancel()
	err = r.Left.Do(func() error {
		if err := lac.Knock(ctx, peer.Addr(), here); err != nil {
			return err
		}
		conn, err := lac.Dial(peer, here)
		r.lac = lac.New(conn, lac.TunnelsFor(sessions), sessions)
		return err
	})
	if err != nil {
		return err
	}
	r.lac.Most = atATime
	if r.behind != nil {
		r.lac.Behind, r.lac.Realm = r.behind, realm
	}
	notify := func(up int) {
		r.progress(fmt.Sprintf("bringing up %s sessions of %s: %s", thousands(sessions), r.subject.name, thousands(up)))
	}
	r.lac.Progress = notify
	notify(0)
	took, err := r.lac.BringUp(ctx)
	r.sessions, r.rate, r.up = r.lac.Sessions, float64(sessions)/took.Seconds(), time.Now()
	return err
}

// Close removes the topology without ending sessions: servers need minutes to end
// thousands of them properly, and that is not measured.
func (r *topology) Close(ctx context.Context) error {
	if len(r.sessions) > 1 {
		r.progress("taking down " + r.subject.name)
	}
	var errs []error
	for _, t := range r.traffic {
		errs = append(errs, t.Close())
	}
	if r.end != nil {
		errs = append(errs, r.end.Close())
	}
	if r.lac != nil {
		errs = append(errs, r.lac.Abandon())
	}
	for _, f := range r.closers {
		errs = append(errs, f())
	}
	return errors.Join(append(errs, r.Path.Close(ctx))...)
}

// packets returns how many million packets arrive in a second of the server's work.
func (r *topology) packets(ctx context.Context, c measurement, atLeast time.Duration) (float64, error) {
	t, ok := r.traffic[c]
	if !ok {
		var err error
		if t, err = newTraffic(r.Path, c, r.sessions); err != nil {
			return 0, err
		}
		r.traffic[c] = t
	}
	if err := errors.Join(r.part(ctx), r.meet(ctx)); err != nil {
		return 0, err
	}
	if _, err := t.burst(warmUp); err != nil {
		return 0, err
	}
	device := "lan"
	if c.down {
		device = "wan"
	}
	before, err := r.worked(device)
	if err != nil {
		return 0, err
	}
	came, err := t.burst(atLeast)
	if err != nil {
		return 0, err
	}
	after, err := r.worked(device)
	return after.rate(before, came), err
}

// meet makes neighbours known and control messages answered before the first packet
// counts.
func (r *topology) meet(ctx context.Context) error {
	if r.lac != nil {
		if err := r.lac.Tend(); err != nil {
			return err
		}
	}
	if err := r.Ping(ctx, r.Left, here.Addr()); err != nil {
		return err
	}
	return r.Ping(ctx, r.Right, right.Router[1].Addr())
}

// serveTCP makes the first session that of a subscriber with a stack.
func (r *topology) serveTCP(ctx context.Context) (err error) {
	if r.serving {
		return nil
	}
	if err := rig.AsOnAWire(r.Left); err != nil {
		return err
	}
	if r.end, err = newEnd(r.Left); err != nil {
		return err
	}
	s := r.sessions[0]
	err = r.end.serve(state.L2TPTunnel{Local: s.Tunnel().ID, Remote: s.Tunnel().Peer, LocalAddr: peer, Peer: here},
		state.L2TPSession{Local: s.ID, Remote: s.Peer, IPv4: s.Address()}, right.Host[1].Addr())
	if err != nil {
		return err
	}
	if err := r.Ping(ctx, r.Left, right.Host[1].Addr()); err != nil {
		return err
	}
	r.serving = true
	return errors.Join(r.ServeTCP(ctx, r.Left), r.ServeTCP(ctx, r.Right))
}

// tcp measures goodput, and the time of all CPUs for a Gbit of it.
func (r *topology) tcp(ctx context.Context, down bool, seconds int) (tcpResult, error) {
	if err := errors.Join(r.join(ctx), r.serveTCP(ctx)); err != nil {
		return tcpResult{}, err
	}
	from, to := r.Left, right.Host[1].Addr()
	if down {
		from, to = r.Right, r.sessions[0].Address()
	}
	before, err := rig.BusySeconds()
	if err != nil {
		return tcpResult{}, err
	}
	rate, err := r.TCP(ctx, from, to, 1, seconds)
	if err != nil {
		return tcpResult{}, err
	}
	after, err := rig.BusySeconds()
	return tcpResult{rate, (after - before) * 1000 / (rate * float64(seconds)), map[kind]bool{}}, err
}

// memorySettles is how long a server may take to free the memory that was needed to
// set up sessions.
const memorySettles = 15 * time.Second

// memoryOfSession is in KiB, measured after a time in which no session began or
// ended.
func (r *topology) memoryOfSession(ctx context.Context) (float64, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(time.Until(r.up.Add(memorySettles))):
	}
	now, err := r.subject.memory(r)
	return float64(now) / float64(len(r.sessions)) / 1024, err
}
