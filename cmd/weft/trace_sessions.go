package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"weft/internal/api"
	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/datapath/subscribertable"
	"weft/internal/feature/lns"
	"weft/internal/state"
)

// sessionsFor gives weft trace the sessions of subscribers, and whose they are
// if the daemon says so.
func sessionsFor(ctx context.Context, f *config.File, from string) (t state.LNSTables, logins map[uint16]string, err error) {
	if len(f.Names("lns"))+len(f.Names("l2tp_client")) == 0 || from == "none" {
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
	if r.Doors().Datapath == nil {
		return t, nil, nil
	}
	if t, err = subscribertable.Of(r.Doors().Datapath).LNSTables(); err != nil {
		return t, nil, err
	}
	logins = map[uint16]string{}
	var rows []lns.Subscriber
	if api.Ask(ctx, r.Place.Socket(), "subscribers", nil, &rows) == nil { // without the daemon they have numbers only
		for _, s := range rows {
			logins[s.Session] = s.Login
		}
	}
	return t, logins, nil
}
