// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP ingress of an interface with hook = "xdp" and the shortcut: translate
 * and redirect, before the stack has made anything of the frame. Whatever is
 * not the plain case passes untouched to ingress_tc.bpf.c and the stack.
 */
#include "xdp.h"
#include "counters.h"
#include "interface.h"
#include "leave.h"
#include "nat64.h"

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

static __always_inline bool same_mac(const __u8 *a, const __u8 *b)
{
	return *(__u16 *)a == *(__u16 *)b && *(__u16 *)(a + 2) == *(__u16 *)(b + 2) &&
	       *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

SEC("xdp")
int ingress_xdp(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct interface *in = bpf_map_lookup_elem(&interfaces, &ifindex);
	struct cursor cur = hook_cursor(ctx, ETH_HLEN);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	enum outcome outcome = PASS_NOT_IP;
	int verdict = XDP_PASS;

	if (!in || !(in->flags & INTERFACE_SHORTCUT) || !eth)
		return XDP_PASS;
	if (!same_mac(eth->h_dest, in->mac))
		outcome = PASS_NOT_FOR_US;
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		outcome = from6(ctx, in, &verdict);
	else if (eth->h_proto == bpf_htons(ETH_P_IP))
		outcome = from4(ctx, in, &verdict);
	if (outcome_is_slow(outcome))
		outcome = PASS_SLOW;
	count(INGRESS_XDP, outcome);
	return outcome_is_drop(outcome) ? XDP_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
