package daemon_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
	"weft/internal/testbin"
)

// safeBuffer collects what a process prints while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// pings fails unless a host reaches an address.
func (w *topology) pings(from *netspace.Space, to string) {
	w.t.Helper()
	if out, err := w.try(from, "ping -c 2 -i 0.05 -W 2 "+to); err != nil {
		w.t.Errorf("%s does not reach %s: %v\n%s", from.Name, to, err, out)
	}
}

// reaches reports whether one ping comes back soon: for what must not, or is asked
// until it does.
func (w *topology) reaches(from *netspace.Space, to string) bool {
	_, err := w.try(from, "ping -c 1 -W 1 "+to)
	return err == nil
}

// serve starts the transfer server in a host.
func (w *topology) serve(host *netspace.Space) probe.Ports {
	w.t.Helper()
	c := exec.Command(testbin.Weft(w.t), "probe", "serve")
	in, err := c.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := host.Start(c); err != nil {
		w.t.Fatal(err)
	}
	var ports probe.Ports
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ports)
	}
	if err != nil {
		w.t.Fatalf("serve in %s: %v", host.Name, err)
	}
	go io.Copy(io.Discard, out)
	w.t.Cleanup(func() { in.Close(); c.Wait() })
	return ports
}

// move transfers bytes and fails unless they arrive as they were sent.
func (w *topology) move(from *netspace.Space, to string, port uint16, d probe.Direction, length int) probe.Transfer {
	w.t.Helper()
	var result probe.Transfer
	w.probe(from, &result, "move", net.JoinHostPort(to, fmt.Sprint(port)), "--direction", string(d), "--bytes", fmt.Sprint(length))
	if !result.Same || result.Bytes != int64(length) {
		w.t.Errorf("%s from %s to %s: %d of %d bytes, the same: %v", d, from.Name, to, result.Bytes, length, result.Same)
	}
	return result
}

// probe runs `weft probe` in a host and reads its result.
func (w *topology) probe(from *netspace.Space, result any, arguments ...string) {
	w.t.Helper()
	out, err := w.exec(from, append([]string{testbin.Weft(w.t), "probe"}, arguments...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), result)
	}
	if err != nil {
		w.t.Fatalf("probe %s in %s: %v\n%s", strings.Join(arguments, " "), from.Name, err, out)
	}
}

// fragmentsPass fails unless datagrams that need fragments come back: they are
// translated by the slow path, in the daemon.
func (w *topology) fragmentsPass() {
	w.t.Helper()
	ports := w.serve(w.member)
	var result probe.Datagrams
	w.probe(w.server, &result, "exchange", fmt.Sprintf("%s:%d", memberFrom4, ports.UDP), "--size", "3000,9000")
	if result.Intact != 2 {
		w.t.Errorf("%d of 2 datagrams in fragments came back: %s", result.Intact, result.Problem)
	}
}

// flood sends small datagrams from the member to the server, which sends each
// back, about two thousand a second, and counts those that come back.
type flood struct {
	conn net.Conn
	stop chan struct{}
	done sync.WaitGroup
	sent uint32
	seen []atomic.Bool
}

const floodMax = 200_000

// startFlood starts one and waits for the first answer.
func (w *topology) startFlood() *flood {
	w.t.Helper()
	return w.floodTo("udp6", serverFrom6)
}

// floodTo is startFlood for the server by another of its addresses.
func (w *topology) floodTo(network, server string) *flood {
	w.t.Helper()
	var echo net.PacketConn
	f := &flood{stop: make(chan struct{}), seen: make([]atomic.Bool, floodMax)}
	err := w.server.Do(func() (err error) {
		echo, err = net.ListenPacket("udp4", "198.51.100.9:7007")
		return err
	})
	if err == nil {
		err = w.member.Do(func() (err error) {
			f.conn, err = net.Dial(network, net.JoinHostPort(server, "7007"))
			return err
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { echo.Close(); f.conn.Close() })
	// a loaded machine lets sockets wait: what is lost there weft has not lost
	w.widen(echo.(*net.UDPConn))
	w.widen(f.conn.(*net.UDPConn))
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			echo.WriteTo(b[:n], from)
		}
	}()
	go f.receive()
	eventually(w.t, "a first datagram comes back", func() bool {
		f.send(0)
		time.Sleep(10 * time.Millisecond)
		return f.seen[0].Load()
	})
	f.sent = 1
	f.done.Go(f.sendAll)
	return f
}

// widen gives a socket a large receive buffer.
func (w *topology) widen(conn *net.UDPConn) {
	w.t.Helper()
	onSocket(w.t, conn, "widen receive buffer", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
}

// onSocket sets an option of a socket.
func onSocket(t *testing.T, conn *net.UDPConn, doing string, level, option, value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, value) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

func (f *flood) send(n uint32) {
	b := make([]byte, 64)
	binary.BigEndian.PutUint32(b, n)
	f.conn.Write(b) // an error is a datagram that does not come back
}

func (f *flood) sendAll() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		for range 2 {
			if f.sent < floodMax {
				f.send(f.sent)
				f.sent++
			}
		}
	}
}

func (f *flood) receive() {
	b := make([]byte, 2048)
	for {
		n, err := f.conn.Read(b)
		if n == 64 {
			f.seen[binary.BigEndian.Uint32(b)].Store(true)
		} else if err != nil && errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// missing returns how many have not come back.
func (f *flood) missing() (n int) {
	for i := range f.sent {
		if !f.seen[i].Load() {
			n++
		}
	}
	return n
}

// endWithoutLoss stops the flood and fails if any datagram was lost.
func (f *flood) endWithoutLoss(t *testing.T) {
	t.Helper()
	// some more, so that whatever was done has traffic behind it
	time.Sleep(100 * time.Millisecond)
	close(f.stop)
	f.done.Wait()
	for end := time.Now().Add(patience); f.missing() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if f.sent < 100 {
		t.Errorf("only %d datagrams were sent: that proves little", f.sent)
	}
	if n := f.missing(); n > 0 {
		t.Errorf("%d of %d datagrams were lost", n, f.sent)
	}
}
