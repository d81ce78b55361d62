package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/datapath"
)

// routeNouns are what [route] has to show, but for show route, which takes an
// address.
func routeNouns() []oldNoun {
	return []oldNoun{
		{"fib", "The route tables: what they hold and what they are made of", `For each of weft's own tables (see [route]) its structure in the manner of
/proc/net/fib_triestat, and for the mirror of the kernel's routes what it holds,
what it leaves to the kernel, and why. The statistics walk the whole table:
with a full Internet table that takes a moment, in which no route changes.`, showFIB, tableFIB},
		{"neighbours", "The neighbours, and which of them weft sends to itself", `The kernel's neighbours with their link addresses. FAST says that weft sends
to this one past the stack, OUT by which device (below a VLAN interface, the
port of a bridge). The others are reached through the kernel.`, showNeighbours, tableNeighbours},
	}
}

// showRouteCommand is weft show route.
func showRouteCommand() *cobra.Command {
	var asJSON bool
	var table int
	c := &cobra.Command{
		Use: "route ADDRESS", Short: "Explain the way to an address",
		Long: `Look an address up in weft's own route table (see [route]) and say what is
found: the prefix, the next hop, the way through the structure, what the kernel
has for the address, and whether both agree. A next hop "stack" means that the
kernel forwards, because weft does not know the neighbour's link address, or
because the route is of a kind that is not mirrored.`,
		Example: "  weft show route 192.0.2.1\n  weft show route 2001:db8::1 --json",
		Args:    oneArgument("one address", "like weft show route 192.0.2.1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := netip.ParseAddr(args[0])
			if err != nil || a.Zone() != "" {
				return fmt.Errorf("%q is not an IP address: weft show route takes one, like 192.0.2.1 or 2001:db8::1", args[0])
			}
			if err := needRoot("weft show"); err != nil {
				return err
			}
			return showRoute(cmd.Context(), cmd.OutOrStdout(), a.Unmap(), table, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().IntVar(&table, "table", 0, "number of the table: 0 is the main one, VRFs follow")
	return c
}

// compareFlag adds --compare to weft show fib.
func compareFlag(c *cobra.Command) *cobra.Command {
	var compare bool
	c.Flags().BoolVar(&compare, "compare", false, "ask the kernel for every boundary of its routes, and say where weft differs")
	c.Example += "\n  weft show fib --compare"
	usual := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !compare {
			return usual(cmd, args)
		}
		if err := needRoot("weft show"); err != nil {
			return err
		}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return showComparison(cmd.Context(), cmd.OutOrStdout(), asJSON)
	}
	return c
}

func showComparison(ctx context.Context, w io.Writer, asJSON bool) error {
	r, err := daemon.Look()
	if err != nil {
		return err
	}
	defer r.Close()
	routes, err := lookRoutes(r)
	if err != nil {
		return err
	}
	defer routes.Close()
	c, err := r.Compare(ctx, routes)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(w, c)
	} else {
		fmt.Fprintf(w, "%d addresses at the boundaries of %d prefixes: %d go the kernel's way, %d are left to the kernel, %d differ\n",
			c.Addresses, c.Prefixes, c.Same, c.Left, c.Differ)
		for _, e := range c.Examples {
			fmt.Fprintln(w, e)
		}
	}
	if err == nil && c.Differ > 0 {
		return errReported
	}
	return err
}

// lookRoutes opens the route tables that are in use.
func lookRoutes(r *daemon.Router) (*datapath.Routes, error) {
	if r.Datapath() == nil {
		return nil, errNothing
	}
	return r.Datapath().ViewRoutes()
}

func showRoute(ctx context.Context, w io.Writer, a netip.Addr, table int, asJSON bool) error {
	r, err := daemon.Look()
	if err != nil {
		return err
	}
	defer r.Close()
	routes, err := lookRoutes(r)
	if err != nil {
		return err
	}
	defer routes.Close()
	e, err := api.AskExplain(ctx, r.Place.Socket(), routes, table, a)
	if err != nil {
		return err
	}
	kernel, err := r.Match(ctx, a)
	if err != nil {
		return err
	}
	neighbours, err := r.Neighbours(ctx)
	if err != nil {
		return err
	}
	answer, err := api.Answer(routes, table, a, e, kernel, neighbours)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, answer)
	}
	printRoute(w, answer)
	return nil
}

func printRoute(w io.Writer, a api.RouteAnswer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "address\t%s\n", a.Address)
	fmt.Fprintf(t, "prefix\t%s\n", dash(a.Prefix))
	if a.Nexthop == nil {
		fmt.Fprint(t, "next hop\tnone: the kernel decides\n")
	} else {
		fmt.Fprintf(t, "next hop\t%s\n", nexthopWords(*a.Nexthop))
		for _, m := range a.Nexthop.Members {
			fmt.Fprintf(t, "\t%d of the flows: %s\n", m.Weight, nexthopWords(m))
		}
	}
	for i, s := range a.Steps {
		name := ""
		if i == 0 {
			name = "way"
		}
		fmt.Fprintf(t, "%s\t%s\n", name, s)
	}
	kernel := "no route"
	if k := a.Kernel; k != nil {
		kernel = strings.TrimSpace(fmt.Sprintf("%s %s %s", k.Type, k.Prefix, strings.Join(k.Hops, ", ")))
	}
	fmt.Fprintf(t, "kernel\t%s\n", kernel)
	agree := "yes"
	if !a.Agree {
		agree = "NO"
	}
	fmt.Fprintf(t, "agreed\t%s: %s\n", agree, a.Verdict)
	t.Flush()
}

func nexthopWords(h api.Nexthop) string {
	words := fmt.Sprintf("%d %s", h.Number, h.Kind)
	if h.Device != "" {
		words += fmt.Sprintf(" %s dev %s mtu %d", h.MAC, h.Device, h.MTU)
	}
	if h.Tags != "" {
		words += " " + h.Tags
	}
	return words
}

func showFIB(ctx context.Context, r *daemon.Router) (any, error) {
	routes, err := lookRoutes(r)
	if err != nil {
		return nil, err
	}
	defer routes.Close()
	return api.AskFIB(ctx, r.Place.Socket(), routes)
}

func tableFIB(w io.Writer, rows any) {
	f := rows.(api.FIB)
	if f.Mirror == nil {
		fmt.Fprintln(w, "the daemon is down: the tables are as it left them")
	} else {
		m := f.Mirror
		fmt.Fprintf(w, "mirrored\t%d IPv4 and %d IPv6 prefixes, %d next hops, %d neighbours with entries of their own, %d changes so far\n",
			m.Prefixes4, m.Prefixes6, m.Nexthops, m.Hosts, m.Changes)
		for _, s := range m.Stack {
			fmt.Fprintf(w, "left to the kernel\t%d %s routes %s\n", s.Routes, s.Family, s.Why)
		}
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		if why := f.Suspended[family]; why != "" {
			fmt.Fprintf(w, "left to the kernel\tall of %s: %s\n", family, why)
		}
	}
	for _, t := range f.Tables {
		fmt.Fprintf(w, "\ntable %d ", t.Number)
		fmt.Fprint(w, t.Stats.String())
	}
}

func showNeighbours(ctx context.Context, r *daemon.Router) (any, error) {
	routes, err := lookRoutes(r)
	if err != nil {
		return nil, err
	}
	defer routes.Close()
	links, err := r.Links()
	if err != nil {
		return nil, err
	}
	neighbours, err := r.Neighbours(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := api.Neighbours(routes, links, neighbours)
	return emptyNotNull(rows), err
}

func tableNeighbours(w io.Writer, rows any) {
	list := rows.([]api.Neighbour)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "ADDRESS\tDEVICE\tMAC\tSTATE\tFAST\tOUT\tTAGS")
	for _, n := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Address, n.Device, dash(n.MAC), n.State, yesNo(n.Fast), dash(n.Out), dash(n.Tags))
	}
}
