package mutator

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func quiet(string, ...any) {}

// options is a message of three options, one within another.
func options() []byte { return []byte{9, 9, 1, 2, 'a', 'b', 7, 4, 0, 2, 1, 'c', 3, 0} }

func nested() TLV {
	return TLV{Fixed: 2, Header: 2, LengthAt: 1, Length: 1, Inside: func(header []byte) int {
		if header[0] == 7 {
			return 1
		}
		return -1
	}}
}

// A message is divided as far as it can be, and put together as it was.
func TestFormatsLoseNothing(t *testing.T) {
	question := []byte{0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 2, 'x', 'y'}
	six := append(make([]byte, 40), 60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0, 'd', 'a', 't', 'a')
	six[0], six[6] = 0x60, 0
	avp := append([]byte{0xc8, 2, 0, 28}, make([]byte, 8)...)
	avp = append(avp, 0x80, 8, 0, 0, 0, 0, 0, 1, 0x80, 8, 0, 0, 0, 9, 0, 5)
	for name, c := range map[string]struct {
		format Format
		b      []byte
		items  int
	}{
		"options": {nested(), options(), 3}, "DNS": {DNS{}, question, 2}, "IPv6": {IPv6{}, six, 3}, "L2TP": {L2TP(), avp, 2}, "by": {Tunnelled(), avp, 2},
		"cut options": {nested(), options()[:9], 2}, "nothing": {DNS{}, nil, 0},
	} {
		n := c.format.Split(bytes.Clone(c.b))
		if got := c.format.Join(n); !bytes.Equal(got, c.b) || len(n.Items) != c.items {
			t.Errorf("%s: %d items, %x became %x", name, len(n.Items), c.b, got)
		}
	}
	if n := nested().Split(options()); len(n.Items) != 3 || len(n.Items[1].Items) != 1 || string(n.Items[1].Items[0].Body) != "c" {
		t.Errorf("%+v", n)
	}
}

// What is added to an option is counted in its length, and in that of the option around it.
func TestLengthsAreRestored(t *testing.T) {
	n := nested().Split(options())
	n.Items[1].Items[0].Body = []byte("cde")
	if got, want := nested().Join(n), []byte{9, 9, 1, 2, 'a', 'b', 7, 6, 0, 2, 3, 'c', 'd', 'e', 3, 0}; !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// fragile panics if two things come in one sequence: an option 3 before the others, and
// then a message in which an option is within one of its own kind.
func fragile(r *rand.Rand) Machine {
	ready := false
	return Machine{Receive: func(b []byte) {
		n := nested().Split(b)
		if len(n.Items) == 0 {
			return
		}
		first := n.Items[0]
		if ready && len(first.Head) > 0 && first.Head[0] == 7 && len(first.Items) > 0 && len(first.Items[0].Head) > 0 && first.Items[0].Head[0] == 7 {
			panic("an option within itself")
		}
		ready = ready || len(first.Head) > 0 && first.Head[0] == 3
	}}
}

func panics(f func()) (is bool) {
	defer func() { is = recover() != nil }()
	f()
	return false
}

// A panic that needs a sequence is found, at a place from which it can be made again.
func TestAPanicInASequenceIsFound(t *testing.T) {
	p := Parser{Name: "fragile", Seeds: [][]byte{options()}, Format: nested(), New: fragile}
	a := &attack{parser: p, seed: 1, log: quiet}
	if !panics(func() { a.run(200_000) }) {
		t.Fatal("it is not found")
	}
	if !panics(func() { a.again(slow{at: a.at, message: nil}) }) {
		t.Errorf("%s: it does not panic again", a.where())
	}
	if !strings.Contains(a.where(), "WEFT_MUTATOR_SEED=1, sequence") {
		t.Error(a.where())
	}
}

// A parser that takes too long, or keeps what it is sent, or allocates without measure,
// fails a proof; one that does not passes.
func TestProofsJudgeTimeAndMemory(t *testing.T) {
	a := &attack{}
	burn := func() {
		for end := a.cpu() + 3*time.Millisecond; a.cpu() < end; {
			continue
		}
	}
	var kept [][]byte
	for name, c := range map[string]struct {
		receive func(b []byte)
		want    string
	}{
		"good": {func([]byte) {}, ""},
		"slow": {func(b []byte) {
			if len(b) == 13 {
				burn()
			}
		}, " of CPU and "},
		"leaks": {func(b []byte) { kept = append(kept, make([]byte, 100_000)) }, "kept "},
		"large": {func(b []byte) {
			if len(b) == 13 {
				kept = [][]byte{make([]byte, 4<<20)}
			}
		}, "KiB for 13 bytes"},
	} {
		a := &attack{parser: Parser{Name: name, Seeds: [][]byte{options()}, New: func(*rand.Rand) Machine { return Machine{Receive: c.receive} }}, seed: 1, log: quiet, proof: true}
		faults := a.run(500)
		if got := strings.Join(faults, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.2000q, want %q", name, got, c.want)
		}
	}
	_ = kept
}

// The checksums that are restored are right: the sum over what they cover is all ones.
func TestChecksumsAreRestored(t *testing.T) {
	four := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9, 0, 0, 0, 0}, "odd"...)
	SealIP(four)
	if fold(sum(four[:20])) != 0xffff || fold(sum(four[12:20])+17+11+sum(four[20:])) != 0xffff || four[3] != 31 || four[25] != 11 {
		t.Errorf("%x", four)
	}
	six := append(make([]byte, 40), 128, 0, 0, 0, 1, 2, 3, 4)
	six[0], six[6], six[23] = 0x60, 58, 1
	SealIP(six)
	if fold(sum(six[8:40])+58+8+sum(six[40:])) != 0xffff || six[5] != 8 {
		t.Errorf("%x", six)
	}
}
