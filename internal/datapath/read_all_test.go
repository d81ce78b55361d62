package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/lab/netspace/spacetest"
)

// Entries come and go while a map is read: those that stay are there once.
func TestAMapIsReadWholeWhileEntriesComeAndGo(t *testing.T) {
	spacetest.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const stay = 500
	for k := range uint32(stay) {
		if err := m.Put(k, k); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for k := uint32(stay); ; k++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			other := stay + k%stay
			if err := m.Put(other, other); err != nil {
				stopped <- err
				return
			}
			if err := m.Delete(other); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 100 {
		keys, values, err := ReadAll[uint32, uint32](m)
		if err != nil {
			t.Fatal(err)
		}
		times := map[uint32]int{}
		for _, k := range keys {
			times[k]++
			if times[k] > 1 || values[k] != k {
				t.Fatalf("entry %d is there %d times, with the value %d", k, times[k], values[k])
			}
		}
		for k := range uint32(stay) {
			if times[k] != 1 {
				t.Fatalf("entry %d is not there", k)
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}
