package api

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

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
	for i, n := range c.Drops {
		if n > 0 {
			s.Drops[state.AccessDrop(i).String()] = n
		}
	}
	return s
}

// AccessSource is the daemon's part that knows subscribers.
type AccessSource interface {
	Subscribers() []Subscriber
	Tunnels() []access.TunnelRow
	Clients() []access.ClientRow
	AccessStats() access.Stats
	Disconnect(access.Match) int
}

// Kicked says how many sessions were ended.
type Kicked struct {
	Sessions int `json:"sessions"`
}

func serveAccess(mux *http.ServeMux, source AccessSource) {
	mux.HandleFunc("GET /v1/subscribers", answer(func() any { return source.Subscribers() }))
	mux.HandleFunc("GET /v1/l2tp-tunnels", answer(func() any { return source.Tunnels() }))
	mux.HandleFunc("GET /v1/clients", answer(func() any { return source.Clients() }))
	mux.HandleFunc("POST /v1/kick", func(w http.ResponseWriter, q *http.Request) {
		m := MatchOf(q.URL.Query().Get("who"))
		reply(w, q, func(context.Context) (any, error) { return Kicked{source.Disconnect(m)}, nil })
	})
}

// MatchOf reads whom somebody means: an address of theirs, the number of the
// session, or the login.
func MatchOf(who string) access.Match {
	if a, err := netip.ParseAddr(who); err == nil {
		return access.Match{Address: a}
	}
	if n, err := strconv.ParseUint(who, 10, 16); err == nil && n > 0 {
		return access.Match{Session: uint16(n)}
	}
	return access.Match{Login: who}
}

// Kick ends sessions.
func Kick(ctx context.Context, socket, who string) (Kicked, error) {
	var k Kicked
	return k, request(ctx, http.MethodPost, socket, "/v1/kick?who="+url.QueryEscape(who), &k)
}

type accessMetrics struct {
	sessions, tunnels, logins, bytes *prometheus.Desc
}

func newAccessMetrics() accessMetrics {
	return accessMetrics{
		sessions: prometheus.NewDesc("weft_access_sessions", "Sessions of subscribers, by state.", []string{"access", "state"}, nil),
		tunnels:  prometheus.NewDesc("weft_l2tp_tunnels", "L2TP tunnels, by section and state.", []string{"section", "state"}, nil),
		logins:   prometheus.NewDesc("weft_access_events_total", "What became of logins and odd packets.", []string{"event"}, nil),
		bytes:    prometheus.NewDesc("weft_access_bytes", "Bytes of IP packets of the sessions that are there now.", []string{"access", "direction"}, nil),
	}
}

func (m accessMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.sessions, m.tunnels, m.logins, m.bytes}
}

func (m accessMetrics) collect(ch chan<- prometheus.Metric, source AccessSource) {
	type key struct{ section, what string }
	sessions, tunnels, bytes := map[key]int{}, map[key]int{}, map[key]uint64{}
	for _, s := range source.Subscribers() {
		sessions[key{s.Access, s.State}]++
		bytes[key{s.Access, "up"}] += s.Traffic.UpBytes
		bytes[key{s.Access, "down"}] += s.Traffic.DownBytes
	}
	for _, t := range source.Tunnels() {
		tunnels[key{t.Section, t.State}]++
	}
	gauge := func(d *prometheus.Desc, n float64, k key) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, k.section, k.what)
	}
	for k, n := range sessions {
		gauge(m.sessions, float64(n), k)
	}
	for k, n := range tunnels {
		gauge(m.tunnels, float64(n), k)
	}
	for k, n := range bytes {
		gauge(m.bytes, float64(n), k)
	}
	st := source.AccessStats()
	for event, n := range map[string]uint64{
		"accepted": st.Accepted, "rejected": st.Rejected, "duplicate": st.Duplicates, "no-address": st.NoAddress, "tunnel-refused": st.Refused,
		"tunnel-established": st.TunnelsNew, "malformed": st.Malformed, "unknown": st.Unknown, "stranger": st.Strangers, "spoofed": st.Spoofed, "garden": st.Garden,
	} {
		ch <- prometheus.MustNewConstMetric(m.logins, prometheus.CounterValue, float64(n), event)
	}
}
