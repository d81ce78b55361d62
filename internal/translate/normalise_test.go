package translate_test

import (
	"bytes"
	"fmt"
	"testing"

	"weft/internal/state"
	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

// longError4 is an ICMPv4 error that quotes size bytes, with extensions of ext
// bytes (RFC 4884) behind its quote.
func longError4(kind, code byte, size, ext int, options []byte) []byte {
	quoted := udp4(node4, far4, 0, size-28)
	rest := "00000000"
	if ext > 0 {
		quoted = append(quoted[:size&^3], counted(ext)...)
		rest = "00" + string("0123456789abcdef"[size/4>>4]) + string("0123456789abcdef"[size/4&15]) + "05dc"
	}
	return ip4(far4, node4, 1, 0x4000, options, icmpMessage(far4, node4, kind, code, rest, quoted))
}

func TestMendingMakesFitForTheStackWhatItWouldDrop(t *testing.T) {
	plain := udp4(far4, node4, 0x4000, 20)
	routed := func(options string) []byte {
		return ip4(far4, node4, 17, 0x4000, bin(options), udpSegment(far4, node4, 20))
	}
	for _, v := range []struct {
		name string
		in   []byte
		size int // of the result; 0: there is nothing to mend
	}{
		{"a plain packet", plain, 0},
		{"other options", routed("0707040000000000"), 0},
		{"a source route that is used up", routed("830708c000020100"), 48},
		{"a used-up strict one behind others", routed("0101 9404 0000 890708c0000201 000000"), 48},
		{"a source route", routed("830704c000020100"), 0},
		{"two source routes, one not used up", routed("830708c0000201 890704c0000201 0000"), 0},
		{"a source route behind the end", routed("00830708c0000201"), 0},
		{"a broken one", routed("8302000000000000"), 0},
		{"an error of 1260 bytes", longError4(3, 3, 1232, 0, nil), 0},
		{"an error of 1261 bytes", longError4(3, 3, 1233, 0, nil), 1260},
		{"with extensions that fit", longError4(11, 0, 1000, 1104, nil), 1260},
		{"with extensions that do not", longError4(11, 0, 1000, 1108, nil), 1028},
		{"fragmentation needed, whose extensions no packet too big carries", longError4(3, 4, 1000, 400, nil), 1028},
		{"a redirect", longError4(5, 0, 1300, 0, nil), 0},
		{"a long echo", longError4(8, 0, 1300, 0, nil), 0},
		{"both at once", longError4(3, 3, 1300, 0, bin("830708c000020100")), 1260},
		{"a long error with other options", longError4(3, 3, 1300, 0, bin("0707040000000000")), 1260},
		{"a long error with a source route", longError4(3, 3, 1300, 0, bin("830704c000020100")), 0},
	} {
		out, ok := translate.Normalise4(v.in)
		if ok != (v.size != 0) || len(out) != v.size {
			t.Errorf("%s: %v, %d bytes, want %d", v.name, ok, len(out), v.size)
			continue
		}
		if again, twice := translate.Normalise4(out); ok && twice {
			t.Errorf("%s: mended twice: %x", v.name, again)
		}
		if err := normaliseKeeps(configs()["usual"], v.in); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	cut := longError4(3, 3, 1300, 0, nil)
	if _, ok := translate.Normalise4(cut[:len(cut)-1]); ok {
		t.Error("a packet that is cut off was mended")
	}
	cut[10] ^= 1
	if _, ok := translate.Normalise4(cut); ok {
		t.Error("a packet with a wrong checksum was mended")
	}
}

// normaliseKeeps reports whether a mended packet is translated to the same packets.
func normaliseKeeps(c *translate.Config, pkt []byte) error {
	normalised, ok := translate.Normalise4(pkt)
	if !ok {
		return nil
	}
	once := *c
	once.Identification = nil
	direct, through := once.Translate4(pkt), once.Translate4(normalised)
	if direct.Outcome != through.Outcome || len(direct.Out) != len(through.Out) {
		return fmt.Errorf("%s with %d packets, mended %s with %d", direct.Outcome, len(direct.Out), through.Outcome, len(through.Out))
	}
	for i := range direct.Out {
		if !bytes.Equal(direct.Out[i], through.Out[i]) {
			return fmt.Errorf("%x, mended\n%x", direct.Out[i], through.Out[i])
		}
	}
	return nil
}

func FuzzMend4(f *testing.F) {
	all := fuzzConfigs()
	g := packetgen.New(1, all[0])
	for range 200 {
		pkt, _ := g.Next4()
		f.Add(pkt)
	}
	f.Add(longError4(11, 0, 1000, 1104, nil))
	f.Add(longError4(3, 3, 1300, 0, bin("830708c000020100")))
	f.Fuzz(func(t *testing.T, pkt []byte) {
		if err := normaliseKeeps(all[0], pkt); err != nil {
			t.Error(err)
		}
		if once, ok := translate.Normalise4(pkt); ok {
			if _, twice := translate.Normalise4(once); twice || len(once) > len(pkt) {
				t.Errorf("mended twice, or longer: %x", once)
			}
		}
	})
}

func TestErrorsQuoteTheTTLThatAPacketCameWith(t *testing.T) {
	c := *configs()["usual"]
	c.DecrementTTL, c.RestoreTTL, c.Identification = false, true, nil
	came := ip4(far4, node4, 17, 0x4000, nil, append(bin("07d0 0fa0 000c 0000"), counted(4)...))
	counted := bytes.Clone(came)
	counted[8]--
	copy(counted[10:], bin("0000"))
	sum := onesSum(counted[:20])
	counted[10], counted[11] = byte(^sum>>8), byte(^sum)
	r := c.Translate4(counted)
	if r.Outcome != state.DropUdpZeroChecksum || len(r.Reply) < 28 || !bytes.Equal(r.Reply[28:], came) {
		t.Errorf("%s: quoted %x, want %x", r.Outcome, r.Reply, came)
	}
	if err := checkReply4(&c, came, r.Reply); err != nil {
		t.Error(err)
	}
}
