package api

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"weft/internal/feature/access"
	"weft/internal/state"
)

// Subscriber is a row of `weft show subscribers`.
type Subscriber struct {
	access.SubscriberRow
	Traffic access.Traffic    `json:"traffic"` // datapath and slow path together
	Drops   map[string]uint64 `json:"drops"`
}

// NewSubscriber adds what the datapath counted.
func NewSubscriber(r access.SubscriberRow, c state.AccessCounters) Subscriber {
	s := Subscriber{SubscriberRow: r, Traffic: r.Slow, Drops: map[string]uint64{}}
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

// AccessSource is the daemon's part that knows subscribers.
type AccessSource interface {
	// Subscribers gives the sessions one after the other, as they are when it is their
	// turn: tens of thousands of rows at once would take more memory than the sessions.
	Subscribers() iter.Seq[Subscriber]
	// Sections gives the names of the [access.NAME], whether they have sessions or not.
	Sections() []string
	Tunnels() []access.TunnelRow
	Clients() []access.ClientRow
	AccessStats() access.Stats
	Pools() []access.PoolRow
	RADIUS() []access.RADIUSServer
	Disconnect(access.Match) int
	Details(who string) Details
	TunnelDetails(who string) []access.TunnelDetails
	Capture(ctx context.Context, order CaptureOrder, w io.Writer) error
}

// Details are all that is known of somebody's sessions.
type Details struct {
	Sessions []Detail       `json:"sessions"`
	Ended    []access.Ended `json:"ended"` // the last one first
}

// Detail is a session with what the datapath counted.
type Detail struct {
	access.SubscriberDetails
	Traffic  access.Traffic    `json:"traffic"`
	Drops    map[string]uint64 `json:"drops"`
	LastUp   time.Time         `json:"last_up,omitzero"` // when a packet came from the subscriber
	LastDown time.Time         `json:"last_down,omitzero"`
	Missed   uint64            `json:"uncaptured"` // packets that a capture missed
}

// NewDetail adds what the datapath counted; boot is when its clock began.
func NewDetail(d access.SubscriberDetails, c state.AccessCounters, boot time.Time) Detail {
	s := NewSubscriber(d.SubscriberRow, c)
	out := Detail{SubscriberDetails: d, Traffic: s.Traffic, Drops: s.Drops, Missed: c.Uncaptured}
	if c.SeenUp > 0 {
		out.LastUp = boot.Add(c.SeenUp)
	}
	if c.SeenDown > 0 {
		out.LastDown = boot.Add(c.SeenDown)
	}
	return out
}

// Kicked says how many sessions were ended.
type Kicked struct {
	Sessions int `json:"sessions"`
}

func serveAccess(mux *http.ServeMux, source AccessSource) {
	mux.HandleFunc("GET /v1/subscribers", answerRows(source.Subscribers))
	mux.HandleFunc("GET /v1/l2tp-tunnels", answer(func() any { return source.Tunnels() }))
	mux.HandleFunc("GET /v1/subscriber", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(context.Context) (any, error) { return source.Details(q.URL.Query().Get("who")), nil })
	})
	mux.HandleFunc("GET /v1/l2tp-tunnel", func(w http.ResponseWriter, q *http.Request) {
		reply(w, q, func(context.Context) (any, error) { return source.TunnelDetails(q.URL.Query().Get("who")), nil })
	})
	mux.HandleFunc("GET /v1/capture", serveCapture(source))
	mux.HandleFunc("GET /v1/address-pools", answer(func() any { return source.Pools() }))
	mux.HandleFunc("GET /v1/radius", answer(func() any { return source.RADIUS() }))
	mux.HandleFunc("GET /v1/clients", answer(func() any { return source.Clients() }))
	mux.HandleFunc("POST /v1/kick", func(w http.ResponseWriter, q *http.Request) {
		m := MatchOf(q.URL.Query().Get("who"))
		reply(w, q, func(context.Context) (any, error) { return Kicked{source.Disconnect(m)}, nil })
	})
}

// MatchOf reads whom somebody means: an address of theirs, the number of the
// session, the login, or the name of an [l2tp_client.NAME].
func MatchOf(who string) access.Match {
	if a, err := netip.ParseAddr(who); err == nil {
		return access.Match{Address: a, Clients: true}
	}
	if n, err := strconv.ParseUint(who, 10, 16); err == nil && n > 0 {
		return access.Match{Session: uint16(n), Clients: true}
	}
	return access.Match{Login: who, Clients: true}
}

// Kick ends sessions.
func Kick(ctx context.Context, socket, who string) (Kicked, error) {
	var k Kicked
	return k, request(ctx, http.MethodPost, socket, "/v1/kick?who="+url.QueryEscape(who), nil, reading(&k))
}
