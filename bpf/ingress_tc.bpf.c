// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of every interface that weft.toml names.
 *
 *   packets of pseudowires -> decapsulated, the frame goes to the pseudowire's interface
 *   L2TP data of a subscriber's session -> decapsulated, then routed or handed to the
 *           stack as arriving on the LNS's device; with tunnel switching the PPP frame
 *           is forwarded unchanged into the tunnel to the subscriber's LNS
 *   with [guard.NAME]: filtered at ingress
 *   ARP, neighbour discovery -> answered for translated addresses
 *   IPv6 -> translated, then handed to the IPv4 stack as arriving on the
 *           translator's device; with the bypass, sent out from here
 *   IPv4 -> with the bypass: translated and sent out from here. Otherwise the
 *           stack routes it to the translator's device (translator_egress.bpf.c);
 *           packets that the stack would drop go to the slow path first
 *   packets for no translator -> with [route]: routed by weft's own tables
 *
 * ingress.h has the order of the blocks for both hooks.
 *
 * A frame with a VLAN tag, or for the bridge of the port it came by, is only routed.
 */
#include "tc.h"
#include "neighbour.h"
#include "slow.h"

#define INGRESS_FILTER __always_inline
#define INGRESS_OTHERS true /* ARP and neighbour discovery come to many */
#define INGRESS_SLOW true   /* here the slow path is within reach */
#include "ingress.h"

/* TC looks at every frame and counts it */
static __always_inline bool ingress_wants(__u32 flags, __u32 roles)
{
	return true;
}

static __always_inline int to_stack(struct __sk_buff *ctx, const struct nat64_translator *via)
{
	/* the stack accepts only frames for the device's own address */
	if (bpf_skb_store_bytes(ctx, 0, via->mac, ETH_ALEN, 0))
		return TCX_DROP;
	return bpf_redirect(via->ifindex, BPF_F_INGRESS);
}

static __always_inline enum outcome from6(struct __sk_buff *ctx, const struct interface *in, int *verdict)
{
	struct nat64 x = { .allowed = in->translators };
	enum outcome outcome = nat64_parse6(ctx, &x), past;
	struct bpf_fib_lookup fib;

	if (outcome == OUTCOME_NONE && in->flags & INTERFACE_BYPASS) {
		past = bypass6(ctx, &x, &fib, verdict);
		if (!outcome_is_pass(past))
			return past;
	}
	if (outcome == OUTCOME_NONE && x.wire_len > x.via->smallest_mtu && x.ttl > 1 &&
	    egress_route4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4, x.wire_len) == PASS_TOO_BIG)
		outcome = SLOW_TOO_BIG;
	if (outcome_is_slow(outcome) && x.via) {
		*verdict = bpf_redirect(x.via->ifindex, 0);
		return slow_hand_up(ctx, outcome, ctx->ifindex,
				    egress_mtu4(ctx, &fib, x.via->ifindex, x.saddr4, x.daddr4));
	}
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = nat64_write4(ctx, &x, x.ttl);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = to_stack(ctx, x.via);
	return FORWARD_6TO4;
}

/* a quick look at the header for packets that the stack may drop: nat64_stack_drops() decides */
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
	bool odd = is_odd4(ctx), bypass = in->flags & INTERFACE_BYPASS;
	struct nat64 x = { .allowed = in->translators };
	struct bpf_fib_lookup fib;
	enum outcome outcome;

	if (!bypass && !odd)
		return PASS_NOT_TRANSLATED;
	outcome = nat64_parse4(ctx, &x);
	if (odd && nat64_stack_drops(&x, outcome) && !(bypass && outcome == OUTCOME_NONE)) {
		*verdict = bpf_redirect(x.via->ifindex, 0);
		return slow_hand_up(ctx, SLOW_BEFORE_STACK, ctx->ifindex,
				    egress_mtu6(ctx, &fib, x.via->ifindex, &x.saddr6, &x.daddr6));
	}
	/* hard ones reach the slow path by the stack's own routing */
	if (!bypass)
		return PASS_NOT_TRANSLATED;
	if (outcome_is_slow(outcome))
		return PASS_SLOW;
	return outcome != OUTCOME_NONE ? outcome : bypass4(ctx, &x, &fib, verdict);
}

/*
 * Hand a frame that belongs to the interface itself to the translators. Not inlined:
 * it needs much of the stack, as the other blocks do.
 */
static __noinline enum outcome translate_frame(struct __sk_buff *ctx, const struct interface *in, int *verdict)
{
	enum outcome outcome = OUTCOME_NONE;

	switch (ctx->protocol) {
	case bpf_htons(ETH_P_ARP):
		outcome = neighbour_answer_arp(ctx, ctx->ifindex, in);
		break;
	case bpf_htons(ETH_P_IPV6):
		outcome = neighbour_answer_nd(ctx, ctx->ifindex, in);
		break;
	case bpf_htons(ETH_P_IP):
		break;
	default:
		return PASS_NOT_IP;
	}
	if (outcome == FORWARD_ARP_REPLY || outcome == FORWARD_ND_REPLY)
		*verdict = bpf_redirect(ctx->ifindex, 0);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (ctx->pkt_type != PACKET_HOST)
		return PASS_NOT_FOR_US;
	if (interface_only_routes(in))
		return PASS_NOT_TRANSLATED;
	return ctx->protocol == bpf_htons(ETH_P_IPV6) ? from6(ctx, in, verdict) : from4(ctx, in, verdict);
}

static __always_inline enum outcome translate(hook_ctx *ctx, const struct interface *at,
					      const struct packet_info *from, int *verdict)
{
	return translate_frame(ctx, at, verdict);
}

/*
 * Route the packet of a subscriber's session (from->session), or hand it to the stack
 * as arriving on the LNS's device.
 */
static __always_inline enum outcome subscriber(hook_ctx *ctx, struct packet_info *from, int *verdict)
{
	enum outcome outcome = l2tp_charge(ctx, from);
	__u32 ifindex;

	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = interface_is(from->flags, INTERFACE_ROUTED) ? routed(ctx, from, verdict) : PASS_NO_ROUTE;
	if (outcome == PASS_SUBSCRIBER)
		outcome = l2tp_send(ctx, from, verdict, true);
	if (outcome == FORWARD_ROUTED || outcome == FORWARD_PSEUDOWIRE_ENCAP || outcome == FORWARD_TO_SUBSCRIBER)
		return FORWARD_FROM_SUBSCRIBER;
	if (outcome_is_drop(outcome))
		return outcome;
	ifindex = l2tp_unwrap(ctx, from);
	if (!ifindex)
		return DROP_KERNEL;
	*verdict = bpf_redirect(ifindex, BPF_F_INGRESS);
	return FORWARD_DECAPSULATED;
}

SEC("tcx/ingress")
int ingress_tc(struct __sk_buff *ctx)
{
	return ingress(ctx, INGRESS_TC);
}

char _license[] SEC("license") = "Dual BSD/GPL";
