/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Addresses: which may be translated, and moving an IPv4 suffix in and out of
 * an IPv6 address (RFC 6052 2.2, RFC 7757 3.3).
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

static __always_inline __u64 addr6_high(const struct in6_addr *a)
{
	return (__u64)bpf_ntohl(a->be32[0]) << 32 | bpf_ntohl(a->be32[1]);
}

static __always_inline __u64 addr6_low(const struct in6_addr *a)
{
	return (__u64)bpf_ntohl(a->be32[2]) << 32 | bpf_ntohl(a->be32[3]);
}

/*
 * The bits that follow the first `from` bits of an IPv6 address, as the upper
 * bits of 32, host order. With u_octet, bits 64..71 are passed over.
 */
static __always_inline __u32 addr6_take(const struct in6_addr *a, __u32 from, bool u_octet)
{
	__u64 high = addr6_high(a), low = addr6_low(a);

	if (u_octet)
		low <<= 8;
	if (from == 0)
		return high >> 32;
	if (from < 64)
		return (high << from | low >> (64 - from)) >> 32;
	if (from < 128)
		return (low << (from - 64)) >> 32;
	return 0;
}

/* The reverse: put 32 bits, host order, after the first `from` bits. */
static __always_inline void addr6_put(struct in6_addr *a, __u32 from, bool u_octet, __u32 bits)
{
	__u64 wide = (__u64)bits << 32, high = 0, low = 0;

	if (from == 0) {
		high = wide;
	} else if (from < 64) {
		high = wide >> from;
		low = wide << (64 - from);
	} else if (from < 128) {
		low = wide >> (from - 64);
	}
	if (u_octet)
		low >>= 8;
	a->be32[0] |= bpf_htonl(high >> 32);
	a->be32[1] |= bpf_htonl((__u32)high);
	a->be32[2] |= bpf_htonl(low >> 32);
	a->be32[3] |= bpf_htonl((__u32)low);
}

static __always_inline bool addr6_same(const struct in6_addr *a, const struct in6_addr *b)
{
	return a->be32[0] == b->be32[0] && a->be32[1] == b->be32[1] && a->be32[2] == b->be32[2] &&
	       a->be32[3] == b->be32[3];
}

/* multicast or link-local: never leaves the link */
static __always_inline bool addr6_link_scope(const struct in6_addr *a)
{
	return a->u8[0] == 0xff || (a->be16[0] & bpf_htons(0xffc0)) == bpf_htons(0xfe80);
}

/* unspecified or loopback */
static __always_inline bool addr6_illegal(const struct in6_addr *a)
{
	return !(a->be32[0] | a->be32[1] | a->be32[2] | (a->be32[3] & ~bpf_htonl(1)));
}

/* multicast, limited broadcast or link-local */
static __always_inline bool addr4_link_scope(__be32 a)
{
	return (a & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000) || a == 0xffffffff ||
	       (a & bpf_htonl(0xffff0000)) == bpf_htonl(0xa9fe0000);
}

/* this network, loopback, multicast, reserved and broadcast: in no packet that crosses */
static __always_inline bool addr4_illegal(__be32 a)
{
	__u32 first = bpf_ntohl(a) >> 24;

	return first == 0 || first == 127 || first >= 224;
}
