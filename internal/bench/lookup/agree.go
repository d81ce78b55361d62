package lookup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Agree compares all subjects' answers on every boundary of every prefix, and
// returns the number of addresses. So they are measured doing the same work.
func (m *Measurer) Agree(ctx context.Context) (checked int, err error) {
	device := 1
	if m.kernel != nil {
		device = m.kernel.lan
	}
	p, err := load(addresses, device, true)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if _, err := p.build(m.prefixes, m.o.Seed); err != nil {
		return 0, err
	}
	subjects := []string{weft}
	if m.o.wants(lpmTrie) {
		subjects = append(subjects, lpmTrie)
		for _, f := range families {
			if err := fillTrie(p.trie(f), m.prefixes[f], m.o.Seed); err != nil {
				return 0, err
			}
		}
	}
	if m.kernel != nil {
		subjects = append(subjects, kernel)
	}
	for _, f := range families {
		n, err := m.agree(ctx, p, subjects, f)
		checked += n
		if err != nil {
			return checked, err
		}
	}
	return checked, nil
}

func (m *Measurer) agree(ctx context.Context, p *programs, subjects []string, family int) (checked int, err error) {
	var addrs []netip.Addr
	for a := range boundaries(m.prefixes[family]) {
		if m.kernel != nil && ownLink(a) {
			continue
		}
		if addrs = append(addrs, a); len(addrs) < addresses {
			continue
		}
		if err := ctx.Err(); err != nil {
			return checked, context.Cause(ctx)
		}
		if err := m.compare(p, subjects, family, addrs); err != nil {
			return checked, err
		}
		checked += len(addrs)
		addrs = addrs[:0]
	}
	return checked + len(addrs), m.compare(p, subjects, family, addrs)
}

// ownLink reports whether the kernel has a route beside the loaded ones.
func ownLink(a netip.Addr) bool {
	for _, p := range append(lan.Router[:], wan.Router[:]...) {
		if p.Masked().Contains(a) {
			return true
		}
	}
	return false
}

func (m *Measurer) compare(p *programs, subjects []string, family int, addrs []netip.Addr) error {
	answers := map[string][]uint32{}
	p.aim(family, addrs)
	for _, s := range subjects {
		if err := m.inRouter(func() error { _, err := p.run(s, family); return err }); err != nil {
			return err
		}
		answers[s] = slices.Clone(p.answers(len(addrs)))
	}
	for i, a := range addrs {
		want := answers[weft][i]
		if m.bart != nil {
			if got, _ := m.bart.Lookup(a); got != want {
				return fmt.Errorf("next hop for %s: bart says %d, weft %d", a, got, want)
			}
		}
		for _, s := range subjects {
			if got := answers[s][i]; got != want {
				return fmt.Errorf("next hop for %s: %s says %d, weft %d", a, s, got, want)
			}
		}
	}
	return nil
}
