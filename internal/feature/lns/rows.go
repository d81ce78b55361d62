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

// Nouns are the nouns of weft show for subscribers and for this router's L2TP clients.
func Nouns() []noun.Noun {
	return []noun.Noun{showSubscribers(), showTunnels(), showSessions(), showClients(), addressPools(), showRADIUS(), loginEvents()}
}

// Subscriber is a row of weft show subscribers.
type Subscriber struct {
	subscriber.SessionRow
	Traffic subscriber.Traffic `json:"traffic"` // the sum of datapath and slow path
	Drops   map[string]uint64  `json:"drops"`
}

// NewSubscriber adds the datapath's counters.
func NewSubscriber(r subscriber.SessionRow, c state.LNSCounters) Subscriber {
	s := Subscriber{SessionRow: r, Traffic: r.Slow, Drops: map[string]uint64{}}
	s.Traffic.UpPackets += c.UpPackets
	s.Traffic.UpBytes += c.UpBytes
	s.Traffic.DownPackets += c.DownPackets
	s.Traffic.DownBytes += c.DownBytes
	c.Drops[state.SubscriberDropUpstreamRate] += r.SlowDrops[0]
	c.Drops[state.SubscriberDropDownstreamRate] += r.SlowDrops[1]
	for i, n := range c.Drops {
		if n > 0 {
			s.Drops[state.SubscriberDrop(i).String()] = n
		}
	}
	return s
}

// Details are the sessions of one login, address or session number, and those that have ended.
type Details struct {
	Sessions []Detail           `json:"sessions"`
	Ended    []subscriber.Ended `json:"ended"` // newest first
}

// Detail is a session with the datapath's counters.
type Detail struct {
	subscriber.SessionDetails
	Traffic  subscriber.Traffic `json:"traffic"`
	Drops    map[string]uint64  `json:"drops"`
	LastUp   time.Time          `json:"last_up,omitzero"` // time of the last packet from the subscriber
	LastDown time.Time          `json:"last_down,omitzero"`
	Missed   uint64             `json:"uncaptured"` // packets that a capture missed
}

// NewDetail adds the datapath's counters; boot is the time at which its clock was zero.
func NewDetail(d subscriber.SessionDetails, c state.LNSCounters, boot time.Time) Detail {
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

// MatchOf parses the argument of a command that selects subscribers: an address, the
// number of a session, a login, or the name of an [l2tp_client.NAME].
func MatchOf(who string) subscriber.Match {
	if a, err := netip.ParseAddr(who); err == nil {
		return subscriber.Match{Address: a, Clients: true}
	}
	if n, err := strconv.ParseUint(who, 10, 16); err == nil && n > 0 {
		return subscriber.Match{Session: uint16(n), Clients: true}
	}
	return subscriber.Match{Login: who, Clients: true}
}

// Source is the daemon's data about subscribers.
type Source interface {
	// Subscribers gives the sessions one by one, each as it is when it is read: tens of
	// thousands of rows at once would take more memory than the sessions.
	Subscribers(ctx context.Context) iter.Seq[Subscriber]
	// Sections gives the names of the [lns.NAME], with and without sessions.
	Sections(ctx context.Context) []string
	Tunnels(ctx context.Context) []subscriber.TunnelRow
	Clients(ctx context.Context) []subscriber.ClientRow
	LNSStats(ctx context.Context) subscriber.Stats
	Pools(ctx context.Context) []subscriber.PoolRow
	RADIUS(ctx context.Context) []RADIUSServer
	Details(ctx context.Context, who string) Details
	TunnelDetails(ctx context.Context, who string) []subscriber.TunnelDetails
}

// States of sessions and tunnels, of an [lns.NAME] and of an [l2tp_client.NAME]. Each
// has a time series, also while its value is zero: a missing series would look like a
// metric that does not exist.
func sessionStates() []string      { return []string{"connecting", "authenticating", "up", "switched"} }
func l2tpTunnelStates() []string   { return []string{"wait-connect", "established", "closing"} }
func clientTunnelStates() []string { return []string{"wait-reply", "established", "closing"} }

func showSubscribers() noun.Noun {
	text := func(name string, of func(Subscriber) string) noun.Column[Subscriber] {
		return noun.Column[Subscriber]{Name: name, Text: of}
	}
	return noun.Of[Source, Subscriber]{
		Name: "subscribers", Short: "The sessions of subscribers, with addresses and traffic", From: noun.Daemon,
		Long: `The sessions of all [lns.NAME]: login, duration, addresses, and the bytes of
IP packets that the subscribers sent (UP) and received (DOWN). A row has more in
JSON: the result of the PPP negotiation, rate limits, and dropped packets by
reason. The rows come from the daemon, so weft run must be running.`,
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
			text("LNS", func(s Subscriber) string { return s.LNS }),
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
			noun.NewGauge("weft_lns_sessions", "Sessions of subscribers, by state.", []string{"lns", "state"}, func(s Subscriber, put func(float64, ...string)) {
				put(1, s.LNS, s.State)
			}),
			noun.NewGauge("weft_lns_bytes", "Bytes of IP packets of the current sessions.", []string{"lns", "direction"}, func(s Subscriber, put func(float64, ...string)) {
				put(float64(s.Traffic.UpBytes), s.LNS, "up")
				put(float64(s.Traffic.DownBytes), s.LNS, "down")
			}),
			noun.NewGauge("weft_lns_packets", "IP packets of the current sessions.", []string{"lns", "direction"}, func(s Subscriber, put func(float64, ...string)) {
				put(float64(s.Traffic.UpPackets), s.LNS, "up")
				put(float64(s.Traffic.DownPackets), s.LNS, "down")
			}),
			noun.NewGauge("weft_lns_drops", "Dropped packets of the current sessions, by reason.", []string{"lns", "reason"}, func(s Subscriber, put func(float64, ...string)) {
				for why, n := range s.Drops {
					put(float64(n), s.LNS, why)
				}
			}),
		},
		Zeroes: func(ctx context.Context, s Source, put noun.Put) {
			for _, name := range s.Sections(ctx) {
				for _, is := range sessionStates() {
					put("weft_lns_sessions", 0, name, is)
				}
				for _, way := range []string{"up", "down"} {
					put("weft_lns_bytes", 0, name, way)
					put("weft_lns_packets", 0, name, way)
				}
				for why := range state.SubscriberDrops {
					put("weft_lns_drops", 0, name, why.String())
				}
			}
		},
	}.Noun()
}

func showTunnels() noun.Noun {
	return noun.Of[Source, subscriber.TunnelRow]{
		Name: "l2tp-tunnels", Aliases: []string{"tunnels"}, Short: "The L2TP tunnels and their state", From: noun.Daemon,
		Long: `The tunnels of [lns.NAME] and [l2tp_client.NAME]: their addresses, the peer,
the number of sessions, and the number of control messages that wait for an
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
			{Name: "LOCAL", Text: func(t subscriber.TunnelRow) string { return t.LocalAddr.String() }, Wide: true},
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
				for _, is := range l2tpTunnelStates() {
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
		Name: "address-pools", Short: "Used and free addresses and prefixes of the pools", From: noun.Daemon,
		Long: `For each prefix of the [lns.NAME] sections that addresses or prefixes are
assigned from: how many are in use. The addresses of a login are reserved while
it is offline, and are given to others only when no other address is free.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.PoolRow, error] {
			return noun.List(s.Pools(ctx), nil)
		},
		Columns: []noun.Column[subscriber.PoolRow]{
			{Name: "LNS", Text: func(p subscriber.PoolRow) string { return p.LNS }},
			{Name: "POOL", Text: func(p subscriber.PoolRow) string { return p.Pool }},
			{Name: "SPACE", Text: func(p subscriber.PoolRow) string { return p.Space.String() }},
			{Name: "USED", Text: func(p subscriber.PoolRow) string { return fmt.Sprint(p.Used) }},
			{Name: "FREE", Text: func(p subscriber.PoolRow) string { return fmt.Sprintf("%.6g", p.Free) }},
		},
		Metrics: []noun.Metric[subscriber.PoolRow]{
			noun.NewGauge("weft_lns_pool", "How many addresses or prefixes of a pool are in use and free.", []string{"lns", "pool", "space", "state"}, func(p subscriber.PoolRow, put func(float64, ...string)) {
				put(float64(p.Used), p.LNS, p.Pool, p.Space.String(), "used")
				put(p.Free, p.LNS, p.Pool, p.Space.String(), "free")
			}),
		},
	}.Noun()
}

// RADIUSServer has the counters of a RADIUS server.
type RADIUSServer struct {
	LNS        string         `json:"lns"`
	Server     netip.AddrPort `json:"server"`
	Quiet      bool           `json:"silent_now"` // it did not answer lately: other servers are tried first
	Answered   uint64         `json:"answered"`   // Access-Requests with an answer
	Silent     uint64         `json:"silent"`     // Access-Requests without an answer
	Forged     uint64         `json:"forged"`     // answers without a valid Message-Authenticator
	Reported   uint64         `json:"accounted"`
	Unreported uint64         `json:"account_silent"`
	Waiting    int            `json:"accounts_waiting"` // accounting records; the same for all servers of the section
	Lost       uint64         `json:"accounts_lost"`    // accounting records; the same for all servers of the section
}

func showRADIUS() noun.Noun {
	number := func(name string, n func(RADIUSServer) uint64) noun.Column[RADIUSServer] {
		return noun.Column[RADIUSServer]{Name: name, Text: func(s RADIUSServer) string { return strconv.FormatUint(n(s), 10) }}
	}
	return noun.Of[Source, RADIUSServer]{
		Name: "radius", Short: "The RADIUS servers and their counters", From: noun.Daemon,
		Long: `The RADIUS servers of the [lns.NAME] sections: requests with and without an
answer, and accounting records that were acknowledged, that wait and that were
lost. A server that did not answer is tried last for half a minute. An answer
without a valid Message-Authenticator is discarded, and counted as forged.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[RADIUSServer, error] {
			return noun.List(s.RADIUS(ctx), nil)
		},
		Columns: []noun.Column[RADIUSServer]{
			{Name: "LNS", Text: func(s RADIUSServer) string { return s.LNS }},
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
			number("ACCOUNTED", func(s RADIUSServer) uint64 { return s.Reported }),
			number("NOT", func(s RADIUSServer) uint64 { return s.Unreported }),
			number("WAITING", func(s RADIUSServer) uint64 { return uint64(s.Waiting) }),
			number("LOST", func(s RADIUSServer) uint64 { return s.Lost }),
		},
		Metrics: []noun.Metric[RADIUSServer]{
			noun.NewCounter("weft_radius_requests_total", "Requests to RADIUS servers, by result.", []string{"lns", "server", "result"}, func(r RADIUSServer, put func(float64, ...string)) {
				server := r.Server.String()
				put(float64(r.Answered), r.LNS, server, "answered")
				put(float64(r.Silent), r.LNS, server, "silent")
				put(float64(r.Forged), r.LNS, server, "forged")
				put(float64(r.Reported), r.LNS, server, "accounted")
				put(float64(r.Unreported), r.LNS, server, "account-silent")
			}),
			// all servers of a section have the value of the section
			noun.Largest(noun.NewGauge("weft_radius_accounts_waiting", "Accounting records that no RADIUS server has acknowledged yet.", []string{"lns"}, func(r RADIUSServer, put func(float64, ...string)) {
				put(float64(r.Waiting), r.LNS)
			})),
			noun.Largest(noun.NewCounter("weft_radius_accounts_lost_total", "Accounting records that were discarded: too many waited, or for too long.", []string{"lns"}, func(r RADIUSServer, put func(float64, ...string)) {
				put(float64(r.Lost), r.LNS)
			})),
		},
	}.Noun()
}

// loginEvents are the counters of logins and of discarded packets, for the metrics.
func loginEvents() noun.Noun {
	return noun.Of[Source, subscriber.Stats]{
		Name: "lns-events", Hidden: true, From: noun.Daemon, One: true, Short: "Counters of logins and of unexpected packets",
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[subscriber.Stats, error] {
			return noun.Row(s.LNSStats(ctx), nil)
		},
		Metrics: []noun.Metric[subscriber.Stats]{
			noun.NewCounter("weft_lns_events_total", "Logins and unexpected packets, by event.", []string{"event"}, func(st subscriber.Stats, put func(float64, ...string)) {
				for event, n := range map[string]uint64{
					"accepted": st.Accepted, "rejected": st.Rejected, "duplicate": st.Duplicates, "no-address": st.NoAddress, "no-prefix": st.NoPrefix,
					"tunnel-refused": st.Refused, "tunnel-established": st.TunnelsNew, "malformed": st.Malformed, "unknown": st.Unknown,
					"unauthorized-peer": st.Outsiders, "spoofed": st.Spoofed, "unsent": st.Unsent, "tunnel-unproven": st.Unproven, "walled-garden": st.WalledGarden, "no-session": st.NoSession,
				} {
					put(float64(n), event)
				}
			}),
		},
	}.Noun()
}
