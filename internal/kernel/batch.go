package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// order is one request among several that go to the kernel together.
type order struct {
	what  string // for the error
	kind  uint16
	flags uint16
	body  []byte
}

// routes gives the socket for orders about devices, generic that for those of
// generic netlink.
func (k *Kernel) routes() (*rtnl, error)  { return opened(&k.orders, unix.NETLINK_ROUTE) }
func (k *Kernel) generic() (*rtnl, error) { return opened(&k.generics, unix.NETLINK_GENERIC) }

func opened(r **rtnl, protocol int) (_ *rtnl, err error) {
	if *r == nil {
		if *r, err = openNetlink(protocol); err != nil {
			return nil, fmt.Errorf("open netlink: %w", err)
		}
	}
	return *r, nil
}

// order has the kernel carry out requests, one or more.
func (k *Kernel) order(ctx context.Context, list ...order) error {
	r, err := k.routes()
	if err != nil {
		return err
	}
	return r.orders(ctx, list)
}

// orders is answers, and gives the error of the first that failed.
func (r *rtnl) orders(ctx context.Context, list []order) error {
	failed, err := r.answers(ctx, list)
	if err != nil {
		return err
	}
	for i, err := range failed {
		if err != nil {
			return fmt.Errorf("%s: %w", list[i].what, err)
		}
	}
	return nil
}

// answers sends several requests in one message and gives the error of each. The
// kernel carries out all of them, in turn: it does not stop at one that fails, and
// neither does it stop if this process dies. It tells of those that fail, and is
// asked to of the last: what it has not told of by then it has done.
func (r *rtnl) answers(ctx context.Context, list []order) ([]error, error) {
	var message []byte
	first := r.seq + 1
	for i, o := range list {
		r.seq++
		if i == len(list)-1 {
			o.flags |= unix.NLM_F_ACK
		}
		message = append(message, request(o.kind, o.flags, r.seq, o.body)...)
		message = append(message, make([]byte, -len(message)&3)...) // NLMSG_ALIGN
	}
	err := r.control(func(fd int) error {
		return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { r.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	failed := make([]error, len(list))
	for last := len(list) - 1; last >= 0; {
		if err := r.file.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		piece, err := r.receive()
		if err != nil {
			return nil, err
		}
		for h, b := range messages(piece) {
			i := int(h.Seq - first)
			if h.Type != unix.NLMSG_ERROR || i < 0 || i >= len(list) {
				continue
			}
			failed[i] = answered(b)
			if i == last {
				return failed, nil
			}
		}
	}
	return failed, nil
}

// linkBody is what an order about a device says: its flags among those of mask,
// and attributes. The device is found by its name, which is one of them.
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

func orderUp(name string) order {
	return order{what: fmt.Sprintf("set %s up", name), kind: unix.RTM_SETLINK, body: linkBody(unix.IFF_UP, unix.IFF_UP, linkName(name))}
}

// orderAlias gives a device its alias, takes it out of its group, and sets flags.
func orderAlias(name string, flags uint32, alias string) order {
	return order{
		what: fmt.Sprintf("mark %s as weft's", name), kind: unix.RTM_SETLINK,
		body: linkBody(flags, flags, linkName(name), linkGroup(0), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias))),
	}
}

// orderMark is orderAlias, and says how the device makes itself an IPv6 address
// when its link is there. A device without IPv6 (EAFNOSUPPORT) gets no alias either.
func orderMark(name string, flags uint32, alias string, mode byte) order {
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	spec.AddRtAttr(unix.AF_INET6, nil).AddRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{mode})
	return order{
		what: fmt.Sprintf("mark %s as weft's", name), kind: unix.RTM_SETLINK,
		body: linkBody(flags, flags, linkName(name), linkGroup(0), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias)), spec),
	}
}
