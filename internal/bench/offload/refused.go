package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/bench/rig"
)

// Refused packets come from hosts that the router lets in nowhere: the kernel
// drops them in FORWARD, weft by its block list.

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

// refusal makes a path that refuses so many flows.
func (m *Measurer) refusal(ctx context.Context, subject string, flows int) (*path, error) {
	r, err := rig.NewPath(rig.PathOptions{
		Name: fmt.Sprintf("%s-drop-%d", subject, flows), Lan: left, Wan: right, Forward: true, HostGRO: true, RouterGRO: true, NoChecksum: true, Policy: refusedPolicy,
	})
	if err != nil {
		return nil, err
	}
	p := &path{Path: r}
	d := rig.Datagrams{From: firstRefused, To: server, Length: packetLength, Flows: 1, Hosts: 1}
	if flows > 1 {
		d.Flows, d.Hosts = many/manyHosts, manyHosts
	}
	if hook, is := strings.CutPrefix(subject, "weft-"); is {
		err = p.block(ctx, m.o.Weft, hook, d.Hosts)
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

// block runs weft with each of the hosts on its block list.
func (p *path) block(ctx context.Context, weft, hook string, hosts int) error {
	dir, err := os.MkdirTemp("", "weft-bench-block-")
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(dir) })
	var list strings.Builder
	for a := firstRefused; hosts > 0; a, hosts = a.Next(), hosts-1 {
		fmt.Fprintln(&list, a)
	}
	file := filepath.Join(dir, "block.txt")
	if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
		return err
	}
	return p.RunWeft(ctx, weft, fmt.Sprintf(refusedConfig, hook, file))
}

// refused is how many packets the subject has refused so far.
func (p *path) refused(ctx context.Context, weft, subject string) (uint64, error) {
	switch subject {
	case "xdp-drop":
		return p.sink.Arrived(false)
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
	return countedByWeft(out)
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

// drops gives how many million packets are refused in a second.
func (m *Measurer) drops(ctx context.Context, subject string, flows int) (float64, error) {
	name := fmt.Sprintf("%s-drop-%d", subject, flows)
	p := m.paths[name]
	if p == nil {
		var err error
		if p, err = m.refusal(ctx, subject, flows); err != nil {
			return 0, err
		}
		m.paths[name] = p
	}
	refused := func() (uint64, error) { return p.refused(ctx, m.o.Weft, subject) }
	if _, err := p.rate(p.generator, warmUp, refused); err != nil {
		return 0, err
	}
	return p.rate(p.generator, m.packetTime(), refused)
}

func countedByWeft(text []byte) (uint64, error) {
	var rows []struct {
		Outcome string
		Packets uint64
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return 0, fmt.Errorf("read weft's counters: %w", err)
	}
	var n uint64
	for _, r := range rows {
		if r.Outcome == "drop-blocked" {
			n += r.Packets
		}
	}
	return n, nil
}
