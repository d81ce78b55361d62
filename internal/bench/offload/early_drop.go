package offload

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/bench/rig"
)

// Refused packets come from hosts that the router lets in nowhere: the kernel
// drops them in FORWARD, weft by its block list, or because it has learnt that
// FORWARD drops them.

// refusal is what differs between the cases of refused packets.
type refusal struct {
	flows  int
	listed int  // other hosts that are refused, too
	learnt bool // weft has no list
}

var refusals = map[string]refusal{
	"pps64-drop-1":       {flows: 1},
	"pps64-drop-1000000": {flows: many},
	"pps64-drop-listed":  {flows: many, listed: many},
	"pps64-drop-learnt":  {flows: 1, learnt: true},
}

var firstRefused = netip.MustParseAddr("10.1.2.0")

const refusedPolicy = `
table inet bench {
  counter refused { }
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
    ip saddr 10.1.2.0/24 counter name refused drop
    iifname "lan" oifname "wan" accept
  }
}
`

// listedPolicy comes beside it where there are other hosts, and before it.
const listedPolicy = `
add set inet bench listed { type ipv4_addr; }
insert rule inet bench forward ip saddr @listed counter name refused drop
`

const refusedConfig = `
[router]
forwarding = true
[interface.lan]
hook = %[1]q
[guard.lan]
interfaces = ["lan"]
[block]
files = [%[2]q]
`

const learntConfig = `
[router]
forwarding = true
[interface.lan]
hook = %[1]q
[interface.wan]
hook = %[1]q
[offload]
interfaces = ["lan", "wan"]
early_drop = true
`

// refusing makes a path that refuses packets.
func (m *Measurer) refusing(ctx context.Context, name, subject string, what refusal) (*path, error) {
	r, err := rig.NewPath(rig.PathOptions{
		Name: name, Lan: left, Wan: right, Forward: true, HostGRO: true, RouterGRO: true, NoChecksum: true, Policy: refusedPolicy,
	})
	if err != nil {
		return nil, err
	}
	p := &path{Path: r}
	d := rig.Datagrams{From: firstRefused, To: server, Length: packetLength, Flows: 1, Hosts: 1}
	if what.flows > 1 {
		d.Flows, d.Hosts = many/manyHosts, manyHosts
	}
	hook, is := strings.CutPrefix(subject, "weft-")
	switch {
	case is && what.learnt:
		err = p.RunWeft(ctx, m.o.Weft, fmt.Sprintf(learntConfig, hook))
	case is:
		err = p.block(ctx, m.o.Weft, hook, append(refusedHosts(d.Hosts), listed(what.listed)...))
	case subject == "kernel":
		err = p.list(refusedHosts(d.Hosts), listed(what.listed))
	}
	if err == nil {
		err = r.Ping(ctx, r.Left, server)
	}
	if err == nil && subject == "xdp-drop" {
		p.sink, err = p.NewSinkAt(p.Router, "lan")
	}
	if err == nil {
		err = p.receive(ctx)
	}
	if err == nil {
		d.FromMAC, err = rig.MAC(p.Left, "eth0")
	}
	if err == nil {
		d.ToMAC, err = rig.MAC(p.Router, "lan")
	}
	if err == nil {
		p.generator, err = rig.NewGenerator(p.Left, d)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", subject, err), p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// refusedHosts are those that packets come from.
func refusedHosts(n int) (list []netip.Addr) {
	for a := firstRefused; len(list) < n; a = a.Next() {
		list = append(list, a)
	}
	return list
}

// listed are other hosts, all over the Internet: none of them is in the path.
func listed(n int) (list []netip.Addr) {
	for i := uint32(1); len(list) < n; i++ {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], i*0x9e3779b1) // each number once
		if host := netip.AddrFrom4(a); host.IsGlobalUnicast() && a[0] != 0 && a[0] != 10 && a[0] != 198 {
			list = append(list, host)
		}
	}
	return list
}

// listAtOnce bounds what nft reads at a time.
const listAtOnce = 1 << 16

// list puts hosts into the ruleset's set, if there are others than those that a
// rule refuses by their prefix.
func (p *path) list(hosts, others []netip.Addr) error {
	if len(others) == 0 {
		return nil
	}
	if err := p.Policy(listedPolicy); err != nil {
		return err
	}
	for all := append(hosts, others...); len(all) > 0; {
		n := min(len(all), listAtOnce)
		var text strings.Builder
		for i, a := range all[:n] {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(a.String())
		}
		if err := p.Policy("add element inet bench listed { " + text.String() + " }"); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// block runs weft with each of the hosts on its block list.
func (p *path) block(ctx context.Context, weft, hook string, hosts []netip.Addr) error {
	dir, err := os.MkdirTemp("", fmt.Sprintf("weft-bench-%d-", os.Getpid()))
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(dir) })
	var list strings.Builder
	for _, a := range hosts {
		fmt.Fprintln(&list, a)
	}
	file := filepath.Join(dir, "block.txt")
	if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
		return err
	}
	return p.RunWeft(ctx, weft, fmt.Sprintf(refusedConfig, hook, file))
}

// refused is how many packets the subject has refused so far; weft, by outcome.
func (p *path) refused(ctx context.Context, weft, subject, outcome string) (uint64, error) {
	switch subject {
	case "xdp-drop":
		return p.sink.Received(false)
	case "kernel":
		out, err := p.Command(ctx, p.Router, "nft", "--json", "list", "counter", "inet", "bench", "refused")
		if err != nil {
			return 0, err
		}
		return countedByRuleset(out)
	}
	out, err := p.Command(ctx, p.Router, weft, "show", "counters", "--json")
	if err != nil {
		return 0, err
	}
	return countedByWeft(out, outcome)
}

func countedByRuleset(text []byte) (uint64, error) {
	var list struct {
		Nftables []struct {
			Counter *struct{ Packets uint64 }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("read the ruleset's counter: %w", err)
	}
	for _, l := range list.Nftables {
		if l.Counter != nil {
			return l.Counter.Packets, nil
		}
	}
	return 0, errors.New("read the ruleset's counter: there is none")
}

// drops returns how many million packets are refused in a second.
func (m *Measurer) drops(ctx context.Context, c, subject string) (float64, error) {
	what, name := refusals[c], subject+strings.TrimPrefix(c, "pps64")
	p := m.paths[name]
	if p == nil {
		var err error
		if p, err = m.refusing(ctx, name, subject, what); err != nil {
			return 0, err
		}
		m.paths[name] = p
	}
	outcome := "drop-blocked"
	if what.learnt {
		outcome = "drop-early"
	}
	refused := func() (uint64, error) { return p.refused(ctx, m.o.Weft, subject, outcome) }
	if strings.HasPrefix(subject, "weft-") {
		if err := p.untilRefused(ctx, refused); err != nil {
			return 0, err
		}
	}
	if _, err := p.rate(p.generator, warmUp, refused); err != nil {
		return 0, err
	}
	return p.rate(p.generator, m.packetTime(), refused)
}

// untilRefused sends until weft drops the packets: a long list takes a while, and
// refusals become valid a moment after they are written and are checked against the
// ruleset again every few seconds.
func (p *path) untilRefused(ctx context.Context, refused func() (uint64, error)) error {
	was, err := refused()
	if err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < refusePatience && ctx.Err() == nil; {
		if _, err := p.generator.Run(warmUp); err != nil {
			return err
		}
		if now, err := refused(); err != nil || now > was {
			return err
		}
	}
	return errors.Join(ctx.Err(), errors.New("weft lets the packets in"))
}

// refusePatience is how long that may take.
const refusePatience = time.Minute

func countedByWeft(text []byte, outcome string) (uint64, error) {
	var rows []struct {
		Outcome string
		Packets uint64
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return 0, fmt.Errorf("read weft's counters: %w", err)
	}
	var n uint64
	for _, r := range rows {
		if r.Outcome == outcome {
			n += r.Packets
		}
	}
	return n, nil
}
