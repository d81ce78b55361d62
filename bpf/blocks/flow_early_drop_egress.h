/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Early drop at egress (flow_early_drop.h): a packet that leaves may begin a connection,
 * and then the ruleset accepts its answers. So the entry that refuses the opposite
 * direction is removed before the packet leaves.
 *
 * Options, extension headers or a fragment header may precede its ports. To remove one
 * entry too many sends a refused packet to the stack; to remove one too few loses a
 * connection's answers.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flow_maps.h"
#include "flow_early_drop.h"
#include "hook.h"

#define FLOW_EXTENSIONS_MAX 8

struct flow_extension {
	__u8 next;
	__u8 len;
	__be16 offset; /* of a fragment; its low three bits are flags */
};

/* where the transport header is; 0: there is none here */
static __always_inline __u32 flow_skip(hook_ctx *ctx, __u32 off, __u8 *protocol)
{
	struct flow_extension ext;

	for (int i = 0; i < FLOW_EXTENSIONS_MAX; i++) {
		switch (*protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_FRAGMENT:
		case IPPROTO_AH:
			break;
		default:
			return off;
		}
		if (hook_load(ctx, off, &ext, sizeof(ext)))
			return 0;
		if (*protocol == IPPROTO_FRAGMENT) {
			if (ext.offset & bpf_htons(0xfff8))
				return 0;
			off += 8;
		} else {
			off += *protocol == IPPROTO_AH ? (ext.len + 2) * 4 : (ext.len + 1) * 8;
		}
		*protocol = ext.next;
	}
	return 0;
}

/* the answer's ICMP type (RFC 792, RFC 4443 4); 0: no answer is expected */
static __always_inline __u16 flow_answer(__u8 protocol, __u8 type)
{
	if (protocol == IPPROTO_ICMP)
		return type == ICMP_ECHO ? ICMP_ECHOREPLY : type == ICMP_ECHOREPLY ? ICMP_ECHO : 0xffff;
	return type == ICMPV6_ECHO_REQUEST ? ICMPV6_ECHO_REPLY :
	       type == ICMPV6_ECHO_REPLY ? ICMPV6_ECHO_REQUEST : 0xffff;
}

/* off: offset of the network header. Not inlined: it needs a stack frame of its own. */
__noinline int flow_egress_lookup(hook_ctx *ctx, __u32 off)
{
	struct flow_tuple back = {};
	union {
		struct iphdr four;
		struct ipv6hdr six;
	} ip;
	struct icmphdr l4; /* or the ports of another transport, in its first bytes */
	__u8 protocol;

	if (hook_load(ctx, off, &ip.four, sizeof(ip.four)))
		return 0;
	if (ip.four.version == 4) {
		if (ip.four.ihl < 5 || ip.four.frag_off & bpf_htons(IP_OFFSET))
			return 0;
		back.saddr.be32[2] = back.daddr.be32[2] = bpf_htonl(0xffff);
		back.saddr.be32[3] = ip.four.daddr;
		back.daddr.be32[3] = ip.four.saddr;
		protocol = ip.four.protocol;
		off += ip.four.ihl * 4;
	} else if (ip.four.version == 6) {
		if (hook_load(ctx, off, &ip.six, sizeof(ip.six)))
			return 0;
		back.saddr = ip.six.daddr;
		back.daddr = ip.six.saddr;
		protocol = ip.six.nexthdr;
		off = flow_skip(ctx, off + sizeof(ip.six), &protocol);
		if (!off)
			return 0;
	} else {
		return 0;
	}
	if (hook_load(ctx, off, &l4, sizeof(l4)))
		return 0;
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
		back.ports.source = ((struct flow_ports *)&l4)->dest;
		back.ports.dest = ((struct flow_ports *)&l4)->source;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		back.ports.source = l4.id;
		back.ports.dest = bpf_htons(flow_answer(protocol, l4.type));
		break;
	default:
		return 0;
	}
	back.protocol = protocol;
	if (bpf_map_lookup_elem(&flow_early_drops, &back))
		bpf_map_delete_elem(&flow_early_drops, &back);
	return 0;
}
