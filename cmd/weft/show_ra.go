package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"weft/internal/api"
	"weft/internal/daemon"
)

func raNoun() oldNoun {
	return oldNoun{"ra", "What the hosts of each link are told, and their leases", `For each [ra.NAME] what router advertisements say, how many went out (to
everybody, and to one host that asked), how many came from other routers; and
what DHCPv6 gave to whom. The daemon knows all this, so weft run must be running.`, showRA, tableRA}
}

func showRA(ctx context.Context, r *daemon.Router) (any, error) {
	var rows []api.Advert
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/ra", &rows)
	return emptyNotNull(rows), err
}

func tableRA(w io.Writer, rows any) {
	list := rows.([]api.Advert)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	for _, a := range list {
		fmt.Fprintf(w, "ra.%s on %s\n", a.Name, a.Device)
		if a.Fault != "" {
			fmt.Fprintf(w, "  not served\t%s\n", a.Fault)
		}
		fmt.Fprintf(w, "  router lifetime\t%s\n", a.Lifetime)
		fmt.Fprintf(w, "  prefixes\t%s\n", dash(joined(a.Prefixes)))
		if len(a.Deprecated) > 0 {
			fmt.Fprintf(w, "  deprecated\t%s\n", joined(a.Deprecated))
		}
		fmt.Fprintf(w, "  name servers\t%s\n", dash(joined(a.DNS)))
		fmt.Fprintf(w, "  translator\t%s\n", dash(joined(a.PREF64)))
		fmt.Fprintf(w, "  advertisements\t%d sent, %d answered, %d from others\n", a.Stats.Sent, a.Stats.Answered, a.Stats.Others)
		if a.DHCP != nil {
			fmt.Fprintf(w, "  DHCPv6\t%s, %d messages, %d answered\n", a.DHCPv6, a.DHCP.Received, a.DHCP.Answered)
		}
		for _, l := range a.Leases {
			fmt.Fprintf(w, "  %s\t%s\tto %s at %s until %s\n", l.Kind, leaseText(l.Prefix), l.Client, l.Peer, l.Until.Format(time.DateTime))
		}
	}
}

func leaseText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func joined[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, " ")
}

// fromDaemon tells whether all of a noun comes from the daemon, and nothing
// from the pinned maps.
func (n oldNoun) fromDaemon() bool {
	return n.name == "dns64" || n.name == "ra" || n.name == "subscribers" || n.name == "l2tp-tunnels" || n.name == "clients"
}
