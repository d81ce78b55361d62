// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP ingress of an interface with hook = "xdp": unpack what comes in
 * pseudowires, take subscribers' packets out of their tunnels, drop what must
 * not get in (with [guard.NAME]), forward established flows and drop what the
 * ruleset has just refused (with [offload]), translate (with the shortcut),
 * else route by weft's own tables (with [route]), and redirect before the stack
 * has made anything of the frame. Whatever is not the plain case passes
 * untouched to ingress_tc.bpf.c and the stack.
 */
#include "xdp.h"
#include "arrive.h"
#include "conduit.h"
#include "counters.h"
#include "flow.h"
#include "flow_fast.h"
#include "guard.h"
#include "ingress.h"
#include "interface.h"
#include "l2tp.h"
#include "l2tp_onward.h"
#include "l2tp_send.h"
#include "leave.h"
#include "nat64.h"
#include "pseudowire.h"
#include "pseudowire_send.h"
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

/* not inlined: it needs much of the stack, and so do the blocks beside it */
static __noinline enum outcome translate(struct xdp_md *ctx, const struct interface *in,
					 const struct arrival *from, int *verdict)
{
	if (from->proto == bpf_htons(ETH_P_IPV6))
		return from6(ctx, in, verdict);
	if (from->proto == bpf_htons(ETH_P_IP))
		return from4(ctx, in, verdict);
	return PASS_NOT_IP;
}

/*
 * What is inside of a subscriber's tunnel, from->session. It is charged when it
 * is sure that it leaves from here: else ingress_tc does it.
 */
static __always_inline enum outcome subscriber(struct xdp_md *ctx, struct arrival *from, int *verdict)
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

/* a call of its own: the stack is small */
static __noinline int screen(struct xdp_md *ctx, const struct arrival *from, int *verdict)
{
	int outcome = OUTCOME_NONE;

	if (interface_is(from->flags, INTERFACE_GUARDED))
		outcome = guard(ctx, from);
	if (outcome == OUTCOME_NONE && interface_is(from->flags, INTERFACE_OFFLOADED))
		outcome = flow(ctx, from, verdict);
	return outcome;
}

/* what a frame is to the blocks, one after the other */
static __always_inline enum outcome ours(struct xdp_md *ctx, const struct interface *in,
					 struct arrival *from, int *verdict)
{
	enum outcome outcome;

	if (interface_is(from->flags, INTERFACE_SUBSCRIBERS)) {
		outcome = l2tp_receive(ctx, from);
		if (outcome != OUTCOME_NONE)
			return outcome;
		if (from->onward)
			return l2tp_onward(ctx, from, verdict);
		if (from->session)
			return subscriber(ctx, from, verdict);
	}
	if (interface_is(from->flags, INTERFACE_GUARDED | INTERFACE_OFFLOADED)) {
		outcome = screen(ctx, from, verdict);
		if (outcome != OUTCOME_NONE)
			return outcome;
	}
	if (!(from->flags & (INTERFACE_SHORTCUT | INTERFACE_ROUTED)))
		return OUTCOME_NONE; /* that was all: the kernel's, uncounted */
	outcome = PASS_NOT_TRANSLATED;
	if (interface_is(from->flags, INTERFACE_SHORTCUT) && !from->above && !interface_only_routes(in))
		outcome = translate(ctx, in, from, verdict);
	if (outcome == PASS_NOT_TRANSLATED && interface_is(from->flags, INTERFACE_ROUTED))
		outcome = routed(ctx, from, verdict);
	if (outcome == PASS_SUBSCRIBER && !(interface_unused & INTERFACE_SUBSCRIBERS))
		outcome = l2tp_send(ctx, from, verdict, true);
	return outcome;
}

SEC("xdp")
int ingress_xdp(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	struct interface *at = interface_find(ifindex);
	struct arrival from;
	enum outcome outcome;
	int verdict = XDP_PASS;
	bool piece = false;

	if (!at)
		return XDP_PASS;
	if (interface_is(at->flags, INTERFACE_PSEUDOWIRES)) {
		from.interface = 0;
		outcome = pseudowire(ctx, at, &from.interface, &verdict);
		if (outcome == FORWARD_WIRE_IN && from.interface)
			outcome = beyond(ctx, &from, &verdict);
		piece = outcome == PASS_WIRE_FRAGMENT;
		if (outcome != OUTCOME_NONE && !piece) {
			count(INGRESS_XDP, outcome);
			return outcome_is_drop(outcome) ? XDP_DROP : verdict;
		}
	}
	if (flow_fast_may(at)) {
		outcome = flow_fast(ctx, at, ifindex, &verdict);
		if (outcome != OUTCOME_NONE) {
			count(INGRESS_XDP, outcome);
			return outcome_is_drop(outcome) ? XDP_DROP : verdict;
		}
	}
	if (dsa_format && at->flags & INTERFACE_CONDUIT)
		outcome = conduit_arrive(ctx, ifindex, &from);
	else
		outcome = arrive(ctx, ifindex, at, &from);
	if (outcome == OUTCOME_NONE) {
		if (!(from.flags & (INTERFACE_SHORTCUT | INTERFACE_ROUTED | INTERFACE_SUBSCRIBERS |
				    INTERFACE_GUARDED | INTERFACE_OFFLOADED)))
			return XDP_PASS;
		outcome = from.ours ? ours(ctx, at, &from, &verdict) : PASS_NOT_FOR_US;
		if (outcome == OUTCOME_NONE)
			return XDP_PASS;
	}
	if (outcome_is_slow(outcome))
		outcome = PASS_SLOW;
	if (piece && outcome_is_pass(outcome))
		outcome = PASS_WIRE_FRAGMENT;
	count(INGRESS_XDP, outcome);
	return outcome_is_drop(outcome) ? XDP_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
