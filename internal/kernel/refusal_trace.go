package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os/exec"
	"slices"
	"strings"

	"weft/internal/kernel/netfilter"
	"weft/internal/state"
)

// traceRules sample packets that belong to no connection yet, after connection
// tracking has classified them and before any other rule: an invalid packet is no
// new connection, and is refused for another reason. Of TCP only the beginnings of
// connections are sampled.
const traceRules = `table inet %[1]s
delete table inet %[1]s
table inet %[1]s {
	comment "weft: has the kernel tell what the ruleset refuses"
	chain %[2]s {
		type filter hook prerouting priority -199; policy accept;
		iifname { %[3]s } ct state new tcp flags & (fin | syn | rst | ack) == syn limit rate 250/second burst 250 packets meta nftrace set 1
		iifname { %[3]s } ct state new meta l4proto { udp, icmp, ipv6-icmp } limit rate 250/second burst 250 packets meta nftrace set 1
	}
}
`

// traceChainName encodes the devices that the table was made for.
func traceChainName(devices string) string {
	h := fnv.New32a()
	h.Write([]byte(traceRules + devices))
	return fmt.Sprintf("sample_%08x", h.Sum32())
}

func (k *Kernel) applyRefusalTrace(ctx context.Context, o state.RefusalTrace, remove bool) error {
	if remove {
		return errors.Join(runNFT(ctx, fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", state.RefusalTable)), k.journal.forget(o.Key()))
	}
	if err := k.journal.note(o.Key(), "none"); err != nil {
		return err
	}
	quoted := `"` + strings.Join(strings.Split(o.Devices, ","), `", "`) + `"`
	return runNFT(ctx, fmt.Sprintf(traceRules, state.RefusalTable, traceChainName(o.Devices), quoted))
}

func runNFT(ctx context.Context, script string) error {
	ctx, cancel := context.WithTimeout(ctx, netfilter.Timeout)
	defer cancel()
	c := exec.CommandContext(ctx, "nft", "-f", "-")
	c.Stdin = strings.NewReader(script)
	out, err := c.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("nft is not installed: install the package nftables")
	}
	if err != nil {
		return fmt.Errorf("make weft's own table of nftables: %w %s", err, out)
	}
	return nil
}

// observeRefusalTrace reports weft's table. Without nft there is none.
func (k *Kernel) observeRefusalTrace(v *view) ([]state.RefusalTrace, error) {
	_, made := k.journal.was[state.RefusalTrace{}.Key()]
	wanted := slices.ContainsFunc(v.want, func(o state.Object) bool { _, is := o.(state.RefusalTrace); return is })
	if !made && !wanted {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(v.ctx, netfilter.Timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "list", "table", "inet", state.RefusalTable).Output()
	if err != nil {
		return nil, nil
	}
	for _, o := range v.want {
		if r, ok := o.(state.RefusalTrace); ok && strings.Contains(string(out), "chain "+traceChainName(r.Devices)+" ") {
			return []state.RefusalTrace{r}, nil
		}
	}
	return []state.RefusalTrace{{}}, nil
}
