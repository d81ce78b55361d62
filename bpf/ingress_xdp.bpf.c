// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP ingress of an interface with hook = "xdp": drop what must not get in (with
 * [guard.NAME]), forward established flows (with [offload]), else translate (with
 * the shortcut),
 * else route by weft's own tables (with [route]), and redirect before the stack
 * has made anything of the frame. Whatever is not the plain case passes
 * untouched to ingress_tc.bpf.c and the stack.
 */
#include "xdp.h"
#include "arrive.h"
#include "counters.h"
#include "flow.h"
#include "guard.h"
#include "interface.h"
#include "leave.h"
#include "nat64.h"
#include "route.h"

static __always_inline enum outcome from6(struct xdp_md *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse6(ctx, &x);
	struct bpf_fib_lookup fib;

	if (outcome != OUTCOME_NONE)
		return outcome;
	if (x.ttl <= 1)
		return PASS_TTL;
	outcome = leave_route4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4, x.wire_len);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write4(ctx, &x, x.ttl - 1);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, &fib);
	return FORWARD_6TO4_SHORTCUT;
}

static __always_inline enum outcome from4(struct xdp_md *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse4(ctx, &x);
	struct bpf_fib_lookup fib;

	if (outcome != OUTCOME_NONE)
		return outcome;
	if (x.ttl <= 1)
		return PASS_TTL;
	outcome = leave_route6(ctx, &fib, x.via->ifindex, &x.saddr6, &x.daddr6, x.wire_len);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write6(ctx, &x, x.ttl - 1);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, &fib);
	return FORWARD_4TO6_SHORTCUT;
}

static __always_inline enum outcome translate(struct xdp_md *ctx, const struct interface *in,
					      const struct arrival *from, int *verdict)
{
	if (from->above || interface_only_routes(in) || !(from->flags & INTERFACE_SHORTCUT))
		return PASS_NOT_TRANSLATED;
	if (from->proto == bpf_htons(ETH_P_IPV6))
		return from6(ctx, in, verdict);
	if (from->proto == bpf_htons(ETH_P_IP))
		return from4(ctx, in, verdict);
	return PASS_NOT_IP;
}

SEC("xdp")
int ingress_xdp(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct interface *at = bpf_map_lookup_elem(&interfaces, &ifindex);
	struct arrival from;
	enum outcome outcome;
	int verdict = XDP_PASS;

	if (!at)
		return XDP_PASS;
	outcome = arrive(ctx, ifindex, at, &from);
	if (outcome == OUTCOME_NONE && from.flags & INTERFACE_GUARD && from.ours)
		outcome = guard(ctx, &from);
	if (outcome == OUTCOME_NONE && from.flags & INTERFACE_OFFLOAD && from.ours)
		outcome = flow(ctx, &from, &verdict);
	if (outcome == OUTCOME_NONE) {
		if (!(from.flags & (INTERFACE_SHORTCUT | INTERFACE_ROUTED)))
			return XDP_PASS;
		outcome = from.ours ? translate(ctx, at, &from, &verdict) : PASS_NOT_FOR_US;
		if (outcome == PASS_NOT_TRANSLATED && from.flags & INTERFACE_ROUTED)
			outcome = route(ctx, &from, &verdict);
	}
	if (outcome_is_slow(outcome))
		outcome = PASS_SLOW;
	count(INGRESS_XDP, outcome);
	return outcome_is_drop(outcome) ? XDP_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
