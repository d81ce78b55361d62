package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// newWire is two namespaces joined by an impaired link.
//
//	near: tapa 10.9.0.1/24 --- UML guest, netem both ways --- far: tapb 10.9.0.2/24
func newWire(t *testing.T, i Impairment) (near, far *bench) {
	t.Helper()
	near, far = newBench(t), newBench(t)
	near.tap("tapa", "10.9.0.1/24", "fd09::1/64")
	near.tap("tapb")
	near.start(ImpairSpec("wire", shortDir(t), "tapa", "tapb", i))
	there, err := os.Open(far.path)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	near.do(func() error { // the guest goes on holding it
		tap, err := netlink.LinkByName("tapb")
		return errors.Join(err, netlink.LinkSetNsFd(tap, int(there.Fd())))
	})
	far.do(func() error {
		tap, err := netlink.LinkByName("tapb")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(tap, &netlink.Addr{IPNet: ipNet(netip4)}), netlink.LinkSetUp(tap))
	})
	return near, far
}

func TestAnImpairedLinkDelaysEachWay(t *testing.T) {
	near, _ := newWire(t, Impairment{Delay: 25 * time.Millisecond})
	output := near.run("ping", "-c", "5", "-i", "0.2", "-W", "3", "10.9.0.2")
	shortest, err := strconv.ParseFloat(regexp.MustCompile(`= ([0-9.]+)/`).FindStringSubmatch(output)[1], 64)
	if err != nil || shortest < 50 {
		t.Errorf("shortest round trip %v ms, %v; at least 2 x 25 was asked for\n%s", shortest, err, output)
	}
}

func TestAnImpairedLinkHoldsItsRateAndLosesNoByteOfATransfer(t *testing.T) {
	const rate, size = 10_000_000, 2_000_000 // bit/s, bytes
	near, far := newWire(t, Impairment{Rate: rate})
	began := time.Now()
	received := transfer(t, near, far, "10.9.0.2", size)
	took := time.Since(began)
	if !bytes.Equal(received, pattern(size)) {
		t.Errorf("%d of %d bytes arrived, or not the same", len(received), size)
	}
	// netem lets nothing pass early; the first segments alone find it idle.
	if least := time.Duration(float64(size) * 8 / rate * 0.95 * float64(time.Second)); took < least {
		t.Errorf("%d bytes in %v, faster than %d bit/s allow (%v)", size, took, rate, least)
	}
}

func TestAnImpairedLinkLosesSingleFramesAndTCPRecovers(t *testing.T) {
	near, far := newWire(t, Impairment{Loss: 20})
	output := near.run("sh", "-c", "ping -q -c 300 -i 0.002 -W 1 10.9.0.2 || true")
	received, err := strconv.Atoi(regexp.MustCompile(`(\d+) received`).FindStringSubmatch(output)[1])
	// 300 round trips at 0.8 x 0.8: 192 expected, standard deviation 8.3.
	if err != nil || received < 192-60 || received > 192+60 {
		t.Errorf("%d of 300 round trips, %v; about 192 expected\n%s", received, err, output)
	}
	const size = 100_000
	if got := transfer(t, near, far, "10.9.0.2", size); !bytes.Equal(got, pattern(size)) {
		t.Errorf("%d of %d bytes arrived, or not the same", len(got), size)
	}
	// Were super-packets let in, a tap would say so.
	if features := near.run("ethtool", "-k", "tapa"); !strings.Contains(features, "tcp-segmentation-offload: off") {
		t.Errorf("tapa still segments:\n%s", features)
	}
}

func TestAnImpairedLinkCarriesFramesThatABridgeWouldKeep(t *testing.T) {
	near, far := newWire(t, Impairment{})
	near.run("ping", "-c", "1", "-W", "3", "10.9.0.2")
	// 01:80:c2:00:00:0e is LLDP's address: bridges do not forward it (IEEE 802.1Q 8.6.3).
	frame := append([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc}, bytes.Repeat([]byte{7}, 46)...)
	receive := openPacket(t, far, "tapb")
	send := openPacket(t, near, "tapa")
	if _, err := send.Write(frame); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2000)
	receive.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		n, err := receive.Read(buf)
		if err != nil {
			t.Fatal("the frame did not arrive: ", err)
		}
		if bytes.Equal(buf[:n], frame) {
			return
		}
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// transfer sends a pattern from one namespace to another over TCP.
func transfer(t *testing.T, from, to *bench, address string, size int) []byte {
	t.Helper()
	var listener net.Listener
	to.do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	defer listener.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- inNetns(from.path, func() error {
			conn, err := net.DialTimeout("tcp", listener.Addr().String(), 20*time.Second)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write(pattern(size))
			return err
		})
	}()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
	}()
	select {
	case err := <-sent:
		if err != nil {
			t.Fatal(err)
		}
		conn := <-accepted
		defer conn.Close()
		return readAll(t, conn)
	case conn := <-accepted:
		defer conn.Close()
		received := readAll(t, conn)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		return received
	}
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(fmt.Errorf("receive: %w", err))
	}
	return b
}
