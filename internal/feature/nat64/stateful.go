package nat64

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/allocationlog"
	"weft/internal/config"
	"weft/internal/state"
)

// Stateful is the part of [nat64.NAME] that only mode = "stateful" has
// (RFC 6146).
type Stateful struct {
	Prefixes              []netip.Prefix `toml:"prefixes" ip:"6" example:"[\"64:ff9b:1::/96\"]" doc:"stateful: more prefixes (RFC 6052), besides prefix, under which nodes reach IPv4. Answers have the prefix that the node has used; connections from IPv4, DNS64 and router advertisements use prefix."`
	Pools                 []Pool         `toml:"pools" example:"[{ ipv4 = \"203.0.113.0/28\" }]" doc:"stateful: the IPv4 addresses and ports that IPv6 nodes share. At most 8."`
	Static                []Static       `toml:"static" example:"[{ protocol = \"tcp\", ipv6 = \"[2001:db8:1::80]:8080\", ipv4 = \"203.0.113.1:80\" }]" doc:"stateful: ports of the pools with a permanent binding to one IPv6 node, so that IPv4 reaches it."`
	Filtering             Filtering      `toml:"filtering" enum:"endpoint-independent,address-dependent,address-and-port-dependent" example:"\"endpoint-independent\"" doc:"stateful: the filtering behaviour: any source may send to a bound port, only addresses that the node has sent to, or only the same addresses and ports (RFC 4787 section 5, RFC 6146 section 3.5). Static bindings are not filtered."`
	UDPTimeout            time.Duration  `toml:"udp_timeout" min:"2m" example:"\"5m\"" doc:"stateful: timeout of an idle UDP session (RFC 6146 section 4)."`
	ICMPTimeout           time.Duration  `toml:"icmp_timeout" min:"1m" example:"\"1m\"" doc:"stateful: timeout of an ICMP echo session (RFC 5508 section 3.2)."`
	TCPEstablishedTimeout time.Duration  `toml:"tcp_established_timeout" min:"2h4m" example:"\"2h4m\"" doc:"stateful: timeout of an idle established TCP connection (RFC 5382 section 5)."`
	TCPTransitoryTimeout  time.Duration  `toml:"tcp_transitory_timeout" min:"4m" example:"\"4m\"" doc:"stateful: timeout of a TCP connection that is being opened or closed (RFC 5382 section 5)."`
	SubscriberPrefixLen   int            `toml:"subscriber_prefix_len" min:"32" max:"128" example:"64" doc:"stateful: the length of a subscriber's IPv6 prefix: limits apply to it, and a subscriber keeps one pool address while that has free ports."`
	PortsPerSubscriber    int            `toml:"ports_per_subscriber" min:"0" max:"1000000" example:"1024" doc:"stateful: maximum number of ports, of all protocols together, for one subscriber; 0: that of fair_share."`
	SessionsPerSubscriber int            `toml:"sessions_per_subscriber" min:"0" max:"16777216" example:"8192" doc:"stateful: maximum number of sessions of one subscriber; 0: that of fair_share."`
	FairShare             bool           `toml:"fair_share" example:"true" doc:"stateful: one subscriber gets at most a quarter of the ports and of the sessions, where the two keys above set no limit (RFC 6888 REQ-4). false: no limit."`
	CountSubscribers      bool           `toml:"count_subscribers" example:"true" doc:"stateful: count packets and bytes of each subscriber, for weft show nat-subscribers. It costs one more lookup per packet."`
	PortBlock             int            `toml:"port_block" min:"1" max:"65536" example:"1024" doc:"stateful: with subscribers: the size of each subscriber's fixed port block on one pool address (RFC 7422)."`
	Subscribers           netip.Prefix   `toml:"subscribers" ip:"6" example:"\"2001:db8:1000::/56\"" doc:"stateful: the IPv6 prefix that contains the subscribers of port_block. Nodes outside it get no port."`
	Bindings              int            `toml:"bindings" min:"1024" max:"4194304" example:"65536" doc:"stateful: maximum number of bindings, for all nodes and protocols. Tables are allocated at once: about 350 bytes each."`
	Sessions              int            `toml:"sessions" min:"1024" max:"4194304" example:"262144" doc:"stateful: maximum number of sessions. About 310 bytes each."`
	AllocationLog         string         `toml:"allocation_log" example:"\"/var/lib/weft/main.allocations\"" doc:"stateful: the file with the allocation log: which node had which port when, for weft show who (RFC 6888); with port_block, which blocks were in force when. Without it there is no log."`
	AllocationLogDays     int            `toml:"allocation_log_days" min:"1" max:"3650" example:"7" doc:"stateful: days that the allocation log covers."`
	AllocationLogMiB      int            `toml:"allocation_log_mib" min:"1" max:"1048576" example:"256" doc:"stateful: maximum size of the allocation log; the oldest blocks are deleted first."`
	AllocationSyslog      string         `toml:"allocation_syslog" example:"\"udp://192.0.2.5:514\"" doc:"stateful: the syslog collector that receives port allocation and release events (RFC 5424), by udp, tcp or tls; with port_block, layout events. For tls the name in its certificate is after #."`
	AllocationSyslogCA    string         `toml:"allocation_syslog_ca" example:"\"/etc/weft/collector-ca.pem\"" doc:"stateful: a file with the certificate of the authority that signed a tls collector's certificate. Default: the system's authorities."`
}

// Pool is a range of IPv4 addresses and the ports of them that may be used.
type Pool struct {
	IPv4  netip.Prefix `toml:"ipv4" required:"true" ip:"4,bare" example:"\"203.0.113.0/28\"" doc:"IPv4 prefix, or one address. All its addresses are used, the first and the last too."`
	Ports string       `toml:"ports" example:"\"1024-65535\"" doc:"First and last port. Default: 1024-65535."`
}

// Static is a binding that lasts (a static BIB entry, RFC 6146 section 3.1).
type Static struct {
	Protocol Protocol       `toml:"protocol" required:"true" enum:"tcp,udp,icmp" example:"\"tcp\"" doc:"tcp, udp or icmp; the port of icmp is the echo identifier."`
	IPv6     netip.AddrPort `toml:"ipv6" required:"true" example:"\"[2001:db8:1::80]:8080\"" doc:"The node's address and port."`
	IPv4     netip.AddrPort `toml:"ipv4" required:"true" example:"\"203.0.113.1:80\"" doc:"An address of the pools, and a port; it need not be one of the pool's ports."`
}

// Protocol is a transport that a static binding is for.
type Protocol string

// Number returns the IPv4 protocol number.
func (p Protocol) Number() uint8 {
	return map[Protocol]uint8{"tcp": 6, "udp": 17, "icmp": 1}[p]
}

// Filtering says which packets from outside a binding lets in.
type Filtering string

const (
	FilterNone    Filtering = "endpoint-independent"
	FilterAddress Filtering = "address-dependent"
	FilterPort    Filtering = "address-and-port-dependent"
)

func statefulDefaults() Stateful {
	return Stateful{
		Filtering:  FilterNone,
		UDPTimeout: 5 * time.Minute, ICMPTimeout: time.Minute,
		TCPEstablishedTimeout: 2*time.Hour + 4*time.Minute, TCPTransitoryTimeout: 4 * time.Minute,
		SubscriberPrefixLen: 64, FairShare: true,
		Bindings: 65536, Sessions: 262144,
		AllocationLogDays: 7, AllocationLogMiB: 256,
	}
}

// ports returns the first and last port of a pool.
func (p Pool) ports() (low, high uint16, ok bool) {
	if p.Ports == "" {
		return 1024, 65535, true
	}
	first, last, two := strings.Cut(p.Ports, "-")
	if !two {
		last = first
	}
	a, errA := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	b, errB := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	return uint16(a), uint16(b), errA == nil && errB == nil && a >= 1 && a <= b
}

// keys that one of the modes does not have
func statelessKeys() []string { return []string{"mappings", "translatable"} }

func statefulKeys() []string {
	return []string{"prefixes", "pools", "static", "filtering", "udp_timeout", "icmp_timeout", "tcp_established_timeout", "tcp_transitory_timeout",
		"subscriber_prefix_len", "ports_per_subscriber", "sessions_per_subscriber", "fair_share", "port_block", "subscribers", "bindings", "sessions",
		"count_subscribers", "allocation_log", "allocation_log_days", "allocation_log_mib", "allocation_syslog", "allocation_syslog_ca"}
}

// checkModes refuses keys that the mode has no use for.
func checkModes(c *config.Checker, s *Config) {
	others, other := statefulKeys(), StatefulMode
	if s.Mode == StatefulMode {
		others, other = statelessKeys(), Stateless
	}
	for _, key := range others {
		if c.Given(key) {
			c.Error(key, fmt.Sprintf("means nothing to mode = %q", s.Mode), fmt.Sprintf("take it out, or write mode = %q", other))
		}
	}
}

func checkStateful(c *config.Checker, s *Config) {
	if !c.Given("prefix") {
		c.Error("", "has no prefix: no IPv4 address would have an IPv6 form", `add prefix = "64:ff9b::/96" or a prefix of your own`)
	}
	if len(s.Pools) == 0 && !c.Broken("pools") {
		c.Error("", "has no pools: there would be no IPv4 addresses to share", `add pools = [{ ipv4 = "203.0.113.0/28" }] with addresses of your own`)
	}
	for key, d := range map[string]time.Duration{
		"udp_timeout": s.UDPTimeout, "icmp_timeout": s.ICMPTimeout,
		"tcp_established_timeout": s.TCPEstablishedTimeout, "tcp_transitory_timeout": s.TCPTransitoryTimeout,
	} {
		if d%time.Second != 0 || d > 30*24*time.Hour {
			c.Error(key, fmt.Sprintf("%s is not a time that can be kept", d), "whole seconds, thirty days at most")
		}
	}
	checkPrefixes(c, s)
	checkPools(c, s)
	checkStatic(c, s)
	checkBlocks(c, s)
	checkAllocations(c, s)
}

func checkPrefixes(c *config.Checker, s *Config) {
	for i, p := range s.Prefixes {
		if !p.IsValid() {
			continue
		}
		key := fmt.Sprintf("prefixes[%d]", i)
		checkTranslationPrefix(c, key, p)
		if s.Prefix.IsValid() && p.Overlaps(s.Prefix) {
			c.Error(key, fmt.Sprintf("%s overlaps prefix, %s", p, s.Prefix), "list further prefixes only, each once")
		}
		for j, q := range s.Prefixes[:i] {
			if q.IsValid() && p.Overlaps(q) {
				c.Error(key, fmt.Sprintf("%s overlaps prefixes[%d]", p, j), "list each prefix once")
			}
		}
	}
}

// prefixes returns all RFC 6052 prefixes, that of connections from IPv4 first.
func (s *Config) prefixes() []netip.Prefix {
	list := []netip.Prefix{s.Prefix}
	if s.Mode == StatefulMode {
		list = append(list, s.Prefixes...)
	}
	return slices.DeleteFunc(list, func(p netip.Prefix) bool { return !p.IsValid() })
}

func (s *Config) underPrefix(a netip.Addr) bool {
	return slices.ContainsFunc(s.prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

func checkPools(c *config.Checker, s *Config) {
	if len(s.Pools) > state.PoolsMax {
		c.Error("pools", fmt.Sprintf("has %d entries", len(s.Pools)), fmt.Sprintf("at most %d; join prefixes that lie side by side", state.PoolsMax))
	}
	for i, p := range s.Pools {
		key := fmt.Sprintf("pools[%d]", i)
		if _, _, ok := p.ports(); !ok {
			c.Error(key+".ports", fmt.Sprintf("%q is not a range of ports", p.Ports), `write it like "1024-65535"`)
		}
		if !p.IPv4.IsValid() {
			continue
		}
		if why, bad := unusable4(p.IPv4); bad {
			c.Error(key+".ipv4", fmt.Sprintf("%s is %s", p.IPv4, why), "use addresses that the Internet routes to you")
			continue
		}
		for j, q := range s.Pools[:i] {
			if q.IPv4.IsValid() && p.IPv4.Overlaps(q.IPv4) {
				c.Error(key+".ipv4", fmt.Sprintf("%s overlaps pools[%d]", p.IPv4, j), "list each address once")
			}
		}
	}
}

func checkStatic(c *config.Checker, s *Config) {
	type end struct {
		protocol Protocol
		at       netip.AddrPort
	}
	seen := map[end]int{}
	for i, b := range s.Static {
		key := fmt.Sprintf("static[%d]", i)
		if !b.IPv4.IsValid() || !b.IPv6.IsValid() {
			continue
		}
		switch {
		case !b.IPv6.Addr().Is6() || b.IPv6.Addr().Is4In6():
			c.Error(key+".ipv6", fmt.Sprintf("%s is not an IPv6 address", b.IPv6.Addr()), "write it like \"[2001:db8:1::80]:8080\"")
		case !b.IPv4.Addr().Is4():
			c.Error(key+".ipv4", fmt.Sprintf("%s is not an IPv4 address", b.IPv4.Addr()), "write it like \"203.0.113.1:80\"")
		case !s.inPools(b.IPv4.Addr()):
			c.Error(key+".ipv4", fmt.Sprintf("%s is in none of the pools", b.IPv4.Addr()), "use an address of pools")
		case s.underPrefix(b.IPv6.Addr()):
			c.Error(key+".ipv6", fmt.Sprintf("%s lies under the prefix, where IPv4 hosts are", b.IPv6.Addr()), "use the node's own address")
		case b.Protocol != "icmp" && (b.IPv4.Port() == 0 || b.IPv6.Port() == 0):
			c.Error(key, "has port 0", "write both ports")
		}
		for _, at := range []netip.AddrPort{b.IPv4, b.IPv6} {
			e := end{b.Protocol, at}
			if j, twice := seen[e]; twice {
				c.Error(key, fmt.Sprintf("%s is bound by static[%d] already", at, j), "bind each address and port once")
			}
			seen[e] = i
		}
	}
}

func (s *Config) inPools(a netip.Addr) bool {
	for _, p := range s.Pools {
		if p.IPv4.IsValid() && p.IPv4.Contains(a) {
			return true
		}
	}
	return false
}

// checkBlocks asks whether the pools have a block for every subscriber.
func checkBlocks(c *config.Checker, s *Config) {
	switch {
	case c.Given("port_block") != c.Given("subscribers"):
		c.Error("", "has only one of port_block and subscribers", "give both, or neither")
		return
	case !c.Given("port_block") || !s.Subscribers.IsValid():
		return
	case s.Subscribers.Bits() < 1 || s.SubscriberPrefixLen > 64 || s.SubscriberPrefixLen < s.Subscribers.Bits() || s.SubscriberPrefixLen-s.Subscribers.Bits() > 24:
		c.Error("subscribers", fmt.Sprintf("/%d subscribers in a /%d cannot be counted", s.SubscriberPrefixLen, s.Subscribers.Bits()), "subscribers have at most /64, and the prefix is at most 24 bits shorter")
		return
	}
	blocks := 0
	for _, p := range s.Pools {
		if low, high, ok := p.ports(); ok && p.IPv4.IsValid() {
			blocks += (int(high) - int(low) + 1) / s.PortBlock << (32 - p.IPv4.Bits())
		}
	}
	if want := 1 << (s.SubscriberPrefixLen - s.Subscribers.Bits()); blocks < want {
		c.Error("port_block", fmt.Sprintf("the pools have %d blocks of %d ports, and there are %d subscribers", blocks, s.PortBlock, want), "make blocks smaller, or pools larger")
	}
}

func checkAllocations(c *config.Checker, s *Config) {
	if s.AllocationLog != "" && !filepath.IsAbs(s.AllocationLog) {
		c.Error("allocation_log", fmt.Sprintf("%q is no absolute path", s.AllocationLog), `write it like "/var/lib/weft/main.allocations"`)
	}
	if s.AllocationLog == "" && (c.Given("allocation_log_days") || c.Given("allocation_log_mib")) {
		c.Error("", "says how much of allocations is kept, and not where", `add allocation_log = "/var/lib/weft/main.allocations", or take allocation_log_days and allocation_log_mib out`)
	}
	checkCollector(c, s)
}

func checkCollector(c *config.Checker, s *Config) {
	u, err := url.Parse(s.AllocationSyslog)
	if s.AllocationSyslogCA != "" && (err != nil || u.Scheme != "tls") {
		c.Error("allocation_syslog_ca", "is for a collector by tls, and there is none", `take it out, or write allocation_syslog = "tls://192.0.2.5:6514"`)
	}
	if s.AllocationSyslog == "" {
		return
	}
	if err == nil && slices.Contains([]string{"udp", "tcp", "tls"}, u.Scheme) && u.Path == "" && u.User == nil && u.RawQuery == "" && (u.Fragment == "" || u.Scheme == "tls") {
		if at, err := netip.ParseAddrPort(u.Host); err == nil && at.Port() != 0 {
			return
		}
	}
	c.Error("allocation_syslog", fmt.Sprintf("%q is no collector", s.AllocationSyslog), `write it like "udp://192.0.2.5:514", "tcp://[2001:db8::5]:601" or "tls://192.0.2.5:6514#logs.example.net"`)
}

// Logs reports whether each binding is logged. Where port blocks are fixed (RFC 7422),
// the configuration determines the subscriber of a port.
func (c *Config) Logs() bool {
	return c.Mode == StatefulMode && c.PortBlock == 0 && (c.AllocationLog != "" || c.AllocationSyslog != "")
}

// Layout returns the fixed blocks of a translator that has them.
func (c *Config) Layout() (l allocationlog.Layout, fixed bool) {
	if c.Mode != StatefulMode || c.PortBlock == 0 {
		return l, false
	}
	l = allocationlog.Layout{Block: c.PortBlock, Subscribers: c.Subscribers.Masked(), SubscriberBits: c.SubscriberPrefixLen}
	for _, p := range c.Pools {
		low, high, _ := p.ports()
		l.Pools = append(l.Pools, allocationlog.LayoutPool{IPv4: p.IPv4.Masked(), Low: low, High: high})
	}
	for _, s := range c.Static {
		l.Static = append(l.Static, allocationlog.LayoutStatic{Protocol: s.Protocol.Number(), IPv6: s.IPv6, IPv4: s.IPv4})
	}
	return l, true
}
