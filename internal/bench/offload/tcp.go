package offload

import (
	"context"
	"errors"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/netspace"
)

func (m *Measurer) tcpSeconds() int { return bench.TCPSeconds(m.o.Seconds) }

// serving returns a path with an iperf3 server on its right.
func (m *Measurer) serving(ctx context.Context, name string, open func() (*path, error)) (*path, error) {
	if p := m.paths[name]; p != nil {
		return p, nil
	}
	p, err := open()
	if err != nil {
		return nil, err
	}
	m.paths[name] = p
	return p, p.ServeTCP(ctx, p.Right)
}

// goodput returns Gbit/s of one flow.
func (m *Measurer) goodput(ctx context.Context, subject string) (float64, error) {
	name := subject + "-tcp"
	p, err := m.serving(ctx, name, func() (*path, error) { return m.router(ctx, name, subject, false, roomForMany) })
	if err != nil {
		return 0, err
	}
	return p.TCP(ctx, p.Left, server, 1, m.tcpSeconds())
}

// cost returns seconds of work for each Gbit of one TCP flow: the router's, and
// that of all CPUs. What all devices receive is received in threads, so that
// the hosts' work is not among the router's.
func (m *Measurer) cost(ctx context.Context, subject string) (router, all float64, err error) {
	name := subject + "-cpu"
	p, err := m.serving(ctx, name, func() (*path, error) { return m.hostsApart(ctx, name, subject) })
	if err != nil {
		return 0, 0, err
	}
	mine, err := p.worked()
	if err != nil {
		return 0, 0, err
	}
	every, err := rig.BusySeconds()
	if err != nil {
		return 0, 0, err
	}
	rate, err := p.TCP(ctx, p.behind, server, 1, m.tcpSeconds())
	if err != nil {
		return 0, 0, err
	}
	mineAfter, err := p.worked()
	if err != nil {
		return 0, 0, err
	}
	everyAfter, err := rig.BusySeconds()
	sent := rate * float64(m.tcpSeconds())
	return (mineAfter - mine).Seconds() / sent, (everyAfter - every) / sent, err
}

// hostsApart makes a path whose router's work can be measured apart from the hosts'.
func (m *Measurer) hostsApart(ctx context.Context, name, subject string) (*path, error) {
	// XDP would send the packets with their checksums unfinished
	checksum := subject != "weft-xdp"
	p, err := m.router(ctx, name, subject, checksum, roomUsual)
	if err != nil {
		return nil, err
	}
	if err := p.apart(ctx, checksum); err != nil {
		return nil, errors.Join(err, p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// worked is how long the router has worked so far: its receiving threads, and
// weft's daemon.
func (p *path) worked() (time.Duration, error) {
	threads, err := p.threads.Busy()
	daemon, errDaemon := p.WeftBusy()
	return threads + daemon, errors.Join(err, errDaemon)
}

// apart makes TCP be sent from behind the left host, the router receive in threads
// on one CPU, and the hosts work on the other.
func (p *path) apart(ctx context.Context, checksum bool) (err error) {
	first, last, err := rig.CPUs()
	if err != nil {
		return err
	}
	if p.behind, err = p.Behind(ctx, behind, left.Host[1].Addr(), checksum); err != nil {
		return err
	}
	// the hosts receive in threads of their own: else they would do so where the
	// router sends, as its work, and wake the other CPU for each bundle
	for _, host := range []*netspace.Space{p.Left, p.Right} {
		if _, err := p.Receive(ctx, host, last, "eth0"); err != nil {
			return err
		}
	}
	// packets that the router's stack or TC sends bypass those threads, where its
	// devices could segment (veth); a TCP that has once sent on a CPU continues
	// there, where its skbs are freed
	err = errors.Join(p.Steer(ctx, p.Left, "far", last), p.Steer(ctx, p.behind, "eth0", last),
		p.Steer(ctx, p.Left, "eth0", last), p.Steer(ctx, p.Right, "eth0", last))
	if err != nil {
		return err
	}
	p.HostsOn(last)
	if p.threads, err = p.Receive(ctx, p.Router, first, "lan", "wan"); err != nil {
		return err
	}
	return p.Ping(ctx, p.behind, server)
}
