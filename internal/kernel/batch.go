package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// order is one request among several that go to the kernel together.
type order struct {
	what    string // for the error
	kind    uint16
	flags   uint16
	body    []byte
	unless6 bool // may fail where there is no IPv6
}

// order has the kernel carry out requests, one or more.
func (k *Kernel) order(ctx context.Context, list ...order) (err error) {
	if k.orders == nil {
		if k.orders, err = openNetlink(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open route netlink: %w", err)
		}
	}
	return k.orders.orders(ctx, list)
}

// orders sends several requests in one message and reads their answers
// together. The kernel carries out all of them, in turn: it does not stop at
// one that fails, and neither does it stop if this process dies. The error is
// that of the first that failed.
func (r *rtnl) orders(ctx context.Context, list []order) error {
	var message []byte
	first := r.seq + 1
	for _, o := range list {
		r.seq++
		message = append(message, request(o.kind, o.flags|unix.NLM_F_ACK, r.seq, o.body)...)
		message = append(message, make([]byte, -len(message)&3)...) // NLMSG_ALIGN
	}
	err := r.control(func(fd int) error {
		return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { r.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	failed := make([]error, len(list))
	for left := len(list); left > 0; {
		if err := r.file.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		piece, err := r.receive()
		if err != nil {
			return err
		}
		for h, b := range messages(piece) {
			i := int(h.Seq - first)
			if h.Type != unix.NLMSG_ERROR || i < 0 || i >= len(list) {
				continue
			}
			left--
			if err := answered(b); err != nil && !(list[i].unless6 && errors.Is(err, unix.EAFNOSUPPORT)) {
				failed[i] = fmt.Errorf("%s: %w", list[i].what, err)
			}
		}
	}
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
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

func orderUp(name string) order {
	return order{what: fmt.Sprintf("set %s up", name), kind: unix.RTM_SETLINK, body: linkBody(unix.IFF_UP, unix.IFF_UP, linkName(name))}
}

func orderAlias(name, alias string) order {
	return order{
		what: fmt.Sprintf("mark %s as weft's", name), kind: unix.RTM_SETLINK,
		body: linkBody(0, 0, linkName(name), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(alias))),
	}
}

// orderAddrGen says how a device makes itself an IPv6 address when it comes up.
func orderAddrGen(name string, mode byte) order {
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	spec.AddRtAttr(unix.AF_INET6, nil).AddRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{mode})
	return order{
		what: fmt.Sprintf("set how %s gets a link-local address", name), kind: unix.RTM_SETLINK,
		body: linkBody(0, 0, linkName(name), spec), unless6: true,
	}
}
