package kernel

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// filterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h: counters,
// which are summed up over all CPUs, are left out.
const filterSkipStats = 1 << 3

// survey is what one listing of the devices says. There may be thousands, so
// they are listed once for the facts and for what exists.
type survey struct {
	links     []netlink.Link
	bridgings map[int]bridging // by index, of those that have to do with bridges
}

// look lists the devices.
func (k *Kernel) look() (*survey, error) {
	asks, err := openRtnl()
	if err != nil {
		return nil, err
	}
	defer asks.Close()
	body := append(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_EXT_MASK, nl.Uint32Attr(filterSkipStats))...)
	s := &survey{}
	begin := func() { s.links, s.bridgings = nil, map[int]bridging{} }
	err = asks.whole(context.Background(), unix.RTM_GETLINK, body, begin, func(kind uint16, b []byte) error {
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

// bridgingOf reads what the attributes of a device say of it as a bridge, and
// as a port of one.
func bridgingOf(b []byte) (of bridging) {
	for kind, info := range attributes(b) {
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
