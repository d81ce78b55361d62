package store

import (
	"path/filepath"
	"slices"
	"testing"
)

func times(t *testing.T, walk func(uint64, func(uint64, []byte) bool) error, from uint64) (list []uint64) {
	t.Helper()
	err := walk(from, func(at uint64, _ []byte) bool {
		list = append(list, at)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestALogKeepsOrderThroughClosingAndForgetsTheOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x", "log")
	l, err := OpenLog(path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint64{10, 20, 20, 15, 40} { // the clock may go back
		if err := l.Append(at, []byte("block"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	if got, want := times(t, l.Forward, 20), []uint64{20, 21, 22, 40}; !slices.Equal(got, want) {
		t.Errorf("forward from 20: %v, want %v", got, want)
	}
	if got, want := times(t, l.Backward, 22), []uint64{21, 20, 10}; !slices.Equal(got, want) {
		t.Errorf("backward from 22: %v, want %v", got, want)
	}
	if got, want := times(t, l.Backward, 99), []uint64{40, 22, 21, 20, 10}; !slices.Equal(got, want) {
		t.Errorf("backward from the end: %v, want %v", got, want)
	}
	if err := l.Append(50, nil, 30); err != nil {
		t.Fatal(err)
	}
	if got, want := times(t, l.Forward, 0), []uint64{40, 50}; !slices.Equal(got, want) {
		t.Errorf("after forgetting what is before 30: %v, want %v", got, want)
	}
	if err := l.Append(60, nil, 1000); err != nil {
		t.Fatal(err)
	}
	if got, want := times(t, l.Forward, 0), []uint64{60}; !slices.Equal(got, want) {
		t.Errorf("the newest must stay: %v, want %v", got, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALogIsBoundedInSize(t *testing.T) {
	const most = 1 << 20
	l, err := OpenLog(filepath.Join(t.TempDir(), "log"), most)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for at := range uint64(500) {
		if err := l.Append(at, make([]byte, 16<<10), 0); err != nil {
			t.Fatal(err)
		}
	}
	got := times(t, l.Forward, 0)
	if len(got) < 16 || len(got) > 128 || got[len(got)-1] != 499 {
		t.Errorf("%d blocks of 16 KiB are left of a MiB, the last is %d", len(got), got[len(got)-1])
	}
}

func TestNotesCountUntilTheNextOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := OpenLog(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	notes := func() (list []uint64) {
		t.Helper()
		if err := l.Notes(func(at uint64, _ []byte) bool { list = append(list, at); return true }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := notes(); got != nil {
		t.Errorf("a new log has notes of %v", got)
	}
	for _, at := range []uint64{10, 20, 20, 40} {
		if err := l.Note(at, []byte("note"), 0); err != nil {
			t.Fatal(err)
		}
		if err := l.Append(at, []byte("block"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, want := notes(), []uint64{10, 20, 21, 40}; !slices.Equal(got, want) {
		t.Errorf("after closing there are %v, want %v", got, want)
	}
	// at 30 that of 21 is still in force
	if err := l.Note(50, []byte("note"), 30); err != nil {
		t.Fatal(err)
	}
	if got, want := notes(), []uint64{21, 40, 50}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if got, want := times(t, l.Forward, 0), []uint64{10, 20, 21, 40}; !slices.Equal(got, want) {
		t.Errorf("the blocks are %v, want %v", got, want)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
