/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The order of the blocks at ingress, for both hooks:
 *
 *   pseudowires     the frame inside of a packet goes to its interface, or, if that is
 *                   only routed, past it
 *   flow_fast       plain packets of established flows are forwarded before a frame is
 *                   parsed: on interfaces where nothing before flows would look at it
 *                   (flow_fast_may), its key alone is enough
 *   arrive          which interface a frame belongs to: VLANs, ports of bridges and switches
 *   subscribers     what is in the tunnel of one is routed or handed to the stack; or it
 *                   goes on, as it is, into the tunnel to another server
 *   guard           what must not get in is dropped
 *   flow            all other packets of established flows are forwarded
 *   translate       IPv6 and IPv4 into each other
 *   route           what no translator wants, by weft's own tables
 *   subscribers     what is for one goes into its tunnel
 *
 * A program says what differs at its hook:
 *
 *   ingress_wants    whether frames are of use to it that are on interfaces with, or
 *                    without, these roles; others are the kernel's, and not counted
 *   translate        what a frame is to the translators
 *   subscriber       what is inside of a subscriber's tunnel
 *   INGRESS_OTHERS   whether frames are translated that are not for this host
 *   INGRESS_SLOW     whether the slow path is within reach
 *   INGRESS_FILTER   how guard and flow are called: the stack is small
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "conduit.h"
#include "counters.h"
#include "dsa.h"
#include "flow.h"
#include "flow_fast.h"
#include "guard.h"
#include "hook.h"
#include "interface.h"
#include "l2tp.h"
#include "l2tp_switch.h"
#include "l2tp_send.h"
#include "fib_lookup.h"
#include "nat64.h"
#include "outcome.h"
#include "pseudowire.h"
#include "pseudowire_send.h"
#include "route.h"

static __always_inline bool ingress_wants(__u32 flags, __u32 roles);
static __always_inline enum outcome translate(hook_ctx *ctx, const struct interface *at,
					      const struct packet_info *from, int *verdict);
static __always_inline enum outcome subscriber(hook_ctx *ctx, struct packet_info *from, int *verdict);

/*
 * A translated packet past the stack, by the kernel's routes. PASS_* says why not, and
 * nothing is written then.
 */
static __always_inline enum outcome bypass6(hook_ctx *ctx, struct nat64 *x, struct bpf_fib_lookup *fib,
					      int *verdict)
{
	enum outcome outcome;

	if (x->ttl <= 1)
		return PASS_TTL;
	outcome = egress_route4(ctx, fib, x->via->ifindex, x->saddr4, x->daddr4, x->wire_len);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write4(ctx, x, x->ttl - 1);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, fib);
	return FORWARD_6TO4_BYPASS;
}

static __always_inline enum outcome bypass4(hook_ctx *ctx, struct nat64 *x, struct bpf_fib_lookup *fib,
					      int *verdict)
{
	enum outcome outcome;

	if (x->ttl <= 1)
		return PASS_TTL;
	outcome = egress_route6(ctx, fib, x->via->ifindex, &x->saddr6, &x->daddr6, x->wire_len);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write6(ctx, x, x->ttl - 1);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, fib);
	return FORWARD_4TO6_BYPASS;
}

/* Route a frame or a packet in a tunnel by weft's own tables, into a pseudowire at once. */
static __always_inline enum outcome routed(hook_ctx *ctx, struct packet_info *from, int *verdict)
{
	enum outcome outcome = route(ctx, from, verdict);

	if (outcome == FORWARD_ROUTED && !(interface_unused & INTERFACE_PSEUDOWIRES) && from->wire)
		outcome = pseudowire_send(ctx, from->wire, verdict);
	return outcome;
}

/*
 * What came out of a pseudowire whose interface it may go past: routed, if that
 * is all that there is to be done with it there. Else it goes to the interface:
 * *verdict says so already.
 */
static __always_inline enum outcome after_decapsulation(hook_ctx *ctx, struct packet_info *from, int *verdict)
{
	__u32 visible = from->interface;
	struct interface *at = interface_find(visible);
	enum outcome outcome;

	if (!at || at->translators || at->flags & (INTERFACE_SUBSCRIBERS | INTERFACE_GUARDED | INTERFACE_OFFLOADED | INTERFACE_PSEUDOWIRES) ||
	    classify(ctx, visible, at, from) != OUTCOME_NONE || from->above || !from->ours ||
	    !(from->flags & INTERFACE_ROUTED))
		return FORWARD_PSEUDOWIRE_DECAP;
	outcome = routed(ctx, from, verdict);
	if (outcome == FORWARD_ROUTED || outcome == FORWARD_PSEUDOWIRE_ENCAP)
		return FORWARD_PSEUDOWIRE_ROUTED;
	return outcome_is_drop(outcome) ? outcome : FORWARD_PSEUDOWIRE_DECAP;
}

/* what must not get in, and what flows take */
static INGRESS_FILTER int ingress_filter(hook_ctx *ctx, const struct packet_info *from, int *verdict)
{
	int outcome = OUTCOME_NONE;

	if (interface_is(from->flags, INTERFACE_GUARDED))
		outcome = guard(ctx, from);
	if (outcome == OUTCOME_NONE && from->ours && interface_is(from->flags, INTERFACE_OFFLOADED))
		outcome = flow(ctx, from, verdict);
	return outcome;
}

static __always_inline bool is_ours(const struct packet_info *from)
{
	return !INGRESS_OTHERS || from->ours;
}

/* what a frame is to the blocks, one after the other */
static __always_inline enum outcome ours(hook_ctx *ctx, const struct interface *at,
					 struct packet_info *from, int *verdict)
{
	enum outcome outcome;

	if (!INGRESS_OTHERS && !from->taken)
		return PASS_NOT_FOR_US;
	if (from->ours && interface_is(from->flags, INTERFACE_SUBSCRIBERS)) {
		outcome = l2tp_receive(ctx, from);
		if (outcome != OUTCOME_NONE)
			return outcome;
		if (from->switched)
			return l2tp_switch(ctx, from, verdict);
		if (from->session)
			return subscriber(ctx, from, verdict);
	}
	if (from->taken && interface_is(from->flags, INTERFACE_GUARDED | INTERFACE_OFFLOADED)) {
		outcome = ingress_filter(ctx, from, verdict);
		if (outcome != OUTCOME_NONE)
			return outcome;
	}
	if (!INGRESS_OTHERS && !from->ours)
		return PASS_NOT_FOR_US;
	if (!ingress_wants(from->flags, INTERFACE_BYPASS | INTERFACE_ROUTED))
		return OUTCOME_NONE;
	outcome = !from->above ? translate(ctx, at, from, verdict) :
		  is_ours(from)	       ? PASS_NOT_TRANSLATED :
				 PASS_NOT_FOR_US;
	if (outcome == PASS_NOT_TRANSLATED && is_ours(from) && interface_is(from->flags, INTERFACE_ROUTED))
		outcome = routed(ctx, from, verdict);
	if (outcome == PASS_SUBSCRIBER && !(interface_unused & INTERFACE_SUBSCRIBERS))
		outcome = l2tp_send(ctx, from, verdict, true);
	return outcome;
}

static __always_inline int ingress(hook_ctx *ctx, const enum program program)
{
	__u32 ifindex = hook_device(ctx);
	struct interface *at = interface_find(ifindex);
	struct packet_info from;
	enum outcome outcome;
	int verdict = HOOK_NEXT;
	enum outcome noted = OUTCOME_NONE;

	if (!at)
		return HOOK_NEXT;
	if (interface_is(at->flags, INTERFACE_PSEUDOWIRES)) {
		from.interface = 0;
		outcome = pseudowire(ctx, at, &from.interface, &verdict);
		if (outcome == FORWARD_PSEUDOWIRE_DECAP && from.interface)
			outcome = after_decapsulation(ctx, &from, &verdict);
		if (outcome == PASS_PSEUDOWIRE_FRAGMENT || outcome == PASS_PSEUDOWIRE_ICMP) {
			noted = outcome;
		} else if (outcome != OUTCOME_NONE) {
			count(program, outcome);
			return outcome_is_drop(outcome) ? HOOK_DROP : verdict;
		}
	}
	if (flow_fast_may(at)) {
		outcome = flow_fast(ctx, at, ifindex, &verdict);
		if (outcome != OUTCOME_NONE) {
			count(program, outcome);
			return outcome_is_drop(outcome) ? HOOK_DROP : verdict;
		}
	}
	if (dsa_format && at->flags & INTERFACE_CONDUIT)
		outcome = conduit_classify(ctx, ifindex, &from);
	else
		outcome = classify(ctx, ifindex, at, &from);
	if (outcome == OUTCOME_NONE) {
		if (ingress_wants(from.flags, INTERFACE_BYPASS | INTERFACE_ROUTED | INTERFACE_SUBSCRIBERS |
					      INTERFACE_GUARDED | INTERFACE_OFFLOADED))
			outcome = ours(ctx, at, &from, &verdict);
		if (outcome == OUTCOME_NONE) {
			if (noted == PASS_PSEUDOWIRE_ICMP)
				count(program, noted);
			return HOOK_NEXT;
		}
	}
	if (!INGRESS_SLOW && outcome_is_slow(outcome))
		outcome = PASS_SLOW;
	if (noted != OUTCOME_NONE && outcome_is_pass(outcome))
		outcome = noted;
	count(program, outcome);
	return outcome_is_drop(outcome) ? HOOK_DROP : verdict;
}
