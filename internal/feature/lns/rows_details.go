package lns

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/internal/noun"
	"weft/internal/subscriber"
)

// showSubscriber shows the sessions of one subscriber in detail.
func showSubscriber() noun.Noun {
	return noun.Of[Source, Details]{
		Name: "subscriber", Short: "A subscriber's sessions in detail", From: noun.Daemon, One: true,
		Long: `With WHO, a login, an address or the number of a session: the result of the
negotiation, limits, traffic and drops, running timers, and the last control
messages, > sent by this router. Sessions of WHO that ended lately follow, and
rejected logins with the reason.`,
		Args:     []noun.Arg{{Name: "who", Help: "one WHO", Word: true, Column: "subscribers LOGIN"}},
		Examples: []string{"alice@example.net"},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[Details, error] {
			return noun.Row(s.Details(ctx, q.Text("who")), nil)
		},
		Page: detailsPage, Missing: noSession,
	}.Noun()
}

// showClients lists the sessions of this router's L2TP clients.
func showClients() noun.Noun {
	return noun.Of[Source, subscriber.ClientRow]{
		Name: "clients", Short: "The sessions of this router's L2TP clients", From: noun.Daemon,
		Long: `For each [l2tp_client.NAME] whether its session is up, with its addresses, or
the reason why it is down.`,
		Variants: []noun.Noun{showClient()},
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.ClientRow, error] {
			return noun.List(s.Clients(ctx), nil)
		},
		None: "none", Page: clientsPage,
		Columns: []noun.Column[subscriber.ClientRow]{
			{Name: "NAME", Text: func(c subscriber.ClientRow) string { return c.Name }},
			{Name: "STATE", Text: func(c subscriber.ClientRow) string { return c.State }},
		},
		Metrics: []noun.Metric[subscriber.ClientRow]{
			noun.NewGauge("weft_l2tp_client_up", "Whether the session of an L2TP client is up.", []string{"client"}, func(c subscriber.ClientRow, put func(float64, ...string)) {
				put(noun.Truth(c.Up), c.Name)
			}),
		},
	}.Noun()
}

// showClient shows the session of an L2TP client in detail, and sessions that failed.
func showClient() noun.Noun {
	return noun.Of[Source, Details]{
		Name: "client", Short: "The sessions of an L2TP client in detail", From: noun.Daemon, One: true,
		Long: `With NAME, an [l2tp_client.NAME]: the result of the negotiation, traffic and
drops, and the last control messages, > sent by this router. Sessions that ended
lately follow, with the reason why they ended or did not come up.`,
		Args:     []noun.Arg{{Name: "name", Help: "one NAME", Word: true, Column: "clients NAME"}},
		Examples: []string{"isp"},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[Details, error] {
			return noun.Row(s.Details(ctx, "l2tp_client."+strings.TrimPrefix(q.Text("name"), "l2tp_client.")), nil)
		},
		Page: detailsPage, Missing: noSession,
	}.Noun()
}

// showTunnel shows a tunnel in detail.
func showTunnel() noun.Noun {
	return noun.Of[Source, subscriber.TunnelDetails]{
		Name: "l2tp-tunnel", Short: "An L2TP tunnel in detail", From: noun.Daemon,
		Long: `With WHO, the number of a tunnel, or its peer's name or address: also windows
and retransmissions, and the last control messages of the tunnel itself, > sent
by this router.`,
		Args:     []noun.Arg{{Name: "who", Help: "one WHO", Word: true, Column: "l2tp-tunnels HOST"}},
		Examples: []string{"dsl"},
		Rows: func(ctx context.Context, s Source, q *noun.Query) iter.Seq2[subscriber.TunnelDetails, error] {
			return noun.List(s.TunnelDetails(ctx, q.Text("who")), nil)
		},
		Page: tunnelPage,
		Missing: func(rows []subscriber.TunnelDetails, q *noun.Query) error {
			if len(rows) > 0 {
				return nil
			}
			return fmt.Errorf("there is no tunnel %q: weft show l2tp-tunnels lists them", q.Text("who"))
		},
	}.Noun()
}

// noSession is the error if no session matches.
func noSession(rows []Details, q *noun.Query) error {
	for _, d := range rows {
		if len(d.Sessions)+len(d.Ended) > 0 {
			return nil
		}
	}
	who, list := q.Text("who"), "subscribers"
	if name := q.Text("name"); name != "" {
		who, list = "l2tp_client."+strings.TrimPrefix(name, "l2tp_client."), "clients"
	}
	return fmt.Errorf("there is no session of %q, and none has ended lately: weft show %s lists those that there are", who, list)
}

func detailsPage(t io.Writer, rows []Details) {
	for _, d := range rows {
		for _, s := range d.Sessions {
			writeSession(t, s)
		}
		for _, e := range d.Ended {
			fmt.Fprintf(t, "ended: session %d of %s\n", e.Session, ofSection(e.LNS, e.Client, e.Login))
			fmt.Fprintf(t, "  when\t%s, after %s\n", e.At.Format(time.DateTime), e.At.Sub(e.Since).Round(time.Second))
			fmt.Fprintf(t, "  why\t%s: %s\n", e.Reason, e.Text)
			if e.Client == "" {
				fmt.Fprintf(t, "  from\t%s\n", callText(e.Call))
			}
			writeMessages(t, e.Messages)
		}
	}
}

func tunnelPage(t io.Writer, list []subscriber.TunnelDetails) {
	for _, x := range list {
		fmt.Fprintf(t, "tunnel %d/%d of %s\n", x.Local, x.Remote, x.Section)
		fmt.Fprintf(t, "  state\t%s for %s\n", x.State, noun.Age(x.Since))
		fmt.Fprintf(t, "  here\t%s\n", x.LocalAddr)
		fmt.Fprintf(t, "  peer\t%s, %s, vendor %s\n", x.Peer, noun.Dash(x.Host), noun.Dash(x.Vendor))
		fmt.Fprintf(t, "  LAC\t%s\n", noun.Dash(x.LAC))
		fmt.Fprintf(t, "  authenticated\t%s, hidden attributes %s\n", noun.YesNo(x.Secret), noun.YesNo(x.Hidden))
		fmt.Fprintf(t, "  sessions\t%d\n", x.Sessions)
		fmt.Fprintf(t, "  messages\tnext sent %d, next expected %d, %d unacknowledged, %d retransmissions\n", x.Ns, x.Nr, x.Waiting, x.Tries)
		fmt.Fprintf(t, "  windows\tthe peer's %d, congestion %d\n", x.Window, x.Congestion)
		fmt.Fprintf(t, "  last message\t%s\n", lastSeen(x.Received))
		writeMessages(t, x.Messages)
	}
}

func clientsPage(w io.Writer, list []subscriber.ClientRow) {
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
		fmt.Fprintf(w, "  IPv4\t%s\n", noun.Valid(c.IPv4))
		fmt.Fprintf(w, "  IPv6\t%s\n", noun.Dash(noun.Joined(c.Addresses)))
		fmt.Fprintf(w, "  delegated\t%s\n", noun.Valid(c.Delegated))
		fmt.Fprintf(w, "  name servers\t%s\n", noun.Dash(noun.Joined(c.DNS)))
		fmt.Fprintf(w, "  MTU\t%d\n", c.MTU)
	}
}

func writeSession(w io.Writer, s Detail) {
	n := s.Negotiated
	fmt.Fprintf(w, "session %d of %s\n", s.Session, ofSection(s.LNS, s.Client, s.Login))
	fmt.Fprintf(w, "  state\t%s for %s\n", s.State, noun.Age(s.Since))
	if s.Client == "" {
		fmt.Fprintf(w, "  accounting id\t%s\n", s.ID)
		fmt.Fprintf(w, "  from\t%s\n", callText(s.Call))
	}
	fmt.Fprintf(w, "  tunnel\t%d/%d with %s at %s, session there %d\n", s.TunnelRow.Local, s.TunnelRow.Remote, noun.Dash(s.TunnelRow.Host), s.TunnelRow.Peer, s.PeerID)
	fmt.Fprintf(w, "  authentication\t%s\n", noun.Dash(string(s.Method)))
	fmt.Fprintf(w, "  LCP\t%s, MRU %d here and %d there, packets up to %d%s\n", s.LCP, n.MRU, n.PeerMRU, s.MTU, lcpWords(n))
	fmt.Fprintf(w, "  IPCP\t%s, %s, gateway %s\n", s.IPCP, noun.Valid(s.IPv4), noun.Valid(n.Gateway))
	fmt.Fprintf(w, "  IPV6CP\t%s, %s\n", s.IPV6CP, noun.Valid(s.LinkLocal))
	fmt.Fprintf(w, "  IPv6\tprefix %s, delegated %s, address %s\n", noun.Valid(s.Prefix), noun.Valid(s.Delegated), noun.Valid(s.IPv6))
	fmt.Fprintf(w, "  routes\t%s\n", noun.Dash(noun.Joined(s.Routes)))
	fmt.Fprintf(w, "  name servers\t%s\n", noun.Dash(noun.Joined(n.DNS)))
	fmt.Fprintf(w, "  rate limits\tup %s, down %s\n", rateText(s.Up), rateText(s.Down))
	fmt.Fprintf(w, "  walled garden\t%s\n", noun.YesNo(s.WalledGarden))
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

// Whose formats the owner of a session.
func Whose(client, login string) string {
	if client != "" {
		return "l2tp_client." + client
	}
	return noun.Dash(login)
}

func ofSection(access, client, login string) string {
	if client != "" {
		return Whose(client, "")
	}
	return noun.Dash(login) + " on lns." + access
}

func writeMessages(w io.Writer, list []subscriber.ControlMessage) {
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

func callText(c subscriber.Call) string {
	words := []string{"LAC " + noun.Dash(c.LACName)}
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
	case c.Tx != 0 && (c.Rx == 0 || c.Rx == c.Tx): // RFC 2661 section 4.4.4: without an Rx Connect Speed AVP both directions have the same speed
		words = append(words, "line "+rateText(uint64(c.Tx)))
	case c.Tx != 0:
		words = append(words, fmt.Sprintf("line %s down, %s up", rateText(uint64(c.Tx)), rateText(uint64(c.Rx))))
	}
	return strings.Join(words, ", ")
}

func lcpWords(n subscriber.Negotiated) string {
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

func lastSeen(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return noun.Age(t) + " ago"
}
