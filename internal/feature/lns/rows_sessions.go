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
	LNSTables() (state.LNSTables, error)
}

func showSessions() noun.Noun {
	return noun.Of[SessionTables, state.LNSTables]{
		Name: "l2tp-sessions", Short: "The subscribers' sessions in the datapath", One: true,
		Long: `The sessions of [lns.NAME] and [l2tp_client.NAME] in the maps of the programs,
also while the daemon does not run: tunnel and session ids, ours/the peer's,
addresses, the largest packet, limits in bit/s, and the session that one is
switched to. weft trace --sessions reads the output of --json.`,
		Rows: func(_ context.Context, t SessionTables, _ *noun.Query) iter.Seq2[state.LNSTables, error] {
			return noun.Row(t.LNSTables())
		},
		Page: func(w io.Writer, rows []state.LNSTables) {
			for _, t := range rows {
				sessionsPage(w, t)
			}
		},
	}.Noun()
}

func sessionsPage(w io.Writer, t state.LNSTables) {
	if len(t.Sessions) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	names, tunnels := map[int]string{}, map[uint16]state.L2TPTunnel{}
	for _, a := range t.LNSes {
		names[a.ID] = a.Name
	}
	for _, x := range t.Tunnels {
		tunnels[x.Local] = x
	}
	fmt.Fprintln(w, "LNS\tTUNNEL\tSESSION\tPEER\tIPV4\tIPV6\tPREFIXES\tMTU\tRATE UP\tRATE DOWN\tWALLED GARDEN\tSWITCHED TO")
	for _, s := range t.Sessions {
		peer := tunnels[s.Tunnel]
		switched := "-"
		if s.SwitchedTo != 0 {
			switched = fmt.Sprintf("by %d", s.SwitchedTo)
		}
		fmt.Fprintf(w, "%s\t%d/%d\t%d/%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", noun.Dash(names[s.LNS]), s.Tunnel, peer.Remote, s.Local, s.Remote, peer.Peer,
			noun.Valid(s.IPv4), noun.Valid(s.IPv6), noun.Dash(noun.Joined(s.Prefixes)), s.MTU, rateText(s.Up), rateText(s.Down), noun.YesNo(s.WalledGarden), switched)
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
