/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The fast path for most packets of flows: TCP or UDP without options that arrives and
 * leaves in a frame without tags or session header, or that the ruleset has refused.
 * It handles fewer cases than flow.h and decides none of the others: they go to
 * flow.h, which gives the reason.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "flow_lines.h"
#include "flow_maps.h"
#include "flow_parse.h"
#include "flow_early_drop.h"
#include "flow_early_dropped.h"
#include "flow_write.h"
#include "hook.h"
#include "interface.h"
#include "link.h"
#include "outcome.h"
#include "segment.h"

/* no block that comes before flows looks at the frames of such an interface */
static __always_inline bool flow_fast_may(const struct interface *at)
{
	return (at->flags & (INTERFACE_OFFLOADED | INTERFACE_GUARDED | INTERFACE_SUBSCRIBERS | INTERFACE_PSEUDOWIRES |
			     INTERFACE_BRIDGE_PORT | INTERFACE_CONDUIT)) == INTERFACE_OFFLOADED;
}

/* what can be done with a packet here, as a mask */
enum { FLOW_FAST_PASS = 1, FLOW_FAST_REFUSE = 2 };

/* the transport's checksum; NULL if the packet is not for the fast path. *may: what may be done */
static __always_inline __sum16 *flow_fast_check(struct cursor cur, __u8 protocol, __u32 *may)
{
	struct tcphdr *tcp;
	struct udphdr *udp;

	if (protocol == IPPROTO_TCP) {
		tcp = PULL(&cur, struct tcphdr);
		if (!tcp)
			return NULL;
		*may = tcp->flags & (TCP_FIN | TCP_SYN | TCP_RST | TCP_URG) ? 0 : FLOW_FAST_PASS;
		if (flow_begins(tcp->flags))
			*may = FLOW_FAST_REFUSE;
		return &tcp->check;
	}
	udp = protocol == IPPROTO_UDP ? PULL(&cur, struct udphdr) : NULL;
	*may = FLOW_FAST_PASS | FLOW_FAST_REFUSE;
	return udp ? &udp->check : NULL;
}

/* whether the packet has the length in its header, and the header checksum is right */
static __always_inline bool flow_fast_whole4(hook_ctx *ctx, const struct iphdr *ip, __u32 total)
{
	return total >= sizeof(*ip) && ETH_HLEN + total <= hook_len(ctx) && !csum_ipv4_header(ip);
}

/* whether packets of the flow may be forwarded now */
static __always_inline bool flow_fast_current(const struct flow *flow, const struct flow_hop *hop,
					      const struct flow_control *control, __u64 now)
{
	return flow->generation == control->generation && now <= control->lease && !flow->closed &&
	       hop->ifindex && (!HOOK_SENDS_RAW || hop->flags & FLOW_HOP_XDP) && !hop->link.tags[0].proto &&
	       !hop->session;
}

/* whether the packet, or each of its segments, fits the MTU; segment sizes are known for TCP only */
static __always_inline bool flow_fast_fits(hook_ctx *ctx, __u32 total, const __u32 header, __u8 protocol,
					   __u32 mtu, struct cursor l4)
{
	if (hook_segment(ctx) && protocol != IPPROTO_TCP)
		return false;
	return segment_wire_len(ctx, total, header, protocol, l4) <= mtu;
}

/*
 * Rewrite the transport's ports and checksum, behind an IP header of that many bytes.
 * At TC the checksum may be left to the device: a kernel helper handles that, and
 * pointers into the packet are invalid after the call.
 */
static __always_inline long flow_fast_transport(hook_ctx *ctx, const struct flow *flow, __u8 protocol,
						const __u32 header, struct flow_ports *ports, __sum16 *check)
{
	__u32 diff = csum_reduce((__u64)flow->diff + ~*(__u32 *)ports + *(__u32 *)&flow->ports);

	if (!HOOK_PLAIN) {
		struct flow_packet p = { .ports = *ports, .protocol = protocol };

		p.check = protocol == IPPROTO_TCP ? __builtin_offsetof(struct tcphdr, check) :
						    __builtin_offsetof(struct udphdr, check);
		return flow_write_transport(ctx, ETH_HLEN + header, flow, &p);
	}
	if (protocol == IPPROTO_TCP) {
		*check = csum_update(*check, diff);
	} else if (*check) { /* zero: there is none, and it stays so (RFC 768) */
		*check = csum_update(*check, diff);
		if (!*check)
			*check = 0xffff;
	}
	*ports = flow->ports;
	return 0;
}

/* the remaining writes, after the transport header's */
static __always_inline enum outcome flow_fast_send(hook_ctx *ctx, const enum flow_family family,
						   struct flow *flow, const struct flow_hop *hop,
						   __u32 total, __u64 now, int *verdict)
{
	struct cursor cur = hook_cursor(ctx, 0);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	if (!eth || (family == FLOW_IPV4 ? flow_write4(cur, flow) : flow_write6(ctx, cur, flow)) != OUTCOME_NONE)
		return DROP_KERNEL;
	__builtin_memcpy(eth, &hop->link, 2 * ETH_ALEN);
	flow_count(ctx, flow, total, now);
	hook_set_ours(ctx);
	*verdict = bpf_redirect(hop->ifindex, 0);
	return FORWARD_FLOW;
}

/* a packet of no flow: dropped if it would begin a flow that is refused */
static __always_inline enum outcome flow_fast_early_drop(hook_ctx *ctx, const struct iphdr *ip,
						      const struct flow_key4 *key,
						      const struct flow_control *control, __u64 now)
{
	struct flow_tuple t;

	if (!flow_fast_whole4(ctx, ip, bpf_ntohs(ip->tot_len)))
		return OUTCOME_NONE;
	flow_tuple_of4(&t, *key);
	return flow_early_dropped(&t, key->interface, control, now);
}

static __always_inline enum outcome flow_fast4(hook_ctx *ctx, struct cursor cur, __u32 ifindex, int *verdict)
{
	struct iphdr *ip = PULL(&cur, struct iphdr);
	struct flow_control *control = flow_control();
	struct flow_ports *ports = cur.pos;
	__u64 now = bpf_ktime_get_coarse_ns();
	struct flow_hop *hop;
	struct flow4 *found;
	__u32 total, may;
	__sum16 *check;

	if (!ip || !control || ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(IP_MF | IP_OFFSET))
		return OUTCOME_NONE;
	check = flow_fast_check(cur, ip->protocol, &may);
	if (!check || !may)
		return OUTCOME_NONE;
	{
		struct flow_key4 key = { ifindex, ip->saddr, ip->daddr, *ports, ip->protocol };

		found = flow4_find(&key);
		if (!found && control->refuse && may & FLOW_FAST_REFUSE)
			return flow_fast_early_drop(ctx, ip, &key, control, now);
	}
	hop = found && may & FLOW_FAST_PASS ? bpf_map_lookup_elem(&flow_hops, &found->flow.hop) : NULL;
	total = bpf_ntohs(ip->tot_len);
	if (!hop || !flow_fast_current(&found->flow, hop, control, now) || ip->ttl <= 1 ||
	    !flow_fast_fits(ctx, total, sizeof(*ip), ip->protocol, hop->mtu, cur) || !flow_fast_whole4(ctx, ip, total))
		return OUTCOME_NONE;
	if (flow_fast_transport(ctx, &found->flow, ip->protocol, sizeof(*ip), ports, check))
		return DROP_KERNEL;
	return flow_fast_send(ctx, FLOW_IPV4, &found->flow, hop, total, now, verdict);
}

/* packets that may be refused are rare enough for flow.h */
static __always_inline enum outcome flow_fast6(hook_ctx *ctx, struct cursor cur, __u32 ifindex, int *verdict)
{
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);
	struct flow_control *control = flow_control();
	struct flow_ports *ports = cur.pos;
	__u64 now = bpf_ktime_get_coarse_ns();
	struct flow_hop *hop;
	struct flow6 *found;
	__u32 total, may;
	__sum16 *check;

	if (!ip || !control || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return OUTCOME_NONE;
	check = flow_fast_check(cur, ip->nexthdr, &may);
	if (!check || !(may & FLOW_FAST_PASS))
		return OUTCOME_NONE;
	{
		struct flow_key6 key = { .interface = ifindex, .ports = *ports, .protocol = ip->nexthdr };

		key.saddr = ip->saddr;
		key.daddr = ip->daddr;
		found = flow6_find(&key);
	}
	hop = found ? bpf_map_lookup_elem(&flow_hops, &found->flow.hop) : NULL;
	total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (!hop || !flow_fast_current(&found->flow, hop, control, now) || ip->hop_limit <= 1 || !ip->payload_len ||
	    !flow_fast_fits(ctx, total, sizeof(*ip), ip->nexthdr, hop->mtu, cur) ||
	    ETH_HLEN + total > hook_len(ctx))
		return OUTCOME_NONE;
	/* mostly without NAT */
	if ((found->flow.diff || *(__u32 *)ports != *(__u32 *)&found->flow.ports) &&
	    flow_fast_transport(ctx, &found->flow, ip->nexthdr, sizeof(*ip), ports, check))
		return DROP_KERNEL;
	return flow_fast_send(ctx, FLOW_IPV6, &found->flow, hop, total, now, verdict);
}

/*
 * OUTCOME_NONE: nothing was decided or written. A global function: the verifier checks
 * it once, and its caller's stack frame is below those of all blocks that may follow.
 */
__noinline int flow_fast(hook_ctx *ctx, const struct interface *at, __u32 ifindex, int *verdict)
{
	struct cursor cur = hook_cursor(ctx, 0);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	if (!at || !verdict || !eth || !link_same_mac(eth->h_dest, at->mac) || hook_tag(ctx).proto)
		return OUTCOME_NONE;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return flow_fast4(ctx, cur, ifindex, verdict);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return flow_fast6(ctx, cur, ifindex, verdict);
	return OUTCOME_NONE;
}
