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

// newWire is two namespaces joined by an impaired link, with a third for its
// guest as in a lab.
//
//	near: eth0 10.9.0.1/24 --- a, bra, tapa --- UML guest, netem both ways --- tapb, brb, b --- far: eth0 10.9.0.2/24
func newWire(t *testing.T, i Impairment) (near, far *bench) {
	t.Helper()
	near, middle, far := newBench(t), newBench(t), newBench(t)
	for side, end := range map[string]*bench{"a": near, "b": far} {
		address := map[string]string{"a": "10.9.0.1/24", "b": "10.9.0.2/24"}[side]
		middle.tap("tap" + side)
		middle.cable(side, end, address)
		middle.run("ip", "link", "add", "br"+side, "up", "type", "bridge", "mcast_snooping", "0")
		// All but what no bridge may pass: LLDP, too (IEEE 802.1Q table 8-1).
		middle.run("ip", "link", "set", "dev", "br"+side, "type", "bridge", "group_fwd_mask", "0xfff8")
		middle.run("ip", "link", "set", "dev", side, "master", "br"+side)
		middle.run("ip", "link", "set", "dev", "tap"+side, "master", "br"+side)
	}
	middle.start(ImpairSpec("wire", shortDir(t), "tapa", "tapb", i))
	return near, far
}

// cable joins two namespaces; the far end is eth0.
func (b *bench) cable(device string, to *bench, address string) {
	b.t.Helper()
	there, err := os.Open(to.path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer there.Close()
	b.do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: "eth0", PeerNamespace: netlink.NsFd(there.Fd())}
		return errors.Join(netlink.LinkAdd(veth), netlink.LinkSetUp(veth))
	})
	to.run("ip", "address", "add", address, "dev", "eth0")
	to.run("ip", "link", "set", "eth0", "up")
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
	near.knows("10.9.0.2", far)
	far.knows("10.9.0.1", near)
	output := near.run("sh", "-c", "ping -q -c 300 -i 0.002 -W 1 10.9.0.2 || true")
	received, err := strconv.Atoi(regexp.MustCompile(`(\d+) received`).FindStringSubmatch(output)[1])
	// 300 round trips at 0.8 x 0.8: 192 expected, standard deviation 8.3.
	if err != nil || received < 192-60 || received > 192+60 {
		t.Errorf("%d of 300 round trips, %v; about 192 expected\n%s", received, err, output)
	}
	const size = 400_000
	watch := openPacket(t, far, "eth0")
	if got := transfer(t, near, far, "10.9.0.2", size); !bytes.Equal(got, pattern(size)) {
		t.Errorf("%d of %d bytes arrived, or not the same", len(got), size)
	}
	// One lost GSO packet would be forty frames: none may cross.
	if n := longestFrame(t, watch); n == 0 || n > 1514 {
		t.Errorf("the longest frame has %d bytes", n)
	}
}

// knows tells a namespace who has an address: to lose questions for it is to lose
// dozens of packets.
func (b *bench) knows(address string, has *bench) {
	b.t.Helper()
	mac := strings.Fields(has.run("ip", "-brief", "link", "show", "dev", "eth0"))[2]
	b.run("ip", "neighbour", "replace", address, "lladdr", mac, "dev", "eth0", "nud", "permanent")
}

// longestFrame reads what a packet socket has gathered.
func longestFrame(t *testing.T, watch *os.File) int {
	t.Helper()
	longest, buf := 0, make([]byte, 1<<17)
	for {
		watch.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := watch.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return longest
		}
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, n)
	}
}

func TestAnImpairedLinkCarriesFramesThatABridgeWouldKeep(t *testing.T) {
	near, far := newWire(t, Impairment{})
	near.run("ping", "-c", "1", "-W", "3", "10.9.0.2")
	// 01:80:c2:00:00:0e is LLDP's address: bridges do not forward it (IEEE 802.1Q 8.6.3).
	frame := append([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc}, bytes.Repeat([]byte{7}, 46)...)
	receive := openPacket(t, far, "eth0")
	send := openPacket(t, near, "eth0")
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
			conn.SetDeadline(time.Now().Add(time.Minute))
			_, err = conn.Write(pattern(size))
			return err
		})
	}()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.SetDeadline(time.Now().Add(time.Minute))
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
