package pseudowiretable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// Reassembled packets, through the program that decapsulates them; and peers that
// restart their sequence numbers.

// unpack gives a joined packet to the program, as of lan.
func (b *bench) unpack(packet []byte, device string) (frame []byte, hidden int, outcome state.Outcome) {
	b.T.Helper()
	return b.unpackBy(&Joiner{program: b.Program("pseudowire_reassembled"), out: make([]byte, reassembledMax+256)}, packet, device)
}

func (b *bench) unpackBy(j *Joiner, packet []byte, device string) (frame []byte, hidden int, outcome state.Outcome) {
	b.T.Helper()
	b.In(func() (err error) {
		frame, hidden, outcome, err = j.Unpack(packet, b.Links[device].Index)
		return err
	})
	return bytes.Clone(frame), hidden, outcome
}

func (b *bench) reassembled() uint64 {
	b.T.Helper()
	counts, err := Of(b.Datapath).PseudowireCounts()
	if err != nil {
		b.T.Fatal(err)
	}
	return counts[b.Links["wan"].Index].Reassembled
}

func TestAJoinedPacketIsUnpackedAsAnyOther(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 32))
	for kind, w := range everyPseudowire() {
		b := newPseudowires(t, w)
		b.sends(otherEnd(w))
		want := uint64(0)
		for what, frame := range frames(random) {
			packet, _ := b.packUp(frame)
			if packet == nil {
				t.Errorf("%s, %s: was dropped", kind, what)
				continue
			}
			clear(packet[:12])
			want++
			got, hidden, outcome := b.unpack(packet, "lan")
			if outcome != state.ForwardPseudowireDecap || hidden != b.Links["wan"].Index || !padded(got, frame) || b.reassembled() != want {
				t.Errorf("%s, %s: %s, for device %d, %d joined: went in as\n%x, is\n%x", kind, what, outcome, hidden, b.reassembled(), frame, got)
			}
		}
		packet, _ := b.packUp(frames(random)["the largest"])
		if _, _, outcome := b.unpack(packet, "wan"); outcome != state.OutcomeNone || b.reassembled() != want {
			t.Errorf("%s: at a device where none arrive: %s", kind, outcome)
		}
	}
}

func TestAJoinedPacketIsCheckedAsAnyOther(t *testing.T) {
	good := func(number string) datapathtest.Packet {
		return l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+number, inside())
	}
	long := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", append(inside(), make([]byte, 4000)...))
	b := newPseudowires(t, plainPseudowire())
	for _, test := range []struct {
		name   string
		packet datapathtest.Packet
		want   state.Outcome
	}{
		{"a frame comes through", good("40000005"), state.ForwardPseudowireDecap},
		{"the same number again", good("40000005"), state.DropPseudowireSequence},
		{"another cookie", l2tpUDP(pseudowireFar, pseudowirePorts, "00030000 0000000a 00000000000000ab 40000009", inside()), state.DropPseudowireCookie},
		{"another session", l2tpUDP(pseudowireFar, pseudowirePorts, "00030000 0000000b 00000000000000aa 40000009", inside()), state.DropPseudowireUnknown},
		{"another source", l2tpUDP("192.0.2.10", pseudowirePorts, pseudowireHead+"40000009", inside()), state.DropPseudowireSource},
		{"another port here", l2tpUDP(pseudowireFar, "06a6 06a6", pseudowireHead+"40000009", inside()), state.OutcomeNone},
		{"more than the program can be given", long, state.DropPseudowireTruncated},
	} {
		before := b.counted()
		frame, _, outcome := b.unpack(append(make([]byte, 12), append(datapathtest.Bin("0800"), test.packet.Bytes()...)...), "lan")
		if outcome != test.want || (frame != nil) != (outcome == state.ForwardPseudowireDecap) {
			t.Errorf("%s: %s, want %s", test.name, outcome, test.want)
		}
		if n := datapathtest.Difference(before, b.counted())["ingress_tc "+outcome.String()]; outcome != state.OutcomeNone && n != 1 {
			t.Errorf("%s: counted %d times", test.name, n)
		}
	}
	if n := b.reassembled(); n != 1 {
		t.Errorf("%d are counted as joined, want 1", n)
	}
}

// An interface takes no larger frames than its MTU has them, and says nothing.
func TestAJoinedPacketThatTheInterfaceWouldNotTakeIsCounted(t *testing.T) {
	b := newPseudowires(t, plainPseudowire())
	b.sends(otherEnd(plainPseudowire()))
	for _, test := range []struct {
		length int
		want   state.Outcome
	}{{1514, state.ForwardPseudowireDecap}, {1518, state.ForwardPseudowireDecap}, {1519, state.DropPseudowireTooBig}, {3000, state.DropPseudowireTooBig}} {
		frame := append(inside(), make([]byte, test.length-len(inside()))...)
		packet := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", frame)
		if _, _, outcome := b.unpack(append(make([]byte, 12), append(datapathtest.Bin("0800"), packet.Bytes()...)...), "lan"); outcome != test.want {
			t.Errorf("%d bytes: %s, want %s", test.length, outcome, test.want)
		}
	}
	if faults, _ := b.faults(); faults["too-big"] != 2 {
		t.Errorf("the faults are %v", faults)
	}
}

// bounded loads pseudowire_reassembled with the limits that programs of this bench do
// not have otherwise, and gives the map in which it counts, too.
func (b *bench) bounded() (*Joiner, *ebpf.Map) {
	b.T.Helper()
	o := b.Datapath.Options()
	o.UnlimitedSlow = false
	j, err := Of(b.Datapath.With(o)).Joiner()
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { j.program.Close() })
	info, err := j.program.Info()
	if err != nil {
		b.T.Fatal(err)
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			b.T.Fatal(err)
		}
		if about, err := m.Info(); err == nil && about.Name == "slow_windows" {
			b.T.Cleanup(func() { m.Close() })
			return j, m
		}
		m.Close()
	}
	b.T.Fatal("the program bounds nothing")
	return nil, nil
}

// Of a window of 134 ms 4096 are taken. Where the next window begins between what
// is written here and the packet, there is another try.
func TestHowManyPacketsAreJoinedIsBounded(t *testing.T) {
	b := newPseudowires(t, plainPseudowire())
	packet := append(make([]byte, 12), append(datapathtest.Bin("0800"), l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+"00000000", inside()).Bytes()...)...)
	joiner, windows := b.bounded()
	for taken, want := range map[uint64]state.Outcome{4095: state.ForwardPseudowireDecap, 4096: state.DropSlowLimit} {
		var outcome state.Outcome
		for range 20 {
			var now unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
				t.Fatal(err)
			}
			all := make([][2]uint64, ebpf.MustPossibleCPU())
			for i := range all {
				all[i] = [2]uint64{uint64(now.Nano()) >> 27, taken}
			}
			if err := windows.Put(uint32(0), all); err != nil { // of SLOW_FRAGMENT, the first class
				t.Fatal(err)
			}
			if _, _, outcome = b.unpackBy(joiner, packet, "lan"); outcome == want {
				break
			}
		}
		if outcome != want {
			t.Errorf("after %d packets: %s, want %s", taken, outcome, want)
		}
	}
}

// numbered sends frames with these numbers, and gives for each whether it came through.
func (b *bench) numbered(build string, numbers ...int) (taken []bool) {
	b.T.Helper()
	for _, n := range numbers {
		p := l2tpUDP(pseudowireFar, pseudowirePorts, pseudowireHead+fmt.Sprintf("40%06x", n), inside())
		res := b.Run(build, "lan", b.Frame("lan", p.Bytes()))[0]
		taken = append(taken, res.Counted[build+" forward-pseudowire-decap"] == 1)
	}
	return taken
}

// silent has the last number be heard some time ago.
func (b *bench) silent(ns uint64) {
	b.T.Helper()
	m := b.Table("pseudowire_rxs")
	keys, values, err := datapath.ReadAll[pseudowireKey, pseudowireRx](m)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, k := range keys {
		v := values[k]
		v.Received -= ns
		if err := m.Put(k, v); err != nil {
			b.T.Fatal(err)
		}
	}
}

// RFC 3931 section 4.6: a peer whose machine was rebooted counts from zero.
func TestAPeerThatBeginsToCountAnewIsTaken(t *testing.T) {
	for _, build := range datapathtest.Builds {
		b := newPseudowires(t, plainPseudowire())
		if taken := b.numbered(build, 5000, 5001); !taken[0] || !taken[1] {
			t.Fatalf("%s: %v", build, taken)
		}
		if taken := b.numbered(build, 0, 4000, 5001); taken[0] || taken[1] || taken[2] {
			t.Errorf("%s: what is behind is taken at once: %v", build, taken)
		}
		b.silent(1_100_000_000)
		if taken := b.numbered(build, 0, 1, 0, 2); !taken[0] || !taken[1] || taken[2] || !taken[3] {
			t.Errorf("%s: from zero after a second of silence: %v", build, taken)
		}
		b.numbered(build, 9000)
		var many []int
		for n := range 20 {
			many = append(many, n)
		}
		taken := b.numbered(build, many...)
		for n, is := range taken {
			if is != (n >= 15) {
				t.Errorf("%s: from zero at once: number %d taken: %v", build, n, is)
			}
		}
	}
}
