package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// sound makes a file with many pages, some of them free, and gives its bytes.
func sound(t *testing.T, open func(string) (*File, error), entries int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sound")
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	var changes []Change
	for i := range entries {
		changes = append(changes, Change{fmt.Appendf(nil, "key %05d", i*7919%entries), bytes.Repeat([]byte{byte(i)}, 40+i%90)})
	}
	changes = append(changes, Change{[]byte("large"), make([]byte, 30000)})
	if err := f.Apply(changes); err != nil {
		t.Fatal(err)
	}
	for i := range entries / 3 {
		changes[i] = Change{Key: fmt.Appendf(nil, "key %05d", i*2)}
	}
	if err := f.Apply(changes[:entries/3]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// damages are ways in which a file breaks.
func damages() map[string]func(*rand.Rand, []byte) []byte {
	const page = 4096
	at := func(r *rand.Rand, b []byte) []byte {
		n := r.IntN(max(len(b)/page, 1))
		return b[n*page : min((n+1)*page, len(b))]
	}
	random := func(r *rand.Rand, b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	return map[string]func(*rand.Rand, []byte) []byte{
		"cut":            func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] },
		"cut at a page":  func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b)/page)*page] },
		"a page of zero": func(r *rand.Rand, b []byte) []byte { clear(at(r, b)); return b },
		"a random page":  func(r *rand.Rand, b []byte) []byte { random(r, at(r, b)); return b },
		"a random head":  func(r *rand.Rand, b []byte) []byte { random(r, at(r, b)[8:16]); return b },
		"random entries": func(r *rand.Rand, b []byte) []byte { p := at(r, b); random(r, p[16+r.IntN(200):][:16]); return b },
		"a bit":          func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b },
		"a page twice":   func(r *rand.Rand, b []byte) []byte { copy(at(r, b), bytes.Clone(at(r, b))); return b },
		"all of it":      func(r *rand.Rand, b []byte) []byte { random(r, b); return b },
		"a child is another page": func(r *rand.Rand, b []byte) []byte {
			for n := 2; n < len(b)/page; n++ {
				if p := b[n*page:]; binary.NativeEndian.Uint16(p[8:]) == branchPage {
					binary.NativeEndian.PutUint64(p[16+8+16*r.IntN(4):], uint64(r.IntN(len(b)/page)))
				}
			}
			return b
		},
	}
}

// A file that is damaged in any way opens, as it was or empty, and works; the one
// that was there is kept beside it.
func TestADamagedFileIsSetAside(t *testing.T) {
	for kind, open := range map[string]func(string) (*File, error){"kept": Open, "fleeting": OpenFleeting} {
		text := sound(t, open, 2000)
		if err := verify(text); err != nil {
			t.Fatalf("%s: a sound file: %v", kind, err)
		}
		asides := 0
		for how, damage := range damages() {
			for seed := range uint64(20) {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, damage(rand.New(rand.NewPCG(seed, 7)), bytes.Clone(text)), 0o600); err != nil {
					t.Fatal(err)
				}
				if setAsideOrUsed(t, fmt.Sprintf("%s, %s, seed %d", kind, how, seed), path, open) {
					asides++
				}
			}
		}
		if asides < 100 {
			t.Errorf("%s: only %d of 200 were set aside", kind, asides)
		}
	}
}

func setAsideOrUsed(t *testing.T, name, path string, open func(string) (*File, error)) (aside bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("%s: panic: %v", name, v)
		}
	}()
	f, err := open(path)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	entries := 0
	if err := f.Each(func(_, v []byte) error { entries += len(v[:min(len(v), 1)]); return nil }); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for i := range 4 { // writes use the list of free pages
		var changes []Change
		for n := range 75 {
			n = n*4 + i
			changes = append(changes, Change{fmt.Appendf(nil, "key %05d", n*13), make([]byte, 50)}, Change{Key: fmt.Appendf(nil, "key %05d", n*5)})
		}
		if err := f.Apply(changes); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	_, err = os.Stat(path + ".damaged")
	if kept := err == nil; kept != (f.Damaged != nil) || kept && entries > 0 {
		t.Errorf("%s: set aside %v, kept %v, and %d entries are in the new one", name, f.Damaged, kept, entries)
	}
	return f.Damaged != nil
}

// A log's file is verified, too, however full it is.
func TestADamagedLogIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := OpenLog(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(400) {
		if err := l.Append(i, make([]byte, 6000), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int64{0, 100 << 10} {
		if cut > 0 {
			if err := os.Truncate(path, cut); err != nil {
				t.Fatal(err)
			}
		}
		l, err := OpenLog(path, 1<<20)
		if err != nil || (l.Damaged != nil) != (cut > 0) {
			t.Fatalf("cut to %d: %v, set aside: %v", cut, err, l.Damaged)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(make([]byte, 9000))
	f.Fuzz(func(_ *testing.T, text []byte) { _ = verify(text) })
}
