package nlconn

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// AskMany sends n requests, many in one datagram, and passes the one message that
// answers each to use: the object, or the error.
func (r *Conn) AskMany(ctx context.Context, kind, flags uint16, n int, body func(int) []byte, use func(i int, kind uint16, b []byte) error) error {
	for start := 0; start < n; start += atOnce {
		if err := r.askSome(ctx, kind, flags, start, min(n, start+atOnce), body, use); err != nil {
			return err
		}
	}
	return nil
}

func (r *Conn) askSome(ctx context.Context, kind, flags uint16, start, end int, body func(int) []byte, use func(i int, kind uint16, b []byte) error) error {
	first := r.seq + 1
	var out []byte
	for i := start; i < end; i++ {
		r.seq++
		out = append(out, Request(kind, flags, r.seq, body(i))...)
	}
	err := r.Control(func(fd int) error { return unix.Sendto(fd, out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) })
	if err != nil {
		return err
	}
	for left := end - start; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.file.SetReadDeadline(time.Now().Add(AnswerTime)); err != nil {
			return err
		}
		piece, err := r.Receive()
		if err != nil {
			return err
		}
		for h, b := range Messages(piece) {
			if h.Seq-first >= uint32(end-start) {
				continue // of an earlier request
			}
			if err := use(start+int(h.Seq-first), h.Type, b); err != nil {
				return err
			}
			left--
		}
	}
	return nil
}

// atOnce bounds the requests of one datagram to the kernel.
const atOnce = 128
