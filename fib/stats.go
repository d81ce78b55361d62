package fib

import (
	"fmt"
	"strings"
)

// Shape counts what a structure is made of. It is the same for the same set
// of prefixes.
type Shape struct {
	Prefixes  int `json:"Prefixes"`
	InRoot    int `json:"InRoot"`    // prefixes that end within the root
	Hidden    int `json:"Hidden"`    // prefixes that longer ones of their node cover wholly
	Pages     int `json:"Pages"`     // IPv4: pages
	PageRuns  int `json:"PageRuns"`  // entries of all of them
	WidePages int `json:"WidePages"` // of these, those with slots of 32 bits
	Nodes     int `json:"Nodes"`
	Entries   int `json:"Entries"`   // words of all nodes' entries
	Values    int `json:"Values"`    // of these, those with a value
	Empty     int `json:"Empty"`     // and those with nothing
	PathJumps int `json:"PathJumps"` // jumps to a node
	LeafJumps int `json:"LeafJumps"` // jumps to a prefix alone
	MaxDepth  int `json:"MaxDepth"`  // blocks on the longest way down
	DepthSum  int `json:"DepthSum"`  // of all slots and entries with a value: blocks on the way
	DepthOf   int `json:"DepthOf"`   // how many those are
	// Sizes counts nodes by entries: 1, 2, 3-4, 5-8 ... 129-256.
	Sizes [9]int `json:"Sizes"`
}

// Stats is what the kernel's /proc/net/fib_triestat tells of its trie, for
// this structure.
type Stats struct {
	Shape
	Family     int `json:"Family"`     // 4 or 6
	Root       int `json:"Root"`       // words of the root
	Used       int `json:"Used"`       // words in use, the root and head among them
	Quarantine int `json:"Quarantine"` // words freed, waiting for Release
	Free       int `json:"Free"`       // words of freed blocks ready for use
	Untouched  int `json:"Untouched"`  // words never used
	Capacity   int `json:"Capacity"`   // words of the arena
	Shadow     int `json:"Shadow"`     // bytes beside the arena, roughly
}

// Stats walks the whole structure; like an update it must not run beside one.
func (t *Table) Stats() Stats {
	s := Stats{
		Family:     int(t.family),
		Root:       1 << t.family.rootBits(),
		Quarantine: t.waiting,
		Free:       t.freeWords,
		Untouched:  max(len(t.words)-Slack-int(t.next)-int(t.notes(uint64(t.next))), 0),
		Capacity:   len(t.words),
		// What Go's maps need for a pair at their usual load.
		Shadow: 12*len(t.inRoot) + 18*len(t.hidden.short) + 48*len(t.hidden.long) + 8*cap(t.quarantine),
	}
	s.Used = t.Used()
	s.Prefixes = t.count
	s.InRoot = len(t.inRoot)
	s.Hidden = t.hidden.len()
	for i := range uint32(s.Root) {
		t.survey(&s.Shape, t.load(t.root+i), 0)
	}
	if t.family == ipv6 {
		t.survey(&s.Shape, t.load(headRest), 0)
	}
	return s
}

func (t *Table) survey(s *Shape, word uint32, depth int) {
	switch {
	case word == 0:
		return
	case !isPointer(word):
		s.DepthSum += depth
		s.DepthOf++
		return
	}
	depth++
	s.MaxDepth = max(s.MaxDepth, depth)
	off := payload(word)
	if tag := tagOf(word); tag == tagNarrow || tag == tagWide {
		t.surveyPage(s, word, depth)
		return
	}
	if isJump(word) {
		target := t.load(off + jumpTarget)
		if isPointer(target) {
			s.PathJumps++
		} else {
			s.LeafJumps++
		}
		t.survey(s, target, depth)
		return
	}
	n := t.entries(off)
	s.Nodes++
	s.Entries += n
	s.Sizes[sizeClass(n)]++
	for i := range uint32(n) {
		word := t.load(off + nodeHeader + i)
		if word == 0 {
			s.Empty++
		} else if !isPointer(word) {
			s.Values++
		}
		t.survey(s, word, depth)
	}
}

func (t *Table) surveyPage(s *Shape, word uint32, depth int) {
	s.Pages++
	if !isNarrow(word) {
		s.WidePages++
	}
	for i := range t.pageRuns(word) {
		s.PageRuns++
		switch slot := t.pageEntry(word, uint32(i)); {
		case isPointer(slot):
			t.survey(s, slot, depth)
		case slot != 0:
			s.DepthSum += depth
			s.DepthOf++
		}
	}
}

// sizeClass is the exponent of the power of two that is not below n.
func sizeClass(n int) int {
	c := 0
	for 1<<c < n {
		c++
	}
	return c
}

// Bytes is all the memory in use for the prefixes: the arena's part, and what
// the table keeps beside it.
func (s Stats) Bytes() int { return 4*(s.Used+s.Quarantine+s.Free) + s.Shadow }

// String returns the statistics in the manner of /proc/net/fib_triestat.
func (s Stats) String() string {
	var b strings.Builder
	line := func(name string, format string, values ...any) {
		fmt.Fprintf(&b, "\t%-16s"+format+"\n", append([]any{name + ":"}, values...)...)
	}
	fmt.Fprintf(&b, "IPv%d:\n", s.Family)
	line("Aver depth", "%.2f", float64(s.DepthSum)/float64(max(s.DepthOf, 1)))
	line("Max depth", "%d", s.MaxDepth)
	line("Prefixes", "%d (%d in the root, %d hidden)", s.Prefixes, s.InRoot, s.Hidden)
	if s.Pages > 0 {
		line("Pages", "%d (%d of them wide), %d runs", s.Pages, s.WidePages, s.PageRuns)
	}
	line("Nodes", "%d", s.Nodes)
	low := 1
	for class, n := range s.Sizes {
		if n > 0 {
			line(fmt.Sprintf("  %d-%d", low, 1<<class), "%d", n)
		}
		low = 1<<class + 1
	}
	line("Entries", "%d (%d values, %d empty)", s.Entries, s.Values, s.Empty)
	if s.Family == 6 {
		line("Jumps", "%d to nodes, %d to prefixes", s.PathJumps, s.LeafJumps)
	}
	line("Root", "%d slots", s.Root)
	line("In use", "%d kB, %d kB waiting, %d kB free, of %d kB", s.Used*4/1024, s.Quarantine*4/1024, s.Free*4/1024, s.Capacity*4/1024)
	line("Beside it", "%d kB", s.Shadow/1024)
	return b.String()
}
