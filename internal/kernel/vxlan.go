package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/mark"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

func (k *Kernel) applyVXLAN(_ context.Context, v state.VXLAN, remove bool) error {
	if remove {
		return k.doom(v.Name)
	}
	existing, err := k.existing(v.Name, otherName(v.Owner))
	if err != nil {
		return err
	}
	if narrower(existing, v) {
		// to replace the device would lose its bridge, and the learnt addresses
		if err := k.nl.LinkSetMTU(existing, v.MTU); err != nil {
			return fmt.Errorf("set the MTU of %s to %d: %w", v.Name, v.MTU, err)
		}
		return nil
	}
	if existing != nil { // hardly anything else of it can be changed
		if err := k.deleteLink(existing); err != nil {
			return err
		}
	}
	attrs := newLink(v.Name)
	attrs.MTU, attrs.HardwareAddr = v.MTU, v.MAC[:]
	tunnel := &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(v.VNI), SrcAddr: net.IP(v.Local.AsSlice()), Group: net.IP(v.Remote.AsSlice()),
		Port: int(v.Port), TTL: v.TTL, TOS: max(v.TOS, 0), Learning: true, UDPCSum: true, UDP6ZeroCSumTx: false, UDP6ZeroCSumRx: false,
	}
	if v.TOS < 0 {
		tunnel.TOS = 1 // the kernel's word for: as the frame has it
	}
	if err := k.nl.LinkAdd(tunnel); err != nil {
		if errors.Is(err, unix.EEXIST) {
			err = fmt.Errorf("%w (another VXLAN device of this host has VNI %d and port %d: ip -d link show type vxlan)", err, v.VNI, v.Port)
		}
		return fmt.Errorf("make vxlan device %s: %w", v.Name, err)
	}
	l, err := k.mark(v.Name, v.Owner+" vxlan"+letter(v.LinkLocal, " link-local")+letter(v.DF, " df"))
	if err != nil {
		return err
	}
	if err := k.linkLocal(l, v.LinkLocal); err != nil {
		return err
	}
	if err := k.nl.LinkSetUp(l); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w (another program has UDP port %d: ss -lunp)", err, v.Port)
		}
		return fmt.Errorf("set %s up: %w", v.Name, err)
	}
	return nil
}

// narrower reports whether an existing, finished device differs from v in its MTU
// only.
func narrower(existing netlink.Link, v state.VXLAN) bool {
	x, vxlan := existing.(*netlink.Vxlan)
	if !vxlan || x.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	words, ours := ownWords(existing)
	if !ours {
		return false
	}
	was := vxlanObject(x, words)
	was.MTU = v.MTU
	return was == v
}

// VXLANs lists weft's VXLAN devices with their counters.
func (k *Kernel) VXLANs() ([]state.VXLANCount, error) {
	links, err := nlconn.Listed(k.nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var found []state.VXLANCount
	for _, l := range links {
		v, is := l.(*netlink.Vxlan)
		alias, ours := strings.CutPrefix(l.Attrs().Alias, mark.AliasPrefix)
		words := strings.Fields(alias)
		if !is || !ours || len(words) == 0 {
			continue
		}
		c := state.VXLANCount{VXLAN: vxlanObject(v, words), Faults: map[string]uint64{}}
		if s := l.Attrs().Statistics; s != nil {
			c.RxPackets, c.RxBytes, c.TxPackets, c.TxBytes = s.RxPackets, s.RxBytes, s.TxPackets, s.TxBytes
			for name, n := range map[string]uint64{"rx-errors": s.RxErrors, "rx-dropped": s.RxDropped, "tx-errors": s.TxErrors, "tx-dropped": s.TxDropped} {
				if n != 0 {
					c.Faults[name] = n
				}
			}
		}
		found = append(found, c)
	}
	return found, nil
}

func vxlanObject(l *netlink.Vxlan, words []string) state.VXLAN {
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

func (k *Kernel) observeVXLAN(v *view, l netlink.Link) (o state.VXLAN, is bool, err error) {
	x, vxlan := l.(*netlink.Vxlan)
	words, ours := ownWords(l)
	if !vxlan || !ours {
		return o, false, nil
	}
	o = vxlanObject(x, words)
	return o, !v.unfinished(l, o), nil
}
