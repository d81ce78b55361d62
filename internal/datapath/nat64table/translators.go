package nat64table

import (
	"fmt"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Translators lists the translators, by id.
func (d Table) Translators() ([]state.Translator, error) {
	m, err := d.core.Map("nat64_translators")
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
func (d Table) Rules() ([]state.Rule, error) {
	rules, err := datapath.Collect(d.core, "nat64_rules6", decodeRule6)
	if err != nil {
		return nil, err
	}
	rules4, err := datapath.Collect(d.core, "nat64_rules4", decodeRule4)
	return append(rules, rules4...), err
}

func (d Table) writeTranslator(t state.Translator, remove bool) error {
	if remove {
		// an array has no holes: zero is none
		return d.core.Write("nat64_translators", uint32(t.ID), translator{}, false)
	}
	index, err := datapath.DeviceIndex(t.Device)
	if err != nil {
		return err
	}
	return d.core.Write("nat64_translators", uint32(t.ID), encodeTranslator(t, index), false)
}

func (d Table) writeRule(r state.Rule, remove bool) error {
	if r.From.Addr().Is6() {
		k, v := encodeRule6(r)
		return d.core.Write("nat64_rules6", k, v, remove)
	}
	k, v := encodeRule4(r)
	return d.core.Write("nat64_rules4", k, v, remove)
}
