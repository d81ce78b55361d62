/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* Drop what the ruleset has refused: see flow_refuse.h. */
#include "flow.h"
#include "flow_refuse.h"

#define FLOW_TCP_ACK 0x10

/* whether weft was asked to */
static __always_inline bool flow_refuses(void)
{
	struct flow_control *control = flow_control();

	return control && control->refuse;
}

/* A frame that is addressed to the interface which it belongs to, and of no flow that is offloaded. */
__noinline int flow_refused(hook_ctx *ctx, const struct arrival *from)
{
	struct cursor cur = hook_cursor(ctx, ARRIVE_BYTES + sizeof(struct gswip_rx) + sizeof(struct pppoehdr));
	struct flow_control *control = flow_control();
	__u64 now = bpf_ktime_get_coarse_ns();
	struct flow_refusal *refusal;
	struct flow_packet p = {};
	struct flow_tuple t = {};
	__u32 interface, left;
	struct ethhdr *eth;
	__be16 proto;

	if (!from || !control || !control->refuse)
		return OUTCOME_NONE;
	proto = from->proto;
	interface = from->interface;
	left = hook_len(ctx);
	asm volatile("" : "+r"(left)); /* as in flow.h */
	left -= from->l3;
	eth = cur.pos;
	if (dsa_format == DSA_GSWIP && !from->tags && from->l3 != ETH_HLEN)
		eth = cur.pos + sizeof(struct gswip_rx);
	if ((void *)(eth + 1) > cur.end)
		return OUTCOME_NONE;
	cur.pos += from->l3 & 31;
	if (proto == bpf_htons(ETH_P_PPP_SES)) {
		if (hook_segment(ctx) || !flow_session(&cur, from, eth, left, &interface, &proto))
			return OUTCOME_NONE;
		left -= sizeof(struct pppoehdr);
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = flow_parse4(ctx, cur, left, &p);

		if (!ip)
			return OUTCOME_NONE;
		flow_tuple4(&t, ip);
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = flow_parse6(ctx, cur, left, &p);

		if (!ip)
			return OUTCOME_NONE;
		t.saddr = ip->saddr;
		t.daddr = ip->daddr;
	} else {
		return OUTCOME_NONE;
	}
	if (!p.whole || (p.protocol == IPPROTO_TCP &&
			 (p.flags & (TCP_FIN | TCP_SYN | TCP_RST | FLOW_TCP_ACK)) != TCP_SYN))
		return OUTCOME_NONE;
	t.ports = p.ports;
	t.protocol = p.protocol;
	refusal = bpf_map_lookup_elem(&flow_refusals, &t);
	if (!refusal || refusal->interface != interface || refusal->generation != control->generation ||
	    refusal->epoch != control->refuse || now > refusal->until || now > control->lease)
		return OUTCOME_NONE;
	return DROP_REFUSED;
}
