package ra

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"time"

	"weft/internal/noun"
)

// Row is a row of weft show ra: one link.
type Row struct {
	Name       string         `json:"name"`
	Device     string         `json:"device"`
	Lifetime   string         `json:"lifetime"`
	Prefixes   []netip.Prefix `json:"prefixes"`
	Deprecated []netip.Prefix `json:"deprecated"`
	DNS        []netip.Addr   `json:"dns"`
	PREF64     []netip.Prefix `json:"pref64"`
	DHCPv6     string         `json:"dhcpv6"`
	Fault      string         `json:"fault,omitempty"` // why it does not serve now
	Stats      Stats          `json:"advertisements"`
	DHCP       *DHCPStats     `json:"dhcpv6_messages,omitempty"`
	Leases     []LeaseRow     `json:"leases"`
}

// LeaseRow is a lease.
type LeaseRow struct {
	Client string       `json:"client"` // DUID, hexadecimal
	Kind   string       `json:"kind"`
	Prefix netip.Prefix `json:"prefix"`
	Peer   netip.Addr   `json:"peer"`
	Until  time.Time    `json:"until"`
}

// Source is what the daemon advertises.
type Source interface {
	Links() []Row
}

// Nouns are what router advertisements and DHCPv6 have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "ra", Short: "Router advertisements and DHCPv6 leases of each link", From: noun.Daemon,
		Long: `For each [ra.NAME] what router advertisements say, how many went out (to
everybody, and to one host that asked), how many came from other routers; and
what DHCPv6 gave to whom. The daemon knows all this, so weft run must be running.`,
		Rows: func(_ context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			return noun.List(s.Links(), nil)
		},
		None:    "none",
		Columns: []noun.Column[Row]{{Name: "NAME", Text: func(r Row) string { return r.Name }}, {Name: "DEVICE", Text: func(r Row) string { return r.Device }}},
		Page:    page, Metrics: metrics(),
	}.Noun()}
}

func page(w io.Writer, rows []Row) {
	for _, a := range rows {
		fmt.Fprintf(w, "ra.%s on %s\n", a.Name, a.Device)
		if a.Fault != "" {
			fmt.Fprintf(w, "  not served\t%s\n", a.Fault)
		}
		fmt.Fprintf(w, "  router lifetime\t%s\n", a.Lifetime)
		fmt.Fprintf(w, "  prefixes\t%s\n", noun.Dash(noun.Joined(a.Prefixes)))
		if len(a.Deprecated) > 0 {
			fmt.Fprintf(w, "  deprecated\t%s\n", noun.Joined(a.Deprecated))
		}
		fmt.Fprintf(w, "  name servers\t%s\n", noun.Dash(noun.Joined(a.DNS)))
		fmt.Fprintf(w, "  translator\t%s\n", noun.Dash(noun.Joined(a.PREF64)))
		fmt.Fprintf(w, "  advertisements\t%d sent, %d answered, %d from others\n", a.Stats.Sent, a.Stats.Answered, a.Stats.Others)
		if a.DHCP != nil {
			fmt.Fprintf(w, "  DHCPv6\t%s, %d messages, %d answered\n", a.DHCPv6, a.DHCP.Received, a.DHCP.Answered)
		}
		for _, l := range a.Leases {
			fmt.Fprintf(w, "  %s\t%s\tto %s at %s until %s\n", l.Kind, l.text(), l.Client, l.Peer, l.Until.Format(time.DateTime))
		}
	}
}

func (l LeaseRow) text() string {
	if l.Prefix.IsSingleIP() {
		return l.Prefix.Addr().String()
	}
	return l.Prefix.String()
}

func metrics() []noun.Metric[Row] {
	labels := []string{"name", "kind"}
	return []noun.Metric[Row]{
		noun.NewCounter("weft_ra_total", "Router advertisements and solicitations of a link, by kind.", labels, func(r Row, put func(float64, ...string)) {
			put(float64(r.Stats.Sent), r.Name, "sent")
			put(float64(r.Stats.Answered), r.Name, "answered")
			put(float64(r.Stats.Solicited), r.Name, "solicited")
			put(float64(r.Stats.Ignored), r.Name, "ignored")
			put(float64(r.Stats.Others), r.Name, "others")
		}),
		noun.NewCounter("weft_dhcpv6_messages_total", "DHCPv6 messages of a link, by what became of them.", labels, func(r Row, put func(float64, ...string)) {
			if d := r.DHCP; d != nil {
				put(float64(d.Received), r.Name, "received")
				put(float64(d.Answered), r.Name, "answered")
				put(float64(d.Discarded), r.Name, "discarded")
				put(float64(d.Exhausted), r.Name, "exhausted")
				put(float64(d.Unkept), r.Name, "unkept")
			}
		}),
		noun.NewGauge("weft_dhcpv6_leases", "Leases of a link, by kind.", labels, func(r Row, put func(float64, ...string)) {
			if r.DHCP == nil {
				return
			}
			put(0, r.Name, "address")
			put(0, r.Name, "prefix")
			for _, l := range r.Leases {
				put(1, r.Name, l.Kind)
			}
		}),
	}
}
