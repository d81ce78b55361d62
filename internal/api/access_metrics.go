package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"weft/internal/state"
)

type accessMetrics struct {
	sessions, tunnels, events, bytes, packets, drops, pools, clients, radius, accounts, lost *prometheus.Desc
}

func newAccessMetrics() accessMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return accessMetrics{
		sessions: desc("weft_access_sessions", "Sessions of subscribers, by state.", "access", "state"),
		tunnels:  desc("weft_l2tp_tunnels", "L2TP tunnels, by section and state.", "section", "state"),
		events:   desc("weft_access_events_total", "What became of logins and odd packets.", "event"),
		bytes:    desc("weft_access_bytes", "Bytes of IP packets of the sessions that are there now.", "access", "direction"),
		packets:  desc("weft_access_packets", "IP packets of the sessions that are there now.", "access", "direction"),
		drops:    desc("weft_access_drops", "Packets of the sessions that are there now that were dropped, and why.", "access", "reason"),
		pools:    desc("weft_access_pool", "How many addresses or prefixes of a pool are in use and free.", "access", "pool", "space", "state"),
		clients:  desc("weft_l2tp_client_up", "Whether this router's own session with an L2TP server is up.", "client"),
		radius:   desc("weft_radius_requests_total", "Questions and accounts to RADIUS servers, and what became of them.", "access", "server", "result"),
		accounts: desc("weft_radius_accounts_waiting", "Accounts that no RADIUS server has taken yet.", "access"),
		lost:     desc("weft_radius_accounts_lost_total", "Accounts that were given up: too many waited, or for too long.", "access"),
	}
}

func (m accessMetrics) descs() []*prometheus.Desc {
	return []*prometheus.Desc{m.sessions, m.tunnels, m.events, m.bytes, m.packets, m.drops, m.pools, m.clients, m.radius, m.accounts, m.lost}
}

// States of sessions and tunnels, of an [access.NAME] and of an [l2tp_client.NAME]: each
// has a row, also while nobody is there. What is not there cannot be told from what
// is not measured.
func sessionStates() []string      { return []string{"connecting", "authenticating", "up", "onward"} }
func accessTunnelStates() []string { return []string{"wait-connect", "established", "closing"} }
func clientTunnelStates() []string { return []string{"wait-reply", "established", "closing"} }

func (m accessMetrics) collect(ch chan<- prometheus.Metric, source AccessSource) {
	type key struct{ section, what string }
	sessions, tunnels, bytes, packets, drops := map[key]uint64{}, map[key]uint64{}, map[key]uint64{}, map[key]uint64{}, map[key]uint64{}
	for _, name := range source.Sections() {
		for _, is := range sessionStates() {
			sessions[key{name, is}] = 0
		}
		for _, is := range accessTunnelStates() {
			tunnels[key{"access." + name, is}] = 0
		}
		for _, way := range []string{"up", "down"} {
			bytes[key{name, way}], packets[key{name, way}] = 0, 0
		}
		for why := range state.AccessDrops {
			drops[key{name, why.String()}] = 0
		}
	}
	clients := source.Clients()
	for _, c := range clients {
		for _, is := range clientTunnelStates() {
			tunnels[key{"l2tp_client." + c.Name, is}] = 0
		}
	}
	for s := range source.Subscribers() {
		sessions[key{s.Access, s.State}]++
		bytes[key{s.Access, "up"}] += s.Traffic.UpBytes
		bytes[key{s.Access, "down"}] += s.Traffic.DownBytes
		packets[key{s.Access, "up"}] += s.Traffic.UpPackets
		packets[key{s.Access, "down"}] += s.Traffic.DownPackets
		for why, n := range s.Drops {
			drops[key{s.Access, why}] += n
		}
	}
	for _, t := range source.Tunnels() {
		tunnels[key{t.Section, t.State}]++
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for d, values := range map[*prometheus.Desc]map[key]uint64{m.sessions: sessions, m.tunnels: tunnels, m.bytes: bytes, m.packets: packets, m.drops: drops} {
		for k, n := range values {
			gauge(d, float64(n), k.section, k.what)
		}
	}
	for _, p := range source.Pools() {
		gauge(m.pools, float64(p.Used), p.Access, p.Pool, p.Space.String(), "used")
		gauge(m.pools, p.Free, p.Access, p.Pool, p.Space.String(), "free")
	}
	for _, c := range clients {
		up := 0.0
		if c.Up {
			up = 1
		}
		gauge(m.clients, up, c.Name)
	}
	waiting, lost := map[string]int{}, map[string]uint64{}
	for _, r := range source.RADIUS() {
		server := r.Server.String()
		counter(m.radius, r.Answered, r.Access, server, "answered")
		counter(m.radius, r.Silent, r.Access, server, "silent")
		counter(m.radius, r.Forged, r.Access, server, "forged")
		counter(m.radius, r.Told, r.Access, server, "accounted")
		counter(m.radius, r.Untold, r.Access, server, "account-silent")
		waiting[r.Access], lost[r.Access] = r.Waiting, r.Lost
	}
	for access, n := range waiting {
		gauge(m.accounts, float64(n), access)
		counter(m.lost, lost[access], access)
	}
	st := source.AccessStats()
	for event, n := range map[string]uint64{
		"accepted": st.Accepted, "rejected": st.Rejected, "duplicate": st.Duplicates, "no-address": st.NoAddress, "no-prefix": st.NoPrefix,
		"tunnel-refused": st.Refused, "tunnel-established": st.TunnelsNew, "malformed": st.Malformed, "unknown": st.Unknown,
		"stranger": st.Strangers, "spoofed": st.Spoofed, "garden": st.Garden, "no-session": st.NoSession,
	} {
		counter(m.events, n, event)
	}
}
