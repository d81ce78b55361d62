package offload

import (
	"slices"

	"weft/internal/state"
)

// WhyNoTracking is the reason where the kernel tracks no connections at all.
const WhyNoTracking Why = "no rule uses connection tracking, so the kernel does not track connections"

// trackingRemedy makes the kernel track connections: it does so in a network namespace once
// a rule there uses them.
const trackingRemedy = "add a rule with ct, like: nft add rule inet filter forward ct state established,related accept"

// tracking are the statements and expressions of nft's JSON with which a rule has the kernel
// track connections.
var tracking = []string{"ct", "ct helper", "ct timeout", "ct expectation", "ct count", "masquerade", "snat", "dnat", "redirect", "flow", "synproxy", "xt"}

// noteTracking notes the families whose connections the kernel tracks because of a rule. xt
// is a match or target of iptables, of which nft names no more.
func (r *ruleset) noteTracking(u rule) {
	in := everything(u.Family)
	if r.policy.Tracked4 && r.policy.Tracked6 || u.Family == "bridge" || u.Family == "netdev" || u.Family == "arp" {
		return
	}
	for _, statement := range u.Expr {
		if uses(statement, tracking) {
			r.policy.Tracked4, r.policy.Tracked6 = r.policy.Tracked4 || in.ipv4, r.policy.Tracked6 || in.ipv6
		}
	}
}

// uses reports whether one of the words is a key in a JSON value.
func uses(value any, words []string) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if slices.Contains(words, key) || uses(inner, words) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return uses(inner, words) })
	}
	return false
}

// Untracked reports whether the ruleset is known, and makes the kernel track no connections.
func (p Policy) Untracked() bool { return !p.Unknown && !p.Tracked4 && !p.Tracked6 }

// untracked is the reason for a flow that connection tracking does not know.
func (p Policy) untracked(t state.FlowTuple) Why {
	if !p.Unknown && (t.Is4() && !p.Tracked4 || !t.Is4() && !p.Tracked6) {
		return WhyNoTracking
	}
	return WhyUntracked
}
