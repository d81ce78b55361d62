package datapath

import (
	"fmt"

	"weft/internal/state"
)

// Translators lists the translators, by id.
func (d *Datapath) Translators() ([]state.Translator, error) {
	m, err := d.mapNamed("nat64_translators")
	if err != nil {
		return nil, err
	}
	var list []state.Translator
	for id := range m.MaxEntries() {
		var v translator
		if err := m.Lookup(id, &v); err != nil {
			return nil, fmt.Errorf("read translator %d: %w", id, err)
		}
		if v.Ifindex != 0 {
			list = append(list, decodeTranslator(int(id), v))
		}
	}
	return list, nil
}

// Rules lists the address rules of both directions.
func (d *Datapath) Rules() ([]state.Rule, error) {
	rules, err := collect(d, "nat64_rules6", decodeRule6)
	if err != nil {
		return nil, err
	}
	rules4, err := collect(d, "nat64_rules4", decodeRule4)
	return append(rules, rules4...), err
}

func (d *Datapath) writeTranslator(t state.Translator, remove bool) error {
	if remove {
		// an array has no holes: zero is none
		return d.write("nat64_translators", uint32(t.ID), translator{}, false)
	}
	index, err := deviceIndex(t.Device)
	if err != nil {
		return err
	}
	return d.write("nat64_translators", uint32(t.ID), encodeTranslator(t, index), false)
}

func (d *Datapath) writeRule(r state.Rule, remove bool) error {
	if r.From.Addr().Is6() {
		k, v := encodeRule6(r)
		return d.write("nat64_rules6", k, v, remove)
	}
	k, v := encodeRule4(r)
	return d.write("nat64_rules4", k, v, remove)
}

// proxies lists what ARP and neighbour discovery are answered for.
func (d *Datapath) proxies() ([]state.Proxy, error) {
	return collect(d, "neighbour_proxies", func(k proxyKey, _ uint32) state.Proxy { return decodeProxy(k) })
}

func (d *Datapath) writeProxy(p state.Proxy, remove bool) error {
	index, err := deviceIndex(p.Device)
	if err != nil {
		return err
	}
	return d.write("neighbour_proxies", encodeProxy(p, index), uint32(1), remove)
}
