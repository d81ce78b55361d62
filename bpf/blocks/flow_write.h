/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* Rewrites a packet of an offloaded flow. */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "flow_maps.h"
#include "flow_parse.h"
#include "hook.h"
#include "outcome.h"

/* the transport's ports and checksum; l4 is where it starts in the frame */
static __always_inline long flow_write_transport(hook_ctx *ctx, __u32 l4, const struct flow *flow,
						 const struct flow_packet *p)
{
	__be32 was = *(__be32 *)&p->ports, now = *(__be32 *)&flow->ports;
	__be16 source = flow->ports.source;
	bool other = was != now; /* mostly the addresses alone are */
	__u32 check = l4 + p->check;

	if (!flow->diff && !other)
		return 0;
	switch (p->protocol) {
	case IPPROTO_TCP:
		return hook_l4_checksum(ctx, check, flow->diff, ZERO_PLAIN) ||
		       (other && (hook_data_checksum(ctx, check, was, now, ZERO_PLAIN) || hook_put32(ctx, l4, now)));
	case IPPROTO_UDP:
		return hook_l4_checksum(ctx, check, flow->diff, ZERO_STAYS) ||
		       (other && (hook_data_checksum(ctx, check, was, now, ZERO_STAYS) || hook_put32(ctx, l4, now)));
	case IPPROTO_ICMPV6:
		if (hook_l4_checksum(ctx, check, flow->diff, ZERO_PLAIN))
			return -1;
		break;
	}
	if (p->ports.source == source)
		return 0;
	return hook_data_checksum(ctx, check, p->ports.source, source, ZERO_PLAIN) ||
	       hook_store(ctx, l4 + __builtin_offsetof(struct icmphdr, id), &source, sizeof(source));
}

/* addresses and TTL; the header's checksum by difference (RFC 1624) */
static __always_inline enum outcome flow_write4(struct cursor cur, const struct flow *flow)
{
	struct iphdr *ip = PULL(&cur, struct iphdr);

	if (!ip)
		return DROP_KERNEL;
	ip->check = csum_update(ip->check, csum_reduce((__u64)flow->diff + (__u16)~bpf_htons(0x0100)));
	ip->ttl--;
	ip->saddr = ((struct flow4 *)flow)->saddr;
	ip->daddr = ((struct flow4 *)flow)->daddr;
	return OUTCOME_NONE;
}

static __always_inline enum outcome flow_write6(hook_ctx *ctx, struct cursor cur,
						const struct flow *flow)
{
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

	if (!ip)
		return DROP_KERNEL;
	ip->hop_limit--;
	ip->saddr = ((struct flow6 *)flow)->saddr;
	ip->daddr = ((struct flow6 *)flow)->daddr;
	hook_summed(ctx, csum_reduce((__u64)flow->diff + ~(__u32)bpf_htons(1)));
	return OUTCOME_NONE;
}

static __always_inline void flow_count(hook_ctx *ctx, struct flow *flow, __u32 total, __u64 now)
{
	__sync_fetch_and_add(&flow->packets, hook_packets(ctx));
	__sync_fetch_and_add(&flow->bytes, total);
	if (flow->seen != flow_tick(now))
		flow->seen = flow_tick(now);
}
