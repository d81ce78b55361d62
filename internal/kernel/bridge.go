package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// Attributes of bridges and of their ports that the netlink package does not define
// (linux/if_link.h). The kernel ignores unknown attributes, so important ones are
// read back.
const (
	brSTP          = 5
	brVLANFilter   = 7
	brVLANProtocol = 8
	brGroupForward = 9
	brMulticast    = 23
	brQuerier      = 25
	brCallIPTables = 36
	brCallIP6      = 37
	brCallARP      = 38
	brDefaultPVID  = 39
	brBoolOptions  = 46
	brMaxLearned   = 49

	boolNoLinkLocalLearn = 1 << 0 // BR_BOOLOPT_NO_LL_LEARN

	portHairpin      = 4
	portGuard        = 5
	portProtect      = 6
	portFastLeave    = 7
	portLearning     = 8
	portUnicastFlood = 9
	portProxyARP     = 10
	portMulticastRtr = 25
	portGroupForward = 31
	portSuppress     = 32
	portIsolated     = 33
	portLocked       = 39
	portMAB          = 40
)

// portSettings are those that weft sets, and puts back, with their sizes.
func portSettings() map[uint16]int {
	return map[uint16]int{
		portHairpin: 1, portGuard: 1, portProtect: 1, portFastLeave: 1, portLearning: 1, portUnicastFlood: 1, portProxyARP: 1,
		portMulticastRtr: 1, portGroupForward: 2, portSuppress: 1, portIsolated: 1, portLocked: 1, portMAB: 1,
	}
}

type attrs map[uint16][]byte

func (a attrs) number(kind uint16) uint64 {
	switch v := a[kind]; len(v) {
	case 1:
		return uint64(v[0])
	case 2:
		return uint64(nl.NativeEndian().Uint16(v))
	case 4:
		return uint64(nl.NativeEndian().Uint32(v))
	}
	return 0
}

func attrsOf(b []byte) attrs {
	list, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil
	}
	m := attrs{}
	for _, a := range list {
		m[a.Attr.Type&^nlconn.NestedFlag] = a.Value
	}
	return m
}

// bridging are a device's attributes as a bridge, and as a port of one.
type bridging struct {
	bridge attrs
	port   attrs
}

// setLinkInfo sends settings of a device's kind, or of its place in a master.
func setLinkInfo(index int, kindAttr, dataAttr int, settings map[uint16]uint64, sizes map[uint16]int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(kindAttr, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(dataAttr, nil)
	for kind, value := range settings {
		switch sizes[kind] {
		case 1:
			data.AddRtAttr(int(kind), []byte{byte(value)})
		case 2:
			data.AddRtAttr(int(kind), nl.Uint16Attr(uint16(value)))
		case 4:
			data.AddRtAttr(int(kind), nl.Uint32Attr(uint32(value)))
		case 8: // struct br_boolopt_multi: values, then which of them are meant
			data.AddRtAttr(int(kind), append(nl.Uint32Attr(uint32(value)), nl.Uint32Attr(uint32(value))...))
		}
	}
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

func (k *Kernel) applyBridge(_ context.Context, b state.Bridge, remove bool) error {
	if remove {
		return k.deleteDevice(b.Name)
	}
	l, err := k.existing(b.Name, otherName(b.Owner))
	switch {
	case err != nil:
		return err
	case l == nil:
		if err := k.nl.LinkAdd(&netlink.Bridge{LinkAttrs: newLink(b.Name)}); err != nil {
			return fmt.Errorf("make bridge %s: %w", b.Name, err)
		}
		if l, err = k.mark(b.Name, b.Owner); err != nil {
			return err
		}
	case l.Type() != "bridge":
		return fmt.Errorf("device %s exists and is no bridge (%s)", b.Name, otherName(b.Owner))
	}
	if b.MAC != ([6]byte{}) {
		if err := k.nl.LinkSetHardwareAddr(l, b.MAC[:]); err != nil {
			return fmt.Errorf("set link address of %s: %w", b.Name, err)
		}
	}
	settings := map[uint16]uint64{
		brSTP: 0, brGroupForward: 0, brMulticast: flag(b.Snooping), brQuerier: 0,
		brCallIPTables: 0, brCallIP6: 0, brCallARP: 0, brBoolOptions: boolNoLinkLocalLearn,
	}
	sizes := map[uint16]int{brSTP: 4, brGroupForward: 2, brMulticast: 1, brQuerier: 1, brCallIPTables: 1, brCallIP6: 1, brCallARP: 1,
		brBoolOptions: 8, brVLANFilter: 1, brDefaultPVID: 2, brMaxLearned: 4}
	if b.VLANs {
		settings[brVLANFilter], settings[brDefaultPVID] = 1, 0
	}
	if b.MaxLearned != 0 {
		settings[brMaxLearned] = uint64(b.MaxLearned)
	}
	if err := setLinkInfo(l.Attrs().Index, nl.IFLA_INFO_KIND, nl.IFLA_INFO_DATA, settings, sizes); err != nil {
		return fmt.Errorf("set up bridge %s: %w", b.Name, err)
	}
	return nil
}

func flag(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
