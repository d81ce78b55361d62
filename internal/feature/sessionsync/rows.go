package sessionsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"weft/internal/noun"
)

// Row is what weft show session-sync shows.
type Row struct {
	Status
	Stream StreamRow `json:"stream"`
}

// StreamRow is this router's own stream.
type StreamRow struct {
	Open     bool   `json:"open"`
	Error    string `json:"error,omitempty"`
	Clients  int    `json:"clients"` // connected to the server here
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Limit    int64  `json:"limit_bytes"`
	Refused  uint64 `json:"refused_connections"`
}

// Source is what the daemon shares; nil: it shares nothing.
type Source interface {
	Sharing() *Row
}

// Nouns are what the sharing of sessions has to show.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "session-sync", Short: "The sessions that are shared with other routers", From: noun.Daemon, One: true,
		Long: `Synchronisation of the sessions of stateful translators between this router
and its peers ([session_sync]). For each peer: whether it can be read, how many
of its messages wait, and what became of the sessions that it has sent:

  made      put into the tables here
  renewed   live longer, or have another state
  ended     are over; swept: its last listing did not have them
  kept      were known better here, or there was nothing to do
  conflict  their port stands for another node here
  no room   the tables are full, or a subscriber's limit is reached

The daemon knows all this, so weft run must be running.`,
		Rows: func(_ context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			row := s.Sharing()
			if row == nil {
				return noun.List[Row](nil, errors.New("sessions are not shared: the configuration has no [session_sync], or the log says why it does not work"))
			}
			return noun.Row(*row, nil)
		},
		Page: page, Metrics: metrics(),
	}.Noun()}
}

func page(w io.Writer, rows []Row) {
	for _, f := range rows {
		fmt.Fprintf(w, "router\t%s, shares %s\n", f.Name, noun.Dash(strings.Join(f.Translators, " ")))
		stream := fmt.Sprintf("%d messages, %.1f of %.0f MiB", f.Stream.Messages, float64(f.Stream.Bytes)/(1<<20), float64(f.Stream.Limit)/(1<<20))
		if !f.Stream.Open {
			stream = "not open: " + noun.Dash(f.Stream.Error)
		}
		fmt.Fprintf(w, "stream\t%s\n", stream)
		fmt.Fprintf(w, "readers\t%d connections, %d refused\n", f.Stream.Clients, f.Stream.Refused)
		fmt.Fprintf(w, "sent\t%d sessions in %d messages, %d bytes; %d listings, the last %s\n",
			f.Sent.Sessions, f.Sent.Messages, f.Sent.Bytes, f.Sent.Dumps, ago(f.Sent.Listed))
		fmt.Fprintf(w, "missed\t%d changes found no room, %d sessions were not taken by the stream\n", f.Sent.Lost, f.Sent.Unsent)
		if f.Fresh {
			fmt.Fprintln(w, "note\tnot all peers have said yet what they have")
		}
		if f.Error != "" {
			fmt.Fprintf(w, "trouble\t%s\n", f.Error)
		}
		fmt.Fprintln(w, "\nPEER\tSTATE\tBEHIND\tGAPS\tLISTED\tMADE\tRENEWED\tENDED\tSWEPT\tKEPT\tCONFLICT\tNO ROOM")
		for _, p := range f.Peers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Peer, p.state(), p.Behind, p.Gaps, ago(p.Listed),
				p.Made, p.Renewed, p.Ended, p.Swept, p.Kept, p.Conflicts, p.NoRoom+p.Disturbed+p.Foreign)
		}
		for _, p := range f.Peers {
			if p.Error != "" {
				fmt.Fprintf(w, "\n%s\t%s\n", p.Peer, p.Error)
			}
		}
	}
}

func (p Received) state() string {
	switch {
	case p.Connected:
		return "read since " + ago(p.Since)
	case p.Since.IsZero():
		return "not tried yet"
	}
	return "away since " + ago(p.Since)
}

// ago returns how long ago something was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Since(t).Round(time.Second).String() + " ago"
}

func metrics() []noun.Metric[Row] {
	peer := []string{"peer"}
	return []noun.Metric[Row]{
		noun.NewGauge("weft_session_sync_peer_connected", "Whether the peer's sessions are being read.", peer, func(r Row, put func(float64, ...string)) {
			for _, p := range r.Peers {
				put(noun.Truth(p.Connected), p.Peer)
			}
		}),
		noun.NewGauge("weft_session_sync_peer_behind_messages", "Messages of the peer that wait to be read.", peer, func(r Row, put func(float64, ...string)) {
			for _, p := range r.Peers {
				put(float64(p.Behind), p.Peer)
			}
		}),
		noun.NewCounter("weft_session_sync_received_total", "Session updates received from a peer, by result.", []string{"peer", "result"}, func(r Row, put func(float64, ...string)) {
			for _, p := range r.Peers {
				for result, n := range map[string]uint64{
					"made": p.Made, "renewed": p.Renewed, "ended": p.Ended, "kept": p.Kept, "conflict": p.Conflicts,
					"no-room": p.NoRoom, "disturbed": p.Disturbed, "foreign": p.Foreign, "swept": p.Swept,
				} {
					put(float64(n), p.Peer, result)
				}
			}
		}),
		noun.NewCounter("weft_session_sync_sent_total", "Messages, session updates, bytes and dumps sent to peers, by kind.", []string{"kind"}, func(r Row, put func(float64, ...string)) {
			put(float64(r.Sent.Messages), "messages")
			put(float64(r.Sent.Sessions), "sessions")
			put(float64(r.Sent.Bytes), "bytes")
			put(float64(r.Sent.Dumps), "dumps")
		}),
		noun.NewCounter("weft_session_sync_trouble_total", "Events or messages that were lost; a full dump of all sessions followed.", []string{"kind"}, func(r Row, put func(float64, ...string)) {
			put(float64(r.Sent.Lost), "lost")
			put(float64(r.Sent.Unsent), "unsent")
		}),
		noun.NewGauge("weft_session_sync_stream_bytes", "Size of this router's own stream.", nil, func(r Row, put func(float64, ...string)) { put(float64(r.Stream.Bytes)) }),
	}
}
