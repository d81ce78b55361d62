package daemon_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// pieced are pseudowires of every kind that can come in pieces, over a cable of
// 1500 bytes, with frames of 1514 inside.
const fragmented = `
[router]
forwarding = false
[interface.wan]
addresses = ["198.51.100.1/24", "2001:db8:9::1/64"]
`

// fragmentedWire is one of them: what stands before a frame, and what its section has.
type fragmentedWire struct {
	name, network, options string
	port                   int
	head, wrong            string // hexadecimal; wrong: another cookie, key or session
	fault                  string // of wrong
}

func fragmentedWires() []fragmentedWire {
	l2tp := func(id int) string {
		return fmt.Sprintf("kind = \"l2tpv3\"\nrx_session = %d\ntx_session = 7\nrx_cookie = %q\ntx_cookie = %q\n", id, aa, bb)
	}
	udp := "srcport = 1701\ndstport = 1701\n"
	gre := "kind = \"gretap\"\nrx_key = 7\ntx_key = 7\n"
	return []fragmentedWire{
		{"udp4", "udp4", l2tp(7) + udp, 1701, "00030000 00000007 00000000000000aa", "00030000 00000007 00000000000000ab", "drop-pseudowire-cookie"},
		{"udp6", "udp6", l2tp(7) + udp, 1701, "00030000 00000007 00000000000000aa", "00030000 00000009 00000000000000aa", "drop-pseudowire-unknown"},
		{"ip4", "ip4:115", l2tp(8) + "udp = false\n", 0, "00000008 00000000000000aa", "00000008 00000000000000ab", "drop-pseudowire-cookie"},
		{"ip6", "ip6:115", l2tp(8) + "udp = false\n", 0, "00000008 00000000000000aa", "00000009 00000000000000aa", "drop-pseudowire-unknown"},
		{"gre4", "ip4:47", gre, 0, "20006558 00000007", "20006558 00000009", "drop-pseudowire-unknown"},
		{"gre6", "ip6:47", gre, 0, "20006558 00000007", "30006558 00000007 00000000", "drop-pseudowire-header"},
	}
}

func (p fragmentedWire) ends() (near, far string) {
	if strings.HasPrefix(p.network, "ip4") || p.network == "udp4" {
		return "198.51.100.1", "198.51.100.9"
	}
	return "2001:db8:9::1", "2001:db8:9::9"
}

func (p fragmentedWire) section() string {
	near, far := p.ends()
	return fmt.Sprintf("[pseudowire.%s]\nsrc = %q\ndst = %q\nmtu = 4000\n%s", p.name, near, far, p.options)
}

// say sends what stands behind the IP header, or behind that of UDP, as the
// kernel of the server does: in pieces where it is too large.
func (p fragmentedWire) say(w *topology, from string, payload []byte) {
	w.t.Helper()
	near, far := p.ends()
	if from == "" {
		from = far
	}
	err := w.server.Do(func() error {
		var c net.Conn
		var err error
		if p.port != 0 {
			c, err = net.DialUDP(p.network, &net.UDPAddr{IP: net.ParseIP(from), Port: p.port}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(near), 1701)))
		} else {
			c, err = net.DialIP(p.network, &net.IPAddr{IP: net.ParseIP(from)}, &net.IPAddr{IP: net.ParseIP(near)})
		}
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(payload)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func hexBytes(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// joinedBy returns how many packets of a pseudowire came in pieces.
func (w *topology) joinedBy(device string) float64 {
	w.t.Helper()
	for _, row := range w.rows("pseudowires") {
		if row["device"] == device {
			return row["rx_reassembled"].(float64)
		}
	}
	w.t.Fatalf("there is no pseudowire %s", device)
	return 0
}

// newFragmented has all of them, and who sends to them is no weft.
func newFragmented(t *testing.T) *topology {
	text := fragmented
	for _, p := range fragmentedWires() {
		text += p.section()
	}
	w := newTopology(t, text)
	for _, a := range []string{"198.51.100.10/24", "2001:db8:9::9/64 nodad", "2001:db8:9::10/64 nodad"} {
		w.run(w.server, "ip addr add "+a+" dev eth0")
	}
	w.start()
	return w
}

// frameOf makes a frame that is larger than a packet on the cable may be.
func frameOf(random *rand.Rand, length int) []byte {
	frame := append(hexBytes("02000000aa01 02000000aa02 88b5"), make([]byte, length-14)...)
	for i := 14; i < length; i++ {
		frame[i] = byte(random.Uint32())
	}
	return frame
}

// arrivals sees what arrives at a device of a host.
type arrivals struct {
	fd   int
	seen [][]byte
}

func (w *topology) arrivals(host *netspace.Space, device string) *arrivals {
	w.t.Helper()
	x := &arrivals{}
	err := host.Do(func() (err error) {
		all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
		if x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all)); err != nil {
			return err
		}
		at, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		return unix.Bind(x.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: at.Index})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(x.fd) })
	return x
}

// has reports whether a frame has arrived so far.
func (x *arrivals) has(frame []byte) bool {
	b := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(x.fd, b, 0)
		if err != nil {
			break
		}
		x.seen = append(x.seen, bytes.Clone(b[:n]))
	}
	return slices.ContainsFunc(x.seen, func(seen []byte) bool { return bytes.Equal(seen, frame) })
}

func TestPacketsOfPseudowiresThatComeInPiecesAreTaken(t *testing.T) {
	t.Parallel()
	w := newFragmented(t)
	random := rand.New(rand.NewPCG(3, 9))
	for _, p := range fragmentedWires() {
		at := w.arrivals(w.router, p.name)
		// the first may come before who takes it listens; a second is not said as long
		// as the first may be under way, or it would be counted with those below
		eventually(t, p.name+": frames come through", func() bool {
			first := frameOf(random, 1514)
			p.say(w, "", append(hexBytes(p.head), first...))
			for end := time.Now().Add(2 * time.Second); !at.has(first); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					return false
				}
			}
			return true
		})
		for _, test := range []struct {
			length int
			joined float64
		}{{1514, 1}, {100, 0}, {3200, 1}} {
			frame, before := frameOf(random, test.length), w.joinedBy(p.name)
			p.say(w, "", append(hexBytes(p.head), frame...))
			eventually(t, fmt.Sprintf("%s: a frame of %d bytes comes through", p.name, test.length), func() bool { return at.has(frame) })
			if n := w.joinedBy(p.name) - before; n != test.joined {
				t.Errorf("%s: with a frame of %d bytes %v are counted as joined, want %v", p.name, test.length, n, test.joined)
			}
		}
	}
	if w.counted("pass-pseudowire-fragment") == 0 {
		t.Error("the pieces are not counted")
	}
}

func TestPiecesOfWhatIsNoPseudowiresAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newFragmented(t)
	random := rand.New(rand.NewPCG(3, 10))
	for _, p := range fragmentedWires() {
		at := w.arrivals(w.router, p.name)
		good, bad := frameOf(random, 1514), frameOf(random, 1514)
		outsider := map[bool]string{true: "198.51.100.10", false: "2001:db8:9::10"}[!strings.Contains(p.name, "6")]
		eventually(t, p.name+": another cookie, key or session is counted", func() bool {
			before := w.counted(p.fault)
			p.say(w, "", append(hexBytes(p.wrong), bad...))
			return w.counted(p.fault) > before
		})
		p.say(w, outsider, append(hexBytes(p.head), bad...))
		eventually(t, p.name+": the right one comes through", func() bool {
			p.say(w, "", append(hexBytes(p.head), good...))
			return at.has(good)
		})
		if at.has(bad) {
			t.Errorf("%s: what has another cookie, key, session or source was let in", p.name)
		}
	}
}

// A fragment at an interface where no pseudowire's packets arrive is not
// reassembled.
func TestPiecesAtAnotherInterfaceAreNotTaken(t *testing.T) {
	t.Parallel()
	p := fragmentedWires()[0]
	w := newTopology(t, fragmented+"[interface.lan]\n"+p.section()+"interfaces = [\"lan\"]\n")
	w.start()
	at := w.arrivals(w.router, p.name)
	frame := frameOf(rand.New(rand.NewPCG(3, 11)), 1514)
	for range 20 {
		p.say(w, "", append(hexBytes(p.head), frame...))
		time.Sleep(50 * time.Millisecond)
	}
	if at.has(frame) || w.joinedBy(p.name) != 0 {
		t.Error("it was taken")
	}
}
