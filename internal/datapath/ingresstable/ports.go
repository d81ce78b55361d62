package ingresstable

import (
	"fmt"

	"weft/internal/datapath"
	"weft/internal/state"
)

// writePort writes the configuration of an interface into the hash table, which has
// all, and into the array that is read without hashing, unless another interface has
// its slot there. A slot is cleared before it changes, so that no program reads a
// mix of old and new: meanwhile programs use the hash table.
func (d Table) writePort(p state.IngressEntry, remove bool) error {
	if lacks := p.AllRoles() & d.core.Sizes().Unused; lacks != 0 && !remove {
		return fmt.Errorf("write %s: the programs are loaded without the code for it (%#x)", p, lacks)
	}
	number, err := datapath.DeviceIndex(p.Device)
	if err != nil {
		return err
	}
	near, err := d.core.Map("interfaces_near")
	if err != nil {
		return err
	}
	index, value := uint32(number), encodePort(p)
	value.Ifindex = index
	slot := index % interfacesNear
	var there portValue
	if err := near.Lookup(slot, &there); err != nil {
		return fmt.Errorf("read map interfaces_near: %w", err)
	}
	if there.Ifindex == index {
		if err := near.Put(slot, portValue{}); err != nil {
			return fmt.Errorf("write to map interfaces_near: %w", err)
		}
	}
	if err := d.core.Write("interfaces", index, value, remove); err != nil {
		return err
	}
	if remove || there.Ifindex != 0 && there.Ifindex != index {
		return nil
	}
	return d.core.Write("interfaces_near", slot, value, false)
}

// lowers lists the interfaces of frames that arrive on a device below them.
func (d Table) lowers() ([]state.Lower, error) {
	return datapath.Collect(d.core, "lowers", decodeLower)
}

func (d Table) writeLower(l state.Lower, remove bool) error {
	index, err := datapath.DeviceIndex(l.Device)
	if err != nil {
		return err
	}
	upper, err := datapath.DeviceIndex(l.Upper)
	if err != nil {
		return err
	}
	return d.core.Write("lowers", encodeLower(l, index), uint32(upper), remove)
}

// unusedFlags returns interface_unused of bpf/lib/interface.h: only translators use
// the bypass.
func unusedFlags(unused state.Roles) uint32 {
	return uint32(unused.With(state.RoleBypass, unused.Has(state.RoleTranslated)))
}

// Ports lists the ingress entries of the interfaces.
func (d Table) Ports() ([]state.IngressEntry, error) {
	return datapath.Collect(d.core, "interfaces", func(k uint32, v portValue) state.IngressEntry { return decodePort(int(k), v) })
}

// proxies lists the addresses for which ARP and neighbour discovery are answered.
func (d Table) proxies() ([]state.Proxy, error) {
	return datapath.Collect(d.core, "neighbour_proxies", func(k proxyKey, _ uint32) state.Proxy { return decodeProxy(k) })
}

func (d Table) writeProxy(p state.Proxy, remove bool) error {
	index, err := datapath.DeviceIndex(p.Device)
	if err != nil {
		return err
	}
	return d.core.Write("neighbour_proxies", encodeProxy(p, index), uint32(1), remove)
}
