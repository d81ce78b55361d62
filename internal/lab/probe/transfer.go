package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxTransfer bounds a transfer, which both ends hold in memory so that making
// and hashing the bytes does not count as transfer time.
const MaxTransfer = 512 << 20

// Moving are the options of Move.
type Moving struct {
	Direction Direction
	Length    int64
	Over      time.Duration // spread evenly over at least this time
}

// Move opens a TCP connection to a Server and moves random bytes. A transfer
// that ends with different digests is a result (Same is false); one that breaks
// off is an error.
func Move(ctx context.Context, to netip.AddrPort, m Moving, seed [32]byte) (Transfer, error) {
	d, length := m.Direction, m.Length
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return Transfer{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(request{direction: d, length: length}.marshal()); err != nil {
		return Transfer{}, fmt.Errorf("ask for a %s: %w", d, err)
	}
	t := Transfer{Direction: d, Bytes: length}
	var got [2][32]byte // what arrived, what was sent
	var p pace
	if d == Download {
		got, p, err = receive(conn, length, m.Over)
	} else {
		got, p, err = send(conn, length, seed, m.Over)
	}
	if err != nil {
		return t, fmt.Errorf("%s of %d bytes: %w", d, length, err)
	}
	t.Elapsed, t.Silence = p.elapsed, p.silence
	t.SHA256, t.Same = hex.EncodeToString(got[0][:]), got[0] == got[1]
	t.PathMTU, t.MSS, err = tcpInfo(conn)
	return t, err
}

// pace is the duration of a transfer and its longest pause.
type pace struct{ elapsed, silence time.Duration }

// part of a transfer: after each it is noted how long nothing had moved.
const part = 64 << 10

// inParts transfers data in parts, and returns how long it took and the longest time
// in which no part was completed. A slow reader makes the other end wait, too.
func inParts(data []byte, over time.Duration, move func([]byte) (int, error)) (p pace, moved int, err error) {
	begin := time.Now()
	last := begin
	for moved < len(data) {
		n, err := move(data[moved:min(moved+part, len(data))])
		moved += n
		now := time.Now()
		p.elapsed, p.silence, last = now.Sub(begin), max(p.silence, now.Sub(last)), now
		if err != nil {
			return p, moved, err
		}
		if due := time.Duration(float64(over) * float64(moved) / float64(len(data))); due > p.elapsed {
			time.Sleep(due - p.elapsed)
			last = time.Now() // this silence is meant
		}
	}
	return p, moved, nil
}

// send writes length bytes, then the digests change hands. The time is from the
// first byte written to the receiver's word that it has the last.
func send(conn net.Conn, length int64, seed [32]byte, over time.Duration) (digests [2][32]byte, p pace, err error) {
	data := make([]byte, length)
	rand.NewChaCha8(seed).Read(data)
	digests[1] = sha256.Sum256(data)
	begin := time.Now()
	if p, _, err = inParts(data, over, conn.Write); err != nil {
		return digests, p, fmt.Errorf("send: %w", err)
	}
	last := time.Now()
	// The receiver says that it has all before it begins to hash.
	var done [1]byte
	if _, err := io.ReadFull(conn, done[:]); err != nil {
		return digests, p, fmt.Errorf("wait for the receiver: %w", err)
	}
	p.elapsed, p.silence = time.Since(begin), max(p.silence, time.Since(last))
	if _, err := conn.Write(digests[1][:]); err != nil {
		return digests, p, fmt.Errorf("send digest: %w", err)
	}
	if _, err := io.ReadFull(conn, digests[0][:]); err != nil {
		return digests, p, fmt.Errorf("wait for the receiver's digest: %w", err)
	}
	return digests, p, nil
}

// receive is the other half of send. Its time is from the first byte to the last.
func receive(conn net.Conn, length int64, over time.Duration) (digests [2][32]byte, p pace, err error) {
	data := make([]byte, length)
	head := min(length, 1)
	if _, err := io.ReadFull(conn, data[:head]); err != nil {
		return digests, p, fmt.Errorf("receive: %w", err)
	}
	p, n, err := inParts(data[head:], over, conn.Read)
	if err != nil {
		return digests, p, fmt.Errorf("receive: broke off after %d bytes: %w", int64(n)+head, err)
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return digests, p, fmt.Errorf("acknowledge the transfer: %w", err)
	}
	digests[0] = sha256.Sum256(data)
	if _, err := io.ReadFull(conn, digests[1][:]); err != nil {
		return digests, p, fmt.Errorf("wait for the sender's digest: %w", err)
	}
	if _, err := conn.Write(digests[0][:]); err != nil {
		return digests, p, fmt.Errorf("send digest: %w", err)
	}
	return digests, p, nil
}

// tcpInfo asks the kernel what the connection knows of its path (tcp(7)).
func tcpInfo(conn net.Conn) (pmtu, mss int, err error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return 0, 0, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var info *unix.TCPInfo
	var inner error
	err = raw.Control(func(fd uintptr) {
		info, inner = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || inner != nil {
		return 0, 0, fmt.Errorf("read TCP_INFO: %w", inner)
	}
	return int(info.Pmtu), int(info.Snd_mss), nil
}
