package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/state"
)

func l2tpSessionsNoun() oldNoun {
	return oldNoun{"l2tp-sessions", "What the programs know of subscribers' sessions", `The sessions of [access.NAME] and [l2tp_client.NAME] as the programs have them
in their maps, whether the daemon runs or not: tunnel and session, ours/the
peer's numbers, addresses, the largest packet, limits in bit/s, and by which
other session one goes on to another server. weft trace --sessions reads what
--json prints.`, showL2TPSessions, tableL2TPSessions}
}

func showL2TPSessions(_ context.Context, r *daemon.Router) (any, error) {
	t, err := r.Datapath().AccessTables()
	return t, err
}

func tableL2TPSessions(w io.Writer, rows any) {
	t := rows.(state.AccessTables)
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
		fmt.Fprintf(w, "%s\t%d/%d\t%d/%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", dash(names[s.Access]), s.Tunnel, peer.Remote, s.Local, s.Remote, peer.Peer,
			addressOrDash(s.IPv4), addressOrDash(s.IPv6), dash(joined(s.Prefixes)), s.MTU, rateText(s.Up), rateText(s.Down), yesNo(s.Garden), onwardOf(s))
	}
}

// onwardOf says by which session frames of this one go on.
func onwardOf(s state.AccessSession) string {
	if s.Onward == 0 {
		return "-"
	}
	return fmt.Sprintf("by %d", s.Onward)
}

// sessionsFor gives weft trace the sessions of subscribers, and whose they are
// if the daemon says so.
func sessionsFor(ctx context.Context, f *config.File, from string) (t state.AccessTables, logins map[uint16]string, err error) {
	if len(f.Names("access"))+len(f.Names("l2tp_client")) == 0 || from == "none" {
		return t, nil, nil
	}
	if from != "" {
		text, err := os.ReadFile(from)
		if err != nil {
			return t, nil, fmt.Errorf("read sessions: %w", err)
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return t, nil, fmt.Errorf("read sessions: %s is not what weft show l2tp-sessions --json prints: %w", from, err)
		}
		return t, nil, nil
	}
	r, err := daemon.Look()
	if err != nil {
		return t, nil, err
	}
	defer r.Close()
	if r.Datapath() == nil {
		return t, nil, nil
	}
	if t, err = r.Datapath().AccessTables(); err != nil {
		return t, nil, err
	}
	logins = map[uint16]string{}
	var rows []api.Subscriber
	if api.AskPath(ctx, r.Place.Socket(), "/v1/subscribers", &rows) == nil { // without the daemon they have numbers only
		for _, s := range rows {
			logins[s.Session] = s.Login
		}
	}
	return t, logins, nil
}
