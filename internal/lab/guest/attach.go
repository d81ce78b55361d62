package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// detachKey ends an attachment from a terminal: Ctrl-], as in telnet.
const detachKey = 0x1d

// errDetached is not an error: detachKey was typed.
var errDetached = errors.New("detached")

// Attach connects a terminal to the guest's console until the guest or ctx ends, a
// write to out fails, or Ctrl-] is typed. If in is a terminal it is raw in the
// meantime. The end of in alone does not end the attachment.
func (m *Machine) Attach(ctx context.Context, in io.Reader, out io.Writer) error {
	conn, err := net.Dial("unix", m.Console())
	if err != nil {
		return fmt.Errorf("attach to the console: %w", err)
	}
	defer conn.Close()
	if f, ok := in.(*os.File); ok {
		if before, err := makeRaw(int(f.Fd())); err == nil {
			defer unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, before)
		}
	}
	ended := make(chan error, 2)
	go func() {
		if err := typeInto(conn, in); err != nil {
			ended <- err
		}
	}()
	go func() {
		_, err := io.Copy(out, conn)
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, errDetached) {
		return nil
	}
	return err
}

func typeInto(console io.Writer, in io.Reader) error {
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		for i, b := range buf[:n] {
			if b == detachKey {
				console.Write(buf[:i])
				return errDetached
			}
		}
		if _, err := console.Write(buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
