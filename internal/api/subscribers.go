package api

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"weft/internal/datapath"
)

// NATSubscriber is a row of `weft show nat-subscribers`.
type NATSubscriber struct {
	Translator  string       `json:"translator"`
	Subscriber  netip.Prefix `json:"subscriber"`
	Ports       int          `json:"ports"`
	Sessions    int          `json:"sessions"`
	Refused     uint64       `json:"refused"`
	Packets6to4 uint64       `json:"packets_6to4"`
	Bytes6to4   uint64       `json:"bytes_6to4"`
	Packets4to6 uint64       `json:"packets_4to6"`
	Bytes4to6   uint64       `json:"bytes_4to6"`
}

// NATSubscribers gives the rows of `weft show nat-subscribers`: those with the
// most sessions first.
func NATSubscribers(d *datapath.Datapath, f BindingFilter) ([]NATSubscriber, error) {
	names, err := TranslatorNames(d)
	if err != nil {
		return nil, err
	}
	binders, err := d.Binders()
	if err != nil {
		return nil, err
	}
	bits := map[int]int{}
	for _, b := range binders {
		bits[b.ID] = b.SubscriberBits
	}
	var rows []NATSubscriber
	for s, err := range d.NATSubscribers() {
		if err != nil {
			return nil, err
		}
		row := NATSubscriber{
			Translator: names[s.Translator], Subscriber: netip.PrefixFrom(s.Prefix, bits[s.Translator]),
			Ports: s.Ports, Sessions: s.Sessions, Refused: s.Refused,
			Packets6to4: s.Packets[0], Bytes6to4: s.Bytes[0], Packets4to6: s.Packets[1], Bytes4to6: s.Bytes[1],
		}
		if (f.Translator == "" || f.Translator == row.Translator) && (!f.IPv6.IsValid() || f.IPv6.Overlaps(row.Subscriber)) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b NATSubscriber) int {
		return cmp.Or(strings.Compare(a.Translator, b.Translator), cmp.Compare(b.Sessions, a.Sessions), a.Subscriber.Addr().Compare(b.Subscriber.Addr()))
	})
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, nil
}
