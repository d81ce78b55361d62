/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * A flow's hash: packets of one flow have the same, in one direction. The
 * mixing steps are those of MurmurHash3's finaliser (public domain).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/*
 * ports is zero if a packet has none, or is a fragment: all fragments of a datagram
 * take one path
 */
struct flow_hash {
	__u64 from, to;
	__u32 ports;
	__u32 protocol;
};

/* odd multipliers that mix: of the finaliser, 2^64 by the golden ratio, and of splitmix64 */
/* go: datapath HASH_=Hash */
#define HASH_FIRST 0xff51afd7ed558ccdULL
#define HASH_SECOND 0xc4ceb9fe1a85ec53ULL
#define HASH_GOLDEN 0x9e3779b97f4a7c15ULL
#define HASH_SPREAD 0xd6e8feb86659fd93ULL

static __always_inline __u64 hash_mix(__u64 x)
{
	x ^= x >> 33;
	x *= HASH_FIRST;
	x ^= x >> 33;
	x *= HASH_SECOND;
	return x ^ x >> 33;
}

static __always_inline __u32 flow_hash(const struct flow_hash *flow)
{
	__u64 h = hash_mix(flow->from);

	h = hash_mix(h ^ flow->to);
	h = hash_mix(h ^ ((__u64)flow->ports << 32 | flow->protocol));
	return h >> 32;
}
