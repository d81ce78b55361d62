// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP ingress of an interface with hook = "xdp": decapsulates pseudowires and
 * subscribers' tunnels, filters (with [guard.NAME]), forwards established flows and
 * drops flows that the ruleset has just refused (with [offload]), translates (with the
 * bypass), or else routes by weft's own tables (with [route]), and redirects the frame
 * before the stack sees it. Every frame that needs more passes unchanged to
 * ingress_tc.bpf.c and the stack. ingress.h has the order of the blocks for both
 * hooks.
 */
#include "xdp.h"

#define INGRESS_FILTER __noinline
#define INGRESS_OTHERS false /* what is not for this host is the kernel's */
#define INGRESS_SLOW false   /* ingress_tc hands up */
#include "ingress.h"

static __always_inline bool ingress_wants(__u32 flags, __u32 roles)
{
	return flags & roles;
}

static __always_inline enum outcome from6(hook_ctx *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse6(ctx, &x);
	struct bpf_fib_lookup fib;

	return outcome != OUTCOME_NONE ? outcome : bypass6(ctx, &x, &fib, verdict);
}

static __always_inline enum outcome from4(hook_ctx *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse4(ctx, &x);
	struct bpf_fib_lookup fib;

	return outcome != OUTCOME_NONE ? outcome : bypass4(ctx, &x, &fib, verdict);
}

/* not inlined: it needs much of the stack, and so do the blocks beside it */
static __noinline enum outcome translate_frame(struct xdp_md *ctx, const struct interface *in,
					       const struct packet_info *from, int *verdict)
{
	if (from->proto == bpf_htons(ETH_P_IPV6))
		return from6(ctx, in, verdict);
	if (from->proto == bpf_htons(ETH_P_IP))
		return from4(ctx, in, verdict);
	return PASS_NOT_IP;
}

/* without the bypass, packets are translated between the stack and the translator's device */
static __always_inline enum outcome translate(hook_ctx *ctx, const struct interface *at,
					      const struct packet_info *from, int *verdict)
{
	if (!interface_is(from->flags, INTERFACE_BYPASS) || interface_only_routes(at))
		return PASS_NOT_TRANSLATED;
	return translate_frame(ctx, at, from, verdict);
}

/*
 * Route the packet of a subscriber's session (from->session). It is charged to the
 * session only if it leaves from here: otherwise ingress_tc charges it.
 */
static __always_inline enum outcome subscriber(hook_ctx *ctx, struct packet_info *from, int *verdict)
{
	enum outcome outcome = PASS_TO_TC, charged;

	if (interface_is(from->flags, INTERFACE_ROUTED))
		outcome = route(ctx, from, verdict);
	if (outcome == PASS_SUBSCRIBER)
		outcome = l2tp_send(ctx, from, verdict, true);
	if (outcome != FORWARD_ROUTED && outcome != FORWARD_TO_SUBSCRIBER)
		return outcome;
	charged = l2tp_charge(ctx, from);
	if (charged == OUTCOME_NONE && outcome == FORWARD_ROUTED && from->wire &&
	    outcome_is_drop(pseudowire_send(ctx, from->wire, verdict)))
		return DROP_KERNEL;
	return charged ?: FORWARD_FROM_SUBSCRIBER;
}

SEC("xdp")
int ingress_xdp(struct xdp_md *ctx)
{
	return ingress(ctx, INGRESS_XDP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
