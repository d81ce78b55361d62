package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// rtnl is a netlink socket of weft's own, of routes or of netfilter: the routes
// of a full table come by the hundred megabytes, and are read without an
// allocation for each.
type rtnl struct {
	file *os.File // nonblocking, in the runtime's poller
	seq  uint32
	buf  []byte
	torn bool // what was listed last changed meanwhile (NLM_F_DUMP_INTR)
}

// A dump's messages come in pieces of at most 32 KiB (net/netlink/af_netlink.c).
const receiveBytes = 64 << 10

func openRtnl() (*rtnl, error) {
	r, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open route netlink: %w", err)
	}
	// lets a dump say which table it wants; kernels before 4.20 have none of it
	_ = r.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1) })
	return r, nil
}

func openNetlink(protocol int) (*rtnl, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind: %w", err)
	}
	return &rtnl{file: os.NewFile(uintptr(fd), "netlink"), buf: make([]byte, receiveBytes)}, nil
}

func (r *rtnl) Close() error { return r.file.Close() }

// control runs f with the socket.
func (r *rtnl) control(f func(fd int) error) error {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// receive waits for the next piece of news. It is good until the next call.
func (r *rtnl) receive() ([]byte, error) {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n int
	var inner error
	err = raw.Read(func(fd uintptr) bool {
		n, _, inner = unix.Recvfrom(int(fd), r.buf, 0)
		return !errors.Is(inner, unix.EAGAIN)
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, err
	}
	return r.buf[:n], nil
}

// drainMost bounds the pieces of one drain: who waits for them hears of them
// also while ever more come.
const drainMost = 4096

// drain waits for news and gives every piece there is to use, which must not
// keep it, or the first so many. ENOBUFS says that some were lost: until the
// socket is empty the kernel throws further ones away without another word
// (NETLINK_S_CONGESTED in net/netlink/af_netlink.c), hence it is emptied first.
func (r *rtnl) drain(use func(piece []byte)) error {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Read(func(fd uintptr) (some bool) {
		some, inner = r.empty(int(fd), drainMost, use)
		return some
	})
	return errors.Join(err, inner)
}

// empty gives use what is there now, so many pieces if that is more and none were
// lost. some is false if that was nothing.
func (r *rtnl) empty(fd, most int, use func(piece []byte)) (some bool, lost error) {
	for taken := 0; taken < most || lost != nil; taken++ {
		some = taken > 0
		n, _, err := unix.Recvfrom(fd, r.buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return some, lost
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			lost = err
		case err != nil:
			return true, err
		default:
			use(r.buf[:n])
		}
	}
	return true, nil
}

// request is one with its header.
func request(kind, flags uint16, seq uint32, body []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	binary.NativeEndian.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], seq)
	return append(b, body...)
}

// send sends one request and gives its number.
func (r *rtnl) send(kind, flags uint16, body []byte) (uint32, error) {
	r.seq++
	b := request(kind, flags, r.seq, body)
	return r.seq, r.control(func(fd int) error {
		return unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
}

// answerTime is how long the kernel may take for the next piece of an answer.
const answerTime = 10 * time.Second

// ask sends a request and gives each message of the answer to use, until the
// kernel says that it is done.
func (r *rtnl) ask(ctx context.Context, kind, flags uint16, body []byte, use func(kind uint16, body []byte) error) error {
	seq, err := r.send(kind, flags, body)
	if err != nil {
		return err
	}
	r.torn = false
	stop := context.AfterFunc(ctx, func() { r.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
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
			if h.Seq != seq {
				continue
			}
			r.torn = r.torn || h.Flags&unix.NLM_F_DUMP_INTR != 0
			switch h.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return answered(b)
			case unix.NLMSG_NOOP:
				continue
			}
			if err := use(h.Type, b); err != nil {
				return err
			}
			if h.Flags&unix.NLM_F_MULTI == 0 && flags&unix.NLM_F_ACK == 0 {
				return nil
			}
		}
	}
}

// answered reads the error number that an answer ends with; 0 is none.
func answered(b []byte) error {
	if n := int32(u32(b)); n < 0 {
		return unix.Errno(-n)
	}
	return nil
}

// dump asks for all there is of a kind. An interrupted dump (the kernel's list
// changed meanwhile: torn) may lack what was there all the time.
func (r *rtnl) dump(ctx context.Context, kind uint16, body []byte, use func(kind uint16, body []byte) error) error {
	return r.ask(ctx, kind, unix.NLM_F_DUMP, body, use)
}

// whole is dump that begins anew, and says so, while the list changes meanwhile.
func (r *rtnl) whole(ctx context.Context, kind uint16, body []byte, begin func(), use func(kind uint16, body []byte) error) error {
	for range listTries {
		begin()
		if err := r.dump(ctx, kind, body, use); err != nil || !r.torn {
			return err
		}
	}
	return nil
}

// attribute writes one of four bytes (struct nlattr).
func attribute(kind uint16, value []byte) []byte {
	n := unix.SizeofNlAttr + len(value)
	b := make([]byte, (n+3)&^3)
	binary.NativeEndian.PutUint16(b, uint16(n))
	binary.NativeEndian.PutUint16(b[2:], kind)
	copy(b[unix.SizeofNlAttr:], value)
	return b
}
