// Package fib has longest-prefix-match tables for IPv4 and IPv6 that live in
// a flat array of 32-bit words. Every reader of the words can look up addresses:
// Go with [Table.Lookup], and an eBPF program when the words are the memory of
// a BPF array. Nothing is copied or converted in between.
//
// # The structure
//
// A table is a trie that takes many bits of the address at a time. Its root
// is a plain array: IPv4 indexes it with the first 18 bits, IPv6 with bits 4
// to 23, because all that is routed globally lies under 2000::/4. (The rest of
// IPv6, such as unique local addresses, starts at a word of its own.)
//
// # IPv4: pages
//
// Where prefixes of more than 18 bits lie under a slot of the root, a page of
// 64 slots decides the next six bits. Most routes on the Internet are /24s, so
// that nearly every lookup ends there. A page stores each run of equal slots
// once: a bitmap says where runs start, and counting its bits up to a slot finds
// the slot's value.
//
//	10.1.0.0/16 -> 1                          root
//	10.1.2.0/24 -> 2                        +------+
//	10.1.4.0/22 -> 3            10.0.192.0  |  -   |
//	10.1.2.9/32 -> 4            10.1.0.0    |  o---+-> page: slots  1 1 o 1 3 3 3 3 1 ...
//	                            10.1.64.0   |  1   |         bitmap 0 0 1 1 1 0 0 0 1 ...
//	                                                         values 1 o 1 3 1
//	                                                                  |
//	                                                                  +-> node, default 2: slot 9 is 4
//
// A page is narrow if all its values have up to 16 bits, and lies within a
// cache line if it has up to 28 runs; it is wide if not. Short prefixes are
// written into the slots of the pages below them. The end of each slot's prefix
// is stored at the arena's other end, which no lookup reads.
//
// # Nodes
//
// IPv6 below its root, and IPv4 below /24, take 8 bits at a time:
//
//	slot     0 1 2 3 4 5 6 7 8 ...            255
//	value    - - B - C C C C - ...              -     "-": take the default
//	run      0   1 2 3       4
//	bitmap   0 0 1 1 1 0 0 0 1 0 ...            0     where a run starts
//	entries  [-] [o] [-] [C] [-]                      one for each run
//	              |
//	              +-> node, default B
//
// A node stores each run of equal slots once. The entry of slot s is found by
// counting the bits of the bitmap up to s; counts for each quarter of the
// bitmap are stored, so that one 64-bit population count is left to do.
// Header and first entries share a cache line.
//
// No value is pushed down beyond one node: the value of a slot that leads to a
// deeper node is written there once, as the node's default, and a lookup keeps
// the last default on its path. So an update touches the one node
// that its prefix ends in, and the default route is a single word.
//
// # Path compression
//
// IPv6 prefixes are long and sparse: a chain of nodes with one entry each
// would cost 64 bytes for 8 bits. Where all prefixes below share more bits, a
// jump stands instead, that holds those bits and where they lead: to a node,
// or to a value if there is one prefix only. There are no more nodes and
// jumps than prefixes then, whatever their lengths: a host route costs about 60
// bytes, and lookups of other addresses never read it. Prefixes of up to 48 bits end
// in a node even if there is only one, since the index leads to nodes.
// IPv4 has no jumps; its paths are a page and a node long at most.
//
// # The index
//
// From IPv6's root to the node that decides a /48 are up to three nodes, one
// after the other. An index, a small hash table behind the root, has the nodes
// under 2000::/4 that decide the bits from 32 and from 40 on by those first
// bits. A lookup asks for both and takes the deeper: one node, one slot. Where
// that has no answer, or leads further down, it goes on from there or from the
// root. A node that is not in the index is reached from the root as well.
//
// # What is kept beside it
//
// The prefixes can be read back from the structure, for each value word
// carries the number of bits at which its prefix ends. Only those that longer
// ones hide wholly (a /23 beside both its /24s) are kept in a map, and those
// that end within the root. Structure and map depend on the set of prefixes
// alone, not on the order in which they came.
//
// # Updates under readers
//
// Blocks are copied, changed, and put in place by one atomic store of the word
// that points to them; defaults, the slots of the root and values of pages whose
// runs stay are changed in place, a word at a time. For each address one such
// store is the moment at which its answer changes; it may be the store into the
// index. A replaced block stays unchanged until [Table.Seal] and [Table.Release]
// establish that no reader can be in it any more.
//
// A lookup during which several updates happen may answer with any route that
// held for its address at some moment of the lookup, even if a longer one held
// at the same time: it may take a default before one update and find the
// longer prefix gone after the next.
//
// A table has one writer at a time. Readers take no locks and write nothing.
package fib
