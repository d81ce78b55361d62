package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/internal/bench/rig"
)

const offloadConfig = `
[router]
forwarding = true
[interface.lan]
hook = %[1]q
[interface.wan]
hook = %[1]q
[offload]
interfaces = ["lan", "wan"]
minimum_packets = 1
idle_timeout = "1h"
table_size = %[2]d
`

// The numbers of flows that weft has room for: all of a case, and its default.
const (
	roomForMany = 2*many + many/8
	roomUsual   = 65536
)

// router makes a path with the subject in its middle. checksum: the hosts leave
// those of transport to the device. room: for flows, if the options do not say.
func (m *Measurer) router(ctx context.Context, name, subject string, checksum bool, room int) (*path, error) {
	r, err := rig.NewPath(rig.PathOptions{
		Name: name, Lan: left, Wan: right, Forward: true, HostGRO: true, RouterGRO: true, NoChecksum: !checksum, Policy: policyOf(subject),
	})
	if err != nil {
		return nil, err
	}
	p := &path{Path: r}
	_, err = r.Command(ctx, r.Left, "ip", "route", "add", "local", "10.1.1.0/24", "dev", "lo")
	_, errSix := r.Command(ctx, r.Router, "ip", "route", "add", "2001:db8:3::/64", "via", left.Host[0].Addr().String())
	// the answers to the pool's addresses find the router
	_, errRoute := r.Command(ctx, r.Right, "ip", "route", "add", "198.51.101.0/24", "via", right.Router[1].Addr().String())
	err = errors.Join(err, errSix, errRoute, r.Sysctls("net/netfilter/nf_conntrack_udp_timeout=600", "net/netfilter/nf_conntrack_udp_timeout_stream=600"))
	if err == nil {
		err = p.start(ctx, m.o.Weft, subject, cmp.Or(m.o.Table, room))
	}
	if err == nil {
		err = errors.Join(r.Ping(ctx, r.Left, server), r.Ping(ctx, r.Left, server6), r.Ping(ctx, r.Router, left.Host[0].Addr()))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", subject, err), p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// start has the subject forward; the kernel does already.
func (p *path) start(ctx context.Context, weft, subject string, table int) error {
	switch hook, is := strings.CutPrefix(subject, "weft-"); {
	case is:
		return p.RunWeft(ctx, weft, fmt.Sprintf(offloadConfig, hook, table))
	case subject == "xdp-forward":
		_, err := p.ForwardInXDP()
		return err
	case subject == "tc-forward":
		return p.ForwardInTC()
	}
	return nil
}
