package lns

import (
	"context"
	"fmt"
	"io"
	"iter"

	"weft/internal/noun"
	"weft/internal/state"
)

// SessionTables reads the programs' tables of sessions.
type SessionTables interface {
	AccessTables() (state.AccessTables, error)
}

func showSessions() noun.Noun {
	return noun.Of[SessionTables, state.AccessTables]{
		Name: "l2tp-sessions", Short: "The subscribers' sessions in the datapath", One: true,
		Long: `The sessions of [lns.NAME] and [l2tp_client.NAME] in the maps of the programs,
also while the daemon does not run: tunnel and session ids, ours/the peer's,
addresses, the largest packet, limits in bit/s, and the session that one is
switched to. weft trace --sessions reads the output of --json.`,
		Rows: func(_ context.Context, t SessionTables, _ *noun.Query) iter.Seq2[state.AccessTables, error] {
			return noun.Row(t.AccessTables())
		},
		Page: func(w io.Writer, rows []state.AccessTables) {
			for _, t := range rows {
				sessionsPage(w, t)
			}
		},
	}.Noun()
}

func sessionsPage(w io.Writer, t state.AccessTables) {
	if len(t.Sessions) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	names, tunnels := map[int]string{}, map[uint16]state.AccessTunnel{}
	for _, a := range t.Accesses {
		names[a.ID] = a.Name
	}
	for _, x := range t.Tunnels {
		tunnels[x.Local] = x
	}
	fmt.Fprintln(w, "ACCESS\tTUNNEL\tSESSION\tPEER\tIPV4\tIPV6\tPREFIXES\tMTU\tUP\tDOWN\tGARDEN\tONWARD")
	for _, s := range t.Sessions {
		peer := tunnels[s.Tunnel]
		onward := "-"
		if s.Onward != 0 {
			onward = fmt.Sprintf("by %d", s.Onward)
		}
		fmt.Fprintf(w, "%s\t%d/%d\t%d/%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", noun.Dash(names[s.Access]), s.Tunnel, peer.Remote, s.Local, s.Remote, peer.Peer,
			noun.Valid(s.IPv4), noun.Valid(s.IPv6), noun.Dash(noun.Joined(s.Prefixes)), s.MTU, rateText(s.Up), rateText(s.Down), noun.YesNo(s.Garden), onward)
	}
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
