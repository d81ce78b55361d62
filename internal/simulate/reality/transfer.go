package reality

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a connection gets for its second subflow to come up before
// it is used. Nothing that is measured depends on it.
const settle = 1500 * time.Millisecond

// Transfer sends one after another so many bytes from A to B over one MPTCP
// connection, each after the one before is complete and a pause; it gives how
// long each took, from the first write to the last read.
func (n *Network) Transfer(ctx context.Context, sizes []int64, pause time.Duration) (times []time.Duration, err error) {
	var listener net.Listener
	err = n.B.Do(func() (err error) {
		var c net.ListenConfig
		c.SetMultipathTCP(true)
		listener, err = c.Listen(ctx, "tcp4", "0.0.0.0:0") // subflows come to the other addresses
		return err
	})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	var out net.Conn
	err = n.A.Do(func() (err error) {
		d := net.Dialer{Timeout: 5 * time.Second, Control: cubic}
		d.SetMultipathTCP(true)
		out, err = d.DialContext(ctx, "tcp4", fmt.Sprintf("%s:%d", Address(0, 2), listener.Addr().(*net.TCPAddr).Port))
		return err
	})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if on, err := out.(*net.TCPConn).MultipathTCP(); err != nil || !on {
		return nil, errors.Join(errors.New("the connection is not MPTCP"), err)
	}
	stop := context.AfterFunc(ctx, func() { out.Close(); in.Close() })
	defer stop()
	if err := wait(ctx, settle); err != nil {
		return nil, err
	}
	for _, size := range sizes {
		t, err := one(out, in, size)
		if err != nil {
			return nil, err
		}
		times = append(times, t)
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// cubic pins the congestion control of a socket and its subflows. The sysctl of
// a namespace takes only what the host allows to all.
func cubic(_, _ string, c syscall.RawConn) error {
	var inner error
	err := c.Control(func(fd uintptr) {
		inner = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	})
	return errors.Join(err, inner)
}

// one writes all at once, because the kernel selects a path again for each write.
func one(out io.Writer, in io.Reader, size int64) (time.Duration, error) {
	sent := make(chan error, 1)
	zeros := make([]byte, size)
	begin := time.Now()
	go func() {
		_, err := out.Write(zeros)
		sent <- err
	}()
	n, err := io.CopyN(io.Discard, in, size)
	took := time.Since(begin)
	if err := errors.Join(err, <-sent); err != nil {
		return 0, fmt.Errorf("transfer %d bytes: %d came: %w", size, n, err)
	}
	return took, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
