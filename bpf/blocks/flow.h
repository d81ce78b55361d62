/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Offload: packets of a connection that the ruleset has accepted in both directions,
 * more than once, are rewritten as connection tracking would (NAT) and leave by the
 * lowest device, past the stack.
 *
 * All checks come before the first write. These packets go to the stack unchanged:
 * those of no flow; those that end or begin a connection (FIN, RST, SYN: from then on
 * both directions of the flow are the stack's); urgent data; packets with options,
 * fragments, wrong lengths or header checksums; packets too large for the egress
 * device; those whose TTL expires here; and those of flows that were learnt under a
 * ruleset, route or neighbour that has changed.
 *
 * A packet of no flow is dropped if it belongs to a flow that the ruleset has refused.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "cursor.h"
#include "dsa.h"
#include "flow_lines.h"
#include "flow_maps.h"
#include "flow_parse.h"
#include "flow_early_drop.h"
#include "flow_early_dropped.h"
#include "flow_write.h"
#include "hook.h"
#include "outcome.h"

/* a flow that was found, and how its packets leave */
struct flow_path {
	struct flow *flow; /* the first part of a struct flow4 or flow6 */
	struct flow_hop *hop;
	struct flow_packet packet;
	union { /* they are large, and the stack is small */
		struct flow_key4 key4;
		struct flow_key6 key6;
		struct {
			__u32 interface;
			struct flow_tuple tuple; /* as in key6 */
		};
	};
};
_Static_assert(__builtin_offsetof(struct flow_path, tuple.ports) == __builtin_offsetof(struct flow_path, key6.ports) &&
	       __builtin_offsetof(struct flow_path, tuple.protocol) == __builtin_offsetof(struct flow_path, key6.protocol) &&
	       __builtin_offsetof(struct flow_path, tuple.saddr) == __builtin_offsetof(struct flow_path, key6.saddr) &&
	       __builtin_offsetof(struct flow_path, tuple.daddr) == __builtin_offsetof(struct flow_path, key6.daddr),
	       "a key of IPv6 is a tuple behind an interface");

/* PPPoE: the interface to which the inner packet belongs. false: no such session here */
static __always_inline bool flow_session(hook_ctx *ctx, const struct packet_info *from, __u32 left,
					 __u32 *interface, __be16 *proto)
{
	struct cursor cur = hook_cursor(ctx, from->l3 + sizeof(struct pppoehdr));
	struct flow_session_key key = { .interface = from->interface };
	struct ethhdr *eth = cur.pos;
	struct pppoehdr *ppp;
	__u32 *upper;

	if (dsa_format == DSA_GSWIP && !from->tags && from->l3 != ETH_HLEN)
		eth = cur.pos + sizeof(struct gswip_rx);
	if ((void *)(eth + 1) > cur.end)
		return false;
	cur.pos += from->l3 & 31; /* 26 at most; the verifier has to see it */
	ppp = PULL(&cur, struct pppoehdr);
	if (!ppp || ppp->type != 0x11 || ppp->code || bpf_ntohs(ppp->length) + 6 > left)
		return false;
	if (ppp->protocol == bpf_htons(PPP_IP))
		*proto = bpf_htons(ETH_P_IP);
	else if (ppp->protocol == bpf_htons(PPP_IPV6))
		*proto = bpf_htons(ETH_P_IPV6);
	else
		return false;
	key.session = ppp->session;
	__builtin_memcpy(key.peer, eth->h_source, ETH_ALEN);
	upper = bpf_map_lookup_elem(&flow_sessions, &key);
	if (!upper)
		return false;
	*interface = *upper;
	return true;
}

/* whether a packet of the flow may be forwarded now */
static __always_inline enum outcome flow_judge(hook_ctx *ctx, struct flow_path *w, __u64 now)
{
	struct flow_control *control = flow_control();
	struct flow_packet *p = &w->packet;

	if (!control || w->flow->generation != control->generation || now > control->lease)
		return PASS_FLOW_STALE;
	w->hop = bpf_map_lookup_elem(&flow_hops, &w->flow->hop);
	if (!w->hop || !w->hop->ifindex)
		return PASS_FLOW_STALE;
	if (w->flow->closed == FLOW_ENDED || p->flags & (TCP_FIN | TCP_SYN | TCP_RST))
		return PASS_FLOW_ENDING;
	if (w->flow->closed)
		return PASS_FLOW_STALE;
	if (!p->whole || p->flags & TCP_URG)
		return PASS_OPTIONS;
	if (p->ttl <= 1)
		return PASS_TTL;
	if (p->wire > w->hop->mtu)
		return PASS_TOO_BIG;
	if (p->protocol == IPPROTO_UDP && hook_segment(ctx) && !hook_segments_fit(ctx, w->hop->ifindex))
		return PASS_TOO_BIG;
	if (HOOK_SENDS_RAW && !(w->hop->flags & FLOW_HOP_XDP))
		return PASS_TO_TC;
	/* each segment would need such a header of its own */
	if ((w->hop->session || link_is_dsa(&w->hop->link)) && hook_segment(ctx))
		return PASS_TO_STACK;
	return OUTCOME_NONE;
}

/* of no flow, and parsed: w has its tuple */
static __always_inline enum outcome flow_unknown(const struct flow_path *w, __u32 interface, __u64 now)
{
	struct flow_control *control = flow_control();
	const struct flow_packet *p = &w->packet;

	if (!control || !control->refuse || !p->whole ||
	    (p->protocol == IPPROTO_TCP && !flow_begins(p->flags)))
		return OUTCOME_NONE;
	return flow_early_dropped(&w->tuple, interface, control, now);
}

static __always_inline enum outcome flow_find4(hook_ctx *ctx, struct cursor cur, __u32 left,
					       __u32 interface, __u64 now, struct flow_path *w)
{
	struct iphdr *ip = flow_parse4(ctx, cur, left, &w->packet);
	struct flow_key4 *key = &w->key4;
	enum outcome outcome;
	struct flow4 *found;

	if (!ip)
		return OUTCOME_NONE;
	key->interface = interface;
	key->saddr = ip->saddr;
	key->daddr = ip->daddr;
	key->ports = w->packet.ports;
	key->protocol = w->packet.protocol;
	found = flow4_find(key);
	if (!found) {
		flow_tuple_of4(&w->tuple, *key);
		return flow_unknown(w, interface, now);
	}
	w->flow = &found->flow;
	outcome = flow_judge(ctx, w, now);
	if (outcome != PASS_FLOW_ENDING || found->flow.closed == FLOW_ENDED || !w->hop)
		return outcome;
	/* the other direction ends too: its key is this one's tuple after translation */
	found->flow.closed = FLOW_ENDED;
	key->interface = w->hop->interface;
	key->saddr = found->daddr;
	key->daddr = found->saddr;
	key->ports.source = found->flow.ports.dest;
	key->ports.dest = found->flow.ports.source;
	found = flow4_find_seldom(key);
	if (found)
		found->flow.closed = FLOW_ENDED;
	return outcome;
}

static __always_inline enum outcome flow_find6(hook_ctx *ctx, struct cursor cur, __u32 left,
					       __u32 interface, __u64 now, struct flow_path *w)
{
	struct ipv6hdr *ip = flow_parse6(ctx, cur, left, &w->packet);
	struct flow_key6 *key = &w->key6;
	enum outcome outcome;
	struct flow6 *found;

	if (!ip)
		return OUTCOME_NONE;
	key->interface = interface;
	key->saddr = ip->saddr;
	key->daddr = ip->daddr;
	key->ports = w->packet.ports;
	key->protocol = w->packet.protocol;
	found = flow6_find(key);
	if (!found)
		return flow_unknown(w, interface, now);
	w->flow = &found->flow;
	outcome = flow_judge(ctx, w, now);
	if (outcome != PASS_FLOW_ENDING || found->flow.closed == FLOW_ENDED || !w->hop)
		return outcome;
	found->flow.closed = FLOW_ENDED;
	key->interface = w->hop->interface;
	key->saddr = found->daddr;
	key->daddr = found->saddr;
	key->ports.source = found->flow.ports.dest;
	key->ports.dest = found->flow.ports.source;
	found = flow6_find_seldom(key);
	if (found)
		found->flow.closed = FLOW_ENDED;
	return outcome;
}

/* strip: bytes between a link header with from->tags and the packet, of a session or a switch */
static __always_inline enum outcome flow_send(hook_ctx *ctx, const struct packet_info *from, __u32 strip,
					      __be16 proto, const struct flow_path *w, int *verdict)
{
	const struct flow_hop *hop = w->hop;
	enum outcome outcome;
	struct cursor cur;
	__u32 l3;

	if (from->tags || strip || hop->link.tags[0].proto || hop->session) {
		if (hook_reframe(ctx, from->tags, strip, &hop->link, hop->session, proto, w->packet.total))
			return HOOK_FAILED;
		l3 = hook_reframed(&hop->link, hop->session);
	} else {
		struct ethhdr *eth;

		cur = hook_cursor(ctx, ETH_HLEN);
		eth = PULL(&cur, struct ethhdr);
		if (!eth)
			return PASS_NOT_IP;
		__builtin_memcpy(eth, &hop->link, 2 * ETH_ALEN);
		l3 = ETH_HLEN;
	}
	if (flow_write_transport(ctx, l3 + w->packet.l4, w->flow, &w->packet))
		return DROP_KERNEL;
	cur = hook_cursor(ctx, l3 + (proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)));
	cur.pos += l3 & 63;
	outcome = proto == bpf_htons(ETH_P_IP) ? flow_write4(cur, w->flow) : flow_write6(ctx, cur, w->flow);
	if (outcome != OUTCOME_NONE)
		return outcome;
	hook_set_ours(ctx);
	*verdict = bpf_redirect(hop->ifindex, 0);
	return FORWARD_FLOW;
}

/*
 * Forward a frame that is addressed to the interface which it belongs to, if it is of
 * an offloaded flow, or drop it if it is of a refused one. OUTCOME_NONE: it is of
 * neither. With PASS_* the frame is unchanged.
 */
__noinline int flow(hook_ctx *ctx, const struct packet_info *from, int *verdict)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	struct flow_path w = {};
	__u32 interface, left, l3, strip = 0;
	enum outcome outcome;
	struct cursor cur;
	__be16 proto;

	if (!from || !verdict)
		return OUTCOME_NONE;
	proto = from->proto;
	interface = from->interface;
	l3 = from->l3;
	left = hook_len(ctx);
	asm volatile("" : "+r"(left)); /* else the subtraction below is made one of pointers, in 32 bits */
	left -= l3;
	if (!from->tags)
		strip = l3 - ETH_HLEN; /* a switch's */
	if (proto == bpf_htons(ETH_P_PPP_SES)) {
		/* each segment has a session header of its own */
		if (hook_segment(ctx) || !flow_session(ctx, from, left, &interface, &proto))
			return OUTCOME_NONE;
		l3 += sizeof(struct pppoehdr);
		left -= sizeof(struct pppoehdr);
		strip += sizeof(struct pppoehdr);
	}
	cur = classify_packet(ctx, l3, proto);
	if (proto == bpf_htons(ETH_P_IP))
		outcome = flow_find4(ctx, cur, left, interface, now, &w);
	else if (proto == bpf_htons(ETH_P_IPV6))
		outcome = flow_find6(ctx, cur, left, interface, now, &w);
	else
		return OUTCOME_NONE;
	if (outcome != OUTCOME_NONE || !w.flow || !w.hop)
		return outcome;
	outcome = flow_send(ctx, from, strip, proto, &w, verdict);
	if (outcome == FORWARD_FLOW)
		flow_count(ctx, w.flow, w.packet.total, now);
	return outcome;
}
