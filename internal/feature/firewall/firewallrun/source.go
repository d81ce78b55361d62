// Package firewallrun is the half of the firewall that touches the system: it reads
// the counters of weft's table.
package firewallrun

import (
	"context"
	"encoding/json"
	"fmt"

	"weft/internal/feature/firewall"
	"weft/internal/kernel/netfilter"
	"weft/internal/runner"
	"weft/internal/state"
)

// Source gives the rows of weft show firewall.
func Source(runner.Doors) any { return source{} }

type source struct{}

// Firewall reads the rules that count.
func (source) Firewall(ctx context.Context) ([]firewall.Row, error) {
	text, err := netfilter.Table(ctx, state.FirewallTable)
	if err != nil || text == nil {
		return nil, err
	}
	return rows(text)
}

// rows reads nft's JSON (libnftables-json(5)).
func rows(text []byte) (list []firewall.Row, err error) {
	var listing struct {
		Objects []struct {
			Rule *struct {
				Chain   string                       `json:"chain"`
				Comment string                       `json:"comment"`
				Expr    []map[string]json.RawMessage `json:"expr"`
			} `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &listing); err != nil {
		return nil, fmt.Errorf("read what nft prints: %w", err)
	}
	for _, o := range listing.Objects {
		if o.Rule == nil {
			continue
		}
		row, counts := firewall.Row{Chain: o.Rule.Chain, Name: o.Rule.Comment}, false
		for _, e := range o.Rule.Expr {
			if c, ok := e["counter"]; ok {
				counts = json.Unmarshal(c, &row) == nil
			}
			for _, verdict := range []string{"accept", "drop", "reject", "dnat", "masquerade"} {
				if _, ok := e[verdict]; ok {
					row.Verdict = verdict
				}
			}
		}
		if counts {
			list = append(list, row)
		}
	}
	return list, nil
}
