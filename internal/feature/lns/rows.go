package lns

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
	"weft/internal/subscriber"
)

// Nouns are what subscribers and this router's own sessions have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{showSubscribers(), showTunnels(), showSessions(), showClients(), addressPools(), showRADIUS(), loginEvents()}
}

// Subscriber is a row of weft show subscribers.
type Subscriber struct {
	subscriber.SessionRow
	Traffic subscriber.Traffic `json:"traffic"` // datapath and slow path together
	Drops   map[string]uint64  `json:"drops"`
}

// NewSubscriber adds what the datapath counted.
func NewSubscriber(r subscriber.SessionRow, c state.AccessCounters) Subscriber {
	s := Subscriber{SessionRow: r, Traffic: r.Slow, Drops: map[string]uint64{}}
	s.Traffic.UpPackets += c.UpPackets
	s.Traffic.UpBytes += c.UpBytes
	s.Traffic.DownPackets += c.DownPackets
	s.Traffic.DownBytes += c.DownBytes
	c.Drops[state.AccessDropRateUp] += r.SlowDrops[0]
	c.Drops[state.AccessDropRateDown] += r.SlowDrops[1]
	for i, n := range c.Drops {
		if n > 0 {
			s.Drops[state.AccessDrop(i).String()] = n
		}
	}
	return s
}

// Details are all that is known of the sessions of one login, address or number.
type Details struct {
	Sessions []Detail           `json:"sessions"`
	Ended    []subscriber.Ended `json:"ended"` // the last one first
}

// Detail is a session with what the datapath counted.
type Detail struct {
	subscriber.SessionDetails
	Traffic  subscriber.Traffic `json:"traffic"`
	Drops    map[string]uint64  `json:"drops"`
	LastUp   time.Time          `json:"last_up,omitzero"` // when a packet came from the subscriber
	LastDown time.Time          `json:"last_down,omitzero"`
	Missed   uint64             `json:"uncaptured"` // packets that a capture missed
}

// NewDetail adds what the datapath counted; boot is when its clock began.
func NewDetail(d subscriber.SessionDetails, c state.AccessCounters, boot time.Time) Detail {
	s := NewSubscriber(d.SessionRow, c)
	out := Detail{SessionDetails: d, Traffic: s.Traffic, Drops: s.Drops, Missed: c.Uncaptured}
	if c.SeenUp > 0 {
		out.LastUp = boot.Add(c.SeenUp)
	}
	if c.SeenDown > 0 {
		out.LastDown = boot.Add(c.SeenDown)
	}
	return out
}

// MatchOf reads who is meant: an address of theirs, the number of the
// session, the login, or the name of an [l2tp_client.NAME].
func MatchOf(who string) subscriber.Match {
	if a, err := netip.ParseAddr(who); err == nil {
		return subscriber.Match{Address: a, Clients: true}
	}
	if n, err := strconv.ParseUint(who, 10, 16); err == nil && n > 0 {
		return subscriber.Match{Session: uint16(n), Clients: true}
	}
	return subscriber.Match{Login: who, Clients: true}
}

// Source is the daemon, as far as it knows subscribers.
type Source interface {
	// Subscribers gives the sessions one after the other, as they are when it is their
	// turn: tens of thousands of rows at once would take more memory than the sessions.
	Subscribers(ctx context.Context) iter.Seq[Subscriber]
	// Sections gives the names of the [lns.NAME], whether they have sessions or not.
	Sections(ctx context.Context) []string
	Tunnels(ctx context.Context) []subscriber.TunnelRow
	Clients(ctx context.Context) []subscriber.ClientRow
	AccessStats(ctx context.Context) subscriber.Stats
	Pools(ctx context.Context) []subscriber.PoolRow
	RADIUS(ctx context.Context) []RADIUSServer
	Details(ctx context.Context, who string) Details
	TunnelDetails(ctx context.Context, who string) []subscriber.TunnelDetails
}

// States of sessions and tunnels, of an [lns.NAME] and of an [l2tp_client.NAME]: each
// is measured, also while there are none. What is not there cannot be told from what
// is not measured.
func sessionStates() []string      { return []string{"connecting", "authenticating", "up", "onward"} }
func accessTunnelStates() []string { return []string{"wait-connect", "established", "closing"} }
func clientTunnelStates() []string { return []string{"wait-reply", "established", "closing"} }

func showSubscribers() noun.Noun {
	text := func(name string, of func(Subscriber) string) noun.Column[Subscriber] {
		return noun.Column[Subscriber]{Name: name, Text: of}
	}
	return noun.Of[Source, Subscriber]{
		Name: "subscribers", Short: "The sessions of subscribers, and what they carry", From: noun.Daemon,
		Long: `The sessions of all [lns.NAME]: who, since when, their addresses, and the
bytes of IP packets that they sent (UP) and got (DOWN). A row has more in JSON:
what PPP negotiated, rate limits, what was dropped and why. The daemon knows all
this, so weft run must be running.`,
		Variants: []noun.Noun{showSubscriber()},
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Subscriber, error] {
			return func(yield func(Subscriber, error) bool) {
				for row := range s.Subscribers(ctx) {
					if !yield(row, nil) {
						return
					}
				}
			}
		},
		Columns: []noun.Column[Subscriber]{
			text("ACCESS", func(s Subscriber) string { return s.Access }),
			text("LOGIN", func(s Subscriber) string { return noun.Dash(s.Login) }),
			text("SESSION", func(s Subscriber) string { return strconv.Itoa(int(s.Session)) }),
			text("STATE", func(s Subscriber) string { return s.State }),
			text("FOR", func(s Subscriber) string { return noun.Age(s.Since) }),
			text("IPV4", func(s Subscriber) string { return noun.Valid(s.IPv4) }),
			{Name: "PREFIX", Text: func(s Subscriber) string { return noun.Valid(s.Prefix) }, Wide: true},
			{Name: "DELEGATED", Text: func(s Subscriber) string { return noun.Valid(s.Delegated) }, Wide: true},
			text("UP", func(s Subscriber) string { return fmt.Sprint(s.Traffic.UpBytes) }),
			text("DOWN", func(s Subscriber) string { return fmt.Sprint(s.Traffic.DownBytes) }),
		},
		Metrics: []noun.Metric[Subscriber]{
			noun.NewGauge("weft_access_sessions", "Sessions of subscribers, by state.", []string{"access", "state"}, func(s Subscriber, put func(float64, ...string)) {
				put(1, s.Access, s.State)
			}),
			noun.NewGauge("weft_access_bytes", "Bytes of IP packets of the sessions that are there now.", []string{"access", "direction"}, func(s Subscriber, put func(float64, ...string)) {
				put(float64(s.Traffic.UpBytes), s.Access, "up")
				put(float64(s.Traffic.DownBytes), s.Access, "down")
			}),
			noun.NewGauge("weft_access_packets", "IP packets of the sessions that are there now.", []string{"access", "direction"}, func(s Subscriber, put func(float64, ...string)) {
				put(float64(s.Traffic.UpPackets), s.Access, "up")
				put(float64(s.Traffic.DownPackets), s.Access, "down")
			}),
			noun.NewGauge("weft_access_drops", "Packets of the sessions that are there now that were dropped, and why.", []string{"access", "reason"}, func(s Subscriber, put func(float64, ...string)) {
				for why, n := range s.Drops {
					put(float64(n), s.Access, why)
				}
			}),
		},
		Zeroes: func(ctx context.Context, s Source, put noun.Put) {
			for _, name := range s.Sections(ctx) {
				for _, is := range sessionStates() {
					put("weft_access_sessions", 0, name, is)
				}
				for _, way := range []string{"up", "down"} {
					put("weft_access_bytes", 0, name, way)
					put("weft_access_packets", 0, name, way)
				}
				for why := range state.AccessDrops {
					put("weft_access_drops", 0, name, why.String())
				}
			}
		},
	}.Noun()
}

func showTunnels() noun.Noun {
	return noun.Of[Source, subscriber.TunnelRow]{
		Name: "l2tp-tunnels", Aliases: []string{"tunnels"}, Short: "The L2TP tunnels and how they are", From: noun.Daemon,
		Long: `The tunnels of [lns.NAME] and [l2tp_client.NAME]: between which addresses,
with whom, how many sessions, and how many control messages wait for an
acknowledgement.`,
		Variants: []noun.Noun{showTunnel()},
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.TunnelRow, error] {
			return noun.List(s.Tunnels(ctx), nil)
		},
		Columns: []noun.Column[subscriber.TunnelRow]{
			{Name: "SECTION", Text: func(t subscriber.TunnelRow) string { return t.Section }},
			{Name: "TUNNEL", Text: func(t subscriber.TunnelRow) string { return fmt.Sprintf("%d/%d", t.Local, t.Remote) }},
			{Name: "STATE", Text: func(t subscriber.TunnelRow) string { return t.State }},
			{Name: "FOR", Text: func(t subscriber.TunnelRow) string { return noun.Age(t.Since) }},
			{Name: "HERE", Text: func(t subscriber.TunnelRow) string { return t.Here.String() }, Wide: true},
			{Name: "PEER", Text: func(t subscriber.TunnelRow) string { return t.Peer.String() }},
			{Name: "HOST", Text: func(t subscriber.TunnelRow) string { return noun.Dash(t.Host) }},
			{Name: "SESSIONS", Text: func(t subscriber.TunnelRow) string { return strconv.Itoa(t.Sessions) }},
			{Name: "WAITING", Text: func(t subscriber.TunnelRow) string { return strconv.Itoa(t.Waiting) }},
		},
		Metrics: []noun.Metric[subscriber.TunnelRow]{
			noun.NewGauge("weft_l2tp_tunnels", "L2TP tunnels, by section and state.", []string{"section", "state"}, func(t subscriber.TunnelRow, put func(float64, ...string)) {
				put(1, t.Section, t.State)
			}),
		},
		Zeroes: func(ctx context.Context, s Source, put noun.Put) {
			for _, name := range s.Sections(ctx) {
				for _, is := range accessTunnelStates() {
					put("weft_l2tp_tunnels", 0, "lns."+name, is)
				}
			}
			for _, c := range s.Clients(ctx) {
				for _, is := range clientTunnelStates() {
					put("weft_l2tp_tunnels", 0, "l2tp_client."+c.Name, is)
				}
			}
		},
	}.Noun()
}

func addressPools() noun.Noun {
	return noun.Of[Source, subscriber.PoolRow]{
		Name: "address-pools", Short: "How full the pools of subscribers' addresses are", From: noun.Daemon,
		Long: `For each space of the [lns.NAME] sections that addresses or prefixes come
out of, how many sessions have one now. A login's addresses are kept for it
while it is away, and given to others only when nothing else is free.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.PoolRow, error] {
			return noun.List(s.Pools(ctx), nil)
		},
		Columns: []noun.Column[subscriber.PoolRow]{
			{Name: "ACCESS", Text: func(p subscriber.PoolRow) string { return p.Access }},
			{Name: "POOL", Text: func(p subscriber.PoolRow) string { return p.Pool }},
			{Name: "SPACE", Text: func(p subscriber.PoolRow) string { return p.Space.String() }},
			{Name: "USED", Text: func(p subscriber.PoolRow) string { return fmt.Sprint(p.Used) }},
			{Name: "FREE", Text: func(p subscriber.PoolRow) string { return fmt.Sprintf("%.6g", p.Free) }},
		},
		Metrics: []noun.Metric[subscriber.PoolRow]{
			noun.NewGauge("weft_access_pool", "How many addresses or prefixes of a pool are in use and free.", []string{"access", "pool", "space", "state"}, func(p subscriber.PoolRow, put func(float64, ...string)) {
				put(float64(p.Used), p.Access, p.Pool, p.Space.String(), "used")
				put(p.Free, p.Access, p.Pool, p.Space.String(), "free")
			}),
		},
	}.Noun()
}

// RADIUSServer says how a RADIUS server answers.
type RADIUSServer struct {
	Access   string         `json:"access"`
	Server   netip.AddrPort `json:"server"`
	Quiet    bool           `json:"silent_now"` // others are asked before it
	Answered uint64         `json:"answered"`   // questions
	Silent   uint64         `json:"silent"`     // questions that got no answer
	Forged   uint64         `json:"forged"`     // answers without a right Message-Authenticator
	Told     uint64         `json:"accounted"`
	Untold   uint64         `json:"account_silent"`
	Waiting  int            `json:"accounts_waiting"` // for any of the section's servers
	Lost     uint64         `json:"accounts_lost"`    // that waited for any of them
}

func showRADIUS() noun.Noun {
	number := func(name string, n func(RADIUSServer) uint64) noun.Column[RADIUSServer] {
		return noun.Column[RADIUSServer]{Name: name, Text: func(s RADIUSServer) string { return strconv.FormatUint(n(s), 10) }}
	}
	return noun.Of[Source, RADIUSServer]{
		Name: "radius", Short: "How the RADIUS servers answer", From: noun.Daemon,
		Long: `The RADIUS servers of the [lns.NAME] sections: questions that were answered
and that were not, accounts that were taken, that wait and that were lost. A
server that did not answer comes last for half a minute. An answer without a
right Message-Authenticator is not believed, and counted as forged.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[RADIUSServer, error] {
			return noun.List(s.RADIUS(ctx), nil)
		},
		Columns: []noun.Column[RADIUSServer]{
			{Name: "ACCESS", Text: func(s RADIUSServer) string { return s.Access }},
			{Name: "SERVER", Text: func(s RADIUSServer) string { return s.Server.String() }},
			{Name: "STATE", Text: func(s RADIUSServer) string {
				if s.Quiet {
					return "silent"
				}
				return "ok"
			}},
			number("ANSWERED", func(s RADIUSServer) uint64 { return s.Answered }),
			number("SILENT", func(s RADIUSServer) uint64 { return s.Silent }),
			number("FORGED", func(s RADIUSServer) uint64 { return s.Forged }),
			number("ACCOUNTED", func(s RADIUSServer) uint64 { return s.Told }),
			number("NOT", func(s RADIUSServer) uint64 { return s.Untold }),
			number("WAITING", func(s RADIUSServer) uint64 { return uint64(s.Waiting) }),
			number("LOST", func(s RADIUSServer) uint64 { return s.Lost }),
		},
		Metrics: []noun.Metric[RADIUSServer]{
			noun.NewCounter("weft_radius_requests_total", "Questions and accounts to RADIUS servers, and what became of them.", []string{"access", "server", "result"}, func(r RADIUSServer, put func(float64, ...string)) {
				server := r.Server.String()
				put(float64(r.Answered), r.Access, server, "answered")
				put(float64(r.Silent), r.Access, server, "silent")
				put(float64(r.Forged), r.Access, server, "forged")
				put(float64(r.Told), r.Access, server, "accounted")
				put(float64(r.Untold), r.Access, server, "account-silent")
			}),
			// each server of a section has the number of the section
			noun.Largest(noun.NewGauge("weft_radius_accounts_waiting", "Accounts that no RADIUS server has taken yet.", []string{"access"}, func(r RADIUSServer, put func(float64, ...string)) {
				put(float64(r.Waiting), r.Access)
			})),
			noun.Largest(noun.NewCounter("weft_radius_accounts_lost_total", "Accounts that were given up: too many waited, or for too long.", []string{"access"}, func(r RADIUSServer, put func(float64, ...string)) {
				put(float64(r.Lost), r.Access)
			})),
		},
	}.Noun()
}

// loginEvents are what became of logins and packets, for the metrics.
func loginEvents() noun.Noun {
	return noun.Of[Source, subscriber.Stats]{
		Name: "access-events", Hidden: true, From: noun.Daemon, One: true, Short: "What became of logins and odd packets",
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.Stats, error] {
			return noun.Row(s.AccessStats(ctx), nil)
		},
		Metrics: []noun.Metric[subscriber.Stats]{
			noun.NewCounter("weft_access_events_total", "What became of logins and odd packets.", []string{"event"}, func(st subscriber.Stats, put func(float64, ...string)) {
				for event, n := range map[string]uint64{
					"accepted": st.Accepted, "rejected": st.Rejected, "duplicate": st.Duplicates, "no-address": st.NoAddress, "no-prefix": st.NoPrefix,
					"tunnel-refused": st.Refused, "tunnel-established": st.TunnelsNew, "malformed": st.Malformed, "unknown": st.Unknown,
					"stranger": st.Strangers, "spoofed": st.Spoofed, "unsent": st.Unsent, "tunnel-unproven": st.Unproven, "garden": st.Garden, "no-session": st.NoSession,
				} {
					put(float64(n), event)
				}
			}),
		},
	}.Noun()
}
