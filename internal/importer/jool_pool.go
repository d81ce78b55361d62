package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// pool is IPv4 addresses and ports that nodes share.
type pool struct {
	line      int
	prefix    netip.Prefix
	ports     string
	protocols []string
}

// defaultPorts are those that Jool takes where an entry has none.
const defaultPorts = "1-65535"

func (j *jool) pool4(path string, v value) {
	p := pool{line: v.line, ports: defaultPorts}
	for _, f := range v.members {
		switch f.name {
		case "comment":
		case "protocol":
			s, _ := j.text(f.line, path+"."+f.name, f.value)
			p.protocols = []string{strings.ToLower(s)}
		case "prefix":
			p.prefix, _ = j.prefix(path+"."+f.name, f.value, false)
		case "port range":
			p.ports, _ = j.text(f.line, path+"."+f.name, f.value)
		case "mark":
			if fmt.Sprint(f.scalar) != "0" {
				j.left(f.line, path+"."+f.name, "pools are not chosen by firewall marks", "set ports_per_subscriber, or write a [nat64.NAME] with a prefix of its own for each group of nodes")
			}
		case "max-iterations":
			j.left(f.line, path+"."+f.name, "weft's search for a free port is bounded already", "nothing to do")
		default:
			j.unknown(path, f)
		}
	}
	if p.prefix.IsValid() {
		j.pools = append(j.pools, p)
	}
}

// joinPools makes one pool of the entries for each protocol: a pool of weft is
// for all of them.
func (j *jool) joinPools() {
	var joined []pool
	for _, p := range j.pools {
		i := slices.IndexFunc(joined, func(q pool) bool { return q.prefix == p.prefix })
		if i < 0 {
			joined = append(joined, p)
			continue
		}
		q := &joined[i]
		switch {
		case q.ports == p.ports:
		case q.ports == defaultPorts && slices.Equal(q.protocols, []string{"icmp"}):
			q.ports = p.ports
		case p.ports == defaultPorts && slices.Equal(p.protocols, []string{"icmp"}):
		default:
			j.left(p.line, "pool4", fmt.Sprintf("%s has the ports %s too, but a pool has one range, for all protocols: %s is kept", p.prefix, p.ports, q.ports), "choose one range")
		}
		q.protocols = append(q.protocols, p.protocols...)
	}
	j.pools = joined
	for _, p := range joined {
		if p.prefix.IsSingleIP() && j.stateful {
			j.left(p.line, "pool4", fmt.Sprintf("%s must not be an address of the router itself: the kernel takes packets to it before they are translated", p.prefix.Addr()),
				"if it is the router's own, take private addresses as the pool and masquerade them: "+masquerade(recipePool, j.wan))
		}
		if p.ports == defaultPorts {
			j.left(p.line, "pool4", fmt.Sprintf("%s has no port range: Jool takes 1-65535, weft 1024-65535 unless ports is set", p.prefix), `add ports = "1-65535" if nothing else uses those ports`)
		}
	}
}

func (j *jool) writePools(out *TOML) {
	if !j.stateful {
		return
	}
	if len(j.pools) == 0 {
		out.Comment("Without pool4 Jool shares the router's own addresses, ports 61001-65535. A pool of weft's cannot be the router's own address: these private addresses are masqueraded behind it by nftables (docs/guides/firewall-and-nat64.md):")
		out.Comment(masquerade(recipePool, j.wan))
		out.Comment("If the router has other public addresses, write those as the pool instead.")
		out.Line("pools = [{ ipv4 = %q }]", recipePool)
		return
	}
	out.Line("pools = [")
	for _, p := range j.pools {
		if p.ports == defaultPorts {
			out.Line("  { ipv4 = %q },", bare(p.prefix))
		} else {
			out.Line("  { ipv4 = %q, ports = %s },", bare(p.prefix), Quote(p.ports))
		}
	}
	out.Line("]")
}
