package firewall

import (
	"context"
	"fmt"
	"iter"

	"weft/internal/noun"
)

// Row is a row of weft show firewall: one rule of weft's table that counts.
type Row struct {
	Chain   string `json:"chain"`
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // accept, drop, reject, dnat, masquerade
	Packets uint64 `json:"packets"` // of connections' first packets
	Bytes   uint64 `json:"bytes"`
}

// Source is where the rows come from.
type Source interface {
	Firewall(ctx context.Context) ([]Row, error)
}

// Nouns are what the firewall has to show.
func Nouns() []noun.Noun {
	labels := []string{"chain", "rule", "verdict"}
	return []noun.Noun{noun.Of[Source, Row]{
		Name: "firewall", Short: "The rules of weft's firewall, and how often they matched",
		Long: `The rules of table inet weft in their order, with what they do and how many
packets they have matched since the table was made. Only the first packets of a
connection reach most of them: what belongs to a connection is accepted before.
nft list table inet weft prints the table itself.`,
		Rows: func(ctx context.Context, s Source, _ *noun.Query) iter.Seq2[Row, error] {
			return noun.List(s.Firewall(ctx))
		},
		Columns: []noun.Column[Row]{
			{Name: "CHAIN", Text: func(r Row) string { return r.Chain }},
			{Name: "RULE", Text: func(r Row) string { return r.Name }},
			{Name: "VERDICT", Text: func(r Row) string { return r.Verdict }},
			{Name: "PACKETS", Text: func(r Row) string { return fmt.Sprint(r.Packets) }},
			{Name: "BYTES", Text: func(r Row) string { return fmt.Sprint(r.Bytes) }},
		},
		Metrics: []noun.Metric[Row]{
			noun.NewCounter("weft_firewall_packets_total", "Packets that a rule of weft's firewall matched.", labels, func(r Row, put func(float64, ...string)) {
				put(float64(r.Packets), r.Chain, r.Name, r.Verdict)
			}),
		},
	}.Noun()}
}
