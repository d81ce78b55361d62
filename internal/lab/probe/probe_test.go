package probe

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

func serveLocally(t *testing.T) Ports {
	t.Helper()
	s, err := Listen(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, [32]byte{1}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return s.Ports()
}

func local(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
}

func TestTransfersArriveWholeBothWays(t *testing.T) {
	ports := serveLocally(t)
	for _, d := range []Direction{Download, Upload} {
		for _, n := range []int64{0, 1, 65537, 3 << 20} {
			got, err := Move(t.Context(), local(ports.TCP), Moving{Direction: d, Length: n}, [32]byte{2})
			if err != nil || !got.Same || got.Bytes != n || len(got.SHA256) != 64 {
				t.Errorf("%s of %d bytes: %+v, %v", d, n, got, err)
			}
		}
	}
}

// damaged flips one bit of what is read, at an offset.
type damaged struct {
	net.Conn
	offset int
}

func (d *damaged) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if d.offset >= 0 && d.offset < n {
		b[d.offset] ^= 1
	}
	d.offset -= n
	return n, err
}

func TestOneBitFlippedOnTheWayIsNoticedByBothSides(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	sent := make(chan [2][32]byte, 1)
	go func() {
		digests, _, err := send(a, 1000, [32]byte{3}, 0)
		if err != nil {
			t.Errorf("send: %v", err)
		}
		sent <- digests
	}()
	got, _, err := receive(&damaged{b, 777}, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got[0] == got[1] {
		t.Error("the receiver believes the bytes")
	}
	if s := <-sent; s[0] == s[1] || s != got {
		t.Error("the sender believes the bytes, or has other digests than the receiver")
	}
}

func TestATransferThatBreaksOffIsAnError(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		a.Write(make([]byte, 10))
		a.Close()
	}()
	if _, _, err := receive(b, 1000, 0); err == nil || !strings.Contains(err.Error(), "after 10 bytes") {
		t.Errorf("got %v, want a break after 10 bytes", err)
	}
}

func TestRequestsThatAreNoneAreRefused(t *testing.T) {
	good := request{Upload, 5}.marshal()
	if q, err := readRequest(strings.NewReader(string(good))); err != nil || q != (request{Upload, 5}) {
		t.Errorf("a good request reads as %+v, %v", q, err)
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\n", string(good[:15]), "weft-01x" + string(good[8:]), string(good[:8]) + "\xff\xff\xff\xff\xff\xff\xff\xff", string(good[:8]) + "\x00\x00\x00\x7f\xff\xff\xff\xff"} {
		if q, err := readRequest(strings.NewReader(text)); err == nil {
			t.Errorf("%q reads as %+v", text, q)
		}
	}
}

func TestDatagramsComeBackAndOtherBytesDoNotCount(t *testing.T) {
	ports := serveLocally(t)
	d, err := Exchange(t.Context(), local(ports.UDP), []int{0, 1, 1000, 9000}, 1, 5*time.Second, [32]byte{4})
	if err != nil || d.Intact != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	liar, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer liar.Close()
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := liar.ReadFrom(b)
			if err != nil {
				return
			}
			b[0] ^= 1
			liar.WriteTo(b[:n], from)
		}
	}()
	port := uint16(liar.LocalAddr().(*net.UDPAddr).Port)
	d, err = Exchange(t.Context(), local(port), []int{10}, 3, time.Second, [32]byte{5})
	if err != nil || d.Intact != 0 || !strings.Contains(d.Problem, "not those sent") {
		t.Errorf("a liar's echo: %+v, %v", d, err)
	}
}

// A server that loses the first datagrams of a size is asked again; one that
// loses them all fails, however often it is asked.
func TestDatagramsAreSentAgainAsOftenAsIsSaid(t *testing.T) {
	// an answer that this process gives too late would be asked for again
	const patience = 2 * time.Second
	for _, test := range []struct{ lost, tries, intact, again int }{{0, 3, 2, 0}, {2, 3, 2, 2}, {2, 2, 1, 1}, {99, 3, 1, 2}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			server, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			go func() {
				b, large := make([]byte, 100), 0
				for {
					n, from, err := server.ReadFrom(b)
					if err != nil {
						return
					}
					if n == 50 {
						if large++; large <= test.lost {
							continue
						}
					}
					server.WriteTo(b[:n], from)
				}
			}()
			d, err := Exchange(t.Context(), local(uint16(server.LocalAddr().(*net.UDPAddr).Port)), []int{10, 50}, test.tries, patience, [32]byte{6})
			if err != nil || d.Intact != test.intact || d.Again != test.again || (d.Problem == "") != (test.intact == 2) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestPathMTUOfLoopbackIsItsDevices(t *testing.T) {
	ports := serveLocally(t)
	p, err := DiscoverMTU(t.Context(), local(ports.UDP), 5*time.Second, [32]byte{6})
	lo, lerr := net.InterfaceByName("lo")
	if lerr != nil {
		t.Fatal(lerr)
	}
	if err != nil || !p.Confirmed || p.Learnt != min(lo.MTU, 65535) {
		t.Errorf("%+v, %v; the device takes %d", p, err, lo.MTU)
	}
}

func TestPingHearsLoopbackAndNobodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("raw sockets need root")
	}
	for _, a := range []string{"127.0.0.1", "::1"} {
		e, err := Ping(t.Context(), netip.MustParseAddr(a), PingOptions{Count: 2, Size: 1000, Timeout: 5 * time.Second}, [32]byte{7})
		if err != nil || e.Received != 2 || e.HopLimit != 64 || e.Min > e.Mean || e.Mean > e.Max {
			t.Errorf("%s: %+v, %v", a, e, err)
		}
	}
}

func TestFramesAreDescribed(t *testing.T) {
	for _, c := range []struct{ name, frame, kind, words, from string }{
		{"an ARP request", "ffffffffffff020000000001" + "0806" + "0001080006040001" + "020000000001" + "c0000202" + "000000000000" + "c0000201", "arp", "who has 192.0.2.1? tell 192.0.2.2", "192.0.2.2"},
		{"an ARP reply", "020000000001020000000002" + "0806" + "0001080006040002" + "020000000002" + "c0000201" + "020000000001" + "c0000202", "arp", "192.0.2.1 is at 02:00:00:00:00:02", "192.0.2.1"},
		{"an IPv4 echo request", "020000000001020000000002" + "0800" + "4500001c000000004001f68b" + "c0000201" + "c0000202" + "0800f7ff00000000", "icmp", "echo request", "192.0.2.1"},
		{"an IPv6 echo reply", "020000000001020000000002" + "86dd" + "600000000008" + "3a40" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002" + "8100000000000000", "icmpv6", "echo reply", "2001:db8::1"},
		{"a neighbour solicitation", "3333ff000001020000000002" + "86dd" + "600000000018" + "3aff" + "20010db8000000000000000000000002" + "ff0200000000000000000001ff000001" + "8700000000000000" + "20010db8000000000000000000000001", "nd", "who has 2001:db8::1?", "2001:db8::2"},
		{"half an IPv4 header", "020000000001020000000002" + "0800" + "4500001c", "other", "IPv4", ""},
		{"nothing", "", "other", "", ""},
	} {
		b, err := hex.DecodeString(c.frame)
		if err != nil {
			t.Fatal(c.name, err)
		}
		f := Describe(b)
		from := ""
		if f.From.IsValid() {
			from = f.From.String()
		}
		if f.Kind != c.kind || f.Words != c.words || from != c.from {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := Describe(b); got.Length != len(b) || got.Kind == "" {
			t.Errorf("%x: %+v", b, got)
		}
	})
}

func FuzzReadRequest(f *testing.F) {
	f.Add(request{Download, 1}.marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := readRequest(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		again, err := readRequest(strings.NewReader(string(q.marshal())))
		if err != nil || again != q {
			t.Errorf("%+v comes back as %+v, %v", q, again, err)
		}
	})
}
