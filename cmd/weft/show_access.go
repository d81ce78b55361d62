package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/access"
)

func accessNouns() []oldNoun {
	return []oldNoun{
		{"subscribers", "The sessions of subscribers, and what they carry", `The sessions of all [access.NAME]: who, since when, their addresses, and the
bytes of IP packets that they sent (UP) and got (DOWN). A row has more in JSON:
what PPP negotiated, rate limits, what was dropped and why. The daemon knows all
this, so weft run must be running.`, showSubscribers, tableSubscribers},
		{"l2tp-tunnels", "The L2TP tunnels and how they are", `The tunnels of [access.NAME] and [l2tp_client.NAME]: between which addresses,
with whom, how many sessions, and how many control messages wait for an
acknowledgement.`, showTunnels, tableTunnels},
		l2tpSessionsNoun(),
		{"clients", "The sessions of this router's own with L2TP servers", `For each [l2tp_client.NAME] whether it is up, what it was given, and if it is
not up, why.`, showClients, tableClients},
		{"address-pools", "How full the pools of subscribers' addresses are", `For each space of the [access.NAME] sections that addresses or prefixes come
out of, how many sessions have one now. A login's addresses are kept for it
while it is away, and given to others only when nothing else is free.`, showAddressPools, tableAddressPools},
		{"radius", "How the RADIUS servers answer", `The RADIUS servers of the [access.NAME] sections: questions that were answered
and that were not, accounts that were taken, that wait and that were lost. A
server that did not answer comes last for half a minute. An answer without a
right Message-Authenticator is not believed, and counted as forged.`, showRADIUS, tableRADIUS},
	}
}

func showSubscribers(ctx context.Context, r *daemon.Router) (any, error) {
	rows := []api.Subscriber{}
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/subscribers", &rows)
	return rows, err
}

func tableSubscribers(w io.Writer, rows any) {
	list := rows.([]api.Subscriber)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "ACCESS\tLOGIN\tSESSION\tSTATE\tFOR\tIPV4\tPREFIX\tDELEGATED\tUP\tDOWN")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", s.Access, dash(s.Login), s.Session, s.State, age(s.Since),
			addressOrDash(s.IPv4), prefixOrDash(s.Prefix), prefixOrDash(s.Delegated), s.Traffic.UpBytes, s.Traffic.DownBytes)
	}
}

func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return time.Since(t).Round(time.Second).String()
}

func addressOrDash(a netip.Addr) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

func prefixOrDash(p netip.Prefix) string {
	if !p.IsValid() {
		return "-"
	}
	return p.String()
}

func showTunnels(ctx context.Context, r *daemon.Router) (any, error) {
	rows := []access.TunnelRow{}
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/l2tp-tunnels", &rows)
	return rows, err
}

func tableTunnels(w io.Writer, rows any) {
	list := rows.([]access.TunnelRow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "SECTION\tTUNNEL\tSTATE\tFOR\tHERE\tPEER\tHOST\tSESSIONS\tWAITING")
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%d/%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", t.Section, t.Local, t.Remote, t.State, age(t.Since), t.Here, t.Peer, dash(t.Host), t.Sessions, t.Waiting)
	}
}

func showClients(ctx context.Context, r *daemon.Router) (any, error) {
	rows := []access.ClientRow{}
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/clients", &rows)
	return rows, err
}

func tableClients(w io.Writer, rows any) {
	list := rows.([]access.ClientRow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	for _, c := range list {
		fmt.Fprintf(w, "l2tp_client.%s to %s\n", c.Name, c.Server)
		fmt.Fprintf(w, "  state\t%s\n", c.State)
		if c.Fault != "" && !c.Up {
			fmt.Fprintf(w, "  why\t%s\n", c.Fault)
		}
		if !c.RetryAt.IsZero() {
			fmt.Fprintf(w, "  next try\tin %s, after %d\n", max(time.Until(c.RetryAt), 0).Round(time.Second), c.Tries)
		}
		if !c.Up {
			continue
		}
		fmt.Fprintf(w, "  IPv4\t%s\n", addressOrDash(c.IPv4))
		fmt.Fprintf(w, "  IPv6\t%s\n", dash(joined(c.Addresses)))
		fmt.Fprintf(w, "  delegated\t%s\n", prefixOrDash(c.Delegated))
		fmt.Fprintf(w, "  name servers\t%s\n", dash(joined(c.DNS)))
		fmt.Fprintf(w, "  MTU\t%d\n", c.MTU)
	}
}

func showAddressPools(ctx context.Context, r *daemon.Router) (any, error) {
	rows := []access.PoolRow{}
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/address-pools", &rows)
	return rows, err
}

func tableAddressPools(w io.Writer, rows any) {
	list := rows.([]access.PoolRow)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "ACCESS\tPOOL\tSPACE\tUSED\tFREE")
	for _, p := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.6g\n", p.Access, p.Pool, p.Space, p.Used, p.Free)
	}
}

func showRADIUS(ctx context.Context, r *daemon.Router) (any, error) {
	rows := []access.RADIUSServer{}
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/radius", &rows)
	return rows, err
}

func tableRADIUS(w io.Writer, rows any) {
	list := rows.([]access.RADIUSServer)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "ACCESS\tSERVER\tSTATE\tANSWERED\tSILENT\tFORGED\tACCOUNTED\tNOT\tWAITING\tLOST")
	for _, s := range list {
		state := "ok"
		if s.Quiet {
			state = "silent"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Access, s.Server, state, s.Answered, s.Silent, s.Forged, s.Told, s.Untold, s.Waiting, s.Lost)
	}
}

// kickCommand ends subscribers' sessions.
func kickCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kick WHO",
		Short: "End a subscriber's session",
		Long: `End the sessions of a subscriber: WHO is a login, an address of theirs, or the
number of a session as weft show subscribers has it. The subscriber is told, and
may log in again. With l2tp_client.NAME this router's own session with a server
ends, and begins anew. It fails if there is no such session.`,
		Example: "  weft kick alice@example.net\n  weft kick 203.0.113.5\n  weft kick 4711\n  weft kick l2tp_client.isp",
		Args:    oneArgument("a login, an address or a session", "weft show subscribers lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft kick"); err != nil {
				return err
			}
			r, err := daemon.Look()
			if err != nil {
				return err
			}
			defer r.Close()
			k, err := api.Kick(cmd.Context(), r.Place.Socket(), args[0])
			if err != nil {
				return err
			}
			if k.Sessions == 0 {
				return fmt.Errorf("there is no session of %q: weft show subscribers lists those that there are", args[0])
			}
			fmt.Fprintf(cmd.OutOrStdout(), "sessions ended: %d\n", k.Sessions)
			return nil
		},
	}
}
