package daemon_test

// Frames at the ends of a bridge, whatever they hold.

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
	"weft/wire/checksum/checksumtest"
)

// frames sends and sees frames at a host's eth0, whatever they hold.
type frames struct {
	t     *testing.T
	fd    int
	index int
}

func (w *topology) frames(host *netspace.Space) *frames {
	w.t.Helper()
	x := &frames{t: w.t}
	err := host.Do(func() (err error) {
		all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
		if x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
			return err
		}
		if err = unix.SetsockoptInt(x.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
			return err
		}
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		x.index = eth0.Index
		return unix.Bind(x.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: x.index})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(x.fd) })
	return x
}

// frame builds one: to and from are link addresses.
func frame(to, from string, kind uint16, body []byte) []byte {
	b := append(append(mac(to), mac(from)...), byte(kind>>8), byte(kind))
	b = append(b, body...)
	return append(b, make([]byte, max(0, 60-len(b)))...)
}

func mac(text string) []byte {
	b := make([]byte, 6)
	if _, err := fmt.Sscanf(text, "%02x:%02x:%02x:%02x:%02x:%02x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]); err != nil {
		panic(err)
	}
	return b
}

func (x *frames) send(b []byte) {
	x.t.Helper()
	if err := unix.Sendto(x.fd, b, 0, &unix.SockaddrLinklayer{Ifindex: x.index}); err != nil {
		x.t.Fatal(err)
	}
}

// got returns what has come from others since the last time.
func (x *frames) got() (list [][]byte) {
	x.t.Helper()
	b := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(x.fd, b, 0)
		if err == unix.EAGAIN {
			return list
		}
		if err != nil {
			x.t.Fatal(err)
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING {
			list = append(list, bytes.Clone(b[:n]))
		}
	}
}

// count returns how many frames that have come hold a text.
func (x *frames) count(text string) (n int) {
	x.t.Helper()
	for _, b := range x.got() {
		if bytes.Contains(b, []byte(text)) {
			n++
		}
	}
	return n
}

const everybody = "ff:ff:ff:ff:ff:ff"

// marked is a datagram from a link address, with a text.
func marked(to, from, text string) []byte {
	payload := append([]byte{0x0f, 0xa0, 0x0f, 0xa0, 0, byte(8 + len(text)), 0, 0}, text...)
	return frame(to, from, 0x0800, ipv4("10.9.0.99", "10.9.0.255", 17, 0, nil, payload))
}

// sync sends a frame that is let through and waits until the other has it: all
// that was sent before has had its chance. Each CPU has a queue of its own, and
// the frames before were sent from any of them, so each sends one.
func (w bridgedTopology) sync(from, to *frames, text string) (before int) {
	w.t.Helper()
	last := onEachCPU(w.t, func() { from.send(marked(serverMAC, otherMAC, "that was all")) })
	end := time.Now().Add(patience)
	for {
		for _, b := range to.got() {
			if bytes.Contains(b, []byte("that was all")) {
				last--
			}
			if bytes.Contains(b, []byte(text)) {
				before++
			}
		}
		if last == 0 {
			return before
		}
		if time.Now().After(end) {
			w.t.Fatal("a frame that may pass does not")
		}
		time.Sleep(time.Millisecond)
	}
}

// onEachCPU does something on each of the CPUs that this process may use, and
// gives how many there are.
func onEachCPU(t *testing.T, do func()) (cpus int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			t.Error(err)
		}
	}()
	for cpu := 0; cpus < all.Count(); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		do()
		cpus++
	}
	return cpus
}

func arpBody(op byte, owner, from, to string) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, op}, mac(owner)...)
	b = append(b, netip.MustParseAddr(from).AsSlice()...)
	b = append(b, make([]byte, 6)...)
	return append(b, netip.MustParseAddr(to).AsSlice()...)
}

func neighbourSolicitation(from, source, target string) []byte {
	src, dst := netip.MustParseAddr(source), netip.MustParseAddr(target).As16()
	group := netip.AddrFrom16([16]byte{0xff, 2, 11: 1, 12: 0xff, 13: dst[13], 14: dst[14], 15: dst[15]})
	body := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, dst[:]...)
	body = append(append(body, 1, 1), mac(from)...)
	pseudo := append(append(src.AsSlice(), group.AsSlice()...), 0, 0, 0, byte(len(body)), 0, 0, 0, 58)
	sum := checksumtest.Of(append(pseudo, body...))
	body[2], body[3] = byte(sum>>8), byte(sum)
	p := ipv6(src, group, 58, body)
	p[7] = 255
	return frame(fmt.Sprintf("33:33:ff:%02x:%02x:%02x", dst[13], dst[14], dst[15]), from, 0x86dd, p)
}
