package fibtable_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/datapath/fibtable"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// Streams between two hosts through a router whose kernel forwards nothing:
//
//	a 192.0.2.2 ---- lan router wan ---- b 198.51.100.2
//
// TCP and UDP leave a as GSO packets, which TC has to send on whole.

type host struct {
	space *netspace.Space
	addr  string
	mac   [6]byte
}

// newStreams builds the picture. Routes of both directions lead straight to
// the hosts, by TC.
func newStreams(t *testing.T) (w *wire, a, b host) {
	t.Helper()
	w = &wire{t: t, space: spacetest.New(t, "router"), links: map[string]*net.Interface{}}
	a = host{space: spacetest.New(t, "a"), addr: "192.0.2.2"}
	b = host{space: spacetest.New(t, "b"), addr: "198.51.100.2"}
	cookie, err := w.space.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	w.dir = fmt.Sprintf("/sys/fs/bpf/wefttest-%d", cookie)
	t.Cleanup(func() {
		if err := datapath.Remove(w.dir); err != nil {
			t.Error(err)
		}
	})
	for _, end := range []struct {
		name, router string
		h            *host
	}{{"lan", "192.0.2.1/24", &a}, {"wan", "198.51.100.1/24", &b}} {
		w.in(func() error { return w.connect(end.name, end.router, end.h) })
	}
	w.open()
	w.apply(state.Add, state.RouteTables{Words4: smallWords4, Words6: smallWords6})
	routes, err := fibtable.Of(w.datapath).Routes()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { routes.Close() })
	words, err := routes.Words4(0)
	if err != nil {
		t.Fatal(err)
	}
	table, err := fib.New4(words)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := routes.Range()
	for i, end := range []struct {
		name string
		h    host
	}{{"lan", a}, {"wan", b}} {
		number := first + uint32(i)
		n := state.NeighbourEntry{
			IfIndex: uint32(w.links[end.name].Index), MTU: 1500,
			Dst: end.h.mac, Src: [6]byte(w.links[end.name].HardwareAddr),
		}
		err := errors.Join(routes.SetNeighbour(number, n),
			routes.SetNexthop(number, state.Nexthop{Kind: state.NexthopNeighbour, Index: number}),
			table.Insert(netip.PrefixFrom(netip.MustParseAddr(end.h.addr), 32), number))
		if err != nil {
			t.Fatal(err)
		}
		w.apply(state.Add, w.port(end.name))
		w.apply(state.Add, state.Attachment{Device: end.name, Hook: state.HookIngress, Program: "ingress_tc", Build: "test"})
	}
	w.publish(routes)
	return w, a, b
}

// connect puts a veth between the router and a host. Forwarding is disabled in the
// router's kernel.
func (w *wire) connect(name, address string, h *host) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o644); err != nil {
		return err
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0"}
	veth.Name = name
	veth.PeerNamespace = netlink.NsFd(h.space.FD())
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	if err := setUp(name, address); err != nil {
		return err
	}
	router, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	w.links[name] = router
	return h.space.Do(func() error {
		if err := setUp("eth0", h.addr+"/24"); err != nil {
			return err
		}
		own, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		h.mac = [6]byte(own.HardwareAddr)
		gateway, _, err := net.ParseCIDR(address)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: own.Index, Gw: gateway})
	})
}

func setUp(device, address string) error {
	l, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(l), netlink.AddrAdd(l, a))
}

func (h host) in(t *testing.T, f func() error) {
	t.Helper()
	if err := h.space.Do(f); err != nil {
		t.Fatal(err)
	}
}

func TestAStreamOfTCPCrossesInSuperPackets(t *testing.T) {
	w, a, b := newStreams(t)
	var listener net.Listener
	b.in(t, func() (err error) {
		listener, err = net.Listen("tcp4", b.addr+":9000")
		return err
	})
	defer listener.Close()
	data := bytes.Repeat(datapathtest.Counting(255), 1<<15)
	received := make(chan [32]byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, conn); err == nil {
			received <- [32]byte(sum.Sum(nil))
		}
	}()
	var conn net.Conn
	a.in(t, func() (err error) {
		conn, err = net.DialTimeout("tcp4", b.addr+":9000", 20*time.Second)
		return err
	})
	if _, err := conn.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case sum := <-received:
		if sum != sha256.Sum256(data) {
			t.Error("the stream has changed on its way")
		}
	case <-t.Context().Done():
		t.Fatal("the stream has not arrived")
	}
	routed := w.count("ingress_tc", state.ForwardRouted)
	if segments := uint64(len(data) / 1448); routed == 0 || routed > segments/2 {
		t.Errorf("%d frames were routed for %d segments: GSO packets were cut", routed, segments)
	}
}

func TestSegmentedDatagramsCrossInSuperPackets(t *testing.T) {
	w, a, b := newStreams(t)
	var to, from *net.UDPConn
	b.in(t, func() (err error) {
		to, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(b.addr+":9000")))
		return err
	})
	defer to.Close()
	a.in(t, func() (err error) {
		from, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(b.addr+":9000")))
		return err
	})
	defer from.Close()
	if err := to.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	send := func(segment int) (segments int) {
		t.Helper()
		raw, err := from.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var option error
		err = raw.Control(func(fd uintptr) {
			option = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment)
		})
		if err := errors.Join(err, option); err != nil {
			t.Fatal(err)
		}
		segments = 20
		if _, err := from.Write(make([]byte, segments*segment)); err != nil {
			t.Fatal(err)
		}
		return segments
	}
	for _, segment := range []int{1200, 1472} {
		before := w.count("ingress_tc", state.ForwardRouted)
		buffer := make([]byte, 65536)
		for i := range send(segment) {
			n, err := to.Read(buffer)
			if err != nil || n != segment {
				t.Fatalf("datagram %d of %d bytes: %d bytes, %v", i, segment, n, err)
			}
		}
		if frames := w.count("ingress_tc", state.ForwardRouted) - before; frames != 1 {
			t.Errorf("%d frames were routed for one GSO packet of %d bytes a segment", frames, segment)
		}
	}
	// the next hop does not know that its device takes less: the kernel does
	w.in(func() error {
		l, err := netlink.LinkByName("wan")
		return errors.Join(err, netlink.LinkSetMTU(l, 1400))
	})
	for segment, want := range map[int]state.Outcome{1400 - 28: state.ForwardRouted, 1401 - 28: state.PassTooBig} {
		before := w.count("ingress_tc", want)
		send(segment)
		w.counted("ingress_tc", want, before)
	}
}
