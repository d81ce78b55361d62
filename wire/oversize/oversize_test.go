package oversize

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"weft/wire/checksum"
	"weft/wire/checksum/checksumtest"
	"weft/wire/ipv6"
)

func ping4(from, to netip.Addr, size int) []byte {
	b := make([]byte, size)
	b[0], b[8], b[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	src, dst := from.As4(), to.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:20]))
	b[20] = 8
	binary.BigEndian.PutUint16(b[22:], checksum.Of(b[20:]))
	return b
}

// An IPv4 packet with DF, and every IPv6 packet, is answered by an error that names the
// MTU (RFC 1191 section 4, RFC 4443 section 3.2); errors are not answered.
func TestAPacketThatMayNotBeFragmentedIsAnsweredWithTheMTU(t *testing.T) {
	here, far := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.5")
	ip := ping4(far, here, 1500)
	if Answer(ip, 1400, here) != nil {
		t.Error("a packet that may be fragmented is answered")
	}
	ip[6] = 0x40
	answer := Answer(ip, 1400, here)
	if from, to, ok := Addresses(answer); !ok || from != here || to != far || answer[20] != 3 || answer[21] != 4 || binary.BigEndian.Uint16(answer[26:]) != 1400 {
		t.Errorf("the answer is %x", answer)
	}
	ip[20] = 3
	if again := Answer(ip, 1400, here); again == nil || len(again) != 0 {
		t.Errorf("an error is answered with %x", again)
	}
	six := ipv6.Packet{From: netip.MustParseAddr("2001:db8::1"), To: netip.MustParseAddr("2001:db8::2"), NextHeader: 17, HopLimit: 64, Payload: make([]byte, 1400)}.Marshal(6)
	p, err := ipv6.Parse(Answer(six, 1280, netip.MustParseAddr("2001:db8::3")))
	if err != nil || p.Payload[0] != 2 || binary.BigEndian.Uint32(p.Payload[4:]) != 1280 || p.To != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("the answer is %+v (%v)", p, err)
	}
}

// FuzzPackets: the pieces of a packet hold all of it, and errors about packets
// are well formed.
func FuzzPackets(f *testing.F) {
	here := netip.MustParseAddr("192.0.2.1")
	f.Add(ping4(here, netip.MustParseAddr("203.0.113.5"), 1500), uint16(1400))
	f.Add(ping4(here, netip.MustParseAddr("203.0.113.5"), 60), uint16(28))
	f.Add(ipv6.Packet{From: netip.MustParseAddr("2001:db8::1"), To: netip.MustParseAddr("2001:db8::2"), NextHeader: ipv6.ICMPv6, HopLimit: 64, Payload: make([]byte, 1400)}.Marshal(2), uint16(1280))
	f.Fuzz(func(t *testing.T, ip []byte, size uint16) {
		if _, _, ok := Addresses(ip); !ok {
			return
		}
		mtu := max(int(size), 28)
		from := here
		if ip[0]>>4 == 6 {
			from = netip.MustParseAddr("2001:db8::1")
		}
		if answer := Answer(ip, mtu, from); len(answer) > 0 {
			if len(answer) > 1280 {
				t.Fatalf("an error of %d bytes", len(answer))
			}
			if p, err := ipv6.Parse(answer); err == nil && p.Checksum(p.Payload) != 0 || err != nil && (checksumtest.Of(answer[:20]) != 0 || checksumtest.Of(answer[20:]) != 0) {
				t.Fatalf("an error's checksum is wrong: %x", answer)
			}
		}
		if ip[0]>>4 != 4 {
			return
		}
		var whole []byte
		for _, piece := range Fragments(ip, mtu) {
			if len(piece) > mtu || checksumtest.Of(piece[:20]) != 0 {
				t.Fatalf("a piece of %d bytes for %d: %x", len(piece), mtu, piece[:20])
			}
			whole = append(whole, piece[20:]...)
		}
		if len(whole) > 0 && !bytes.Equal(whole, ip[20:binary.BigEndian.Uint16(ip[2:])]) {
			t.Fatal("the pieces are not the packet")
		}
	})
}
