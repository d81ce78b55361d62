package translate_test

import (
	"testing"

	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

// fuzzConfigs are the translators to fuzz, each run of one input alike.
func fuzzConfigs() []*translate.Config {
	all := configs()
	list := []*translate.Config{all["usual"], all["narrow"], all["bare"]}
	for _, c := range list {
		c.Identification = func() uint32 { return 7 }
	}
	return list
}

func FuzzTranslate6(f *testing.F) {
	all := fuzzConfigs()
	g := packetgen.New(1, all[0])
	for range 200 {
		pkt, _ := g.Next6()
		f.Add(pkt)
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		for i, c := range all {
			if _, err := check6(c, pkt); err != nil {
				t.Errorf("config %d: %v", i, err)
			}
			if _, err := thereAndBack(c, pkt); err != nil {
				t.Errorf("config %d: %v", i, err)
			}
		}
	})
}

func FuzzTranslate4(f *testing.F) {
	all := fuzzConfigs()
	g := packetgen.New(1, all[0])
	for range 200 {
		pkt, _ := g.Next4()
		f.Add(pkt)
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		for i, c := range all {
			if _, err := check4(c, pkt); err != nil {
				t.Errorf("config %d: %v", i, err)
			}
		}
	})
}

func benchmark(b *testing.B, size int, to4 bool) {
	c := configs()["usual"]
	c.DecrementTTL = false
	src, dst := "2001:db8:3::7", "2001:db8:108:808:8::"
	pkt := udp6(src, dst, size-48)
	run := c.Translate6
	if !to4 {
		pkt = c.Translate6(pkt).Out[0]
		run = func(p []byte) translate.Result { return c.Translate4(p) }
		copy(pkt[12:20], append(append([]byte{}, pkt[16:20]...), pkt[12:16]...)) // the answer
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(pkt)))
	for b.Loop() {
		if r := run(pkt); r.Out == nil {
			b.Fatal(r.Outcome)
		}
	}
}

func BenchmarkTranslate6Small(b *testing.B) { benchmark(b, 84, true) }
func BenchmarkTranslate6Large(b *testing.B) { benchmark(b, 1500, true) }
func BenchmarkTranslate4Small(b *testing.B) { benchmark(b, 84, false) }
func BenchmarkTranslate4Large(b *testing.B) { benchmark(b, 1500, false) }
