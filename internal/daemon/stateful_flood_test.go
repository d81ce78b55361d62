package daemon_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/wire/checksum/checksumtest"
)

// Floods that a stranger, or a node gone mad, could send: each bounded in
// count. Meanwhile datagrams of another node cross both ways, and none is lost;
// tables do not grow beyond what the file says; and every packet of the flood
// is counted as what became of it.

const floodPackets = 6000

func TestFloodsDoNotHarmWhatIsThere(t *testing.T) {
	// alone: a flood takes the processors
	for name, bypass := range map[string]string{"through the stack": "", "xdp": "bypass = true\nhook = \"xdp\""} {
		t.Run(name, func(t *testing.T) {
			toml := strings.Replace(statefulTOML(strings.ReplaceAll(ends, "%s", bypass), 2048), "bindings = 2048", "bindings = 2048\nsessions = 4096\nports_per_subscriber = 1000\nfiltering = \"address-dependent\"", 1)
			w := newTopology(t, toml)
			w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
			r := w.start()
			w.pings(w.member, serverFrom6)
			f := w.startFlood()
			random := rand.New(rand.NewPCG(1, 1))
			inside, outside := w.wire(w.member, "lan"), w.wire(w.server, "wan")
			outsider := func() netip.Addr {
				a := netip.MustParseAddr("2001:db8:1:1::").As16()
				binary.BigEndian.PutUint64(a[8:], random.Uint64())
				return netip.AddrFrom16(a)
			}
			server6 := netip.MustParseAddr(serverFrom6)
			before := w.total()
			for i := range floodPackets {
				if i%100 == 99 {
					// a CPU's queue has room for a thousand packets: what is lost there weft has not lost
					time.Sleep(time.Millisecond)
				}
				switch i % 6 {
				case 0: // a node's SYNs from random ports and addresses
					inside.send(ipv6(outsider(), server6, 6, sealed6(outsider(), server6, 6, tcpSYN(random))))
				case 1: // a node's datagrams to random ports
					from := outsider()
					inside.send(ipv6(from, server6, 17, sealed6(from, server6, 17, udp(random))))
				case 2: // first fragments whose rest never comes
					inside.send(ipv6(outsider(), server6, 44, append([]byte{17, 0, 0, 1, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}, udp(random)...)))
				case 3: // SYNs from outside to random ports
					outside.send(ipv4("198.51.100.9", "192.0.2.1", 6, 0, nil, tcpSYN(random)))
				case 4: // datagrams from outside to random ports
					outside.send(ipv4("198.51.100.9", "192.0.2.1", 17, 0, nil, udp(random)))
				case 5: // forged errors about packets that were never sent
					inner := ipv4("192.0.2.1", "198.51.100.9", 17, 0, nil, udp(random))
					outside.send(ipv4("198.51.100.77", "192.0.2.1", 1, 0, nil, icmp(3, 1, inner)))
				}
			}
			f.endWithoutLoss(t)
			if n := len(w.rows("nat-sessions")); n > 4096 {
				t.Errorf("%d sessions, 4096 are allowed", n)
			}
			if n := len(w.rows("bib")); n > 1000+1+1+1 { // one subscriber's share, the other node's two, the static one
				t.Errorf("%d bindings", n)
			}
			eventually(t, "every packet of the flood is counted", func() bool { return w.total()-before >= floodPackets })
			for _, outcome := range []string{"drop-subscriber-limit", "drop-no-binding"} {
				if w.counted(outcome) == 0 {
					t.Errorf("no %s", outcome)
				}
			}
			if mib := residentMiB(t, r.cmd.Process.Pid); mib > 200 {
				t.Errorf("the daemon has grown to %d MiB", mib)
			}
			w.pings(w.member, serverFrom6)
		})
	}
}

// total is how many packets have been counted.
func (w *topology) total() (n int) {
	for _, row := range w.rows("counters") {
		n += int(row["packets"].(float64))
	}
	return n
}

func tcpSYN(random *rand.Rand) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint32(b, random.Uint32())
	binary.BigEndian.PutUint32(b[4:], random.Uint32())
	b[12], b[13] = 5<<4, 2
	return b
}

func udp(random *rand.Rand) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint32(b, random.Uint32()|1<<31|1<<15)
	b[5], b[6], b[7] = 16, 1, 1
	return b
}

// sealed6 puts the checksum of TCP or UDP over IPv6 in its place.
func sealed6(from, to netip.Addr, protocol byte, segment []byte) []byte {
	at := map[byte]int{6: 16, 17: 6}[protocol]
	segment[at], segment[at+1] = 0, 0
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, 0, 0, byte(len(segment)), 0, 0, 0, protocol)
	binary.BigEndian.PutUint16(segment[at:], checksumtest.Of(append(pseudo, segment...)))
	return segment
}

func residentMiB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
