package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// pcapHeader is the header of a classic pcap file.
func pcapHeader(order binary.AppendByteOrder, magic, link uint32) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	b = order.AppendUint32(b, 0)
	b = order.AppendUint32(b, 0)
	b = order.AppendUint32(b, snapLen)
	return order.AppendUint32(b, link)
}

func pcapRecord(order binary.AppendByteOrder, seconds, fraction, length uint32, data ...byte) []byte {
	b := order.AppendUint32(nil, seconds)
	b = order.AppendUint32(b, fraction)
	b = order.AppendUint32(b, uint32(len(data)))
	b = order.AppendUint32(b, length)
	return append(b, data...)
}

func readAll(t *testing.T, file []byte) (*Input, []Packet, error) {
	t.Helper()
	in, err := NewInput(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	var list []Packet
	for {
		p, err := in.Next()
		if errors.Is(err, io.EOF) {
			return in, list, nil
		}
		if err != nil {
			return in, list, err
		}
		list = append(list, p)
	}
}

func TestCapturesOfEveryKindAreRead(t *testing.T) {
	const micro, nano = 0xa1b2c3d4, 0xa1b23c4d
	for _, c := range []struct {
		name  string
		order binary.AppendByteOrder
		magic uint32
		link  uint32
		raw   bool
		ether uint16 // of a packet that begins with 0x60
		at    time.Time
	}{
		{"little-endian, microseconds, Ethernet", binary.LittleEndian, micro, 1, false, 0, time.Unix(7, 5000)},
		{"big-endian, microseconds, Ethernet", binary.BigEndian, micro, 1, false, 0, time.Unix(7, 5000)},
		{"nanoseconds, raw IP", binary.LittleEndian, nano, 101, true, etherIPv6, time.Unix(7, 5)},
		{"big-endian, nanoseconds, raw IP", binary.BigEndian, nano, 101, true, etherIPv6, time.Unix(7, 5)},
		{"raw IP by the number of BSD", binary.LittleEndian, micro, 12, true, etherIPv6, time.Unix(7, 5000)},
		{"raw IP by the number of OpenBSD", binary.LittleEndian, micro, 14, true, etherIPv6, time.Unix(7, 5000)},
		{"raw IPv4, whatever the packet says", binary.LittleEndian, micro, 228, true, etherIPv4, time.Unix(7, 5000)},
		{"raw IPv6", binary.LittleEndian, micro, 229, true, etherIPv6, time.Unix(7, 5000)},
		{"Ethernet with the length of the check sequence", binary.LittleEndian, micro, 0x14000001, false, 0, time.Unix(7, 5000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := pcapHeader(c.order, c.magic, c.link)
			file = append(file, pcapRecord(c.order, 7, 5, 9, 0x60, 1, 2)...)
			file = append(file, pcapRecord(c.order, 8, 0, 0)...)
			in, list, err := readAll(t, file)
			if err != nil || len(list) != 2 {
				t.Fatalf("%d packets, %v", len(list), err)
			}
			p := list[0]
			if in.Raw != c.raw || p.Number != 1 || !p.Time.Equal(c.at) || !bytes.Equal(p.Bytes, []byte{0x60, 1, 2}) || p.Cut != 6 {
				t.Errorf("raw %v, %+v", in.Raw, p)
			}
			if c.raw && in.etherType(p.Bytes) != c.ether {
				t.Errorf("EtherType %#x", in.etherType(p.Bytes))
			}
			if last := list[1]; last.Number != 2 || len(last.Bytes) != 0 {
				t.Errorf("the empty packet: %+v", last)
			}
		})
	}
}

func TestACaptureInPcapngIsRead(t *testing.T) {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, layers.LinkTypeRaw)
	if err != nil {
		t.Fatal(err)
	}
	info := gopacket.CaptureInfo{Timestamp: time.Unix(3, 4000), CaptureLength: 2, Length: 2}
	if err := errors.Join(w.WritePacket(info, []byte{0x45, 0}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	in, list, err := readAll(t, b.Bytes())
	if err != nil || !in.Raw || len(list) != 1 || !list[0].Time.Equal(time.Unix(3, 4000)) || !bytes.Equal(list[0].Bytes, []byte{0x45, 0}) {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestWhatIsNoCaptureIsRefusedWithAReason(t *testing.T) {
	good := append(pcapHeader(binary.LittleEndian, 0xa1b2c3d4, 101), pcapRecord(binary.LittleEndian, 0, 0, 4, 0x45, 0, 0, 4)...)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"an empty file", nil, "it is empty"},
		{"a text", []byte("these are not the packets you are looking for"), "header of the pcap file"},
		{"half a header", good[:20], "ends in the middle"},
		{"two bytes", good[:2], "ends in the middle"},
		{"a record's header cut off", good[:24+9], "packet 1 of the capture: the file ends in the middle"},
		{"a record without its bytes", good[:24+16], "packet 1 of the capture: the file ends in the middle"},
		{"a record with half of its bytes", good[:len(good)-2], "packet 1 of the capture: the file ends in the middle"},
		{"the second record cut off", append(bytes.Clone(good), good[24:44-3]...), "packet 2 of the capture: the file ends in the middle"},
		{"802.11 frames", pcapHeader(binary.LittleEndian, 0xa1b2c3d4, 105), "link type 105"},
		{"an unknown link type", pcapHeader(binary.LittleEndian, 0xa1b2c3d4, 9999), "link type 9999"},
		{"a record longer than any packet", append(bytes.Clone(good[:24]), pcapRecordHeader(1<<30)...), "packet 1 of the capture"},
		{"half a pcapng header", pcapngMagic, "header of the pcapng file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := readAll(t, c.file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func pcapRecordHeader(length uint32) []byte {
	b := make([]byte, 8)
	b = binary.LittleEndian.AppendUint32(b, length)
	return binary.LittleEndian.AppendUint32(b, length)
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for _, raw := range []bool{true, false} {
		want := [][]byte{{0x45, 1, 2}, {}, bytes.Repeat([]byte{0x60}, 9000)}
		in, list, err := readAll(t, captureOf(t, raw, want...).Bytes())
		if err != nil || in.Raw != raw || len(list) != len(want) {
			t.Fatalf("raw %v: %d packets, %v", raw, len(list), err)
		}
		for i, p := range list {
			if !bytes.Equal(p.Bytes, want[i]) || !p.Time.Equal(time.UnixMilli(int64(i))) || p.Cut != 0 {
				t.Errorf("raw %v, packet %d: %d bytes at %v", raw, i, len(p.Bytes), p.Time)
			}
		}
	}
}

func FuzzInputEndsAndNeverPanics(f *testing.F) {
	f.Add(append(pcapHeader(binary.LittleEndian, 0xa1b2c3d4, 101), pcapRecord(binary.LittleEndian, 0, 0, 4, 0x45, 0, 0, 4)...))
	f.Add(append(pcapHeader(binary.BigEndian, 0xa1b23c4d, 1), pcapRecord(binary.BigEndian, 0, 0, 4, 1, 2, 3)...))
	f.Add(append(bytes.Clone(pcapngMagic), make([]byte, 40)...))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, list, _ := readAll(t, file)
		for i, p := range list {
			if p.Number != i+1 {
				t.Errorf("packet %d has number %d", i+1, p.Number)
			}
			for _, raw := range []bool{true, false} {
				describe(raw, p.Bytes, subscribers{})
			}
			ends(p.Bytes)
			asked(p.Bytes)
			chatter(p.Bytes)
		}
	})
}
