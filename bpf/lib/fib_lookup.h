/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * FIB lookup of packets that bypass the stack: the kernel's own routing table is used
 * (bpf_fib_lookup). Nothing is written here; hook_send() sends the packet.
 * OUTCOME_NONE: the path is known and the packet fits; a PASS_* is the reason why the
 * stack has to handle it instead.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "hash.h"
#include "hook.h"
#include "interface.h"
#include "outcome.h"

/*
 * The next-hop cache. The kernel's answer is kept until the jiffies have gone through
 * their lower four bits (16 to 160 ms, by the kernel's HZ), per CPU: a stream of
 * packets causes one lookup, and a change of routes, neighbours or links applies
 * within that time. Two slots, a cache line each, for each value of a hash. The source
 * is part of the key: rules and multipath routes may select by it.
 */
#define NEXTHOP_CACHE_SHIFT 4

struct nexthop_cache_entry {
	struct in6_addr from, to; /* IPv4 in the first word */
	__u32 stamp;
	__u32 ingress;
	__u32 ifindex;
	__u16 mtu;
	__u8 family;      /* 0: empty */
	__u8 next_family; /* of the neighbour */
	union {
		struct in6_addr next; /* TC: the neighbour, as in from */
		__u8 macs[2 * ETH_ALEN]; /* XDP: source and destination */
	};
};
_Static_assert(sizeof(struct nexthop_cache_entry) == 64, "one cache line");

struct nexthop_cache_set {
	struct nexthop_cache_entry way[2];
};

#define NEXTHOP_CACHE_BITS 12

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct nexthop_cache_set);
	__uint(max_entries, 1 << NEXTHOP_CACHE_BITS);
} nexthop_cache SEC(".maps");

static __always_inline __u32 nexthop_cache_now(void)
{
	return bpf_jiffies64() >> NEXTHOP_CACHE_SHIFT;
}

static __always_inline bool nexthop_cache_fits(const struct nexthop_cache_entry *m, const struct bpf_fib_lookup *fib)
{
	const __u64 *a = (const __u64 *)&m->from, *b = (const __u64 *)fib->ipv6_src;

	/* from and to stand side by side in both */
	return m->stamp == nexthop_cache_now() && m->ingress == fib->ifindex &&
	       m->family == fib->family && a[0] == b[0] && a[1] == b[1] && a[2] == b[2] &&
	       a[3] == b[3];
}

/* The slot with the answer, or else the one to replace. */
static __always_inline struct nexthop_cache_entry *nexthop_cache_slot(const struct bpf_fib_lookup *fib, bool *fits)
{
	const __u64 *a = (const __u64 *)fib->ipv6_src;
	__u64 mix = (a[0] ^ a[1] >> 32 ^ a[1] << 32) * HASH_GOLDEN ^ a[2] ^
		    (a[3] >> 32 ^ a[3] << 32);
	struct nexthop_cache_set *pair;
	struct nexthop_cache_entry *m;
	__u32 slot;

	mix *= HASH_SPREAD;
	slot = mix >> (64 - NEXTHOP_CACHE_BITS);
	pair = bpf_map_lookup_elem(&nexthop_cache, &slot);
	if (!pair)
		return NULL;
	*fits = true;
	m = &pair->way[0];
	if (nexthop_cache_fits(m, fib))
		return m;
	m = &pair->way[1];
	if (nexthop_cache_fits(m, fib))
		return m;
	*fits = false;
	if (pair->way[0].stamp != nexthop_cache_now() || (m->stamp == nexthop_cache_now() && mix >> 32 & 1))
		m = &pair->way[0];
	return m;
}

static __always_inline void nexthop_cache_read(const struct nexthop_cache_entry *m, struct bpf_fib_lookup *fib)
{
	fib->ifindex = m->ifindex;
	fib->tot_len = m->mtu;
	fib->family = m->next_family;
	if (HOOK_SENDS_RAW) {
		__builtin_memcpy(fib->smac, m->macs, ETH_ALEN);
		__builtin_memcpy(fib->dmac, m->macs + ETH_ALEN, ETH_ALEN);
	} else {
		__builtin_memcpy(fib->ipv6_dst, &m->next, sizeof(m->next));
	}
}

static __always_inline void nexthop_cache_write(struct nexthop_cache_entry *m, const struct bpf_fib_lookup *fib,
				       __u8 family)
{
	m->ifindex = fib->ifindex;
	m->mtu = fib->tot_len;
	m->next_family = fib->family;
	if (HOOK_SENDS_RAW) {
		__builtin_memcpy(m->macs, fib->smac, ETH_ALEN);
		__builtin_memcpy(m->macs + ETH_ALEN, fib->dmac, ETH_ALEN);
	} else {
		__builtin_memcpy(&m->next, fib->ipv6_dst, sizeof(m->next));
	}
	m->stamp = nexthop_cache_now();
	m->family = family;
}

/* fib: the caller sets family, addresses, ifindex (the ingress interface) and tot_len */
static __always_inline enum outcome egress_lookup(hook_ctx *ctx, struct bpf_fib_lookup *fib)
{
	bool fits = false;
	struct nexthop_cache_entry *m = nexthop_cache_slot(fib, &fits);
	__u32 ingress = fib->ifindex, len = fib->tot_len;
	__u8 family = fib->family;
	struct interface *out;
	long found;

	if (m && fits && len <= m->mtu) {
		nexthop_cache_read(m, fib);
		return OUTCOME_NONE;
	}
	if (m) {
		m->family = 0;
		m->ingress = ingress;
		__builtin_memcpy(&m->from, fib->ipv6_src, sizeof(m->from));
		__builtin_memcpy(&m->to, fib->ipv6_dst, sizeof(m->to));
	}
	found = bpf_fib_lookup(ctx, fib, sizeof(*fib), HOOK_FIB_FLAGS);
	if (found == BPF_FIB_LKUP_RET_NO_NEIGH)
		return PASS_NO_NEIGHBOUR;
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return PASS_TOO_BIG;
	if (found != BPF_FIB_LKUP_RET_SUCCESS || fib->ifindex == ingress)
		return PASS_NO_ROUTE;
	if (HOOK_SENDS_RAW) {
		out = interface_find(fib->ifindex);
		if (!out || !(out->flags & INTERFACE_XDP_OUT))
			return PASS_NO_ROUTE;
	}
	/* tot_len is now the MTU, if a length was given */
	if (m && len)
		nexthop_cache_write(m, fib, family);
	return OUTCOME_NONE;
}

static __always_inline enum outcome egress_route4(hook_ctx *ctx, struct bpf_fib_lookup *fib,
						 __u32 ingress, __be32 from, __be32 to, __u32 len)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_INET;
	fib->ifindex = ingress;
	fib->tot_len = len;
	fib->ipv4_src = from;
	fib->ipv4_dst = to;
	return egress_lookup(ctx, fib);
}

static __always_inline enum outcome egress_route6(hook_ctx *ctx, struct bpf_fib_lookup *fib,
						 __u32 ingress, const struct in6_addr *from,
						 const struct in6_addr *to, __u32 len)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_INET6;
	fib->ifindex = ingress;
	fib->tot_len = len;
	__builtin_memcpy(fib->ipv6_src, from, sizeof(*from));
	__builtin_memcpy(fib->ipv6_dst, to, sizeof(*to));
	return egress_lookup(ctx, fib);
}

/* MTU of the path to an address in bytes, 0 if there is no route; fib is scratch space */
static __always_inline __u32 egress_mtu4(hook_ctx *ctx, struct bpf_fib_lookup *fib, __u32 ingress,
					__be32 from, __be32 to)
{
	egress_route4(ctx, fib, ingress, from, to, 1);
	return fib->tot_len > 1 ? fib->tot_len : 0;
}

static __always_inline __u32 egress_mtu6(hook_ctx *ctx, struct bpf_fib_lookup *fib, __u32 ingress,
					const struct in6_addr *from, const struct in6_addr *to)
{
	egress_route6(ctx, fib, ingress, from, to, 1);
	return fib->tot_len > 1 ? fib->tot_len : 0;
}
