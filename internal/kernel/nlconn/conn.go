// Package nlconn is a netlink socket of weft's own: requests, answers, dumps and
// events, and how attributes are read and written.
package nlconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a netlink socket of weft's own, of routes or of netfilter: the routes of a
// full table are hundreds of megabytes, and are read without an allocation for each.
type Conn struct {
	file *os.File // nonblocking, in the runtime's poller
	seq  uint32
	buf  []byte
	torn bool // the last dump was interrupted by a change (NLM_F_DUMP_INTR)
}

// A dump's messages come in pieces of at most 32 KiB (net/netlink/af_netlink.c).
const ReceiveBytes = 64 << 10

func OpenRoute() (*Conn, error) {
	r, err := Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open route netlink: %w", err)
	}
	// lets a dump say which table it wants; kernels before 4.20 have none of it
	_ = r.Control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1) })
	return r, nil
}

func Open(protocol int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind: %w", err)
	}
	return &Conn{file: os.NewFile(uintptr(fd), "netlink"), buf: make([]byte, ReceiveBytes)}, nil
}

func (r *Conn) Close() error { return r.file.Close() }

// Interrupt ends a waiting Drain.
func (r *Conn) Interrupt() { r.file.SetReadDeadline(time.Unix(1, 0)) }

// Control runs f with the socket.
func (r *Conn) Control(f func(fd int) error) error {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// Receive waits for the next event message. It is valid until the next call.
func (r *Conn) Receive() ([]byte, error) {
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

// drainMost limits the messages of one drain, so that its caller gets a turn
// although further ones keep coming.
const drainMost = 4096

// Drain waits for events and passes each message, up to drainMost, to use, which
// must not keep it. ENOBUFS means that some were lost: until the socket is empty the
// kernel drops further ones without another error (NETLINK_S_CONGESTED in
// net/netlink/af_netlink.c), so it is emptied first.
func (r *Conn) Drain(use func(piece []byte)) error {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Read(func(fd uintptr) (some bool) {
		some, inner = r.Empty(int(fd), drainMost, use)
		return some
	})
	return errors.Join(err, inner)
}

// Empty passes the pending messages to use, at most that many unless some were lost.
// some is false if there were none.
func (r *Conn) Empty(fd, most int, use func(piece []byte)) (some bool, lost error) {
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

// Request builds a request with its header.
func Request(kind, flags uint16, seq uint32, body []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	binary.NativeEndian.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], seq)
	return append(b, body...)
}

// Send sends one request and returns its sequence number.
func (r *Conn) Send(kind, flags uint16, body []byte) (uint32, error) {
	r.seq++
	b := Request(kind, flags, r.seq, body)
	return r.seq, r.Control(func(fd int) error {
		return unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
}

// AnswerTime is how long the kernel may take for the next message of an answer.
const AnswerTime = 10 * time.Second

// Ask sends a request and passes each message of the answer to use, until the kernel
// reports its end.
func (r *Conn) Ask(ctx context.Context, kind, flags uint16, body []byte, use func(kind uint16, body []byte) error) error {
	seq, err := r.Send(kind, flags, body)
	if err != nil {
		return err
	}
	r.torn = false
	stop := context.AfterFunc(ctx, func() { r.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		if err := r.file.SetReadDeadline(time.Now().Add(AnswerTime)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		piece, err := r.Receive()
		if err != nil {
			return err
		}
		for h, b := range Messages(piece) {
			if h.Seq != seq {
				continue
			}
			r.torn = r.torn || h.Flags&unix.NLM_F_DUMP_INTR != 0
			switch h.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return Answered(b)
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

// Answered reads the error number that an answer ends with; 0 is none.
func Answered(b []byte) error {
	if n := int32(U32(b)); n < 0 {
		return unix.Errno(-n)
	}
	return nil
}

// Dump requests all objects of a kind. An interrupted dump (the kernel's list
// changed meanwhile: torn) may lack objects that were there all the time.
func (r *Conn) Dump(ctx context.Context, kind uint16, body []byte, use func(kind uint16, body []byte) error) error {
	return r.Ask(ctx, kind, unix.NLM_F_DUMP, body, use)
}

// Whole is dump that starts over, and calls begin, while the list changes meanwhile.
func (r *Conn) Whole(ctx context.Context, kind uint16, body []byte, begin func(), use func(kind uint16, body []byte) error) error {
	for range listTries {
		begin()
		if err := r.Dump(ctx, kind, body, use); err != nil || !r.torn {
			return err
		}
	}
	return nil
}

// Attribute builds an attribute (struct nlattr).
func Attribute(kind uint16, value []byte) []byte {
	n := unix.SizeofNlAttr + len(value)
	b := make([]byte, (n+3)&^3)
	binary.NativeEndian.PutUint16(b, uint16(n))
	binary.NativeEndian.PutUint16(b[2:], kind)
	copy(b[unix.SizeofNlAttr:], value)
	return b
}

// Head builds a request's fixed part with a family in its first byte.
func Head(family byte, size int) []byte {
	b := make([]byte, size)
	b[0] = family
	return b
}
