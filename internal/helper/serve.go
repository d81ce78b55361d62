package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"weft/internal/task"
	"weft/internal/version"
)

// socket is the descriptor of a helper's end.
const socket = 3

// Line is a helper's end.
type Line struct {
	conn net.Conn
	out  chan Message
	pong task.Wake
}

// Send passes a message to weft. It waits until weft takes it, or ctx ends.
func (l *Line) Send(ctx context.Context, m Message) error {
	if m.Kind >= firstOwn {
		return fmt.Errorf("messages of kind %#x are the line's own", m.Kind)
	}
	if len(m.Data) > Largest {
		return ErrTooLarge
	}
	select {
	case l.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Serve is what the main function of a helper does. handle gets weft's messages,
// one after the other; weft ends a helper whose handle does not return. Serve
// returns when weft closes the line, with nil, or when handle fails. When weft is
// gone the process ends at once, whatever it is doing.
func Serve(ctx context.Context, name string, handle func(context.Context, *Line, Message) error) error {
	file := os.NewFile(socket, "line")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("%s is started by weft run, and does nothing on its own", name)
	}
	file.Close()
	return serve(ctx, conn, os.Stdin, name, handle)
}

func serve(ctx context.Context, conn net.Conn, life io.Reader, name string, handle func(context.Context, *Line, Message) error) error {
	l := &Line{conn: conn, out: make(chan Message), pong: task.NewWake()}
	text, err := json.Marshal(greeting{name, version.String()})
	if err != nil {
		return err
	}
	if err := write(conn, Message{hello, text}); err != nil {
		return err
	}
	if life != nil {
		task.Go(func() {
			io.Copy(io.Discard, life)
			os.Exit(1)
		})
	}
	group := task.NewGroup(ctx)
	stop := context.AfterFunc(group.Context(), func() { conn.Close() })
	defer stop()
	group.Go(l.write)
	group.Go(func(ctx context.Context) error {
		for {
			m, err := read(conn)
			switch {
			case errors.Is(err, io.EOF):
				return errClosed
			case err != nil:
				return err
			case m.Kind == ping:
				l.pong.Set()
			default:
				if err := handle(ctx, l, m); err != nil {
					return err
				}
			}
		}
	})
	if err := group.Wait(); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

// errClosed ends the tasks of a line that weft has closed.
var errClosed = errors.New("weft has closed the line")

func (l *Line) write(ctx context.Context) error {
	for {
		var m Message
		select {
		case <-ctx.Done():
			return nil
		case m = <-l.out:
		case <-l.pong:
			m = Message{Kind: pong}
		}
		if err := write(l.conn, m); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}
