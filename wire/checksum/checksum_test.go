package checksum_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"weft/wire/checksum"
	"weft/wire/checksum/checksumtest"
)

func TestTheExampleOfRFC1071Section3(t *testing.T) {
	data := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	if sum := checksum.Sum(data, 0); sum != 0xddf2 {
		t.Errorf("the sum is %#x, want 0xddf2", sum)
	}
	if check := checksum.Of(data); check != 0x220d {
		t.Errorf("the checksum is %#x, want 0x220d", check)
	}
	if check := checksum.Of(data, []byte{0x22, 0x0d}); check != 0 {
		t.Errorf("with its own checksum it is %#x, want 0", check)
	}
}

func TestTheExampleOfRFC1624Section4(t *testing.T) {
	if check := checksum.Adjust(0xdd2f, 0x5555, 0x3285); check != 0 {
		t.Errorf("the checksum is %#x, want 0", check)
	}
}

func TestEveryLengthAgreesWithTheSecondImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		for _, fill := range []func() byte{func() byte { return byte(r.Uint32()) }, func() byte { return 0 }, func() byte { return 0xff }} {
			b := make([]byte, n)
			for i := range b {
				b[i] = fill()
			}
			want := checksumtest.Of(b)
			if got := checksum.Of(b); got != want {
				t.Errorf("%x: %#x, want %#x", b, got, want)
			}
			for cut := 0; cut <= n; cut += 2 {
				if got := checksum.Of(b[:cut], b[cut:]); got != want {
					t.Errorf("%x cut at %d: %#x, want %#x", b, cut, got, want)
				}
			}
		}
	}
	if got, want := checksum.Of(make([]byte, 1<<16), []byte{1}), uint16(0xfeff); got != want {
		t.Errorf("a long one is %#x, want %#x", got, want)
	}
}

func TestAnAdjustedChecksumIsTheOneOfTheChangedData(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		b := make([]byte, 40)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		check, at := checksum.Of(b), 2*r.IntN(10)
		end := at + 2*r.IntN(10)
		from := checksum.Sum(b[at:end], 0)
		for i := at; i < end; i++ {
			b[i] = byte(r.Uint32())
		}
		if got, want := checksum.Adjust(check, from, checksum.Sum(b[at:end], 0)), checksumtest.Of(b); got != want {
			t.Fatalf("%x changed from %d to %d: %#x, want %#x", b, at, end, got, want)
		}
	}
}

func TestThePseudoHeaderIsThatOfRFC8200(t *testing.T) {
	for _, length := range []int{0, 8, 1500, 0xffff, 0x10000, 0x12345} {
		header := binary.BigEndian.AppendUint32(nil, uint32(length))
		header = append(header, 0, 0, 0, 58)
		if got, want := checksum.Fold(checksum.Pseudo(length, 58)), ^checksumtest.Of(header); got != want {
			t.Errorf("of %d bytes: %#x, want %#x", length, got, want)
		}
	}
}
