package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/mark"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// hiddenMTU lets frames of every size reach the hidden end of a pseudowire, whose
// program sends the ICMP errors for those that are too large.
const hiddenMTU = 65535

// pseudowireGSOMax leaves room in an IP packet for all outer headers.
const pseudowireGSOMax = 65000

// IN6_ADDR_GEN_MODE_* of linux/if_link.h.
const (
	addrGenEUI64 = 0
	addrGenNone  = 1
)

// hiddenOwner marks the alias of hidden ends, beside the owner.
const hiddenOwner = "hidden:"

// setPseudowire creates the pair, or changes what differs.
func (k *Kernel) setPseudowire(ctx context.Context, w state.PseudowireDevice) error {
	existing, err := k.existing(w.Name, otherName(w.Owner))
	if err == nil && existing != nil && (existing.Type() != "veth" || !k.isEnd(w.Hidden, existing)) {
		err, existing = k.deleteLink(existing), nil
	}
	switch {
	case err != nil:
		return err
	case existing == nil:
		return k.addPseudowires(ctx, []state.PseudowireDevice{w})
	}
	return k.shapePseudowire(ctx, existing, w)
}

func (k *Kernel) applyPseudowire(ctx context.Context, w state.PseudowireDevice, remove bool) error {
	if remove {
		return k.doom(w.Name)
	}
	return k.setPseudowire(ctx, w)
}

// isEnd reports whether a device is the other end of a veth pair.
func (k *Kernel) isEnd(name string, of netlink.Link) bool {
	l, err := k.nl.LinkByName(name)
	return err == nil && l.Attrs().ParentIndex == of.Attrs().Index
}

// pseudowiresAtOnce is the number of veth pairs that one message to the kernel creates.
const pseudowiresAtOnce = 64

// ApplySome creates the veth pairs at the head of a series of steps. There may be
// thousands, so the kernel gets as few messages as possible, and no queries.
func (k *Kernel) ApplySome(ctx context.Context, steps []state.Step) (done int, err error) {
	var list []state.PseudowireDevice
	for _, s := range steps {
		w, is := s.Object.(state.PseudowireDevice)
		if !is || s.Op != state.Add {
			break
		}
		list = append(list, w)
	}
	if len(list) < 2 {
		return 0, nil
	}
	k.recent.Store(nil)
	return len(list), k.addPseudowires(ctx, list)
}

// addPseudowires creates pairs. All are created before the first is set up: for each one
// that is, the kernel goes through all its IPv6 routes, of which every device that
// is up has one (ff00::/8). A name that exists already is handled by itself: the
// device may be left from an earlier attempt, or belong to another program.
func (k *Kernel) addPseudowires(ctx context.Context, list []state.PseudowireDevice) error {
	var made, taken []state.PseudowireDevice
	for some := range slices.Chunk(list, pseudowiresAtOnce) {
		new, others, err := k.makePairs(ctx, some)
		made, taken = append(made, new...), append(taken, others...)
		if err = errors.Join(err, k.shapePairs(ctx, new)); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(made, pseudowiresAtOnce) {
		var ups []nlconn.Order
		for _, w := range some {
			ups = append(ups, orderUp(w.Name))
		}
		if err := k.order(ctx, ups...); err != nil {
			return err
		}
	}
	for _, w := range taken {
		if err := k.setPseudowire(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// makePairs makes pairs, those whose names are not taken.
func (k *Kernel) makePairs(ctx context.Context, list []state.PseudowireDevice) (made, taken []state.PseudowireDevice, err error) {
	routes, err := k.routes()
	if err != nil {
		return nil, nil, err
	}
	// by themselves: where a name is taken, the device is perhaps another's
	pairs := make([]nlconn.Order, len(list))
	for i, w := range list {
		pairs[i] = orderPair(w)
	}
	failed, err := routes.Answers(ctx, pairs)
	if err != nil {
		return nil, nil, err
	}
	for i, w := range list {
		switch {
		case failed[i] == nil:
			made = append(made, w)
		case errors.Is(failed[i], unix.EEXIST) && len(list) > 1:
			taken = append(taken, w)
		default:
			err = errors.Join(err, fmt.Errorf("%s: %w", pairs[i].What, failed[i]))
		}
	}
	return made, taken, err
}

// shapePairs configures new pairs completely, except that the visible end is not set
// up: that marks a pseudowire as complete.
func (k *Kernel) shapePairs(ctx context.Context, list []state.PseudowireDevice) error {
	var marks []nlconn.Order
	for _, w := range list {
		mode := byte(addrGenNone)
		if w.LinkLocal {
			mode = addrGenEUI64
		}
		marks = append(marks, orderMark(w.Hidden, unix.IFF_UP, mark.AliasPrefix+hiddenOwner+w.Owner, addrGenNone), orderMark(w.Name, 0, mark.AliasPrefix+pseudowireAlias(w), mode))
		if err := noIPv6(w.Hidden); err != nil {
			return err
		}
	}
	if len(marks) == 0 {
		return nil
	}
	if err := k.step("made wires"); err != nil {
		return err
	}
	// first: when it is set up, an end learns whether XDP can redirect frames to it,
	// which depends on the other end's GRO
	if err := k.setOffloads(ctx, list); err != nil {
		return err
	}
	routes, err := k.routes()
	if err != nil {
		return err
	}
	failed, err := routes.Answers(ctx, marks)
	if err != nil {
		return err
	}
	for i, w := range list {
		for _, one := range []struct {
			failed error
			again  nlconn.Order
			what   string
		}{
			{failed[2*i], orderAlias(w.Hidden, unix.IFF_UP, mark.AliasPrefix+hiddenOwner+w.Owner), marks[2*i].What},
			{failed[2*i+1], orderAlias(w.Name, 0, mark.AliasPrefix+pseudowireAlias(w)), marks[2*i+1].What},
		} {
			if errors.Is(one.failed, unix.EAFNOSUPPORT) {
				one.failed = k.order(ctx, one.again)
			}
			if one.failed != nil {
				return fmt.Errorf("%s: %w", one.what, one.failed)
			}
		}
	}
	return k.step("marked wires")
}

// noIPv6 disables IPv6 on a hidden end, which needs no address: it would have a
// multicast route there.
func noIPv6(device string) error {
	err := writeSysctl("net/ipv6/conf/"+device+"/disable_ipv6", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without
	}
	return err
}

// orderPair creates a pair. Each end has one queue: by default the kernel creates as
// many as there are CPUs, and removes all but one again.
func orderPair(w state.PseudowireDevice) nlconn.Order {
	one := func(kind int) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(1)) }
	kind := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	kind.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	kind.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER,
		linkBody(0, 0, linkName(w.Hidden), nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(hiddenMTU)),
			one(unix.IFLA_NUM_TX_QUEUES), one(unix.IFLA_NUM_RX_QUEUES)))
	return nlconn.Order{
		What: fmt.Sprintf("make device %s with its hidden end %s", w.Name, w.Hidden),
		Kind: unix.RTM_NEWLINK, Flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL,
		Body: linkBody(0, 0, linkName(w.Name), linkGroup(mark.DoomedGroup), kind, one(unix.IFLA_NUM_TX_QUEUES), one(unix.IFLA_NUM_RX_QUEUES),
			nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(w.MTU))), nl.NewRtAttr(unix.IFLA_ADDRESS, w.MAC[:]),
			nl.NewRtAttr(unix.IFLA_GSO_MAX_SIZE, nl.Uint32Attr(pseudowireGSOMax)),
			nl.NewRtAttr(unix.IFLA_GSO_IPV4_MAX_SIZE, nl.Uint32Attr(pseudowireGSOMax))),
	}
}

func (k *Kernel) shapePseudowire(ctx context.Context, l netlink.Link, w state.PseudowireDevice) error {
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
	if err := k.setOffloads(ctx, []state.PseudowireDevice{w}); err != nil {
		return err
	}
	if err := k.linkLocal(l, w.LinkLocal); err != nil {
		return err
	}
	hidden := mark.AliasPrefix + hiddenOwner + w.Owner
	if err := noIPv6(w.Hidden); err != nil {
		return err
	}
	err := k.order(ctx, orderMark(w.Hidden, unix.IFF_UP, hidden, addrGenNone))
	if errors.Is(err, unix.EAFNOSUPPORT) {
		err = k.order(ctx, orderAlias(w.Hidden, unix.IFF_UP, hidden))
	}
	if err != nil {
		return err
	}
	// the alias is set last but one: it marks the pseudowire as complete
	alias := mark.AliasPrefix + pseudowireAlias(w)
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

// linkLocal sets whether a device gets an IPv6 link-local address when it is set up.
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

// pseudowireAlias encodes properties that cannot be read from the device itself.
func pseudowireAlias(w state.PseudowireDevice) string {
	return fmt.Sprintf("%s %s%s%s%s%s", w.Owner, w.Hidden, letter(w.Segments, " segments"), letter(w.Sums, " sums"), letter(w.LinkLocal, " link-local"), letter(w.Bypass, " "+mark.Bypass))
}

func letter(set bool, text string) string {
	if set {
		return text
	}
	return ""
}

// ownWords returns the words in the alias of a device of weft's.
func ownWords(l netlink.Link) (words []string, ours bool) {
	alias, ours := strings.CutPrefix(l.Attrs().Alias, mark.AliasPrefix)
	words = strings.Fields(alias)
	return words, ours && len(words) > 0
}

func (k *Kernel) observePseudowire(v *view, l netlink.Link) (w state.PseudowireDevice, is bool, err error) {
	a := l.Attrs()
	words, ours := ownWords(l)
	if l.Type() != "veth" || !ours || len(words) < 2 || strings.HasPrefix(words[0], hiddenOwner) || v.unfinished(l, state.PseudowireDevice{Name: a.Name}) {
		return w, false, nil
	}
	w = state.PseudowireDevice{
		Name: a.Name, MTU: a.MTU, Owner: words[0], Segments: slices.Contains(words, "segments"),
		Sums: slices.Contains(words, "sums"), LinkLocal: slices.Contains(words, "link-local"), Bypass: slices.Contains(words, mark.Bypass),
	}
	copy(w.MAC[:], a.HardwareAddr)
	if hidden := v.byIndex[a.ParentIndex]; hidden != nil && hidden.Attrs().RawFlags&unix.IFF_UP != 0 {
		w.Hidden = hidden.Attrs().Name
	}
	return w, true, nil
}
