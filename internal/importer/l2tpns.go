package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/state"
)

// l2tpns is what a startup-config says: its settings, the last of each.
type l2tpns struct {
	notes
	set      map[string]setting
	listen   []netip.Addr
	pools    []netip.Prefix
	radius   []netip.AddrPort
	dns      []netip.Addr
	said     map[string]bool // remarks that are made once
	switched []string        // entries of forward
}

type setting struct {
	line  int
	value string
}

// L2TPNS reads a startup-config (startup-config(5), up to 2.4).
func L2TPNS(text []byte, o Options) (string, []state.Problem) {
	l := l2tpns{notes: notes{file: o.File}, set: map[string]setting{}, said: map[string]bool{}}
	for i, line := range strings.Split(string(text), "\n") {
		// libcli, which reads it, ends a line at # wherever that stands.
		line, _, _ = strings.Cut(line, "#")
		words, err := quoted(line)
		if err != nil {
			l.wrong(i+1, "startup-config", err.Error(), "close the quotes; a # ends the line inside of them too")
			continue
		}
		if len(words) > 0 && !strings.HasPrefix(words[0], "!") {
			l.command(i+1, words)
		}
	}
	l.addresses(o)
	l.servers()
	l.names()
	l.pool(o)
	return l.write(o), l.list
}

// quoted splits a line into words; "like this" is one.
func quoted(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if q := rest[0]; q == '"' || q == '\'' {
			word, after, ok := strings.Cut(rest[1:], string(q))
			if !ok {
				return nil, fmt.Errorf("has a %c without another one", q)
			}
			words, rest = append(words, word), after
			continue
		}
		n := strings.IndexAny(rest, " \t\r\v\f")
		if n < 0 {
			n = len(rest)
		}
		words, rest = append(words, rest[:n]), rest[n:]
	}
	return words, nil
}

// once is left, for what many lines ask for together.
func (l *l2tpns) once(line int, path, what, remedy string) {
	if !l.said[path] {
		l.said[path] = true
		l.left(line, path, what, remedy)
	}
}

func (l *l2tpns) command(line int, words []string) {
	switch words[0] {
	case "set":
		if len(words) < 3 {
			l.wrong(line, "set", fmt.Sprintf("has %d words behind it, and needs 2", len(words)-1), "complete the line")
			return
		}
		l.setting(line, words[1], words[2])
	case "load":
		l.plugin(line, words[len(words)-1])
	case "router", "neighbour":
		l.once(line, "router", "weft does not announce subscribers over BGP", "let BIRD or FRR do it; the routes to the pools are in the kernel")
	case "ip", "permit", "deny":
		l.once(line, "ip access-list", "weft has no per-session filters", "write rules for the section's device in nftables; RADIUS' Filter-Id names the walled garden")
	case "setforward":
		l.sendOn(line, words[1:])
	case "hostname":
		if len(words) > 1 {
			l.set["hostname"] = setting{line, words[1]}
		}
	case "exit", "end", "username", "enable":
		// the command line's own
	default:
		l.left(line, words[0], "is not a command of startup-config(5)", "check what it does, and whether docs/features/lns.md has it")
	}
}

func (l *l2tpns) plugin(line int, name string) {
	path := "load plugin " + name
	switch name {
	case "sessionctl", "setrxspeed":
		// weft kick; the LAC's speeds go to RADIUS as they are
	case "garden":
		l.left(line, path, "l2tpns has the walled garden's destinations in firewall rules", `list it in walled_garden; RADIUS answers with Filter-Id = "garden"`)
	case "autothrottle", "throttlectl":
		l.left(line, path, "weft takes rate limits from WISPr-Bandwidth-Max-Up and -Down, in bit/s", "let RADIUS answer with them, or change them with a CoA-Request")
	case "autosnoop", "snoopctl":
		l.left(line, path, "weft does not mirror subscribers' packets to another host", "mirror a switch port where the law requires it")
	case "stripdomain":
		l.left(line, path, "weft sends the login to RADIUS unchanged", "strip the realm in RADIUS")
	default:
		l.left(line, path, "weft has no such plugin", "check what it does, and whether docs/features/lns.md has it")
	}
}

// own are settings of l2tpns's process, devices and clock that need nothing.
var own = []string{
	"debug", "log_file", "pid_file", "random_device", "lock_pages", "scheduler_fifo", "multi_read_count", "dump_speed", "icmp_rate", "packet_limit",
	"throttle_buckets", "tundevicename", "send_garp", "cli_bind_address", "radius_bind_min", "radius_bind_max", "ppp_restart_time", "ppp_max_configure",
	"ppp_max_failure", "ppp_keepalive", "kill_timedout_sessions", "disable_lac_func", "bind_address_remotelns", "bind_portremotelns", "iftun_address",
	"nexthop", "nexthop6", "nexthop_address", "nexthop6_address", "disable_no_spoof", "dns6_lifetime", "no_throttle_local_IP",
}

// known are settings that become something of weft's.
var known = []string{
	"l2tp_secret", "l2tp_mtu", "primary_dns", "secondary_dns", "primary_ipv6_dns", "secondary_ipv6_dns", "primary_radius", "secondary_radius",
	"primary_radius_port", "secondary_radius_port", "radius_secret", "radius_authtypes", "radius_accounting", "radius_interim", "allow_duplicate_users",
	"bind_address", "bind_multi_address", "peer_address", "throttle_speed", "ipv6_prefix", "echo_timeout", "idle_echo_timeout", "hostname",
}

func (l *l2tpns) setting(line int, name, value string) {
	switch {
	case slices.Contains(known, name):
		l.set[name] = setting{line, value}
	case slices.Contains(own, name):
	case strings.HasPrefix(name, "cluster_"):
		l.once(line, "set cluster_*", "weft has no cluster: sessions are in one router, and survive its restart", "give LACs the addresses of two routers; sessions of a failed one reconnect to the other")
	case strings.HasPrefix(name, "pppoe_"):
		l.once(line, "set pppoe_*", "weft is no PPPoE server", "use an access concentrator that delivers these subscribers over L2TP")
	case name == "radius_dae_port":
		if value != "3799" {
			l.left(line, name, "weft receives CoA- and Disconnect-Requests at port 3799 (RFC 5176)", "make the RADIUS server send them there")
		}
	case name == "accounting_dir", name == "account_all_origin":
		l.once(line, "set accounting_dir", "weft writes no files of usage", "take it from RADIUS accounting, or weft show subscribers --json")
	case name == "guest_account":
		if value != "" {
			l.left(line, name, "duplicates applies to all logins", `set duplicates = "allow" if guests matter more than stale sessions`)
		}
	case name == "disable_sending_hello":
		if yes(value) {
			l.left(line, name, "weft sends Hello messages on silent tunnels", `set hello = "1h"`)
		}
	case name == "auth_tunnel_change_addr_src":
		if yes(value) {
			l.left(line, name, "a tunnel keeps the peer address that set it up", "nothing to do unless LACs are a cluster")
		}
	case strings.HasPrefix(name, "dhcp6_"), name == "default_ipv6_domain_list":
		l.left(line, name, "weft's DHCPv6 has lifetimes and a DUID of its own, and no search list", "nothing to do")
	case name == "multi_hostname":
		l.left(line, name, "a section has one host_name", "write a section for each address with another host name")
	default:
		l.left(line, name, "is not a setting of startup-config(5)", "check what it does, and whether docs/features/lns.md has it")
	}
}

// yes reports whether an l2tpns boolean is on.
func yes(word string) bool {
	return slices.Contains([]string{"yes", "true", "1"}, strings.ToLower(word))
}
