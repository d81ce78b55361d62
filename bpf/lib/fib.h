/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Longest-prefix match in the tables that Go's package fib writes: an array of 32-bit
 * words, whose layout fib/layout.go explains. A lookup returns the value of the
 * longest matching prefix, or 0. It only reads, takes no lock, and may run while the
 * table is changed.
 *
 * words: the array; last: no block's offset is above it. It is the array's size less
 * FIB_SLACK, a load-time constant, so that the verifier knows that all accesses
 * relative to a block are within the array.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: fib FIB_LAYOUT=LayoutVersion */
#define FIB_LAYOUT 3 /* in the first word */

/* tags of words; below 28 it is a value */
/* go: fib FIB_= */
#define FIB_TAG_SHIFT 27
#define FIB_TAG_WIDE 28   /* a wide page at word offset payload */
#define FIB_TAG_NARROW 29 /* a narrow page */
#define FIB_TAG_JUMP 30
#define FIB_TAG_NODE 31

#define FIB_JUMP ((__u32)FIB_TAG_JUMP << FIB_TAG_SHIFT)
#define FIB_NODE ((__u32)FIB_TAG_NODE << FIB_TAG_SHIFT)
#define FIB_PAYLOAD ((1U << FIB_TAG_SHIFT) - 1)

/* the head, one cache line; the root follows it */
/* go: fib FIB_= */
#define FIB_LINE_WORDS 16
#define FIB_HEAD_DEFAULT 1 /* value word for addresses that the structure leaves open */
#define FIB_HEAD_GLOBAL 2  /* the same for 2000::/4, where prefixes to /4 count too */
#define FIB_HEAD_REST 3    /* IPv6: the tree for all that is not under 2000::/4 */
#define FIB_HEAD_WORDS FIB_LINE_WORDS

/* go: fib FIB_= */
#define FIB_ROOT4_BITS 18
#define FIB_ROOT6_FROM 4 /* the root holds 2000::/4 only */
#define FIB_ROOT6_BITS 20
#define FIB_ROOT6_END (FIB_ROOT6_FROM + FIB_ROOT6_BITS)

/* go: fib FIB_= */
#define FIB_PAGE_BITS 6
#define FIB_PAGE_HEADER 2 /* entries follow: half words or words */

/* go: fib FIB_= */
#define FIB_NODE_RANKS 1   /* 4 x 8 bits: runs that start in earlier words of the bitmap */
#define FIB_NODE_BITMAP 2  /* 4 x 64 bits, low half first */
#define FIB_NODE_CHECK 10  /* IPv6: the node's id, for the index */
#define FIB_NODE_HEADER 11 /* entries follow */

/* go: fib FIB_= */
#define FIB_JUMP_LENGTH 1 /* bits that must be equal, counted from the address's start */
#define FIB_JUMP_KEY 2    /* 2 x 64 bits, upper half of the address first, low word first */
#define FIB_JUMP_TARGET 6 /* value word or node */

/*
 * Words at the end that never hold a block. A reader may thus compare a block's offset
 * with the size less this alone, and access any entry relative to it.
 */
/* go: fib FIB_SLACK=Slack */
#define FIB_SLACK 1024

/* go: fib FIB_= */
#define FIB_INDEX_SET_BITS 15
#define FIB_INDEX_WAYS 2 /* words of a set */
#define FIB_INDEX_WORDS ((__u32)FIB_INDEX_WAYS << FIB_INDEX_SET_BITS)
#define FIB_INDEX_SHALLOW 32
#define FIB_INDEX_DEEP 40
#define FIB_INDEX_DEEP_BIT (1ULL << (FIB_INDEX_DEEP - FIB_ROOT6_FROM))
#define FIB_INDEX_MIX 0x13c6ef3721ULL /* odd, 2^37 by the golden ratio (Knuth 6.4) */
#define FIB_INDEX_SET_FROM 22
#define FIB_INDEX_MARK_FROM 10
#define FIB_INDEX_LINE_BITS 20

/* sizes of the smallest arenas, in words; a full table of 2024 needs about 2.2 and 1.7 million, and those that wait for a grace period beside them */
/* go: fib FIB_MIN_WORDS=MinWords */
#define FIB_MIN_WORDS4 (FIB_HEAD_WORDS + (1U << FIB_ROOT4_BITS) + FIB_SLACK)
#define FIB_MIN_WORDS6 (FIB_INDEX + FIB_INDEX_WORDS + FIB_SLACK)

#define FIB_INDEX (FIB_HEAD_WORDS + (1U << FIB_ROOT6_BITS))

/* nodes and jumps on the longest path: each decides eight bits or more */
#define FIB_STEPS 20

/*
 * Addresses arrive in any order, so that branches on the data are mispredicted, and a
 * mispredicted branch waits for the memory that decides it. So lookups select by
 * masks, and do the same loads whatever they find: the loads of one packet overlap
 * with those of the next one. The empty asm keeps the compiler from making a branch of
 * it.
 */
#define FIB_OPAQUE(x) asm volatile("" : "+r"(x))

/* all ones if the word is a pointer, else zero */
static __always_inline __u64 fib_points(__u64 word)
{
	__u64 mask = -((word + ((__u64)(32 - 28) << FIB_TAG_SHIFT)) >> 32);

	FIB_OPAQUE(mask);
	return mask;
}

/* all ones if x, which is less than 2^63, is zero, else zero */
static __always_inline __u64 fib_none(__u64 x)
{
	__u64 mask = (__s64)(x - 1) >> 63;

	FIB_OPAQUE(mask);
	return mask;
}

/* the word, or the other one if it is zero */
static __always_inline __u64 fib_or_else(__u64 word, __u64 other)
{
	return word | (other & fib_none(word));
}

/* the word of a node's slot: its index is the number of runs that start up to the slot */
static __always_inline __u32 fib_entry(const __u32 *node, __u32 slot)
{
	__u32 quarter = slot >> 6;
	__u64 bitmap = *(const __u64 *)(node + FIB_NODE_BITMAP + 2 * quarter);
	__u32 rank = ((const __u8 *)(node + FIB_NODE_RANKS))[quarter];

	rank += (__u32)__builtin_popcountll(bitmap << (63 - (slot & 63)));
	return node[FIB_NODE_HEADER + (rank & 511)];
}

/* a page whose entries are words, a few in a table */
static __always_inline __u32 fib_wide4(const __u32 *words, const __u32 last, const __u32 *page,
				       __u64 run, __u32 addr)
{
	__u32 word = page[FIB_PAGE_HEADER + run], at = word & FIB_PAYLOAD;

	if (word < FIB_NODE)
		return word;
	return at > last ? 0 : fib_entry(words + at, addr & 0xff) ?: words[at];
}

/*
 * addr is in host byte order: the root, a page, and rarely a node. Where the root's
 * slot has no page, the arena's head is read in its place, and not used.
 */
static __always_inline __u32 fib_lookup4(const __u32 *words, const __u32 last, __u32 addr)
{
	__u64 word = words[FIB_HEAD_WORDS + (addr >> (32 - FIB_ROOT4_BITS))];
	__u64 points = fib_points(word), at = word & points & FIB_PAYLOAD, run, found;
	__u32 slot = addr >> (32 - FIB_ROOT4_BITS - FIB_PAGE_BITS) & 63;
	const __u32 *page = words + at;

	if (at > last)
		return 0;
	run = __builtin_popcountll(*(const __u64 *)page << (63 - slot)) & 127;
	if (word >> FIB_TAG_SHIFT == FIB_TAG_WIDE)
		found = fib_wide4(words, last, page, run, addr);
	else
		found = (((const __u16 *)(page + FIB_PAGE_HEADER))[run] & points) | (word & ~points);
	return fib_or_else(found, words[FIB_HEAD_DEFAULT]) & FIB_PAYLOAD;
}

struct fib_addr6 {
	__u64 hi, lo; /* host byte order */
};

/* whether the address has the bits that the jump skips */
static __always_inline bool fib_same_bits(const __u32 *jump, struct fib_addr6 addr, __u32 n)
{
	const __u64 *key = (const __u64 *)(jump + FIB_JUMP_KEY);
	__u64 hi = addr.hi ^ key[0], lo = addr.lo ^ key[1];

	if (n <= 64)
		return !(hi >> ((64 - n) & 63));
	return !hi && !(lo >> ((128 - n) & 63));
}

/* node by node, from a word that decides at depth; best is the result if nothing is found */
static __always_inline __u32 fib_descend6(const __u32 *words, __u32 last, struct fib_addr6 addr,
					  __u32 word, __u32 depth, __u32 best)
{
	for (int i = 0; i < FIB_STEPS && word >= FIB_JUMP; i++) {
		__u32 off = word & FIB_PAYLOAD;
		const __u32 *block = words + off;

		if (off > last)
			return 0;
		best = block[0] ?: best;
		if (word < FIB_NODE) {
			depth = block[FIB_JUMP_LENGTH];
			if (!fib_same_bits(block, addr, depth))
				return best & FIB_PAYLOAD;
			word = block[FIB_JUMP_TARGET];
			continue;
		}
		word = fib_entry(block, (depth < 64 ? addr.hi >> ((56 - depth) & 63) :
						      addr.lo >> ((120 - depth) & 63)) & 0xff);
		depth += 8;
	}
	return (word ?: best) & FIB_PAYLOAD;
}

/*
 * The lookup for addresses that the index has not answered: from the depth and word in
 * start, and if there is nothing, or if they are zero, from the root. A separate
 * function, so that the few lookups that need it cost the others nothing.
 */
static __attribute__((noinline, unused)) __u32 fib_slow6(const __u32 *words, __u32 last, __u64 hi,
							  __u64 lo, __u64 start)
{
	struct fib_addr6 addr = { hi, lo };
	__u32 found = 0;

	if (start)
		found = fib_descend6(words, last, addr, start, start >> 32, 0);
	if (found)
		return found;
	if (hi >> (64 - FIB_ROOT6_FROM) != 2)
		return fib_descend6(words, last, addr, words[FIB_HEAD_REST], 0,
				    words[FIB_HEAD_DEFAULT]);
	return fib_descend6(words, last, addr,
			    words[FIB_HEAD_WORDS + ((hi >> (64 - FIB_ROOT6_END)) &
						    ((1U << FIB_ROOT6_BITS) - 1))],
			    FIB_ROOT6_END, words[FIB_HEAD_GLOBAL]);
}

/* the line of the node with this mixed id (fib/index.go), or zero */
static __always_inline __u64 fib_indexed(const __u32 *words, __u64 mixed)
{
	__u64 set = mixed >> FIB_INDEX_SET_FROM & ((1U << FIB_INDEX_SET_BITS) - 1);
	__u64 mark = (__u32)(mixed >> FIB_INDEX_MARK_FROM << FIB_INDEX_LINE_BITS);
	__u64 both = *(const __u64 *)(words + FIB_INDEX + 2 * set);
	__u64 a = (__u32)both ^ mark, b = both >> 32 ^ mark;

	a &= fib_none(a >> FIB_INDEX_LINE_BITS);
	b &= fib_none(b >> FIB_INDEX_LINE_BITS) & fib_none(a);
	return a | b;
}

/*
 * The deepest node that the index has, or that the root leads to, and one of its
 * slots: nearly all lookups end there. The root is read only if the index has none.
 * Where there is no node at all, the arena's head is read in its place, and not used.
 */
static __always_inline __u32 fib_lookup6(const __u32 *words, const __u32 last, struct fib_addr6 addr)
{
	__u64 id = addr.hi & ~0ULL >> FIB_ROOT6_FROM, at, none, word, root, shift, deep, shallow;
	const __u32 *block;

	if (addr.hi >> (64 - FIB_ROOT6_FROM) != 2)
		return fib_slow6(words, last, addr.hi, addr.lo, 0);
	deep = (id >> (64 - FIB_INDEX_DEEP) | FIB_INDEX_DEEP_BIT) * FIB_INDEX_MIX;
	shallow = (id >> (64 - FIB_INDEX_SHALLOW)) * FIB_INDEX_MIX;
	at = fib_indexed(words, deep);
	none = fib_none(at);
	shift = 56 - FIB_INDEX_DEEP + (none & 8);
	at |= fib_indexed(words, shallow) & none;
	deep ^= (deep ^ shallow) & none;
	at *= FIB_LINE_WORDS;
	none = fib_none(at);
	shift += none & 8;
	root = words[FIB_HEAD_WORDS + ((id >> (64 - FIB_ROOT6_END)) & none)];
	at |= root & FIB_PAYLOAD & none & -((root + (1U << FIB_TAG_SHIFT)) >> 32);
	if (at > last)
		return 0;
	block = words + at;
	word = fib_or_else(fib_entry(block, (addr.hi >> (shift & 63)) & 0xff), block[0]);
	deep = (__u32)deep ^ block[FIB_NODE_CHECK];
	deep &= ~none;
	none = fib_none(at);
	/* a node without an answer: like a pointer */
	word = (fib_or_else(word, ~0U) & ~none) | (root & none);
	if (__builtin_expect(word >= FIB_JUMP || deep, 0))
		return fib_slow6(words, last, addr.hi, addr.lo,
				 deep ? 0 : word | (64 - shift) << 32);
	return fib_or_else(word, words[FIB_HEAD_GLOBAL]) & FIB_PAYLOAD;
}
