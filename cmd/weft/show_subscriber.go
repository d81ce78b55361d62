package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/access"
)

func askDetails(ctx context.Context, socket, who string, into *api.Details) error {
	return api.AskPath(ctx, socket, "/v1/subscriber?who="+url.QueryEscape(who), into)
}

// oneOf lets a noun be asked for one of its rows, in detail.
func oneOf(c *cobra.Command, what, long, example string, one func(context.Context, io.Writer, *daemon.Router, string, bool) error) *cobra.Command {
	c.Use += " [" + what + "]"
	c.Long += "\n\n" + long
	c.Example += "\n  weft show " + c.Name() + " " + example
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one %s, or none", c.CommandPath(), what)
		}
		return nil
	}
	usual := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usual(cmd, args)
		}
		if err := needRoot("weft show"); err != nil {
			return err
		}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		watch, err := cmd.Flags().GetBool("watch")
		if err != nil {
			return err
		}
		for {
			r, err := daemon.Look()
			if err != nil {
				return err
			}
			if watch && !asJSON {
				fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
			}
			err = one(cmd.Context(), cmd.OutOrStdout(), r, args[0], asJSON)
			r.Close()
			if watch && cmd.Context().Err() != nil {
				return nil // Ctrl-C in the middle of a question
			}
			if err != nil || !watch {
				return err
			}
			select {
			case <-cmd.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
	return c
}

// oneSubscriber and oneTunnel say more of one row.
func oneSubscriber(c *cobra.Command) *cobra.Command {
	return oneOf(c, "WHO", `With WHO, a login, an address of theirs or the number of a session, all that is
known of it: what was negotiated, limits, traffic and drops, what the session
waits for, and its last control messages, > sent by this router. Sessions of
WHO that ended lately follow, and logins that were refused, with the reason.`, "alice@example.net", showSubscriber)
}

// oneClient says more of a client's session, and of those that failed.
func oneClient(c *cobra.Command) *cobra.Command {
	return oneOf(c, "NAME", `With NAME all that is known of its session: what was negotiated, traffic and
drops, and the last control messages, > sent by this router. Sessions that
ended lately follow, with the reason: look there if it does not come up.`, "isp", func(ctx context.Context, w io.Writer, r *daemon.Router, name string, asJSON bool) error {
		return showSubscriber(ctx, w, r, "l2tp_client."+strings.TrimPrefix(name, "l2tp_client."), asJSON)
	})
}

func oneTunnel(c *cobra.Command) *cobra.Command {
	c.Aliases = []string{"tunnels"}
	return oneOf(c, "WHO", `With WHO, the number of a tunnel, its peer's name or address: windows and
retransmissions too, and the last control messages about the tunnel itself,
> sent by this router.`, "dsl", showTunnel)
}

func showSubscriber(ctx context.Context, w io.Writer, r *daemon.Router, who string, asJSON bool) error {
	var d api.Details
	if err := askDetails(ctx, r.Place.Socket(), who, &d); err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, d)
	}
	if len(d.Sessions)+len(d.Ended) == 0 {
		list := "subscribers"
		if strings.HasPrefix(who, "l2tp_client.") {
			list = "clients"
		}
		return fmt.Errorf("there is no session of %q, and none has ended lately: weft show %s lists those that there are", who, list)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range d.Sessions {
		writeSession(t, s)
	}
	for _, e := range d.Ended {
		fmt.Fprintf(t, "ended: session %d of %s\n", e.Session, ofSection(e.Access, e.Client, e.Login))
		fmt.Fprintf(t, "  when\t%s, after %s\n", e.At.Format(time.DateTime), e.At.Sub(e.Since).Round(time.Second))
		fmt.Fprintf(t, "  why\t%s: %s\n", e.Reason, e.Text)
		if e.Client == "" {
			fmt.Fprintf(t, "  from\t%s\n", callText(e.Call))
		}
		writeMessages(t, e.Messages)
	}
	return t.Flush()
}

func writeSession(w io.Writer, s api.Detail) {
	n := s.Negotiated
	fmt.Fprintf(w, "session %d of %s\n", s.Session, ofSection(s.Access, s.Client, s.Login))
	fmt.Fprintf(w, "  state\t%s for %s\n", s.State, age(s.Since))
	if s.Client == "" {
		fmt.Fprintf(w, "  accounting id\t%s\n", s.ID)
		fmt.Fprintf(w, "  from\t%s\n", callText(s.Call))
	}
	fmt.Fprintf(w, "  tunnel\t%d/%d with %s at %s, session there %d\n", s.TunnelRow.Local, s.TunnelRow.Remote, dash(s.TunnelRow.Host), s.TunnelRow.Peer, s.PeerID)
	fmt.Fprintf(w, "  authentication\t%s\n", dash(string(s.Method)))
	fmt.Fprintf(w, "  LCP\t%s, MRU %d here and %d there, packets up to %d%s\n", s.LCP, n.MRU, n.PeerMRU, s.MTU, lcpWords(n))
	fmt.Fprintf(w, "  IPCP\t%s, %s, gateway %s\n", s.IPCP, addressOrDash(s.IPv4), addressOrDash(n.Gateway))
	fmt.Fprintf(w, "  IPV6CP\t%s, %s\n", s.IPV6CP, addressOrDash(s.LinkLocal))
	fmt.Fprintf(w, "  IPv6\tprefix %s, delegated %s, address %s\n", prefixOrDash(s.Prefix), prefixOrDash(s.Delegated), addressOrDash(s.IPv6))
	fmt.Fprintf(w, "  routes\t%s\n", dash(joined(s.Routes)))
	fmt.Fprintf(w, "  name servers\t%s\n", dash(joined(n.DNS)))
	fmt.Fprintf(w, "  rate limits\tup %s, down %s\n", rateText(s.Up), rateText(s.Down))
	fmt.Fprintf(w, "  walled garden\t%s\n", yesNo(s.Garden))
	up, down := "up", "down"
	if s.Client != "" {
		up, down = "received", "sent"
	}
	fmt.Fprintf(w, "  %s\t%d packets, %d bytes, the last %s\n", up, s.Traffic.UpPackets, s.Traffic.UpBytes, lastSeen(s.LastUp))
	fmt.Fprintf(w, "  %s\t%d packets, %d bytes, the last %s\n", down, s.Traffic.DownPackets, s.Traffic.DownBytes, lastSeen(s.LastDown))
	fmt.Fprintf(w, "  slow path\t%d packets %s, %d %s\n", s.Slow.UpPackets, up, s.Slow.DownPackets, down)
	for _, why := range slices.Sorted(maps.Keys(s.Drops)) {
		fmt.Fprintf(w, "  dropped\t%d %s\n", s.Drops[why], why)
	}
	if l := s.Line; l != nil {
		fmt.Fprintf(w, "  the line's errors\tCRC %d, framing %d, overruns %d and %d, timeouts %d, alignment %d\n", l.CRC, l.Framing, l.Hardware, l.Buffer, l.Timeouts, l.Alignment)
	}
	for _, d := range s.Timers {
		fmt.Fprintf(w, "  waits for\t%s in %s\n", d.What, time.Until(d.At).Round(time.Second))
	}
	writeMessages(w, s.Messages)
}

// whose says whom a session is of, for people.
func whose(client, login string) string {
	if client != "" {
		return "l2tp_client." + client
	}
	return dash(login)
}

func ofSection(access, client, login string) string {
	if client != "" {
		return whose(client, "")
	}
	return dash(login) + " on access." + access
}

func writeMessages(w io.Writer, list []access.ControlMessage) {
	if len(list) == 0 {
		fmt.Fprintln(w, "  messages\tnone since weft run began")
	}
	for _, m := range list {
		way := "<"
		if m.Sent {
			way = ">"
		}
		fmt.Fprintf(w, "  %s\t%s %s\n", m.At.Format("15:04:05.000"), way, m.Text)
	}
}

func callText(c access.Call) string {
	words := []string{"LAC " + dash(c.LACName)}
	if c.LAC.IsValid() {
		words = append(words, "at "+c.LAC.String())
	}
	if c.Calling != "" {
		words = append(words, "calling "+c.Calling)
	}
	if c.Called != "" {
		words = append(words, "called "+c.Called)
	}
	switch {
	case c.Tx != 0 && (c.Rx == 0 || c.Rx == c.Tx): // RFC 2661 section 4.4.4: without another word it is the same both ways
		words = append(words, "line "+rateText(uint64(c.Tx)))
	case c.Tx != 0:
		words = append(words, fmt.Sprintf("line %s down, %s up", rateText(uint64(c.Tx)), rateText(uint64(c.Rx))))
	}
	return strings.Join(words, ", ")
}

func lcpWords(n access.Negotiated) string {
	s := ""
	if n.ACFC {
		s += ", ACFC"
	}
	if n.PFC {
		s += ", PFC"
	}
	if n.Sequenced {
		s += ", sequence numbers"
	}
	return s
}

func rateText(bits uint64) string {
	switch {
	case bits == 0:
		return "-"
	case bits%1_000_000 == 0:
		return fmt.Sprintf("%d Mbit/s", bits/1_000_000)
	case bits%1_000 == 0:
		return fmt.Sprintf("%d kbit/s", bits/1_000)
	}
	return fmt.Sprintf("%d bit/s", bits)
}

func lastSeen(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return age(t) + " ago"
}

func showTunnel(ctx context.Context, w io.Writer, r *daemon.Router, who string, asJSON bool) error {
	list := []access.TunnelDetails{}
	if err := api.AskPath(ctx, r.Place.Socket(), "/v1/l2tp-tunnel?who="+url.QueryEscape(who), &list); err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, list)
	}
	if len(list) == 0 {
		return fmt.Errorf("there is no tunnel %q: weft show l2tp-tunnels lists them", who)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, x := range list {
		fmt.Fprintf(t, "tunnel %d/%d of %s\n", x.Local, x.Remote, x.Section)
		fmt.Fprintf(t, "  state\t%s for %s\n", x.State, age(x.Since))
		fmt.Fprintf(t, "  here\t%s\n", x.Here)
		fmt.Fprintf(t, "  peer\t%s, %s, made by %s\n", x.Peer, dash(x.Host), dash(x.Vendor))
		fmt.Fprintf(t, "  LAC\t%s\n", dash(x.LAC))
		fmt.Fprintf(t, "  authenticated\t%s, hidden attributes %s\n", yesNo(x.Secret), yesNo(x.Hidden))
		fmt.Fprintf(t, "  sessions\t%d\n", x.Sessions)
		fmt.Fprintf(t, "  messages\tnext sent %d, next expected %d, %d wait, %d retransmissions\n", x.Ns, x.Nr, x.Waiting, x.Tries)
		fmt.Fprintf(t, "  windows\tthe peer's %d, congestion %d\n", x.Window, x.Congestion)
		fmt.Fprintf(t, "  heard of\t%s\n", lastSeen(x.Heard))
		writeMessages(t, x.Messages)
	}
	return t.Flush()
}
