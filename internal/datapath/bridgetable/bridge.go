package bridgetable

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/state"
)

type (
	bridgePort       = datapath.BridgePortInBridgePort
	bridgeStationKey = datapath.BridgePortInBridgeStationKey
	bridgeStation    = datapath.BridgePortInBridgeStation
	bridgeUsage      = datapath.BridgePortInBridgeUsage
	bridgeDropKey    = datapath.BridgePortInBridgeDropKey
)

// bridgeWindow is the time in which frames of a kind are counted, in nanoseconds.
const bridgeWindow = 1 << bridgeWindowShift

func bridgeFlags(g state.BridgeGuard) (flags uint32) {
	for flag, set := range map[uint32]bool{
		bridgeMember: g.Member, bridgeTags: g.Tags, bridgeIsolated: g.Isolated, bridgeLocked: g.Locked,
		bridgeNoDHCP: g.NoDHCP, bridgeNoRA: g.NoRA, bridgeSuppress: g.Suppress,
	} {
		if set {
			flags |= flag
		}
	}
	return flags
}

// perWindow converts frames a second into frames a window; a limit is at least 1.
func perWindow(rate int) uint32 {
	if rate == 0 {
		return 0
	}
	return uint32(max(1, rate*bridgeWindow/1e9))
}

// perSecond is the reverse of perWindow: the smallest rate that gives these frames,
// so that a rate that was written reads the same.
func perSecond(frames uint32) int {
	if frames == 0 {
		return 0
	}
	return int((uint64(frames)*1e9 + bridgeWindow - 1) / bridgeWindow)
}

func encodeBridgeGuard(g state.BridgeGuard, bridge int) (bridgePort, error) {
	v := bridgePort{Bridge: uint32(bridge), Flags: bridgeFlags(g), Role: uint32(g.Role), MaxMacs: uint32(g.MaxMACs), Pvid: g.PVID}
	v.Limits = [3]uint32{perWindow(g.Broadcast), perWindow(g.Multicast), perWindow(g.Unknown)}
	for text := range strings.SplitSeq(g.VLANs, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 12)
		if err != nil {
			return v, fmt.Errorf("VLANs %q of %s: %w", g.VLANs, g.Device, err)
		}
		v.Vlans[n/64] |= 1 << (n % 64)
	}
	return v, nil
}

func decodeBridgeGuard(index int, v bridgePort) state.BridgeGuard {
	on := func(flag uint32) bool { return v.Flags&flag != 0 }
	g := state.BridgeGuard{
		Device: datapath.DeviceName(index), Bridge: datapath.DeviceName(int(v.Bridge)), Role: state.BridgeRole(v.Role),
		Member: on(bridgeMember), Tags: on(bridgeTags), Isolated: on(bridgeIsolated), Locked: on(bridgeLocked),
		NoDHCP: on(bridgeNoDHCP), NoRA: on(bridgeNoRA), Suppress: on(bridgeSuppress),
		PVID: v.Pvid, MaxMACs: int(v.MaxMacs),
		Broadcast: perSecond(v.Limits[0]), Multicast: perSecond(v.Limits[1]), Unknown: perSecond(v.Limits[2]),
	}
	var list []string
	for n := range 4096 {
		if v.Vlans[n/64]>>(n%64)&1 == 1 {
			list = append(list, strconv.Itoa(n))
		}
	}
	g.VLANs = strings.Join(list, ",")
	return g
}

// sameBridgeGuard reports whether two guards have the same encoding: rates are
// rounded.
func sameBridgeGuard(a, b state.BridgeGuard) bool {
	va, errA := encodeBridgeGuard(a, 0)
	vb, errB := encodeBridgeGuard(b, 0)
	return errA == nil && errB == nil && va == vb && a.Device == b.Device && a.Bridge == b.Bridge
}

// observeBridgeGuards lists guards. A guard with the same encoding as the desired
// one is returned as the desired one.
func (d Table) observeBridgeGuards(want state.Desired) ([]state.BridgeGuard, error) {
	wanted := map[string]state.BridgeGuard{}
	for _, o := range want {
		if g, ok := o.(state.BridgeGuard); ok {
			wanted[g.Key()] = g
		}
	}
	guards, err := d.BridgeGuards()
	for i, g := range guards {
		if w, ok := wanted[g.Key()]; ok && sameBridgeGuard(w, g) {
			guards[i] = w
		}
	}
	return guards, err
}

// stations lists the source addresses that weft.toml configures.
func (d Table) stations() (list []state.Station, err error) {
	macs, err := d.LearnedMACs()
	for _, m := range macs {
		if m.Fixed {
			list = append(list, state.Station{Bridge: m.Bridge, Device: m.Device, MAC: m.MAC})
		}
	}
	return list, err
}

// BridgeGuards lists the configuration of the bridges' ports in the maps.
func (d Table) BridgeGuards() ([]state.BridgeGuard, error) {
	return datapath.Collect(d.core, "bridge_ports", func(k uint32, v bridgePort) state.BridgeGuard { return decodeBridgeGuard(int(k), v) })
}

// LearnedMACs lists the learnt source addresses of all bridges.
func (d Table) LearnedMACs() ([]state.LearnedMAC, error) {
	return datapath.Collect(d.core, "bridge_stations", func(k bridgeStationKey, v bridgeStation) state.LearnedMAC {
		return state.LearnedMAC{
			Bridge: datapath.DeviceName(int(k.Bridge)), Device: datapath.DeviceName(int(v.Port)), MAC: k.Mac, Fixed: v.Fixed != 0, Seen: v.Seen,
		}
	})
}

// PortDrops returns the drops of each port by reason, as device -> outcome ->
// frames.
func (d Table) PortDrops() (map[string]map[state.Outcome]uint64, error) {
	drops := map[string]map[state.Outcome]uint64{}
	_, err := datapath.Collect(d.core, "bridge_drops", func(k bridgeDropKey, perCPU []uint64) struct{} {
		device := datapath.DeviceName(int(k.Port))
		if drops[device] == nil {
			drops[device] = map[state.Outcome]uint64{}
		}
		drops[device][state.Outcome(k.Outcome)] += datapath.Sum(perCPU)
		return struct{}{}
	})
	return drops, err
}

func (d Table) applyBridgeGuard(g state.BridgeGuard, remove bool) error {
	index, err := datapath.DeviceIndex(g.Device)
	if err != nil {
		return err
	}
	if remove {
		return errors.Join(d.core.Write("bridge_ports", uint32(index), nil, true), d.forgetPort(uint32(index)))
	}
	bridge, err := datapath.DeviceIndex(g.Bridge)
	if err != nil {
		return err
	}
	v, err := encodeBridgeGuard(g, bridge)
	if err != nil {
		return err
	}
	usages, err := d.core.Map("bridge_usages")
	if err != nil {
		return err
	}
	// the port's usage stays as it is
	if err := usages.Update(uint32(index), bridgeUsage{}, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("write to map bridge_usages: %w", err)
	}
	return d.core.Write("bridge_ports", uint32(index), v, false)
}

// forgetPort deletes the addresses and counters of a port.
func (d Table) forgetPort(index uint32) error {
	if err := d.core.Write("bridge_usages", index, nil, true); err != nil {
		return err
	}
	err := datapath.DeleteWhere(d.core, "bridge_drops", func(k bridgeDropKey, _ []uint64) bool { return k.Port == index })
	return errors.Join(err, datapath.DeleteWhere(d.core, "bridge_stations", func(_ bridgeStationKey, v bridgeStation) bool {
		return v.Port == index && v.Fixed == 0
	}))
}

func (d Table) applyStation(s state.Station, remove bool) error {
	bridge, err := datapath.DeviceIndex(s.Bridge)
	if err != nil {
		return err
	}
	k := bridgeStationKey{Bridge: uint32(bridge), Mac: s.MAC}
	if remove {
		return d.core.Write("bridge_stations", k, nil, true)
	}
	index, err := datapath.DeviceIndex(s.Device)
	if err != nil {
		return err
	}
	return d.core.Write("bridge_stations", k, bridgeStation{Port: uint32(index), Fixed: 1}, false)
}
