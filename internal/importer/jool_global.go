package importer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sourcesMax is how many addresses of rfc6791v4-prefix are written out.
const sourcesMax = 64

// global reads one key of "global".
func (j *jool) global(g member) {
	path := "global." + g.name
	on, _ := g.scalar.(bool)
	switch g.name {
	case "comment", "logging-debug", "ss-flush-asap", "ss-flush-deadline", "ss-capacity", "ss-max-payload":
	case "pool6":
		if g.scalar != nil {
			j.pool6, _ = j.prefix(path, g.value, true)
		}
	case "lowest-ipv6-mtu":
		j.lowest(path, g)
	case "amend-udp-checksum-zero":
		if on {
			j.settings = append(j.settings, `udp_zero_checksum = "compute"`)
		}
	case "zeroize-traffic-class":
		j.zeroize = on
	case "override-tos":
		j.override = on
	case "tos":
		if fmt.Sprint(g.scalar) != "0" {
			j.left(g.line, path, "weft can only set TOS to zero", "mark packets in the FORWARD chain: ip dscp set")
		}
	case "rfc6791v4-prefix":
		j.errorSources(path, g)
	case "address-dependent-filtering":
		if on {
			j.settings = append(j.settings, `filtering = "address-dependent"`)
		}
	case "udp-timeout":
		j.timeout(path, g, "udp_timeout", 2*time.Minute)
	case "icmp-timeout":
		j.timeout(path, g, "icmp_timeout", time.Minute)
	case "tcp-est-timeout":
		j.timeout(path, g, "tcp_established_timeout", 2*time.Hour+4*time.Minute)
	case "tcp-trans-timeout":
		j.timeout(path, g, "tcp_transitory_timeout", 4*time.Minute)
	default:
		j.otherwise(path, g, on)
	}
}

// device is the one of the translator, for rules of nftables.
func (j *jool) device() string {
	name := sectionName(j.instance)
	return "nat64-" + name[:min(len(name), nameMax)]
}

// classes turns the two settings into the one that is for both directions.
func (j *jool) classes(line int) {
	switch {
	case j.zeroize && j.override:
		j.settings = append(j.settings, "copy_traffic_class = false")
	case j.zeroize || j.override:
		j.left(line, "global", "zeroize-traffic-class and override-tos differ, but copy_traffic_class is for both directions", "with both on it becomes copy_traffic_class = false")
	}
}

// otherwise names what weft does in another way, or not at all.
func (j *jool) otherwise(path string, g member, on bool) {
	left := func(what, remedy string) { j.left(g.line, path, what, remedy) }
	switch g.name {
	case "manually-enabled":
		if g.scalar == false {
			left("a translator that is in the file is on", "comment its section out")
		}
	case "trace":
		if on {
			left("weft writes no line for each packet", "ask weft trace what becomes of one, or tcpdump")
		}
	case "mtu-plateaus":
		left("weft has the plateaus of RFC 1191 section 7.1", "nothing to do, unless the list was another")
	case "randomize-rfc6791-addresses":
		if on {
			left("an IPv6 router always has the same error_source, so that traceroute can tell hops apart", "nothing to do")
		}
	case "rfc6791v6-prefix":
		if g.scalar != nil {
			left("ICMPv6 errors of the translator come from the address of an interface", "nothing to do")
		}
	case "eam-hairpin-mode":
		switch g.scalar {
		case "off":
			left("nodes with mappings reach each other by their IPv4 addresses (RFC 7757 section 4)", "nft add rule inet filter forward iifname "+j.device()+" oifname "+j.device()+" drop")
		case "intrinsic":
			left("weft hairpins through IPv4 (RFC 7757 section 4.2.1), where the FORWARD chain sees it", "nothing to do")
		}
	case "drop-icmpv6-info":
		if on {
			left("echoes are translated", "nft add rule inet filter forward iifname "+j.device()+" icmp type echo-request drop")
		}
	case "drop-externally-initiated-tcp":
		if on {
			left("TCP may begin on the IPv4 side where filtering lets it", "nft add rule inet filter forward oifname "+j.device()+" meta l4proto tcp ct state new drop")
		}
	case "ss-enabled":
		if on {
			left("sessions are not shared with joold", "add [session_sync], as docs/features/session-sync.md has it")
		}
	case "logging-bib":
		if on {
			left("bindings are not written into the kernel's log", "add allocation_log or allocation_syslog, as docs/features/nat64-stateful.md has it")
		}
	case "logging-session":
		if on {
			left("sessions are not logged, with their destinations (RFC 6888 REQ-12)", "allocation_log keeps bindings")
		}
	case "maximum-simultaneous-opens", "f-args", "handle-rst-during-fin-rcv", "source-icmpv6-errors-better":
		left("weft has no such setting", "nothing to do: it does as RFC 6146 says")
	default:
		j.unknown("global", g)
	}
}

func (j *jool) lowest(path string, g member) {
	n, err := strconv.Atoi(fmt.Sprint(g.scalar))
	switch {
	case err != nil:
		j.wrong(g.line, path, "is not a number", "write it in bytes, as 1280")
	case n < 1280 || n > 65535:
		j.left(g.line, path, fmt.Sprintf("%d is not a valid MTU for IPv6", n), "1280 to 65535; 1280 is taken")
	default:
		j.settings = append(j.settings, fmt.Sprintf("lowest_ipv6_mtu = %d", n))
	}
}

func (j *jool) errorSources(path string, g member) {
	if g.scalar == nil {
		return
	}
	p, ok := j.prefix(path, g.value, false)
	if !ok {
		return
	}
	for a := p.Addr(); p.Contains(a) && len(j.sources) < sourcesMax; a = a.Next() {
		j.sources = append(j.sources, a)
	}
	if p.Bits() < 32-6 {
		j.left(g.line, path, fmt.Sprintf("%s has more than %d addresses, of which that many are taken", p, sourcesMax), "nothing to do")
	}
}

// timeout reads seconds or "[[HH:]MM:]SS[.mmm]".
func (j *jool) timeout(path string, g member, key string, least time.Duration) {
	d, err := duration(g.scalar)
	if err != nil {
		j.wrong(g.line, path, err.Error(), `write it as "00:05:00"`)
		return
	}
	if d < least {
		j.left(g.line, path, fmt.Sprintf("%s is shorter than the RFCs allow", d), fmt.Sprintf("%s is taken", least))
		d = least
	}
	j.settings = append(j.settings, fmt.Sprintf("%s = %q", key, d))
}

func duration(v any) (time.Duration, error) {
	text, ok := v.(string)
	if n, number := v.(json.Number); number {
		text, ok = n.String(), true
	}
	parts := strings.Split(text, ":")
	if !ok || len(parts) > 3 {
		return 0, fmt.Errorf("%v is no time", v)
	}
	seconds := 0.0
	for _, p := range parts {
		n, err := strconv.ParseFloat(p, 64)
		if err != nil || n < 0 || n > 1e7 {
			return 0, fmt.Errorf("%v is no time", v)
		}
		seconds = seconds*60 + n
	}
	if seconds > 1e7 {
		return 0, fmt.Errorf("%v is longer than a hundred days", v)
	}
	return time.Duration(seconds) * time.Second, nil
}
