package nat64

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
)

// Nouns are what translators have to show.
func Nouns() []noun.Noun {
	return []noun.Noun{translations(), bib(), natSessions(), natSubscribers(), pools(), who(), usages(), eventsLost(), portHolders(), slowPaths(), collectors()}
}

// Source is where the rows of translators come from.
type Source interface {
	Translators() ([]state.Translator, error)
	Rules() ([]state.Rule, error)
	Traffic(id int) (to4, to6 Volume, err error)
	Allocators() ([]state.Allocator, error)
	Statics() ([]state.StaticBinding, error)
	Bound() iter.Seq2[Binding, error] // those of weft.toml only while they have sessions
	Open() iter.Seq2[Session, error]
	Holders() iter.Seq2[Subscriber, error] // with the address of the prefix only
	Used() ([]Usage, error)
	EventsLost() (uint64, error)
}

// names returns the names of translators by their number.
func names(t Source) (map[int]string, error) {
	translators, err := t.Translators()
	names := map[int]string{}
	for _, t := range translators {
		names[t.ID] = t.Name
	}
	return names, err
}

// Volume is what a translator carried in one direction; bytes of IP packets as they left.
type Volume struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Translation is a row of weft show translations: a translator and what it carried.
type Translation struct {
	Name   string    `json:"name"`
	Device string    `json:"device"`
	Prefix string    `json:"prefix,omitempty"`
	To4    Volume    `json:"to_ipv4"`
	To6    Volume    `json:"to_ipv6"`
	Rules  []RuleRow `json:"rules"`
}

// RuleRow is one address rule of a translator.
type RuleRow struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"`
}

func translations() noun.Noun {
	labels := []string{"translator", "direction"}
	return noun.Of[Source, Translation]{
		Name: "translations", Short: "The translators, their address rules, and what they carried",
		Long: `For each [nat64.NAME] what it carried each way, and the rules by which it
changes addresses, one for each direction. The longest match wins.`,
		Rows: func(_ context.Context, t Source, _ *noun.Query) iter.Seq2[Translation, error] {
			return noun.List(translationRows(t))
		},
		Columns: []noun.Column[Translation]{
			{Name: "NAME", Text: func(t Translation) string { return t.Name }},
			{Name: "DEVICE", Text: func(t Translation) string { return t.Device }},
		},
		Page: func(w io.Writer, rows []Translation) {
			for _, t := range rows {
				fmt.Fprintf(w, "nat64.%s on %s\n", t.Name, t.Device)
				fmt.Fprintf(w, "  IPv6 to IPv4\t%d packets\t%d bytes\n", t.To4.Packets, t.To4.Bytes)
				fmt.Fprintf(w, "  IPv4 to IPv6\t%d packets\t%d bytes\n", t.To6.Packets, t.To6.Bytes)
				for _, r := range t.Rules {
					fmt.Fprintf(w, "  %s\t%s\t%s\n", r.From, r.To, r.Kind)
				}
			}
		},
		Metrics: []noun.Metric[Translation]{
			noun.NewCounter("weft_nat64_packets_total", "Packets that a translator carried.", labels, func(t Translation, put func(float64, ...string)) {
				put(float64(t.To4.Packets), t.Name, "6to4")
				put(float64(t.To6.Packets), t.Name, "4to6")
			}),
			noun.NewCounter("weft_nat64_bytes_total", "Bytes of IP packets that a translator carried, as they left.", labels, func(t Translation, put func(float64, ...string)) {
				put(float64(t.To4.Bytes), t.Name, "6to4")
				put(float64(t.To6.Bytes), t.Name, "4to6")
			}),
		},
	}.Noun()
}

func translationRows(t Source) ([]Translation, error) {
	translators, err := t.Translators()
	if err != nil {
		return nil, err
	}
	rules, err := t.Rules()
	if err != nil {
		return nil, err
	}
	var rows []Translation
	for _, one := range translators {
		row := Translation{Name: one.Name, Device: one.Device}
		if one.Prefix.IsValid() {
			row.Prefix = one.Prefix.String()
		}
		if row.To4, row.To6, err = t.Traffic(one.ID); err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.Translator == one.ID {
				row.Rules = append(row.Rules, RuleRow{r.From.String(), r.To.String(), r.Kind.String()})
			}
		}
		slices.SortFunc(row.Rules, func(a, b RuleRow) int { return cmp.Compare(a.From, b.From) })
		rows = append(rows, row)
	}
	return rows, nil
}

// Filter says which bindings and sessions are meant; zero fields say nothing.
type Filter struct {
	Translator string
	Protocol   string
	IPv6       netip.Prefix // of the node
	IPv4       netip.Prefix // of the pool, or of the far end
	Port       uint16       // at any end
	Limit      int          // rows
}

// FilterArgs are the arguments that ReadFilter reads, limit apart.
func FilterArgs() []noun.Arg {
	return []noun.Arg{
		{Name: "translator", Help: "only those of [nat64.NAME]", Column: "translations NAME"},
		{Name: "protocol", Help: "only tcp, udp or icmp", Values: []string{"tcp", "udp", "icmp"}},
		{Name: "ipv6", Help: "only nodes with this address, or in this prefix"},
		{Name: "ipv4", Help: "only with this IPv4 address, or in this prefix"},
		{Name: "port", Help: "only with this port, at any end", Kind: noun.Port},
	}
}

// ReadFilter reads a filter, and refuses a translator that there is not.
func ReadFilter(q *noun.Query, t Source) (f Filter, err error) {
	f = Filter{Translator: q.Text("translator"), Protocol: q.Text("protocol"), Port: uint16(q.Number("port")), Limit: q.Number("limit")}
	if f.IPv6, err = readPrefix("--ipv6", q.Text("ipv6"), true); err != nil {
		return f, err
	}
	if f.IPv4, err = readPrefix("--ipv4", q.Text("ipv4"), false); err != nil || f.Translator == "" {
		return f, err
	}
	byID, err := names(t)
	if list := slices.Sorted(maps.Values(byID)); err == nil && !slices.Contains(list, f.Translator) {
		err = fmt.Errorf("there is no translator %s; there are: %s", f.Translator, strings.Join(list, ", "))
	}
	return f, err
}

// readPrefix reads a prefix or one address of a family.
func readPrefix(flag, text string, ipv6 bool) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	p, err := noun.Prefix(flag, text)
	if err == nil && p.Addr().Is6() != ipv6 {
		err = fmt.Errorf("%s %q is of the other family", flag, text)
	}
	return p, err
}

// fits reports whether a binding or session is meant. v4 are its ends in IPv4.
func (f Filter) fits(translator, protocol string, node netip.AddrPort, v4 ...netip.AddrPort) bool {
	switch {
	case f.Translator != "" && f.Translator != translator,
		f.Protocol != "" && f.Protocol != protocol,
		f.IPv6.IsValid() && !f.IPv6.Contains(node.Addr()),
		f.IPv4.IsValid() && !slices.ContainsFunc(v4, func(a netip.AddrPort) bool { return f.IPv4.Contains(a.Addr()) }),
		f.Port != 0 && !slices.ContainsFunc(append(v4, node), func(a netip.AddrPort) bool { return a.Port() == f.Port }):
		return false
	}
	return true
}

// FitsBinding and FitsSession tell whether a session is meant, by its binding or by itself.
func (f Filter) FitsBinding(s Session) bool { return f.fits(s.Translator, s.Protocol, s.IPv6, s.IPv4) }
func (f Filter) FitsSession(s Session) bool {
	return f.fits(s.Translator, s.Protocol, s.IPv6, s.IPv4, s.Remote4)
}

func limitArg() noun.Arg {
	return noun.Arg{Name: "limit", Help: "at most so many rows; 0 is all", Kind: noun.Number}
}

// Binding is a row of weft show bib.
type Binding struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	IPv6       netip.AddrPort `json:"ipv6"`
	IPv4       netip.AddrPort `json:"ipv4"`
	Static     bool           `json:"static"`
	Sessions   int            `json:"sessions"`
	Age        float64        `json:"age_seconds"`
}

func bib() noun.Noun {
	return noun.Of[Source, Binding]{
		Name: "bib", Short: "The ports that stateful translators have bound",
		Long: `The binding information base (RFC 6146): which port of a shared IPv4 address
stands for which address and port of an IPv6 node. A binding lives as long as it
has sessions; those of weft.toml are always there. For icmp the port is the
identifier of echoes.`,
		Args: append(FilterArgs(), limitArg()), Examples: []string{"--ipv4 192.0.2.1 --port 4711"},
		Rows: func(_ context.Context, t Source, q *noun.Query) iter.Seq2[Binding, error] {
			return noun.List(bindingRows(t, q))
		},
		Columns: []noun.Column[Binding]{
			{Name: "TRANSLATOR", Text: func(b Binding) string { return b.Translator }},
			{Name: "PROTOCOL", Text: func(b Binding) string { return b.Protocol }},
			{Name: "IPV6", Text: func(b Binding) string { return b.IPv6.String() }},
			{Name: "IPV4", Text: func(b Binding) string { return b.IPv4.String() }},
			{Name: "SESSIONS", Text: func(b Binding) string { return strconv.Itoa(b.Sessions) }},
			{Name: "AGE", Text: func(b Binding) string {
				if b.Sessions == 0 {
					return "-"
				}
				return seconds(b.Age)
			}, Wide: true},
			{Name: "STATIC", Text: func(b Binding) string { return noun.YesNo(b.Static) }, Wide: true},
		},
	}.Noun()
}

// bindingRows returns those that are in use, then those of weft.toml that are not, ordered by the
// IPv4 side.
func bindingRows(t Source, q *noun.Query) ([]Binding, error) {
	f, err := ReadFilter(q, t)
	if err != nil {
		return nil, err
	}
	names, err := names(t)
	if err != nil {
		return nil, err
	}
	var rows []Binding
	used := map[string]bool{}
	add := func(row Binding) {
		if f.fits(row.Translator, row.Protocol, row.IPv6, row.IPv4) && (f.Limit == 0 || len(rows) < f.Limit) {
			rows = append(rows, row)
		}
	}
	for b, err := range t.Bound() {
		if err != nil {
			return nil, err
		}
		if b.Static {
			used[fmt.Sprint(b.Protocol, b.IPv4)] = true
		}
		add(b)
	}
	statics, err := t.Statics()
	if err != nil {
		return nil, err
	}
	for _, s := range statics {
		row := Binding{Translator: names[s.Translator], Protocol: state.ProtocolName(s.Protocol), IPv6: s.IPv6, IPv4: s.IPv4, Static: true}
		if !used[fmt.Sprint(row.Protocol, s.IPv4)] {
			add(row)
		}
	}
	slices.SortFunc(rows, func(a, b Binding) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), strings.Compare(a.Protocol, b.Protocol), a.IPv4.Compare(b.IPv4))
	})
	return rows, nil
}

// seconds shows a time as people read it.
func seconds(s float64) string {
	return (time.Duration(s * float64(time.Second))).Round(time.Second).String()
}
