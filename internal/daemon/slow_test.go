package daemon_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
	"weft/internal/lab/probe"
	"weft/wire/checksum/checksumtest"
)

// wire sends frames out of eth0 of a host to the router, whatever they hold.
type wire struct {
	t      *testing.T
	fd     int
	header []byte
	to     unix.SockaddrLinklayer
}

func (w *topology) wire(host *netspace.Space, device string) *wire {
	w.t.Helper()
	x := &wire{t: w.t}
	var router, own net.HardwareAddr
	interfaceOf := func(name string, mac *net.HardwareAddr, index *int) func() error {
		return func() error {
			i, err := net.InterfaceByName(name)
			if err == nil {
				*mac, *index = i.HardwareAddr, i.Index
			}
			return err
		}
	}
	var ignored int
	err := w.router.Do(interfaceOf(device, &router, &ignored))
	if err == nil {
		err = host.Do(interfaceOf("eth0", &own, &x.to.Ifindex))
	}
	if err == nil {
		err = host.Do(func() (err error) {
			x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			return err
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(x.fd) })
	x.header = append(append([]byte{}, router...), own...)
	return x
}

func (x *wire) send(ip []byte) {
	x.t.Helper()
	kind := []byte{0x08, 0x00}
	if ip[0]>>4 == 6 {
		kind = []byte{0x86, 0xdd}
	}
	frame := append(append(append([]byte{}, x.header...), kind...), ip...)
	if err := unix.Sendto(x.fd, frame, 0, &x.to); err != nil && err != unix.ENOBUFS {
		x.t.Fatal(err)
	}
}

// ipv4 builds a packet, checksum and all.
func ipv4(from, to string, protocol byte, flags uint16, options, payload []byte) []byte {
	b := append(append(make([]byte, 20), options...), payload...)
	b[0], b[8], b[9] = byte(0x45+len(options)/4), 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[6:], flags)
	copy(b[12:], netip.MustParseAddr(from).AsSlice())
	copy(b[16:], netip.MustParseAddr(to).AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:20+len(options)]))
	return b
}

func ipv6(from, to netip.Addr, next byte, payload []byte) []byte {
	b := append(make([]byte, 40), payload...)
	b[0], b[6], b[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], from.AsSlice())
	copy(b[24:], to.AsSlice())
	return b
}

// icmp builds an ICMPv4 message, its body of an even length.
func icmp(kind, code byte, body []byte) []byte {
	b := append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, body...)
	binary.BigEndian.PutUint16(b[2:], checksumtest.Of(b))
	return b
}

// What the IPv4 stack would drop is mended, and passes the firewall like any
// other packet: an error of a flow that the member began gets through, the
// same error of another flow does not.
func TestALongICMPErrorPassesTheFirewallIfItsFlowDoes(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.rpFilter()
	w.feed(w.router, firewall, "nft -f -")
	w.start()
	w.pings(w.member, serverFrom6)
	var conn net.Conn
	err := w.member.Do(func() (err error) {
		conn, err = net.Dial("udp6", net.JoinHostPort(serverFrom6, "7009"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var refused, flow uint16
	flow = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
	refused = flow ^ 1
	wire := w.wire(w.server, "wan")
	unreachable := func(port uint16) []byte {
		datagram := make([]byte, 8+1352)
		binary.BigEndian.PutUint16(datagram, port)
		binary.BigEndian.PutUint16(datagram[2:], 7009)
		binary.BigEndian.PutUint16(datagram[4:], uint16(len(datagram)))
		datagram[7] = 1 // some checksum
		return ipv4("198.51.100.9", memberFrom4, 1, 0x4000, nil, icmp(3, 3, ipv4(memberFrom4, "198.51.100.9", 17, 0x4000, nil, datagram)))
	}
	if n := len(unreachable(flow)); n <= 1260 {
		t.Fatalf("the error has only %d bytes", n)
	}
	// the member's first datagram makes the flow known
	if _, err := conn.Write([]byte("who is there")); err != nil {
		t.Fatal(err)
	}
	before := w.filtered("refused")
	wire.send(unreachable(refused))
	eventually(t, "the firewall refuses an error of no flow", func() bool { return w.filtered("refused") == before+1 })
	eventually(t, "the member receives port unreachable", func() bool {
		wire.send(unreachable(flow))
		conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := conn.Read(make([]byte, 100))
		return err != nil && !os.IsTimeout(err)
	})
	if w.counted("slow-before-stack") == 0 || w.counted("pass-normalised") == 0 {
		t.Errorf("nothing was mended: %v", w.rows("counters"))
	}
	if n := w.filtered("refused"); n != before+1 {
		t.Errorf("the firewall refused %d packets more", n-before-1)
	}
}

// Two nodes that have mappings talk by their IPv4 addresses (RFC 7757 section
// 4), whichever hooks translate.
func TestNodesWithMappingsReachEachOtherByIPv4(t *testing.T) {
	t.Parallel()
	second := "[{ ipv6 = \"2001:db8:1::2\", ipv4 = \"198.51.100.2\" }, { ipv6 = \"2001:db8:1::3\", ipv4 = \"198.51.100.3\" }]"
	for name, interfaces := range map[string]string{
		"stack": "", "tc": "bypass = true\nhook = \"tc\"", "xdp": "bypass = true\nhook = \"xdp\"",
	} {
		t.Run(name, func(t *testing.T) {
			mapped := regexp.MustCompile(`mappings = .*`).ReplaceAllString(translator, "mappings = "+second)
			w := newTopology(t, fmt.Sprintf(ends, interfaces, interfaces)+mapped)
			w.run(w.member, "ip addr add 2001:db8:1::3/64 dev eth0 nodad")
			w.start()
			for _, from := range []string{"2001:db8:1::2", "2001:db8:1::3"} {
				to := map[string]string{"2001:db8:1::2": "64:ff9b:1::198.51.100.3", "2001:db8:1::3": "64:ff9b:1::198.51.100.2"}[from]
				if out, err := w.try(w.member, "ping -c 2 -i 0.05 -W 2 -I "+from+" "+to); err != nil {
					t.Errorf("%s does not reach %s: %v\n%s", from, to, err, out)
				}
			}
			if n := w.counted("forward-4to6"); n < 8 {
				t.Errorf("only %d packets came back from IPv4", n)
			}
		})
	}
}

// A flood of all that is hard: forwarding goes on, and nothing grows.
func TestAFloodForTheSlowPathIsBounded(t *testing.T) {
	// alone: a flood takes the processors
	w := newTopology(t, usual())
	// the server must have room for datagrams behind so many that never end
	w.run(w.server, "sysctl -w net.ipv4.ipfrag_high_thresh=268435456")
	r := w.start()
	w.pings(w.member, serverFrom6)
	ports := w.serve(w.server)
	before := residentKB(t, r.cmd.Process.Pid)
	stop, done := make(chan struct{}), make(chan int)
	wire := w.wire(w.member, "lan")
	go func() {
		sent := 0
		for ; sent < 300_000; sent++ {
			select {
			case <-stop:
				if sent >= 20_000 {
					done <- sent
					return
				}
			default:
			}
			wire.send(hard(sent))
		}
		done <- sent
	}()
	w.move(w.member, serverFrom6, ports.TCP, probe.Download, 8<<20)
	w.move(w.member, serverFrom6, ports.TCP, probe.Upload, 8<<20)
	close(stop)
	sent := <-done
	up, limited := 0, w.counted("drop-slow-limit")
	for _, o := range []string{"slow-fragment", "slow-icmp-error", "slow-error-due"} {
		up += w.counted(o)
	}
	t.Logf("%d sent: %d went up, %d were too many", sent, up, limited)
	if up == 0 || limited == 0 || up+limited > sent+1000 {
		t.Errorf("of %d packets %d went up and %d were too many", sent, up, limited)
	}
	if after := residentKB(t, r.cmd.Process.Pid); after > before+64<<10 {
		t.Errorf("the daemon grew from %d to %d KiB", before, after)
	}
	w.pings(w.member, serverFrom6)
	w.fragmentsPass()
}

// hard returns the nth packet of a flood: a spoofed ICMP error, a fragment that
// belongs to nothing, a source without mapping.
func hard(n int) []byte {
	spoofed := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7, 7, byte(n >> 16), byte(n >> 8), byte(n), 15: 1})
	member, far := netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr(serverFrom6)
	switch n % 3 {
	case 0:
		quoted := ipv6(far, member, 17, []byte{0x1b, 0x5f, byte(n >> 8), byte(n), 0, 8, 1, 1})
		return ipv6(spoofed, far, 58, append([]byte{1, 4, 0, 0, 0, 0, 0, 0}, quoted...))
	case 1:
		return ipv6(member, far, 44, append([]byte{17, 0, 0, 9, 0, byte(n >> 16), byte(n >> 8), byte(n)}, make([]byte, 64)...))
	}
	return ipv6(spoofed, far, 17, []byte{0x1b, 0x5f, byte(n >> 8), byte(n), 0, 8, 1, 1})
}

// residentKB returns the resident memory of a process in KiB.
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
