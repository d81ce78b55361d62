/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The table of the short way (nat64_state_fast.h): beside the sessions, what
 * packets from inside need of them, in two cache lines.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/*
 * What a packet from inside needs: a copy for as long as the session need not
 * be touched (nat64_state_fast.h). It is read in whole words.
 */
struct nat64_fast {
	struct in6_addr client;
	__be32 remote;
	__be16 port, remote_port;
	__be32 pool;
	__be16 pool_port;
	__u8 protocol, translator; /* zero: empty */
	__u32 until; /* tick up to which it may be used */
	__u32 check; /* over all of it; zero: empty */
};
_Static_assert(sizeof(struct nat64_fast) == 40, "five words");

/* the same in words; that of the pool has its port, protocol and translator too */
struct nat64_fast_words {
	__u64 client[2];
	__u64 ends;
	__u64 pool;
	__u64 until; /* and check */
};
_Static_assert(sizeof(struct nat64_fast_words) == sizeof(struct nat64_fast), "the same");

/* two cache lines side by side, which are waited for together */
#define NAT64_FAST_WAYS 3
struct nat64_fast_set {
	struct nat64_fast way[NAT64_FAST_WAYS];
	__u64 pad;
};
_Static_assert(sizeof(struct nat64_fast_set) == 128, "two cache lines");

/*
 * The sets lie in pieces that are just so small that the kernel takes them from
 * the memory that it maps in huge pages: a table in one piece lies in pages of
 * 4 KiB, and to find the page costs nearly as much as to fetch the line.
 */
/* go: datapath */
#define NAT64_FAST_SETS 251
struct nat64_fast_chunk {
	__u8 bytes[(NAT64_FAST_SETS + 1) * sizeof(struct nat64_fast_set)];
};

struct nat64_fast_piece {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct nat64_fast_chunk));
	__uint(max_entries, 1);
};

/* a power of two of them */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct nat64_fast_piece);
} nat64_fast_sets SEC(".maps");

/* how many pieces there are, less one, and how many bytes into a piece a cache line begins */
const volatile __u32 nat64_fast_mask = 0;
const volatile __u32 nat64_fast_shift = 0;
