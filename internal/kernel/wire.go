package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/state"
)

// hiddenMTU lets frames of every size come to the hidden end of a wire, whose
// program tells senders what is too large.
const hiddenMTU = 65535

// wireGSOMax leaves room in an IP packet for all that stands before a frame.
const wireGSOMax = 65000

// IN6_ADDR_GEN_MODE_* of linux/if_link.h.
const (
	addrGenEUI64 = 0
	addrGenNone  = 1
)

// hiddenOwner marks the alias of hidden ends, beside the owner.
const hiddenOwner = "hidden:"

// setWire makes the pair, or what differs of it.
func (k *Kernel) setWire(ctx context.Context, w state.Wire) error {
	err := k.addWire(ctx, w)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	existing, findErr := k.nl.LinkByName(w.Name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(findErr, &missing):
		return err // the hidden end's name is taken
	case findErr != nil:
		return fmt.Errorf("find device %s: %w", w.Name, findErr)
	case !strings.HasPrefix(existing.Attrs().Alias, AliasPrefix):
		return fmt.Errorf("device %s exists and is not weft's (set device = \"...\" in %s to another name)", w.Name, w.Owner)
	case existing.Type() != "veth":
		if err := k.nl.LinkDel(existing); err != nil {
			return fmt.Errorf("remove device %s: %w", w.Name, err)
		}
		return k.addWire(ctx, w)
	}
	return k.shapeWire(existing, w)
}

// addWire makes a pair. There may be thousands to make, so the kernel is told
// in as few messages as it takes, and asked nothing.
func (k *Kernel) addWire(ctx context.Context, w state.Wire) error {
	mode := byte(addrGenNone)
	if w.LinkLocal {
		mode = addrGenEUI64
	}
	// by itself: where the name is taken, the device is perhaps another's
	if err := k.order(ctx, orderPair(w)); err != nil {
		return err
	}
	err := k.order(ctx,
		orderAlias(w.Name, AliasPrefix+w.Owner), orderAlias(w.Hidden, AliasPrefix+hiddenOwner+w.Owner),
		orderAddrGen(w.Name, mode), orderAddrGen(w.Hidden, addrGenNone), orderUp(w.Hidden))
	if err != nil {
		return err
	}
	if err := setOffloads(w); err != nil {
		return err
	}
	// the alias comes last but one: with it the wire counts as whole
	return k.order(ctx, orderAlias(w.Name, AliasPrefix+wireAlias(w)), orderUp(w.Name))
}

func orderPair(w state.Wire) order {
	kind := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	kind.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	kind.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER,
		linkBody(0, 0, linkName(w.Hidden), nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(hiddenMTU))))
	return order{
		what: fmt.Sprintf("make device %s with its hidden end %s", w.Name, w.Hidden),
		kind: unix.RTM_NEWLINK, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL,
		body: linkBody(0, 0, linkName(w.Name), kind,
			nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(w.MTU))), nl.NewRtAttr(unix.IFLA_ADDRESS, w.MAC[:]),
			nl.NewRtAttr(unix.IFLA_GSO_MAX_SIZE, nl.Uint32Attr(wireGSOMax)),
			nl.NewRtAttr(unix.IFLA_GSO_IPV4_MAX_SIZE, nl.Uint32Attr(wireGSOMax))),
	}
}

func (k *Kernel) shapeWire(l netlink.Link, w state.Wire) error {
	a := l.Attrs()
	if a.MTU != w.MTU {
		if err := k.nl.LinkSetMTU(l, w.MTU); err != nil {
			return fmt.Errorf("set MTU %d on %s: %w", w.MTU, w.Name, err)
		}
	}
	if !slices.Equal(a.HardwareAddr, w.MAC[:]) {
		if err := k.nl.LinkSetHardwareAddr(l, w.MAC[:]); err != nil {
			return fmt.Errorf("set link address of %s: %w", w.Name, err)
		}
	}
	if err := setOffloads(w); err != nil {
		return err
	}
	if err := k.linkLocal(l, w.LinkLocal); err != nil {
		return err
	}
	// the alias comes last but one: with it the wire counts as whole
	alias := AliasPrefix + wireAlias(w)
	if a.Alias != alias {
		if err := k.nl.LinkSetAlias(l, alias); err != nil {
			return fmt.Errorf("mark %s as weft's: %w", w.Name, err)
		}
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", w.Name, err)
	}
	return nil
}

// linkLocal says whether a device makes itself an IPv6 address when it comes up.
func (k *Kernel) linkLocal(l netlink.Link, on bool) error {
	mode := addrGenNone
	if on {
		mode = addrGenEUI64
	}
	err := k.nl.LinkSetIP6AddrGenMode(l, mode)
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("set how %s gets a link-local address: %w", l.Attrs().Name, err)
	}
	return nil
}

// wireAlias keeps what cannot be read off the device itself.
func wireAlias(w state.Wire) string {
	return fmt.Sprintf("%s %s%s%s%s", w.Owner, w.Hidden, letter(w.Segments, " segments"), letter(w.Sums, " sums"), letter(w.LinkLocal, " link-local"))
}

func letter(set bool, text string) string {
	if set {
		return text
	}
	return ""
}

// The offloads of a wire. Super-packets that other tunnels made are taken apart
// before: the kernel knows one tunnel around a packet, not two.
var (
	wireTunnels  = []string{"tx-gre-segmentation", "tx-gre-csum-segmentation", "tx-ipxip4-segmentation", "tx-ipxip6-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}
	wireSegments = []string{"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "tx-sctp-segmentation", "tx-gso-list"}
	wireSums     = []string{"tx-checksum-ip-generic"}
	wireMerges   = []string{"rx-gro"}
)

func setOffloads(w state.Wire) error {
	bits := map[string]bool{}
	for _, group := range []struct {
		names []string
		on    bool
	}{{wireTunnels, false}, {wireSegments, w.Segments && w.Sums}, {wireSums, w.Sums}, {wireMerges, true}} {
		for _, name := range group.names {
			bits[name] = group.on
		}
	}
	if err := setFeatures(w.Name, bits); err != nil {
		return fmt.Errorf("set the offloads of %s: %w", w.Name, err)
	}
	return nil
}

// ethtoolFamily stays what it is as long as the kernel runs.
var ethtoolFamily = sync.OnceValues(func() (*netlink.GenlFamily, error) { return netlink.GenlFamilyGet("ethtool") })

// setFeatures sets offloads by the names that ethtool gives them. Names that
// this kernel does not have are refused one and all, so they go by themselves.
func setFeatures(device string, bits map[string]bool) error {
	family, err := ethtoolFamily()
	if err != nil {
		return fmt.Errorf("find the kernel's ethtool: %w", err)
	}
	err = setFeatureBits(family, device, bits)
	if err == nil || len(bits) < 2 {
		return err
	}
	for name, on := range bits {
		// an offload that is not there is off
		if err := setFeatureBits(family, device, map[string]bool{name: on}); err != nil && on {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setFeatureBits(family *netlink.GenlFamily, device string, bits map[string]bool) error {
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddRawData([]byte{unix.ETHTOOL_MSG_FEATURES_SET, 1, 0, 0}) // struct genlmsghdr
	header := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_HEADER|nestedFlag, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(device))
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_FLAGS, nl.Uint32Attr(unix.ETHTOOL_FLAG_OMIT_REPLY))
	req.AddRawData(header.Serialize())
	wanted := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_WANTED|nestedFlag, nil)
	list := wanted.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS|nestedFlag, nil)
	for name, on := range bits {
		bit := list.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS_BIT|nestedFlag, nil)
		bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(name))
		if on {
			bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		}
	}
	req.AddRawData(wanted.Serialize())
	_, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// observeWires lists the wires, and the kernel's own tunnels, that are weft's.
func observeWires(links []netlink.Link) []state.Object {
	byIndex := map[int]netlink.Link{}
	for _, l := range links {
		byIndex[l.Attrs().Index] = l
	}
	var found []state.Object
	for _, l := range links {
		a := l.Attrs()
		alias, ours := strings.CutPrefix(a.Alias, AliasPrefix)
		words := strings.Fields(alias)
		if !ours || len(words) == 0 || a.RawFlags&unix.IFF_UP == 0 {
			continue
		}
		switch l := l.(type) {
		case *netlink.Veth:
			if strings.HasPrefix(alias, hiddenOwner) || len(words) < 2 {
				continue
			}
			w := state.Wire{
				Name: a.Name, MTU: a.MTU, Owner: words[0], Segments: slices.Contains(words, "segments"),
				Sums: slices.Contains(words, "sums"), LinkLocal: slices.Contains(words, "link-local"),
			}
			copy(w.MAC[:], a.HardwareAddr)
			if hidden := byIndex[a.ParentIndex]; hidden != nil && hidden.Attrs().RawFlags&unix.IFF_UP != 0 {
				w.Hidden = hidden.Attrs().Name
			}
			found = append(found, w)
		case *netlink.Vxlan:
			found = append(found, observeVXLAN(l, words))
		}
	}
	return found
}

// doomedGroup is the group of devices that are to go. The kernel waits tens of
// milliseconds for each device that it is told to remove, but no longer for all
// of a group.
const doomedGroup = 0x77656674

func (k *Kernel) removeWire(name string) error {
	l, err := k.nl.LinkByName(name)
	if err != nil {
		return nil // gone already
	}
	if err := k.nl.LinkSetGroup(l, doomedGroup); err != nil {
		return fmt.Errorf("remove device %s: %w", name, err)
	}
	k.doomed = true
	return nil
}

// Finish ends a series of steps.
func (k *Kernel) Finish(context.Context) error {
	if err := k.calm(); err != nil || !k.doomed {
		return err
	}
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(doomedGroup)))
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("remove devices: %w", err)
	}
	k.doomed = false
	return nil
}

func (k *Kernel) setVXLAN(v state.VXLAN) error {
	existing, err := k.nl.LinkByName(v.Name)
	var missing netlink.LinkNotFoundError
	switch {
	case err == nil && !strings.HasPrefix(existing.Attrs().Alias, AliasPrefix):
		return fmt.Errorf("device %s exists and is not weft's (set device = \"...\" in %s to another name)", v.Name, v.Owner)
	case err == nil:
		// hardly anything of it can be changed
		if err := k.nl.LinkDel(existing); err != nil {
			return fmt.Errorf("remove device %s: %w", v.Name, err)
		}
	case !errors.As(err, &missing):
		return fmt.Errorf("find device %s: %w", v.Name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = v.Name, v.MTU, v.MAC[:]
	tunnel := &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(v.VNI), SrcAddr: net.IP(v.Local.AsSlice()), Group: net.IP(v.Remote.AsSlice()),
		Port: int(v.Port), TTL: v.TTL, TOS: max(v.TOS, 0), Learning: true, UDPCSum: true, UDP6ZeroCSumTx: false, UDP6ZeroCSumRx: false,
	}
	if v.TOS < 0 {
		tunnel.TOS = 1 // the kernel's word for: as the frame has it
	}
	if err := k.nl.LinkAdd(tunnel); err != nil {
		return fmt.Errorf("make vxlan device %s: %w", v.Name, err)
	}
	l, err := k.nl.LinkByName(v.Name)
	if err != nil {
		return fmt.Errorf("find device %s: %w", v.Name, err)
	}
	if err := k.linkLocal(l, v.LinkLocal); err != nil {
		return err
	}
	alias := AliasPrefix + v.Owner + " vxlan" + letter(v.LinkLocal, " link-local") + letter(v.DF, " df")
	if err := k.nl.LinkSetAlias(l, alias); err != nil {
		return fmt.Errorf("mark %s as weft's: %w", v.Name, err)
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", v.Name, err)
	}
	return nil
}

func observeVXLAN(l *netlink.Vxlan, words []string) state.VXLAN {
	v := state.VXLAN{
		Name: l.Name, MTU: l.MTU, Owner: words[0], VNI: uint32(l.VxlanId), Port: uint16(l.Port), TTL: l.TTL, TOS: l.TOS,
		DF: slices.Contains(words, "df"), LinkLocal: slices.Contains(words, "link-local"),
	}
	if l.TOS == 1 {
		v.TOS = -1
	}
	copy(v.MAC[:], l.HardwareAddr)
	if a, ok := netip.AddrFromSlice(l.SrcAddr); ok {
		v.Local = a.Unmap()
	}
	if a, ok := netip.AddrFromSlice(l.Group); ok {
		v.Remote = a.Unmap()
	}
	return v
}
