package nlconn

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Order is one request among several that go to the kernel together.
type Order struct {
	What  string // for the error
	Kind  uint16
	Flags uint16
	Body  []byte
}

// Orders is Answers, and returns the error of the first that failed.
func (r *Conn) Orders(ctx context.Context, list []Order) error {
	failed, err := r.Answers(ctx, list)
	if err != nil {
		return err
	}
	for i, err := range failed {
		if err != nil {
			return fmt.Errorf("%s: %w", list[i].What, err)
		}
	}
	return nil
}

// Answers sends several requests in one message and returns the error of each. The
// kernel executes all of them, in turn: it stops neither at one that fails nor when
// this process dies. It reports those that fail, and the last one acknowledges:
// requests not reported by then have succeeded.
func (r *Conn) Answers(ctx context.Context, list []Order) ([]error, error) {
	var message []byte
	first := r.seq + 1
	for i, o := range list {
		r.seq++
		if i == len(list)-1 {
			o.Flags |= unix.NLM_F_ACK
		}
		message = append(message, Request(o.Kind, o.Flags, r.seq, o.Body)...)
		message = append(message, make([]byte, -len(message)&3)...) // NLMSG_ALIGN
	}
	err := r.Control(func(fd int) error {
		return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { r.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	failed := make([]error, len(list))
	for last := len(list) - 1; last >= 0; {
		if err := r.file.SetReadDeadline(time.Now().Add(AnswerTime)); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		piece, err := r.Receive()
		if err != nil {
			return nil, err
		}
		for h, b := range Messages(piece) {
			i := int(h.Seq - first)
			if h.Type != unix.NLMSG_ERROR || i < 0 || i >= len(list) {
				continue
			}
			failed[i] = Answered(b)
			if i == last {
				return failed, nil
			}
		}
	}
	return failed, nil
}
