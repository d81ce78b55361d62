package pseudowiretable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
)

// What is packed up and what is unpacked, of every kind: a frame that goes
// through both programs is what it was; a packet that is cut or changed under
// way is not delivered, and counted.

// everyPseudowire is one of each kind, as the end at 192.0.2.1 (2001:db8:9::1) has it.
func everyPseudowire() map[string]state.Pseudowire {
	endpoints := state.Endpoints{Local: datapathtest.Addr(pseudowireNear), Remote: datapathtest.Addr(pseudowireFar)}
	six := state.Endpoints{Local: datapathtest.Addr("2001:db8:9::1"), Remote: datapathtest.Addr("2001:db8:9::9")}
	return map[string]state.Pseudowire{
		"l2tpv3-udp":              {Kind: state.PseudowireL2TPUDP, Endpoints: endpoints, LocalPort: 1701, RemotePort: 1702, RxID: 10, TxID: 20},
		"l2tpv3-udp with all":     {Kind: state.PseudowireL2TPUDP, Endpoints: endpoints, LocalPort: 1701, RemotePort: 1702, RxID: 10, TxID: 20, RxCookie: "abcdefgh", TxCookie: "ijklmnop", Counter: true, Sequence: true},
		"l2tpv3-udp over IPv6":    {Kind: state.PseudowireL2TPUDP, Endpoints: six, LocalPort: 1701, RemotePort: 1702, RxID: 10, TxID: 20, RxCookie: "abcd", TxCookie: "ijkl", Checksum: true},
		"l2tpv3-ip":               {Kind: state.PseudowireL2TPIP, Endpoints: endpoints, RxID: 10, TxID: 20, RxCookie: "abcd", TxCookie: "ijkl"},
		"l2tpv3-ip, pinned, IPv6": {Kind: state.PseudowireL2TPIP, Endpoints: six, RxID: 10, TxID: 20, Counter: true, Pinned: true},
		"gretap":                  {Kind: state.PseudowireGRE, Endpoints: endpoints},
		"gretap with all":         {Kind: state.PseudowireGREKey, Endpoints: endpoints, RxID: 10, TxID: 20, Checksum: true, Sequence: true},
		"gretap over IPv6":        {Kind: state.PseudowireGREKey, Endpoints: six, RxID: 10, TxID: 20},
	}
}

// otherEnd is the pseudowire as the far end has it.
func otherEnd(w state.Pseudowire) state.Pseudowire {
	w.Local, w.Remote = w.Remote, w.Local
	w.LocalPort, w.RemotePort = w.RemotePort, w.LocalPort
	w.RxID, w.TxID, w.RxCookie, w.TxCookie = w.TxID, w.RxID, w.TxCookie, w.RxCookie
	return w
}

// sends has what wan's program packs up be of w, addressed to lan.
func (b *bench) sends(w state.Pseudowire) {
	b.T.Helper()
	index := uint32(b.Links["wan"].Index)
	w.Hidden, w.Peer, w.TTL, w.DF = int(index), int(index), 64, true
	tx, _, _, err := encodePseudowire(w)
	if err != nil {
		b.T.Fatal(err)
	}
	way := state.PseudowirePath{Device: b.Links["lan"].Index, MTU: 1600, Gateway: w.Remote, Src: [6]byte{2, 0, 0, 0, 0, 9}, Dst: b.Links["lan"].MAC, Resolved: true}
	for _, name := range []string{"pseudowire_txs", "pseudowire_paths"} {
		if err := datapathtest.EmptyMap(b.Table(name)); err != nil {
			b.T.Fatal(err)
		}
	}
	if err := b.Table("pseudowire_txs").Put(index, tx); err != nil {
		b.T.Fatal(err)
	}
	if err := Of(b.Datapath).SetPath(w.Endpoints, way); err != nil {
		b.T.Fatal(err)
	}
}

// packUp returns the packet that a frame becomes, nil if it is dropped; false if
// BPF_PROG_RUN takes no such frame.
func (b *bench) packUp(frame []byte) ([]byte, bool) {
	b.T.Helper()
	options := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: b.SkbContext("pseudowire_encap", "wan")}
	var verdict uint32
	takes := true
	b.In(func() (err error) {
		verdict, err = b.Program("pseudowire_encap").Run(&options)
		if takes = !errors.Is(err, unix.EINVAL); !takes {
			return nil
		}
		return err
	})
	const redirect = 7
	if verdict != redirect || !takes {
		return nil, takes
	}
	return options.DataOut, true
}

// frames are of every kind that a pseudowire carries.
func frames(random *rand.Rand) map[string][]byte {
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	macs := datapathtest.Bin("020000000001 020000000002")
	of := func(proto string, rest []byte) []byte {
		return append(append(bytes.Clone(macs), datapathtest.Bin(proto)...), rest...)
	}
	return map[string][]byte{
		"IPv4":                     of("0800", datapathtest.Udp("10.9.0.1", "10.9.0.2", 64).Bytes()),
		"IPv6":                     of("86dd", datapathtest.Udp("2001:db8:a::1", "2001:db8:a::2", 200).Bytes()),
		"ARP":                      of("0806", datapathtest.Bin("0001 0800 06 04 0001 020000000002 0a090002 000000000000 0a090001")),
		"a VLAN tag":               of("8100", append(datapathtest.Bin("000a 0800"), datapathtest.Udp("10.9.0.1", "10.9.0.2", 40).Bytes()...)),
		"two VLAN tags":            of("88a8", append(datapathtest.Bin("0014 8100 000a 86dd"), datapathtest.Udp("2001:db8:a::1", "2001:db8:a::2", 40).Bytes()...)),
		"nothing that is known":    of("88b5", noise(300)),
		"an IPv4 header that lies": of("0800", noise(60)),
		"an odd length":            of("88b5", noise(61)),
		"the shortest":             of("88b5", noise(1)),
		"the largest":              of("88b5", noise(1500)),
	}
}

// padded reports whether a frame is another, perhaps padded.
func padded(is, was []byte) bool {
	return bytes.Equal(is, was) || len(was) < len(is) && len(is) == 60 && bytes.Equal(bytes.TrimRight(is[len(was):], "\x00"), nil) && bytes.HasPrefix(is, was)
}

func TestAFrameComesOutOfAPseudowireAsItWentIn(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 31))
	for kind, w := range everyPseudowire() {
		b := newPseudowires(t, w)
		b.sends(otherEnd(w))
		for what, frame := range frames(random) {
			for _, build := range datapathtest.Builds {
				packet, _ := b.packUp(frame)
				if packet == nil {
					t.Errorf("%s, %s: was dropped", kind, what)
					continue
				}
				res := b.Run(build, "lan", packet)[0]
				if res.Err != nil || res.Counted[build+" forward-pseudowire-decap"] != 1 || !padded(res.Frame, frame) {
					t.Errorf("%s, %s, %s: went in as\n%x, was\n%x under way, and is\n%x (counted %v, %v)", kind, what, build, frame, packet, res.Frame, res.Counted, res.Err)
				}
			}
		}
	}
}

// outsideOf is how many bytes of a packet stand before the frame.
func outsideOf(packet, frame []byte) int { return len(packet) - len(frame) }

// recognised reports whether a packet that was changed still is one that only
// this pseudowire, or another on its port, can have: what is looked at before
// any session is.
func recognised(was, is []byte, w state.Pseudowire) bool {
	l3, same := 14, func(from, to int) bool { return len(is) >= to && bytes.Equal(was[from:to], is[from:to]) }
	l4 := l3 + 20
	if w.Local.Is6() {
		l4 = l3 + 40
		if !same(0, l3+1) || !same(l3+4, l3+7) || !same(l3+8, l4) || binary.BigEndian.Uint16(is[l3+4:]) > uint16(len(is)-l4) {
			return false
		}
	} else if !same(0, l3+1) || !same(l3+2, l3+4) || !same(l3+6, l3+8) || !same(l3+9, l3+10) || !same(l3+12, l4) || checksumtest.Of(is[l3:l4]) != 0 {
		return false
	}
	switch w.Kind {
	case state.PseudowireL2TPUDP:
		return same(l4, l4+4) && same(l4+8, l4+12)
	case state.PseudowireL2TPIP:
		return len(is) >= l4+4 && binary.BigEndian.Uint32(is[l4:]) != 0
	}
	return same(l4, l4+4)
}

func TestPacketsThatAreCutOrChangedUnderWay(t *testing.T) {
	const tries = 300
	seed := uint64(1932)
	random := rand.New(rand.NewPCG(seed, seed))
	for kind, w := range everyPseudowire() {
		frame := frames(random)["IPv4"]
		for _, build := range datapathtest.Builds {
			b := newPseudowires(t, w)
			b.sends(otherEnd(w))
			var delivered uint64
			for i := range tries {
				packet, _ := b.packUp(frame)
				changed, outside := bytes.Clone(packet), outsideOf(packet, frame)
				for range random.IntN(3) {
					changed[14+random.IntN(outside-14)] = byte(random.Uint32())
				}
				if random.IntN(2) == 0 {
					changed = changed[:14+random.IntN(len(changed)-14)]
				}
				if !w.Local.Is6() && len(changed) >= 34 && random.IntN(2) == 0 {
					changed = append(changed[:14:14], datapathtest.Healed(changed[14:])...)
				}
				res := b.Run(build, "lan", changed)[0]
				if res.Err != nil {
					continue // shorter than BPF_PROG_RUN takes
				}
				of := fmt.Sprintf("%s, %s, seed %d, packet %d of %d bytes: %x", kind, build, seed, i, len(packet), changed)
				in := res.Counted[build+" forward-pseudowire-decap"]
				delivered += in
				// IP, and UDP, may now say that it is shorter, and be right
				whole := res.Frame
				if len(whole) == 60 {
					whole = bytes.TrimRight(whole, "\x00")
				}
				if in != 0 && !bytes.HasPrefix(frame, whole) {
					t.Errorf("%s: gives %x", of, res.Frame)
				}
				var pseudowire uint64
				for name, n := range res.Counted {
					if strings.HasPrefix(name, build+" forward-pseudowire-") || strings.HasPrefix(name, build+" drop-pseudowire-") {
						pseudowire += n
					}
				}
				if recognised(packet, changed, w) && pseudowire != 1 {
					t.Errorf("%s: counted %v", of, res.Counted)
				}
			}
			if _, through := b.faults(); through != delivered || delivered == 0 {
				t.Errorf("%s, %s: %d came through, %d are counted", kind, build, delivered, through)
			}
		}
	}
}

// Whatever a guest sends is packed up or dropped, and counted either way.
func TestFramesOfNoSensePackedUp(t *testing.T) {
	seed := uint64(77)
	random := rand.New(rand.NewPCG(seed, seed))
	types := []string{"0800", "86dd", "8100", "88a8", "0806", "88b5"}
	for kind, w := range everyPseudowire() {
		b := newPseudowires(t, w)
		b.sends(otherEnd(w))
		for i := range 100 {
			frame := append(datapathtest.Bin("020000000001 020000000002"), datapathtest.Bin(types[random.IntN(len(types))])...)
			for range 1 + random.IntN(1700) {
				frame = append(frame, byte(random.Uint32()))
			}
			before := b.counted()
			packet, takes := b.packUp(frame)
			if !takes {
				continue
			}
			var n uint64
			for name, more := range datapathtest.Difference(before, b.counted()) {
				if strings.HasPrefix(name, "pseudowire_encap ") {
					n += more
				}
			}
			if n != 1 {
				t.Errorf("%s, seed %d, frame %d: counted %d times: %x", kind, seed, i, n, frame)
			}
			if packet != nil && !bytes.HasSuffix(packet, frame[14:]) && len(packet) > len(frame) {
				t.Errorf("%s, seed %d, frame %d: %x was packed up as %x", kind, seed, i, frame, packet)
			}
		}
	}
}

// counted reads all counters.
func (b *bench) counted() map[string]uint64 {
	b.T.Helper()
	all, err := b.Counters()
	if err != nil {
		b.T.Fatal(err)
	}
	return all
}

func TestPiecesOfTunnelPacketsAreCountedAndLeftToTheKernel(t *testing.T) {
	w := plainPseudowire()
	for _, build := range datapathtest.Builds {
		b := newPseudowires(t, w)
		b.SetPorts(func(p *state.IngressEntry) {
			p.Roles = p.Roles.With(state.RolePseudowires|state.RoleRouted, p.Device == "lan")
		})
		b.sends(w) // makes the way, which says who the two hosts are
		for _, test := range []struct {
			name, from string
			flags      int
			counted    uint64
		}{
			{"a first piece", pseudowireFar, 0x2000, 1},
			{"a later piece", pseudowireFar, 0x0040, 1},
			{"a fragment of another host's", "192.0.2.77", 0x2000, 0},
		} {
			p := l2tpUDP(test.from, pseudowirePorts, pseudowireHead+"00000000", inside())
			p.Flags = test.flags
			frame := b.Frame("lan", p.Bytes())
			res := b.Run(build, "lan", frame)[0]
			if n := res.Counted[build+" pass-pseudowire-fragment"]; n != test.counted {
				t.Errorf("%s, %s: counted %v", build, test.name, res.Counted)
			}
			if !bytes.Equal(res.Frame, frame) || res.Counted[build+" forward-pseudowire-decap"] != 0 {
				t.Errorf("%s, %s: was changed", build, test.name)
			}
		}
	}
}
