package datapath

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// Observe lists everything in the datapath; all of it is weft's.
func (d *Datapath) Observe(ctx context.Context, want state.Desired) ([]state.Object, error) {
	var found []state.Object
	attachments, err := d.Attachments()
	if err != nil {
		return nil, fmt.Errorf("list attached programs: %w", err)
	}
	for _, a := range attachments {
		found = append(found, a)
	}
	translators, err := d.Translators()
	if err != nil {
		return nil, err
	}
	for _, t := range translators {
		found = append(found, t)
	}
	binders, err := d.Binders()
	if err != nil {
		return nil, err
	}
	for _, b := range binders {
		found = append(found, b)
	}
	statics, err := d.Statics()
	if err != nil {
		return nil, err
	}
	for _, s := range statics {
		found = append(found, s)
	}
	rules, err := d.Rules()
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		found = append(found, r)
	}
	ports, err := d.Ports()
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		found = append(found, p)
	}
	guards, err := d.Guards()
	if err != nil {
		return nil, err
	}
	for _, g := range guards {
		found = append(found, g)
	}
	tables, err := d.RouteTables()
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		found = append(found, t)
	}
	wires, err := d.Pseudowires()
	if err != nil {
		return nil, err
	}
	for _, w := range wires {
		found = append(found, w)
	}
	wirePorts, err := d.WirePorts()
	if err != nil {
		return nil, err
	}
	for _, p := range wirePorts {
		found = append(found, p)
	}
	lowers, err := collect(d, "lowers", func(k lowerKey, upper uint32) state.Object { return decodeLower(k, upper) })
	if err != nil {
		return nil, err
	}
	proxies, err := collect(d, "neighbour_proxies", func(k proxyKey, _ uint32) state.Object { return decodeProxy(k) })
	if err != nil {
		return nil, err
	}
	accesses, err := d.accessObjects()
	if err != nil {
		return nil, err
	}
	bridges, err := d.observeBridges(want)
	return slices.Concat(found, lowers, proxies, accesses, bridges), err
}

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

// collect decodes every entry of a map, once.
func collect[K comparable, V, T any](d *Datapath, name string, decode func(K, V) T) ([]T, error) {
	m, err := d.mapNamed(name)
	if err != nil {
		return nil, err
	}
	keys, values, err := readAll[K, V](m)
	if err != nil {
		return nil, fmt.Errorf("read map %s: %w", name, err)
	}
	var list []T
	for _, k := range keys {
		list = append(list, decode(k, values[k]))
	}
	return list, nil
}

// readTries is how often a map is read that changes all the time.
const readTries = 5

// readAll gives the entries of a map. When one goes while they are read, as
// learnt addresses do, the kernel begins with the first again, and cilium/ebpf
// gives up when that has gone on for too long.
//
// Tables of thousands are read many entries at a time, where the kernel can.
func readAll[K comparable, V any](m *ebpf.Map) (keys []K, values map[K]V, err error) {
	if m.Type() == ebpf.Hash {
		if keys, values, ok := readBatches[K, V](m); ok {
			return keys, values, nil
		}
	}
	values = map[K]V{}
	for range readTries {
		entries := m.Iterate()
		for {
			var k K
			var v V // of its own: values of each CPU are a slice
			if !entries.Next(&k, &v) {
				break
			}
			if _, again := values[k]; !again {
				keys = append(keys, k)
			}
			values[k] = v
		}
		if err = entries.Err(); !errors.Is(err, ebpf.ErrIterationAborted) {
			break
		}
	}
	return keys, values, err
}

// Apply carries out one step.
func (d *Datapath) Apply(ctx context.Context, step state.Step) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	remove := step.Op == state.Remove
	switch o := step.Object.(type) {
	case state.Attachment:
		if remove {
			return d.detach(o)
		}
		return d.attach(o)
	case state.Port:
		return d.writePort(o, remove)
	case state.Guard:
		return d.writeGuard(o, remove)
	case state.RouteTables:
		if remove {
			return d.removeRouteTables()
		}
		return d.setRouteTables(o)
	case state.Lower:
		index, err := deviceIndex(o.Device)
		if err != nil {
			return err
		}
		upper, err := deviceIndex(o.Upper)
		if err != nil {
			return err
		}
		return d.write("lowers", encodeLower(o, index), uint32(upper), remove)
	case state.Pseudowire:
		return d.writeWire(o, remove)
	case state.WirePort:
		return d.writeWirePort(o, remove)
	case state.Proxy:
		index, err := deviceIndex(o.Device)
		if err != nil {
			return err
		}
		return d.write("neighbour_proxies", encodeProxy(o, index), uint32(1), remove)
	case state.Translator:
		if remove {
			// an array has no holes: zero is none
			return d.write("nat64_translators", uint32(o.ID), translator{}, false)
		}
		index, err := deviceIndex(o.Device)
		if err != nil {
			return err
		}
		return d.write("nat64_translators", uint32(o.ID), encodeTranslator(o, index), false)
	case state.Binder:
		v := encodeBinder(o)
		if remove {
			v = binder{}
		}
		return d.write("nat64_stateful_configs", uint32(o.ID), v, false)
	case state.Access:
		return d.applyAccess(o, remove)
	case state.Garden:
		return d.write("l2tp_gardens", encodeGarden(o), uint32(1), remove)
	case state.StaticBinding:
		return d.writeStatic(o, remove)
	case state.BridgeGuard:
		return d.applyBridgeGuard(o, remove)
	case state.Station:
		return d.applyStation(o, remove)
	case state.Rule:
		if o.From.Addr().Is6() {
			k, v := encodeRule6(o)
			return d.write("nat64_rules6", k, v, remove)
		}
		k, v := encodeRule4(o)
		return d.write("nat64_rules4", k, v, remove)
	}
	return fmt.Errorf("the datapath has no such thing: %s", step.Object)
}

func (d *Datapath) write(name string, key, value any, remove bool) error {
	m, err := d.mapNamed(name)
	if err != nil {
		return err
	}
	if remove {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from map %s: %w", name, err)
		}
		return nil
	}
	if err := again(func() error { return m.Put(key, value) }); err != nil {
		return fmt.Errorf("write to map %s: %w", name, err)
	}
	return nil
}
