package lookup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gaissmai/bart"
)

// fillTrie puts all prefixes into an LPM trie, many in a system call.
func fillTrie(m *ebpf.Map, prefixes []netip.Prefix, seed uint64) error {
	if m.KeySize() == 8 {
		return fillTrieOf[[8]byte](m, prefixes, seed)
	}
	return fillTrieOf[[20]byte](m, prefixes, seed)
}

func fillTrieOf[K [8]byte | [20]byte](m *ebpf.Map, prefixes []netip.Prefix, seed uint64) error {
	const batch = 4096
	keys, values := make([]K, 0, batch), make([]uint32, 0, batch)
	flush := func() error {
		if _, err := m.BatchUpdate(keys, values, nil); err != nil {
			return fmt.Errorf("fill the LPM trie: %w", err)
		}
		keys, values = keys[:0], values[:0]
		return nil
	}
	for p, hop := range routes(prefixes, seed) {
		keys, values = append(keys, K(trieKey(p))), append(values, hop)
		if len(keys) < batch {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return flush()
}

// buildBart fills a Go table, and returns the growth of the heap.
func buildBart(prefixes map[int][]netip.Prefix, seed uint64) (*bart.Table[uint32], uint64) {
	before := heap()
	t := new(bart.Table[uint32])
	for _, f := range families {
		for p, hop := range routes(prefixes[f], seed) {
			t.Insert(p, hop)
		}
	}
	return t, heap() - before
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// updates is the number of prefixes that one measurement withdraws and announces
// again.
var updates = map[string]int{weft: 100_000, lpmTrie: 100_000, bartGo: 100_000, kernel: 10_000}

// update returns updates a second; a withdrawal and an announcement are two.
func (m *Measurer) update(subject string) (float64, error) {
	all := len(m.prefixes[4]) + len(m.prefixes[6])
	list := make([]netip.Prefix, 0, updates[subject])
	back := make([]uint32, 0, updates[subject])
	for range updates[subject] {
		i := m.rng.IntN(all)
		f := 4
		if i >= len(m.prefixes[4]) {
			f, i = 6, i-len(m.prefixes[4])
		}
		list = append(list, m.prefixes[f][i])
		hop, ok := m.hopOf(subject, m.prefixes[f][i])
		if !ok {
			return 0, fmt.Errorf("%s does not know %s", subject, m.prefixes[f][i])
		}
		back = append(back, hop)
	}
	start := time.Now()
	err := m.churn(subject, list, back)
	return float64(2*len(list)) / time.Since(start).Seconds(), err
}

// hopOf is the value that a prefix has and gets again. The kernel is not queried for
// each; the next hop of a route does not matter to its speed, and update is the last
// case that reads it.
func (m *Measurer) hopOf(subject string, p netip.Prefix) (hop uint32, ok bool) {
	switch subject {
	case weft:
		return m.weft[familyOf(p)].Get(p)
	case bartGo:
		return m.bart.Get(p)
	case lpmTrie:
		err := m.p.trie(familyOf(p)).Lookup(trieKey(p), &hop)
		return hop, err == nil
	}
	return 1 + m.rng.Uint32N(hops), true
}

func (m *Measurer) churn(subject string, list []netip.Prefix, back []uint32) error {
	switch subject {
	case weft:
		return m.updateWeft(list, back)
	case bartGo:
		for i, p := range list {
			m.bart.Delete(p)
			m.bart.Insert(p, back[i])
		}
		return nil
	case lpmTrie:
		for i, p := range list {
			key, trie := trieKey(p), m.p.trie(familyOf(p))
			if err := errors.Join(trie.Delete(key), trie.Put(key, back[i])); err != nil {
				return fmt.Errorf("update the LPM trie: %w", err)
			}
		}
		return nil
	}
	return m.kernel.batch(context.Background(), func(w *bufio.Writer) {
		for i, p := range list {
			fmt.Fprintf(w, "route del %s\nroute add %s via %s dev wan\n", p, p, gateway(p, back[i]))
		}
	})
}
