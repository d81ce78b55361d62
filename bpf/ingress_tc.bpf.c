// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of every interface that weft.toml names.
 *
 *   packets of pseudowires -> the frame inside goes to its interface
 *   L2TP for a subscriber's session -> what is inside, routed, or handed to the
 *           stack as arriving on the device of its access; or, as it is, into
 *           the tunnel to the server that the subscriber belongs to
 *   with [guard.NAME]: what must not get in -> dropped
 *   ARP, neighbour discovery -> answered for translated addresses
 *   IPv6 -> translated, then handed to the IPv4 stack as arriving on the
 *           translator's device; or, with the shortcut, sent out from here
 *   IPv4 -> with the shortcut: translated and sent out from here. Otherwise the
 *           stack routes it to the translator's device (translator_egress.bpf.c),
 *           but what the stack would drop the slow path gets first
 *   what no translator wants -> with [route]: routed by weft's own tables
 *
 * Before all that, with [offload]: packets of established flows are forwarded.
 *
 * A frame with a VLAN tag, or for the bridge above a port, is only routed.
 */
#include "tc.h"
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
#include "neighbour.h"
#include "pseudowire.h"
#include "pseudowire_send.h"
#include "route.h"
#include "slow.h"

static __always_inline int to_stack(struct __sk_buff *ctx, const struct nat64_translator *via)
{
	/* the stack takes frames for the device's own address only */
	if (bpf_skb_store_bytes(ctx, 0, via->mac, ETH_ALEN, 0))
		return TCX_DROP;
	return bpf_redirect(via->ifindex, BPF_F_INGRESS);
}

static __always_inline enum outcome from6(struct __sk_buff *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse6(ctx, &x), failed;
	struct bpf_fib_lookup fib;

	if (outcome == OUTCOME_NONE && in->flags & INTERFACE_SHORTCUT && x.ttl > 1 &&
	    leave_route4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4, x.wire_len) == OUTCOME_NONE) {
		failed = nat64_write4(ctx, &x, x.ttl - 1);
		if (failed)
			return failed;
		*verdict = hook_send(ctx, &fib);
		return FORWARD_6TO4_SHORTCUT;
	}
	if (outcome == OUTCOME_NONE && x.wire_len > x.via->smallest_mtu && x.ttl > 1 &&
	    leave_route4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4, x.wire_len) == PASS_TOO_BIG)
		outcome = SLOW_TOO_BIG;
	if (outcome_is_slow(outcome) && x.via) {
		*verdict = bpf_redirect(x.via->ifindex, 0);
		return slow_hand_up(ctx, outcome, ctx->ifindex,
				    leave_mtu4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4));
	}
	if (outcome != OUTCOME_NONE)
		return outcome;
	failed = nat64_write4(ctx, &x, x.ttl);
	if (failed)
		return failed;
	*verdict = to_stack(ctx, x.via);
	return FORWARD_6TO4;
}

/* what the stack may drop, by a look at the header: nat64_stack_drops decides */
static __always_inline bool is_odd4(struct __sk_buff *ctx)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct iphdr));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct iphdr *ip = PULL(&cur, struct iphdr);

	if (!eth || !ip)
		return false;
	return ip->ihl > 5 || (ip->protocol == IPPROTO_ICMP &&
			       (bpf_ntohs(ip->tot_len) > NAT64_ERROR4_MAX || addr4_illegal(ip->saddr)));
}

static __always_inline enum outcome from4(struct __sk_buff *ctx, const struct interface *in, int *verdict)
{
	bool odd = is_odd4(ctx), shortcut = in->flags & INTERFACE_SHORTCUT;
	struct nat64 x = { .allowed = in->translators };
	struct bpf_fib_lookup fib;
	enum outcome outcome;

	if (!shortcut && !odd)
		return PASS_NOT_TRANSLATED;
	outcome = nat64_parse4(ctx, &x);
	if (odd && nat64_stack_drops(&x, outcome) && !(shortcut && outcome == OUTCOME_NONE)) {
		*verdict = bpf_redirect(x.via->ifindex, 0);
		return slow_hand_up(ctx, SLOW_BEFORE_STACK, ctx->ifindex,
				    leave_mtu6(ctx, &fib, x.via->ifindex, &x.saddr6, &x.daddr6));
	}
	/* hard ones reach the slow path by the stack's own routing */
	if (!shortcut)
		return PASS_NOT_TRANSLATED;
	if (outcome_is_slow(outcome))
		return PASS_SLOW;
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

/*
 * What a frame of the interface itself is to the translators. Not inlined: it
 * needs much of the stack, and so do the blocks that take their turn beside it.
 */
static __noinline enum outcome translate(struct __sk_buff *ctx, const struct interface *in, int *verdict)
{
	enum outcome outcome;

	switch (ctx->protocol) {
	case bpf_htons(ETH_P_ARP):
		return neighbour_answer_arp(ctx, ctx->ifindex, in);
	case bpf_htons(ETH_P_IPV6):
		outcome = neighbour_answer_nd(ctx, ctx->ifindex, in);
		if (outcome != OUTCOME_NONE)
			return outcome;
		break;
	case bpf_htons(ETH_P_IP):
		break;
	default:
		return PASS_NOT_IP;
	}
	if (ctx->pkt_type != PACKET_HOST)
		return PASS_NOT_FOR_US;
	if (interface_only_routes(in))
		return PASS_NOT_TRANSLATED;
	return ctx->protocol == bpf_htons(ETH_P_IPV6) ? from6(ctx, in, verdict) : from4(ctx, in, verdict);
}

/*
 * What is inside of a subscriber's tunnel, from->session: routed or handed to
 * the stack as arriving on the device of its access.
 */
static __always_inline enum outcome subscriber(struct __sk_buff *ctx, struct arrival *from, int *verdict)
{
	enum outcome outcome = l2tp_charge(ctx, from);
	__u32 ifindex;

	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = interface_is(from->flags, INTERFACE_ROUTED) ? routed(ctx, from, verdict) : PASS_NO_ROUTE;
	if (outcome == PASS_SUBSCRIBER)
		outcome = l2tp_send(ctx, from, verdict, true);
	if (outcome == FORWARD_ROUTED || outcome == FORWARD_WIRE_OUT || outcome == FORWARD_TO_SUBSCRIBER)
		return FORWARD_FROM_SUBSCRIBER;
	if (outcome_is_drop(outcome))
		return outcome;
	ifindex = l2tp_unwrap(ctx, from);
	if (!ifindex)
		return DROP_KERNEL;
	*verdict = bpf_redirect(ifindex, BPF_F_INGRESS);
	return FORWARD_DECAPSULATED;
}

/* what a frame for this host is to the blocks, one after the other */
static __always_inline enum outcome ours(struct __sk_buff *ctx, const struct interface *at,
					 struct arrival *from, int *verdict)
{
	enum outcome outcome;

	if (from->ours && interface_is(from->flags, INTERFACE_SUBSCRIBERS)) {
		outcome = l2tp_receive(ctx, from);
		if (outcome != OUTCOME_NONE)
			return outcome;
		if (from->onward)
			return l2tp_onward(ctx, from, verdict);
		if (from->session)
			return subscriber(ctx, from, verdict);
	}
	if (from->ours && interface_is(from->flags, INTERFACE_GUARDED)) {
		outcome = guard(ctx, from);
		if (outcome != OUTCOME_NONE)
			return outcome;
	}
	if (from->ours && interface_is(from->flags, INTERFACE_OFFLOADED)) {
		outcome = flow(ctx, from, verdict);
		if (outcome != OUTCOME_NONE)
			return outcome;
	}
	outcome = from->above ? from->ours ? PASS_NOT_TRANSLATED : PASS_NOT_FOR_US :
				translate(ctx, at, verdict);
	if (outcome == PASS_NOT_TRANSLATED && from->ours && interface_is(from->flags, INTERFACE_ROUTED))
		outcome = routed(ctx, from, verdict);
	if (outcome == PASS_SUBSCRIBER && !(interface_unused & INTERFACE_SUBSCRIBERS))
		outcome = l2tp_send(ctx, from, verdict, true);
	return outcome;
}

SEC("tcx/ingress")
int ingress_tc(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex;
	struct interface *at = interface_find(ifindex);
	struct arrival from;
	enum outcome outcome;
	int verdict = TCX_NEXT;
	bool piece = false;

	if (!at)
		return TCX_NEXT;
	if (interface_is(at->flags, INTERFACE_PSEUDOWIRES)) {
		from.interface = 0;
		outcome = pseudowire(ctx, at, &from.interface, &verdict);
		if (outcome == FORWARD_WIRE_IN && from.interface)
			outcome = beyond(ctx, &from, &verdict);
		piece = outcome == PASS_WIRE_FRAGMENT;
		if (outcome != OUTCOME_NONE && !piece) {
			count(INGRESS_TC, outcome);
			return outcome_is_drop(outcome) ? TCX_DROP : verdict;
		}
	}
	if (flow_fast_may(at)) {
		outcome = flow_fast(ctx, at, ifindex, &verdict);
		if (outcome != OUTCOME_NONE) {
			count(INGRESS_TC, outcome);
			return outcome_is_drop(outcome) ? TCX_DROP : verdict;
		}
	}
	if (dsa_format && at->flags & INTERFACE_CONDUIT)
		outcome = conduit_arrive(ctx, ifindex, &from);
	else
		outcome = arrive(ctx, ifindex, at, &from);
	if (outcome == OUTCOME_NONE)
		outcome = ours(ctx, at, &from, &verdict);
	if (piece && outcome_is_pass(outcome))
		outcome = PASS_WIRE_FRAGMENT;
	count(INGRESS_TC, outcome);
	if (outcome == FORWARD_ARP_REPLY || outcome == FORWARD_ND_REPLY)
		return bpf_redirect(ifindex, 0);
	return outcome_is_drop(outcome) ? TCX_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
