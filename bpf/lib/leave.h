/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Where a packet leaves when it goes past the stack: the kernel's own routing
 * table answers (bpf_fib_lookup). Nothing is written here; hook_send() carries
 * it out. OUTCOME_NONE: the way is known and the packet fits; a PASS_* says
 * why the stack has to see the packet instead.
 */
#include "interface.h"
#include "outcome.h"

/*
 * The kernel's answer is kept for the rest of the jiffy (1 to 10 ms), per CPU:
 * a stream of packets asks the routing table once, and a change of routes,
 * neighbours or links still counts at once, as a person sees it. One slot for
 * each value of a small hash; who comes last has it.
 */
struct memo {
	__u64 jiffy;
	__u32 arriving;
	__u32 family;
	struct in6_addr from, to; /* IPv4 in the first word */
	struct bpf_fib_lookup answer;
};

#define MEMOS 256

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct memo);
	__uint(max_entries, MEMOS);
} memos SEC(".maps");

static __always_inline bool memo_fits(const struct memo *m, const struct bpf_fib_lookup *fib)
{
	const __u64 *a = (const __u64 *)&m->from, *b = (const __u64 *)fib->ipv6_src;

	/* from and to stand side by side in both */
	return m->jiffy == bpf_jiffies64() && m->arriving == fib->ifindex &&
	       m->family == fib->family && a[0] == b[0] && a[1] == b[1] && a[2] == b[2] &&
	       a[3] == b[3];
}

static __always_inline struct memo *memo_slot(const struct bpf_fib_lookup *fib)
{
	__u32 mix = fib->ipv6_dst[3] ^ fib->ipv6_dst[2] ^ fib->ipv6_dst[0] ^ fib->ipv6_src[3] ^
		    fib->ipv6_src[0];
	__u32 slot = mix * 0x9e3779b1 >> 24;

	return bpf_map_lookup_elem(&memos, &slot);
}

/* fib: family, addresses, ifindex (as arriving there) and tot_len are set */
static __always_inline enum outcome leave_lookup(hook_ctx *ctx, struct bpf_fib_lookup *fib)
{
	struct memo *m = memo_slot(fib);
	__u32 arriving = fib->ifindex, len = fib->tot_len;
	struct interface *out;
	long found;

	if (m && memo_fits(m, fib) && len <= m->answer.tot_len) {
		*fib = m->answer;
		return OUTCOME_NONE;
	}
	if (m) {
		m->jiffy = 0;
		m->arriving = arriving;
		m->family = fib->family;
		__builtin_memcpy(&m->from, fib->ipv6_src, sizeof(m->from));
		__builtin_memcpy(&m->to, fib->ipv6_dst, sizeof(m->to));
	}
	found = bpf_fib_lookup(ctx, fib, sizeof(*fib), HOOK_FIB_FLAGS);
	if (found == BPF_FIB_LKUP_RET_NO_NEIGH)
		return PASS_NO_NEIGHBOUR;
	if (found == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return PASS_TOO_BIG;
	if (found != BPF_FIB_LKUP_RET_SUCCESS || fib->ifindex == arriving)
		return PASS_NO_ROUTE;
	if (HOOK_IS_XDP) {
		out = bpf_map_lookup_elem(&interfaces, &fib->ifindex);
		if (!out || !(out->flags & INTERFACE_XDP_OUT))
			return PASS_NO_ROUTE;
	}
	/* tot_len is now the MTU, if a length was asked about */
	if (m && len) {
		m->answer = *fib;
		m->jiffy = bpf_jiffies64();
	}
	return OUTCOME_NONE;
}

static __always_inline enum outcome leave_route4(hook_ctx *ctx, struct bpf_fib_lookup *fib,
						 __u32 arriving, __be32 from, __be32 to, __u32 len)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_INET;
	fib->ifindex = arriving;
	fib->tot_len = len;
	fib->ipv4_src = from;
	fib->ipv4_dst = to;
	return leave_lookup(ctx, fib);
}

static __always_inline enum outcome leave_route6(hook_ctx *ctx, struct bpf_fib_lookup *fib,
						 __u32 arriving, const struct in6_addr *from,
						 const struct in6_addr *to, __u32 len)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = AF_INET6;
	fib->ifindex = arriving;
	fib->tot_len = len;
	__builtin_memcpy(fib->ipv6_src, from, sizeof(*from));
	__builtin_memcpy(fib->ipv6_dst, to, sizeof(*to));
	return leave_lookup(ctx, fib);
}

/* MTU of the way to an address in bytes, 0 if there is no way; fib is room to ask in */
static __always_inline __u32 leave_mtu4(hook_ctx *ctx, struct bpf_fib_lookup *fib, __u32 arriving,
					__be32 from, __be32 to)
{
	leave_route4(ctx, fib, arriving, from, to, 1);
	return fib->tot_len > 1 ? fib->tot_len : 0;
}

static __always_inline __u32 leave_mtu6(hook_ctx *ctx, struct bpf_fib_lookup *fib, __u32 arriving,
					const struct in6_addr *from, const struct in6_addr *to)
{
	leave_route6(ctx, fib, arriving, from, to, 1);
	return fib->tot_len > 1 ? fib->tot_len : 0;
}
