package offload

import (
	"slices"
	"strings"
)

// fickle returns what in an expression packets of one connection do not share;
// empty if nothing is.
func (r *ruleset) fickle(u rule, e any) string {
	switch e := e.(type) {
	case string:
		if len(e) > 0 && e[0] == '@' && r.moody[chainKey{u.Family, u.Table, e[1:]}] {
			return "the elements of its set " + e[1:] + " come and go by themselves"
		}
	case []any:
		for _, part := range e {
			if why := r.fickle(u, part); why != "" {
				return why
			}
		}
	case map[string]any:
		for kind, part := range e {
			if why := r.fickleKind(u, kind, part); why != "" {
				return why
			}
		}
	}
	return ""
}

func (r *ruleset) fickleKind(u rule, kind string, part any) string {
	key, _ := object(part)["key"].(string)
	switch kind {
	case "meta":
		if !slices.Contains([]string{"iif", "iifname", "oif", "oifname", "iiftype", "oiftype", "iifgroup", "oifgroup", "iifkind", "oifkind", "ibrname", "obrname", "l4proto", "nfproto", "protocol", "mark", "skuid", "skgid", "cgroup", "pkttype", "sdif", "sdifname"}, key) {
			return "it matches meta " + key
		}
	case "ct":
		if !slices.Contains([]string{"state", "direction", "status", "mark", "zone", "protocol", "l3proto", "saddr", "daddr", "ip saddr", "ip daddr", "ip6 saddr", "ip6 daddr", "proto-src", "proto-dst", "helper", "id"}, key) {
			return "it matches ct " + key
		}
	case "payload":
		protocol, _ := object(part)["protocol"].(string)
		field, _ := object(part)["field"].(string)
		if !slices.Contains([]string{"ip", "ip6", "tcp", "udp", "th", "icmp", "icmpv6"}, protocol) || !slices.Contains([]string{"saddr", "daddr", "sport", "dport", "protocol", "nexthdr", "version", "type", "code", "id"}, field) || protocol == "ip" && field == "id" {
			return "it matches " + protocol + " " + field
		}
	case "fib":
		r.policy.Local = true
	case "prefix", "range", "set", "elem", "val", "addr", "len", "concat", "&", "|", "^", "<<", ">>", "jhash", "symhash", "timeout", "expires", "comment":
		return r.fickle(u, part)
	default:
		return "it matches " + kind
	}
	return ""
}

// noteWritten notes the sets that packets add elements to.
func (r *ruleset) noteWritten(u rule) {
	for _, statement := range u.Expr {
		for kind, value := range statement {
			if kind != "set" && kind != "map" && kind != "meter" {
				continue
			}
			for _, w := range words(value) {
				if name, named := strings.CutPrefix(w, "@"); named {
					r.written[chainKey{u.Family, u.Table, name}] = true
				}
			}
		}
	}
}

// onlyFewer reports whether time can only make the rule refuse fewer packets: it refuses what
// is in a timed set to which no packet adds. A flow that passes was not in the set, and what
// adds it is a change of the ruleset, after which every flow is looked at again.
func (r *ruleset) onlyFewer(u rule, right any) bool {
	set, _ := right.(string)
	if !strings.HasPrefix(set, "@") || r.written[chainKey{u.Family, u.Table, set[1:]}] {
		return false
	}
	refuses := false
	for _, statement := range u.Expr {
		for kind := range statement {
			switch kind {
			case "drop", "reject":
				refuses = true
			case "match", "counter", "comment":
			default:
				return false
			}
		}
	}
	return refuses
}
