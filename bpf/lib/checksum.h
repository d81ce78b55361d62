/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Internet checksum arithmetic (RFC 1071, incremental updates RFC 1624 eq. 3).
 * A sum is a 32-bit one's complement number over words in wire order; helpers
 * take and return it unfolded unless they say otherwise.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* what zero means in a checksum field */
enum hook_zero {
	ZERO_PLAIN, /* a sum like any other (TCP) */
	ZERO_STAYS, /* no checksum, and a sum of zero is sent as 0xffff (UDP, RFC 768) */
	ZERO_NEVER, /* sent as 0xffff: both are the same sum, and only a message of zeros would have zero */
};

/* 64-bit accumulator of 32-bit words -> 32-bit sum */
static __always_inline __u32 csum_reduce(__u64 acc)
{
	acc = (acc & 0xffffffff) + (acc >> 32);
	acc = (acc & 0xffffffff) + (acc >> 32);
	return acc;
}

/* 32-bit sum -> 16-bit sum, not complemented */
static __always_inline __u16 csum_fold16(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline __u64 csum_addr6(const struct in6_addr *a)
{
	return (__u64)a->be32[0] + a->be32[1] + a->be32[2] + a->be32[3];
}

/* the change of the sum when the address is removed */
static __always_inline __u64 csum_addr6_gone(const struct in6_addr *a)
{
	return (__u64)(__u32)~a->be32[0] + (__u32)~a->be32[1] + (__u32)~a->be32[2] +
	       (__u32)~a->be32[3];
}

/* checksum field after the bytes under it changed by diff (new minus old) */
static __always_inline __sum16 csum_update(__sum16 check, __u32 diff)
{
	__u64 acc = (__u64)diff + (__u16)~check;
	return ~csum_fold16(csum_reduce(acc));
}

/* checksum of an IPv4 header without options whose check field is zero */
static __always_inline __sum16 csum_ipv4_header(const struct iphdr *ip)
{
	const __u32 *w = (const __u32 *)ip;
	__u64 acc = (__u64)w[0] + w[1] + w[2] + w[3] + w[4];
	return ~csum_fold16(csum_reduce(acc));
}
