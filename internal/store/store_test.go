package store_test

import (
	"path/filepath"
	"testing"

	"weft/internal/store"
)

func TestWhatIsKeptIsThereAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "leases")
	f, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b"} {
		if err := f.Put([]byte(k), []byte("of "+k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Delete([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = store.Open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]string{}
	if err := f.Each(func(k, v []byte) error { found[string(k)] = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found["b"] != "of b" {
		t.Error(found)
	}
}

func TestAFileThatSomebodyHoldsIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	f, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if g, err := store.Open(path); err == nil {
		g.Close()
		t.Error("two have it at once")
	}
}
