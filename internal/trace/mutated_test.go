package trace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"weft/internal/mutator"
	"weft/internal/state"
	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// TestMutatedCapture is a capture file, and the packets in it.
func TestMutatedCapture(t *testing.T) {
	frame := l2tp.AppendData(nil, 17, 100, ppp.AppendFrame(nil, ppp.IPv4, []byte{0x45, 0, 0, 20}))
	ip := append([]byte{0x45, 0, 0, byte(28 + len(frame)), 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 6, 165, 6, 165, 0, byte(8 + len(frame)), 0, 0}, frame...)
	var seeds [][]byte
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, link := range []uint32{1, 101, 228} {
			file := pcapHeader(order, 0xa1b2c3d4, link)
			for range 3 {
				file = append(file, pcapRecord(order, 1, 2, uint32(len(ip)), ip...)...)
			}
			seeds = append(seeds, file)
		}
	}
	seeds = append(seeds, append(bytes.Clone(pcapngMagic), make([]byte, 40)...))
	mutator.Run(t, mutator.Parser{Name: "capture", Seeds: seeds, New: func(*rand.Rand) mutator.Machine {
		s := subscribersOf(theSessions(), map[uint16]string{100: "alice"})
		return mutator.Machine{Receive: func(b []byte) {
			in, list, _ := readAll(t, b)
			for _, p := range list {
				_ = describe(in.Raw, p.Bytes, s)
				_ = s.note(in.Raw, p.Bytes, state.DropSpoofed.String())
				_, _, _ = ends(p.Bytes), multicast(p.Bytes), chatter(p.Bytes)
			}
		}}
	}})
}
