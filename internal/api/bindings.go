package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/datapath"
	"weft/internal/state"
)

// BindingFilter says which bindings and sessions are shown; zero fields say
// nothing.
type BindingFilter struct {
	Translator string
	Protocol   string
	IPv6       netip.Prefix // of the node
	IPv4       netip.Prefix // of the pool, or of the far end
	Port       uint16       // at any end
	Limit      int          // rows
}

func (f BindingFilter) fits(translator, protocol string, node netip.AddrPort, v4 ...netip.AddrPort) bool {
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

// Binding is a row of `weft show bib`.
type Binding struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	IPv6       netip.AddrPort `json:"ipv6"`
	IPv4       netip.AddrPort `json:"ipv4"`
	Static     bool           `json:"static"`
	Sessions   int            `json:"sessions"`
	Age        float64        `json:"age_seconds"`
}

// Session is a row of `weft show nat-sessions`.
type Session struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	State      string         `json:"state"`
	IPv6       netip.AddrPort `json:"ipv6"`
	Remote6    netip.AddrPort `json:"remote_ipv6"`
	IPv4       netip.AddrPort `json:"ipv4"`
	Remote4    netip.AddrPort `json:"remote_ipv4"`
	Expires    float64        `json:"expires_seconds"`
	Age        float64        `json:"age_seconds"`
}

// TranslatorNames gives the names of translators by id.
func TranslatorNames(d *datapath.Datapath) (map[int]string, error) {
	translators, err := d.Translators()
	names := map[int]string{}
	for _, t := range translators {
		names[t.ID] = t.Name
	}
	return names, err
}

// Bindings gives the rows of `weft show bib`: those that are in use, then those
// of weft.toml that are not. It is ordered by the IPv4 side.
func Bindings(d *datapath.Datapath, f BindingFilter) ([]Binding, error) {
	names, err := TranslatorNames(d)
	if err != nil {
		return nil, err
	}
	var rows []Binding
	used := map[string]bool{}
	for b, err := range d.Bindings() {
		if err != nil {
			return nil, err
		}
		row := Binding{names[b.Translator], state.ProtocolName(b.Protocol), b.IPv6, b.IPv4, b.Static, b.Sessions, b.Age.Seconds()}
		if b.Static {
			used[fmt.Sprint(b.Protocol, b.IPv4)] = true
		}
		if f.fits(row.Translator, row.Protocol, row.IPv6, row.IPv4) && (f.Limit == 0 || len(rows) < f.Limit) {
			rows = append(rows, row)
		}
	}
	statics, err := d.Statics()
	if err != nil {
		return nil, err
	}
	for _, s := range statics {
		row := Binding{Translator: names[s.Translator], Protocol: state.ProtocolName(s.Protocol), IPv6: s.IPv6, IPv4: s.IPv4, Static: true}
		if !used[fmt.Sprint(s.Protocol, s.IPv4)] && f.fits(row.Translator, row.Protocol, row.IPv6, row.IPv4) && (f.Limit == 0 || len(rows) < f.Limit) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b Binding) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), strings.Compare(a.Protocol, b.Protocol), a.IPv4.Compare(b.IPv4))
	})
	return rows, nil
}

// Sessions gives the rows of `weft show nat-sessions`, ordered by the node.
func Sessions(d *datapath.Datapath, f BindingFilter) ([]Session, error) {
	names, err := TranslatorNames(d)
	if err != nil {
		return nil, err
	}
	var rows []Session
	for s, err := range d.Sessions() {
		if err != nil {
			return nil, err
		}
		row := Session{
			Translator: names[s.Translator], Protocol: state.ProtocolName(s.Protocol), State: s.State.String(),
			IPv6: s.IPv6, Remote6: netip.AddrPortFrom(s.Remote6, s.Remote4.Port()), IPv4: s.IPv4, Remote4: s.Remote4,
			Expires: s.Expires.Seconds(), Age: s.Age.Seconds(),
		}
		if f.fits(row.Translator, row.Protocol, row.IPv6, row.IPv4, row.Remote4) {
			rows = append(rows, row)
		}
		if f.Limit != 0 && len(rows) >= f.Limit {
			break
		}
	}
	slices.SortFunc(rows, func(a, b Session) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), a.IPv6.Compare(b.IPv6), strings.Compare(a.Protocol, b.Protocol), a.Remote4.Compare(b.Remote4))
	})
	return rows, nil
}

// Pool is a row of `weft show pools`: one pool and one protocol.
type Pool struct {
	Translator string       `json:"translator"`
	IPv4       netip.Prefix `json:"ipv4"`
	Ports      string       `json:"ports"`
	Protocol   string       `json:"protocol"`
	Bound      int          `json:"bound"`
	Available  int          `json:"available"` // of all addresses, bound or not
	// Fullest is the address with the most ports bound, and how many.
	Fullest      netip.Addr `json:"fullest"`
	FullestBound int        `json:"fullest_bound"`
}

// Pools gives the rows of `weft show pools`.
func Pools(d *datapath.Datapath) ([]Pool, error) {
	names, err := TranslatorNames(d)
	if err != nil {
		return nil, err
	}
	binders, err := d.Binders()
	if err != nil {
		return nil, err
	}
	bound := map[string]map[netip.Addr]int{}
	for b, err := range d.Bindings() {
		if err != nil {
			return nil, err
		}
		protocol := state.ProtocolName(b.Protocol)
		if bound[protocol] == nil {
			bound[protocol] = map[netip.Addr]int{}
		}
		bound[protocol][b.IPv4.Addr()]++
	}
	var rows []Pool
	for _, b := range binders {
		for _, p := range b.Pools {
			for _, protocol := range []string{"tcp", "udp", "icmp"} {
				if p.Prefix.IsValid() {
					rows = append(rows, pool(names[b.ID], p, protocol, bound[protocol]))
				}
			}
		}
	}
	return rows, nil
}

func pool(translator string, p state.Pool, protocol string, bound map[netip.Addr]int) Pool {
	row := Pool{
		Translator: translator, IPv4: p.Prefix, Ports: fmt.Sprintf("%d-%d", p.Low, p.High), Protocol: protocol,
		Available: (int(p.High) - int(p.Low) + 1) << (32 - p.Prefix.Bits()), Fullest: p.Prefix.Addr(),
	}
	for a, n := range bound {
		if !p.Prefix.Contains(a) {
			continue
		}
		row.Bound += n
		if n > row.FullestBound || n == row.FullestBound && a.Less(row.Fullest) {
			row.Fullest, row.FullestBound = a, n
		}
	}
	return row
}

// FlushSessions ends the sessions that f tells of, and gives how many those
// were. Of bindings: all sessions of the bindings that f tells of, so that
// they end too.
func FlushSessions(d *datapath.Datapath, f BindingFilter, ofBindings bool) (int, error) {
	names, err := TranslatorNames(d)
	if err != nil {
		return 0, err
	}
	var end []datapath.Session
	for s, err := range d.Sessions() {
		if err != nil {
			return 0, err
		}
		sides := []netip.AddrPort{s.IPv4, s.Remote4}
		if ofBindings {
			sides = sides[:1]
		}
		if f.fits(names[s.Translator], state.ProtocolName(s.Protocol), s.IPv6, sides...) {
			end = append(end, s)
		}
	}
	return d.End(end)
}

// Translators gives the names of those that there are.
func Translators(d *datapath.Datapath) ([]string, error) {
	byID, err := TranslatorNames(d)
	return slices.Sorted(maps.Values(byID)), err
}
