// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of a translator's device, to which the stack routes packets that are to
 * be translated.
 *
 *   IPv4 -> IPv6, sent to its neighbour from here. If the route has a smaller MTU, the
 *           slow path sends the ICMP error. Without a route, or if it leads to this
 *           host, the IPv6 stack gets the packet.
 *   IPv6 -> packets that this host sends: IPv4, back into the stack
 *   the rest -> passed to the device, from which the slow path reads
 */
#include "tc.h"
#include "counters.h"
#include "interface.h"
#include "fib_lookup.h"
#include "nat64.h"
#include "slow.h"

static __always_inline enum outcome from4(struct __sk_buff *ctx, __u64 allowed, int *verdict)
{
	struct nat64 x = { .allowed = allowed };
	enum outcome outcome = nat64_parse4(ctx, &x), route = OUTCOME_NONE;
	struct bpf_fib_lookup fib;

	if (outcome == OUTCOME_NONE) {
		route = egress_route6(ctx, &fib, ctx->ifindex, &x.saddr6, &x.daddr6, x.wire_len);
		if (route == PASS_TOO_BIG)
			outcome = SLOW_TOO_BIG;
	}
	if (outcome_is_slow(outcome))
		return slow_hand_up(ctx, outcome, ctx->ingress_ifindex,
				    egress_mtu6(ctx, &fib, ctx->ifindex, &x.saddr6, &x.daddr6));
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write6(ctx, &x, x.ttl);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (route != OUTCOME_NONE) {
		*verdict = bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
		return PASS_TO_STACK;
	}
	*verdict = hook_send(ctx, &fib);
	return FORWARD_4TO6;
}

static __always_inline enum outcome from6(struct __sk_buff *ctx, __u64 allowed, int *verdict)
{
	struct nat64 x = { .allowed = allowed };
	enum outcome outcome = nat64_parse6(ctx, &x);

	if (outcome_is_slow(outcome))
		return slow_hand_up(ctx, outcome, ctx->ingress_ifindex, 0);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write4(ctx, &x, x.ttl);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
	return FORWARD_6TO4;
}

/* already on its way to the slow path: ingress_tc counted it when it sent it here */
static __always_inline bool is_handed_up(struct __sk_buff *ctx)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	return eth && slow_marked(eth->h_dest);
}

SEC("tcx/egress")
int translator_egress(struct __sk_buff *ctx)
{
	__u32 from = ctx->ingress_ifindex;
	struct interface *in = interface_find(from);
	bool own = !from || from == ctx->ifindex;
	__u64 allowed = own ? ~0ULL : in ? in->translators : 0;
	enum outcome outcome = PASS_NOT_IP;
	int verdict = TCX_DROP;

	if (is_handed_up(ctx))
		return TCX_NEXT;
	if (ctx->protocol == bpf_htons(ETH_P_IP))
		outcome = from4(ctx, allowed, &verdict);
	else if (ctx->protocol == bpf_htons(ETH_P_IPV6))
		outcome = from6(ctx, allowed, &verdict);
	if (outcome_is_slow(outcome))
		verdict = TCX_NEXT;
	/* routed to this device, but no translator can translate it */
	if (outcome == PASS_NOT_TRANSLATED)
		outcome = DROP_DESTINATION_UNMAPPED;
	count(TRANSLATOR_EGRESS, outcome);
	return outcome_is_drop(outcome) ? TCX_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
