package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/feature/failover"
)

func failoverNoun() oldNoun {
	return oldNoun{"failover", "The sessions that are shared with other routers", `What this router tells others of the sessions of its stateful translators, and
what they tell it ([failover]). For each peer: whether it can be read, how many
of its messages wait, and what became of the sessions that it told of:

  made      put into the tables here
  renewed   live longer, or have another state
  ended     are over; swept: its last listing did not have them
  kept      were known better here, or there was nothing to do
  conflict  their port stands for another node here
  no room   the tables are full, or a subscriber's limit is reached

The daemon knows all this, so weft run must be running.`, showFailover, tableFailover}
}

func showFailover(ctx context.Context, r *daemon.Router) (any, error) {
	var f *api.Failover
	if err := api.AskPath(ctx, r.Place.Socket(), "/v1/failover", &f); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("sessions are not shared: the configuration has no [failover], or the log says why it does not work")
	}
	return f, nil
}

func tableFailover(w io.Writer, rows any) {
	f := rows.(*api.Failover)
	fmt.Fprintf(w, "router\t%s, shares %s\n", f.Name, dash(strings.Join(f.Translators, " ")))
	stream := fmt.Sprintf("%d messages, %.1f of %.0f MiB", f.Stream.Messages, float64(f.Stream.Bytes)/(1<<20), float64(f.Stream.Limit)/(1<<20))
	if !f.Stream.Open {
		stream = "not open: " + dash(f.Stream.Error)
	}
	fmt.Fprintf(w, "stream\t%s\n", stream)
	fmt.Fprintf(w, "readers\t%d connections, %d refused\n", f.Stream.Clients, f.Stream.Refused)
	fmt.Fprintf(w, "sent\t%d sessions in %d messages, %d bytes; %d listings, the last %s\n",
		f.Sent.Sessions, f.Sent.Messages, f.Sent.Bytes, f.Sent.Listings, ago(f.Sent.Listed))
	fmt.Fprintf(w, "missed\t%d changes found no room, %d sessions were not taken by the stream\n", f.Sent.Lost, f.Sent.Unsent)
	if f.Fresh {
		fmt.Fprintln(w, "note\tnot all peers have said yet what they have")
	}
	if f.Error != "" {
		fmt.Fprintf(w, "trouble\t%s\n", f.Error)
	}
	fmt.Fprintln(w, "\nPEER\tSTATE\tBEHIND\tGAPS\tLISTED\tMADE\tRENEWED\tENDED\tSWEPT\tKEPT\tCONFLICT\tNO ROOM")
	for _, p := range f.Peers {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Peer, peerState(p), p.Behind, p.Gaps, ago(p.Listed),
			p.Made, p.Renewed, p.Ended, p.Swept, p.Kept, p.Conflicts, p.NoRoom+p.Disturbed+p.Foreign)
	}
	for _, p := range f.Peers {
		if p.Error != "" {
			fmt.Fprintf(w, "\n%s\t%s\n", p.Peer, p.Error)
		}
	}
}

func peerState(p failover.Received) string {
	switch {
	case p.Connected:
		return "read since " + ago(p.Since)
	case p.Since.IsZero():
		return "not tried yet"
	}
	return "away since " + ago(p.Since)
}

// ago says how long ago something was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}
