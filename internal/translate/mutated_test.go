package translate_test

import (
	"math/rand/v2"
	"testing"

	"weft/internal/mutator"
	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

// packets are of all kinds that a translator meets, fragments among them.
func packets(c *translate.Config) (list [][]byte) {
	g := packetgen.New(1, c)
	for range 300 {
		six, _ := g.Next6()
		four, _ := g.Next4()
		list = append(list, six, four)
	}
	return list
}

func ipFormat() mutator.Format {
	return mutator.By(func(b []byte) mutator.Format {
		if len(b) > 0 && b[0]>>4 == 6 {
			return mutator.IPv6{}
		}
		return mutator.TLV{Fixed: 20} // an IPv4 header and what is behind it
	})
}

// TestMutatedPackets is a stateless translator, in both directions.
func TestMutatedPackets(t *testing.T) {
	all := fuzzConfigs()
	mutator.Run(t, mutator.Parser{Name: "nat64", Seeds: packets(all[0]), Format: ipFormat(), Seal: mutator.SealIP, New: func(r *rand.Rand) mutator.Machine {
		c := all[r.IntN(len(all))]
		return mutator.Machine{Receive: func(b []byte) {
			if len(b) == 0 {
				return
			}
			if b[0]>>4 == 6 {
				_ = c.Translate6(b)
				return
			}
			if n, ok := translate.Normalise4(b); ok {
				b = n
			}
			_ = c.Translate4(b)
		}}
	}})
}

// TestMutatedFragments is a stateful translator, which reassembles: few identifiers and
// addresses, so that fragments meet.
func TestMutatedFragments(t *testing.T) {
	c := fuzzConfigs()[0]
	seeds := packets(c)[:60]
	for _, p := range packets(c)[60:90] {
		seeds = append(seeds, cut(p)...)
	}
	mutator.Run(t, mutator.Parser{Name: "nat64-stateful", Seeds: seeds, Format: ipFormat(), Seal: mutator.SealIP, New: func(r *rand.Rand) mutator.Machine {
		s := &translate.Stateful{Bindings: translate.Mirror{}, Parts: translate.NewReassembler()}
		now := int64(0)
		return mutator.Machine{Receive: func(b []byte) {
			if len(b) == 0 {
				return
			}
			now += int64(r.IntN(1e7))
			if b[0]>>4 == 4 {
				_ = s.Translate4(c, now, b)
			} else {
				_ = s.Translate6(c, now, b)
			}
			if r.IntN(4096) == 0 {
				if err := s.Parts.Sound(); err != nil {
					t.Fatal(err)
				}
			}
		}}
	}})
}

// cut divides a packet into two fragments.
func cut(p []byte) [][]byte {
	switch {
	case len(p) > 40+16 && p[0]>>4 == 6 && p[6] != 44:
		fragment := func(offset byte, more byte, data []byte) []byte {
			b := append([]byte(nil), p[:40]...)
			b[6] = 44
			return mutator.SealIP(append(append(b, p[6], 0, 0, offset|more, 0, 0, 0, 7), data...))
		}
		return [][]byte{fragment(0, 1, p[40:48]), fragment(8, 0, p[48:])}
	case len(p) > 20+16 && p[0] == 0x45:
		fragment := func(offset byte, more byte, data []byte) []byte {
			b := append([]byte(nil), p[:20]...)
			b[4], b[5], b[6], b[7] = 0, 7, more<<5, offset
			return mutator.SealIP(append(b, data...))
		}
		return [][]byte{fragment(0, 1, p[20:28]), fragment(1, 0, p[28:])}
	}
	return nil
}
