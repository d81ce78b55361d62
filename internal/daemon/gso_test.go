package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
)

// volume returns what the translator carried: packets and bytes in both
// directions, a GSO packet counting as one.
func (w *topology) volume() (to4, to6 [2]float64) {
	w.t.Helper()
	row := w.rows("translations")[0]
	for name, into := range map[string]*[2]float64{"to_ipv4": &to4, "to_ipv6": &to6} {
		v, ok := row[name].(map[string]any)
		if !ok {
			w.t.Fatalf("no %s in %v", name, row)
		}
		into[0], into[1] = v["packets"].(float64), v["bytes"].(float64)
	}
	return to4, to6
}

// average returns the mean packet between two volumes, in bytes.
func average(before, after [2]float64) float64 {
	if after[0] == before[0] {
		return 0
	}
	return (after[1] - before[1]) / (after[0] - before[0])
}

func TestTCKeepsSuperPacketsWhole(t *testing.T) {
	t.Parallel()
	for name, toml := range map[string]string{"by the stack": usual(), "by the bypass": bypass()} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			w.start()
			w.resolve()
			const length = 64 << 20
			server, member := w.serve(w.server), w.serve(w.member)
			for _, c := range []struct {
				from *netspace.Space
				to   string
				port uint16
				d    probe.Direction
				up   bool // the payload goes to IPv4
			}{
				{w.member, serverFrom6, server.TCP, probe.Upload, true},
				{w.member, serverFrom6, server.TCP, probe.Download, false},
				{w.server, memberFrom4, member.TCP, probe.Upload, false},
				{w.server, memberFrom4, member.TCP, probe.Download, true},
			} {
				before4, before6 := w.volume()
				w.move(c.from, c.to, c.port, c.d, length)
				after4, after6 := w.volume()
				size, bytes := average(before6, after6), after6[1]-before6[1]
				if c.up {
					size, bytes = average(before4, after4), after4[1]-before4[1]
				}
				if size < 10_000 || bytes < length {
					t.Errorf("%s by %s: %.0f bytes in packets of %.0f on average, want %d in such of more than 10000", c.d, c.from.Name, bytes, size, length)
				}
			}
		})
	}
}

// UDP_SEGMENT hands the kernel many datagrams at once; they must arrive each
// as it was, and cross the translator in one piece.
func TestTCKeepsUDPSuperPacketsWhole(t *testing.T) {
	t.Parallel()
	for name, toml := range map[string]string{"by the stack": usual(), "by the bypass": bypass()} {
		t.Run(name, func(t *testing.T) {
			w := newTopology(t, toml)
			w.start()
			w.resolve()
			before4, before6 := w.volume()
			w.sendSegments(w.member, serverFrom6, w.server, "198.51.100.9")
			w.sendSegments(w.server, memberFrom4, w.member, "2001:db8:1::2")
			after4, after6 := w.volume()
			for direction, size := range map[string]float64{"IPv4": average(before4, after4), "IPv6": average(before6, after6)} {
				if size < 10_000 {
					t.Errorf("towards %s the packets had %.0f bytes on average, want more than 10000", direction, size)
				}
			}
		})
	}
}

const (
	segment  = 1200 // bytes of each datagram
	segments = 40   // in one call
	calls    = 20
)

// sendSegments sends from one host to another and compares what arrives.
func (w *topology) sendSegments(from *netspace.Space, to string, at *netspace.Space, local string) {
	w.t.Helper()
	in := w.udp(at, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(local), Port: 7070})
	})
	defer in.Close()
	w.widen(in)
	out := w.udp(from, func() (*net.UDPConn, error) {
		return net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(to), Port: 7070})
	})
	defer out.Close()
	onSocket(w.t, out, "set UDP_SEGMENT", unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment)
	want := map[uint32][32]byte{}
	for call := range calls {
		message := make([]byte, segments*segment)
		for i := range segments {
			n := uint32(call*segments + i)
			part := message[i*segment : (i+1)*segment]
			copy(part, bytes.Repeat([]byte{byte(n), byte(n >> 3)}, segment/2))
			binary.BigEndian.PutUint32(part, n)
			want[n] = sha256.Sum256(part)
		}
		if _, err := out.Write(message); err != nil {
			w.t.Fatalf("send %d datagrams at once: %v", segments, err)
		}
		if call%4 == 3 {
			w.receiveSegments(in, want)
		}
	}
	if len(want) > 0 {
		w.t.Errorf("%d of %d datagrams to %s did not arrive as they were", len(want), calls*segments, to)
	}
}

// receiveSegments takes what comes off the list, until a long while passes without any.
func (w *topology) receiveSegments(in *net.UDPConn, want map[uint32][32]byte) {
	w.t.Helper()
	b := make([]byte, 1<<16)
	for len(want) > 0 {
		in.SetReadDeadline(time.Now().Add(patience))
		n, err := in.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if n == segment && want[binary.BigEndian.Uint32(b)] == sha256.Sum256(b[:n]) {
			delete(want, binary.BigEndian.Uint32(b))
		} else {
			w.t.Errorf("a datagram of %d bytes arrived, not as it was sent", n)
		}
	}
}

// udp opens a socket inside a host.
func (w *topology) udp(host *netspace.Space, open func() (*net.UDPConn, error)) *net.UDPConn {
	w.t.Helper()
	var conn *net.UDPConn
	err := host.Do(func() (err error) {
		conn, err = open()
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}
