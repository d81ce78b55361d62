/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Longest-prefix match in the tables that Go's package fib writes: an array of
 * 32-bit words, with the layout of fib/layout.go under the same names. A
 * lookup gives the value of the longest prefix over the address, or 0.
 * It reads only, takes no lock, and may run while the table is changed.
 *
 * words: the array; last: offsets of blocks are not above it. It is the
 * array's size less FIB_SLACK, a load-time constant, so that the verifier
 * knows that what is reached from a block lies within the array.
 */
#include "kernel.h"

#define FIB_LAYOUT 3 /* LayoutVersion of fib/layout.go */

#define FIB_TAG_SHIFT 27
#define FIB_WIDE (28U << FIB_TAG_SHIFT)
#define FIB_NARROW (29U << FIB_TAG_SHIFT)
#define FIB_JUMP (30U << FIB_TAG_SHIFT)
#define FIB_NODE (31U << FIB_TAG_SHIFT)
#define FIB_PAYLOAD ((1U << FIB_TAG_SHIFT) - 1)

#define FIB_HEAD_DEFAULT 1
#define FIB_HEAD_GLOBAL 2
#define FIB_HEAD_REST 3
#define FIB_HEAD_WORDS 16
#define FIB_ROOT4_BITS 18
#define FIB_ROOT6_FROM 4
#define FIB_ROOT6_BITS 20
#define FIB_ROOT6_END (FIB_ROOT6_FROM + FIB_ROOT6_BITS)

#define FIB_PAGE_BITS 6
#define FIB_PAGE_HEADER 2
#define FIB_NODE_RANKS 1
#define FIB_NODE_BITMAP 2
#define FIB_NODE_HEADER 10
#define FIB_JUMP_LENGTH 1
#define FIB_JUMP_KEY 2
#define FIB_JUMP_TARGET 6
#define FIB_SLACK 1024
#define FIB_MIN_WORDS4 (FIB_HEAD_WORDS + (1U << FIB_ROOT4_BITS) + FIB_SLACK)
#define FIB_MIN_WORDS6 (FIB_HEAD_WORDS + (1U << FIB_ROOT6_BITS) + FIB_SLACK)

/* nodes and jumps on the longest way: every one decides eight bits or more */
#define FIB_STEPS 20

/*
 * Addresses come in any order, so that branches on what they find are guessed
 * wrong, and a wrong guess waits for the memory that decides it. So lookups
 * choose by masks, and go through the same loads whatever is there: then the
 * loads of one packet overlap with the next one's. The empty asm keeps the
 * compiler from making a branch of it again.
 */
#define FIB_OPAQUE(x) asm volatile("" : "+r"(x))

/* all ones if the word is a pointer, else zero */
static __always_inline __u64 fib_points(__u64 word)
{
	__u64 mask = -((word + ((__u64)(32 - 28) << FIB_TAG_SHIFT)) >> 32);

	FIB_OPAQUE(mask);
	return mask;
}

/* the word, or the other one if it is zero */
static __always_inline __u64 fib_or_else(__u64 word, __u64 other)
{
	__u64 none = (__s64)(word - 1) >> 63;

	FIB_OPAQUE(none);
	return word | (other & none);
}

/* the word of a node's slot: counts the runs that start before it */
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
 * addr is in host byte order: the root, a page, and rarely a node. Where the
 * root's slot has no page the arena's head is read as one, and not used.
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
	if (word >> FIB_TAG_SHIFT == FIB_WIDE >> FIB_TAG_SHIFT)
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

static __always_inline __u32 fib_lookup6(const __u32 *words, const __u32 last, struct fib_addr6 addr)
{
	__u32 word = words[FIB_HEAD_REST], best = words[FIB_HEAD_DEFAULT], depth = 0;

	if (addr.hi >> (64 - FIB_ROOT6_FROM) == 2) {
		word = words[FIB_HEAD_WORDS + ((addr.hi >> (64 - FIB_ROOT6_END)) &
					       ((1U << FIB_ROOT6_BITS) - 1))];
		best = words[FIB_HEAD_GLOBAL];
		/* unrolled for the most of what is routed: /25 to /48, without jumps */
#pragma unroll
		for (depth = FIB_ROOT6_END; depth < 48 && word >= FIB_NODE; depth += 8) {
			const __u32 *block = words + (word & FIB_PAYLOAD);

			if ((word & FIB_PAYLOAD) > last)
				return 0;
			best = block[0] ?: best;
			word = fib_entry(block, (addr.hi >> (56 - depth)) & 0xff);
		}
	}
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
