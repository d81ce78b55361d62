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

/* fib: family, addresses, ifindex (as arriving there) and tot_len are set */
static __always_inline enum outcome leave_lookup(hook_ctx *ctx, struct bpf_fib_lookup *fib)
{
	__u32 arriving = fib->ifindex;
	long found = bpf_fib_lookup(ctx, fib, sizeof(*fib), HOOK_FIB_FLAGS);
	struct interface *out;

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
