package kernel

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/mark"
	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// filterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h: the kernel leaves
// out counters, which it would have to sum over all CPUs.
const filterSkipStats = 1 << 3

// survey is the result of one dump of the devices. There may be thousands, so they
// are dumped once for both the facts and the actual state.
type survey struct {
	links     []netlink.Link
	bridgings map[int]bridging // by index, of those that have to do with bridges
}

// look lists the devices.
func (k *Kernel) look() (*survey, error) {
	asks, err := nlconn.OpenRoute()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	body := append(make([]byte, unix.SizeofIfInfomsg), nlconn.Attribute(unix.IFLA_EXT_MASK, nl.Uint32Attr(filterSkipStats))...)
	s := &survey{}
	begin := func() { s.links, s.bridgings = nil, map[int]bridging{} }
	err = asks.Whole(context.Background(), unix.RTM_GETLINK, body, begin, func(kind uint16, b []byte) error {
		if kind != unix.RTM_NEWLINK || len(b) < unix.SizeofIfInfomsg {
			return nil
		}
		l, err := netlink.LinkDeserialize(nil, slices.Clone(b)) // it keeps pieces of it
		if err != nil {
			return err
		}
		s.links = append(s.links, l)
		if bridge := bridgingOf(b[unix.SizeofIfInfomsg:]); bridge.bridge != nil || bridge.port != nil {
			s.bridgings[l.Attrs().Index] = bridge
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return s, nil
}

// bridgingOf reads a device's attributes as a bridge, and as a port of one.
func bridgingOf(b []byte) (of bridging) {
	for kind, info := range nlconn.Attributes(b) {
		if kind != unix.IFLA_LINKINFO {
			continue
		}
		about := attrsOf(info)
		is := func(kind uint16) bool { return string(bytes.TrimRight(about[kind], "\x00")) == "bridge" }
		if is(nl.IFLA_INFO_KIND) {
			of.bridge = attrsOf(bytes.Clone(about[nl.IFLA_INFO_DATA]))
		}
		if is(nl.IFLA_INFO_SLAVE_KIND) {
			of.port = attrsOf(bytes.Clone(about[nl.IFLA_INFO_SLAVE_DATA]))
		}
	}
	return of
}

func linkNames(links []netlink.Link) map[int]string {
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names
}

// view is the data of one Observe.
type view struct {
	*survey // without devices that are to go, or whose making did not end
	ctx     context.Context
	want    state.Desired
	wanted  map[string]state.Object
	names   map[int]string
	byIndex map[int]netlink.Link
	bridges map[int]bool // weft's own; nil if nothing that has to do with bridges matters
}

// unfinished reports whether an object must be made again: its device is desired,
// and not up, which is its last step.
func (v *view) unfinished(l netlink.Link, o state.Object) bool {
	return l.Attrs().RawFlags&unix.IFF_UP == 0 && v.wanted[o.Key()] != nil
}

// view returns the devices of the plan's facts, or else the current ones.
func (k *Kernel) view(ctx context.Context, want state.Desired) (*view, error) {
	s := k.recent.Swap(nil)
	if s == nil {
		var err error
		if s, err = k.look(); err != nil {
			return nil, err
		}
	}
	v := &view{
		survey: &survey{bridgings: s.bridgings}, ctx: ctx, want: want,
		wanted: map[string]state.Object{}, names: linkNames(s.links), byIndex: map[int]netlink.Link{},
	}
	for _, o := range want {
		v.wanted[o.Key()] = o
	}
	for _, l := range s.links {
		if l.Attrs().Group == mark.DoomedGroup {
			k.doomed = true
			continue
		}
		v.links, v.byIndex[l.Attrs().Index] = append(v.links, l), l
	}
	if k.bridgesMatter(v.links, v.wanted) {
		v.bridges = map[int]bool{}
		for _, l := range v.links {
			if _, is := l.(*netlink.Bridge); is && strings.HasPrefix(l.Attrs().Alias, mark.AliasPrefix) {
				v.bridges[l.Attrs().Index] = true
			}
		}
	}
	return v, nil
}
