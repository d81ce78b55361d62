package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
)

// routes returns the socket for orders about devices, generic that for those of
// generic netlink.
func (k *Kernel) routes() (*nlconn.Conn, error) { return opened(&k.orders, unix.NETLINK_ROUTE) }

func (k *Kernel) generic() (*nlconn.Conn, error) { return opened(&k.generics, unix.NETLINK_GENERIC) }

func opened(r **nlconn.Conn, protocol int) (_ *nlconn.Conn, err error) {
	if *r == nil {
		if *r, err = nlconn.Open(protocol); err != nil {
			return nil, fmt.Errorf("open netlink: %w", err)
		}
	}
	return *r, nil
}

// order makes the kernel execute requests, one or more.
func (k *Kernel) order(ctx context.Context, list ...nlconn.Order) error {
	r, err := k.routes()
	if err != nil {
		return err
	}
	return r.Orders(ctx, list)
}

// linkBody is the body of a request about a device: its flags within mask, and
// attributes. The device is found by its name, which is one of them.
func linkBody(flags, mask uint32, attributes ...*nl.RtAttr) []byte {
	info := nl.NewIfInfomsg(unix.AF_UNSPEC)
	info.Flags, info.Change = flags, mask
	body := info.Serialize()
	for _, a := range attributes {
		body = append(body, a.Serialize()...)
	}
	return body
}

func linkName(name string) *nl.RtAttr {
	return nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))
}

func linkGroup(group uint32) *nl.RtAttr { return nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(group)) }

func orderUp(name string) nlconn.Order {
	return nlconn.Order{What: fmt.Sprintf("set %s up", name), Kind: unix.RTM_SETLINK, Body: linkBody(unix.IFF_UP, unix.IFF_UP, linkName(name))}
}

// orderAlias gives a device its alias, takes it out of its group, and sets flags.
func orderAlias(name string, flags uint32, alias string) nlconn.Order {
	return nlconn.Order{
		What: fmt.Sprintf("mark %s as weft's", name), Kind: unix.RTM_SETLINK,
		Body: linkBody(flags, flags, linkName(name), linkGroup(0), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias))),
	}
}

// orderMark is orderAlias, and says how the device makes itself an IPv6 address
// when its link is there. A device without IPv6 (EAFNOSUPPORT) gets no alias either.
func orderMark(name string, flags uint32, alias string, mode byte) nlconn.Order {
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	spec.AddRtAttr(unix.AF_INET6, nil).AddRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{mode})
	return nlconn.Order{
		What: fmt.Sprintf("mark %s as weft's", name), Kind: unix.RTM_SETLINK,
		Body: linkBody(flags, flags, linkName(name), linkGroup(0), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias)), spec),
	}
}
