/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Parses the fields that identify a packet's flow. Fragments, packets with options and
 * protocols without ports belong to no flow.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "flow_maps.h"
#include "hook.h"
#include "segment.h"

struct flow_packet {
	struct flow_ports ports;
	__u32 total;   /* IP bytes */
	__u32 wire;    /* the same, per packet on the wire */
	__u8 l4;       /* where the transport header starts, from the network header */
	__u8 check;    /* where its checksum is, from its start */
	__u8 protocol;
	__u8 ttl;
	__u8 flags;    /* of TCP */
	bool whole;    /* nothing in it requires the stack */
};

/* ports, and where the checksum is; false if the protocol is not offloaded */
static __always_inline bool flow_transport(struct cursor cur, struct flow_packet *p)
{
	struct icmphdr *icmp;
	struct tcphdr *tcp;
	struct udphdr *udp;

	switch (p->protocol) {
	case IPPROTO_TCP:
		tcp = PULL(&cur, struct tcphdr);
		if (!tcp)
			return false;
		p->ports = *(struct flow_ports *)&tcp->source;
		p->flags = tcp->flags;
		p->check = __builtin_offsetof(struct tcphdr, check);
		return true;
	case IPPROTO_UDP:
		udp = PULL(&cur, struct udphdr);
		if (!udp)
			return false;
		p->ports = *(struct flow_ports *)&udp->source;
		p->check = __builtin_offsetof(struct udphdr, check);
		return true;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		icmp = PULL(&cur, struct icmphdr);
		if (!icmp || icmp->code)
			return false;
		if (p->protocol == IPPROTO_ICMP ?
			    icmp->type != ICMP_ECHO && icmp->type != ICMP_ECHOREPLY :
			    icmp->type != ICMPV6_ECHO_REQUEST && icmp->type != ICMPV6_ECHO_REPLY)
			return false;
		p->ports.source = icmp->id;
		p->ports.dest = bpf_htons(icmp->type);
		p->check = __builtin_offsetof(struct icmphdr, checksum);
		return true;
	}
	return false;
}

/* The cursor is at the network header, left is how long the frame is from there. */
static __always_inline struct iphdr *flow_parse4(hook_ctx *ctx, struct cursor cur, __u32 left,
						 struct flow_packet *p)
{
	struct iphdr *ip = PULL(&cur, struct iphdr);

	if (!ip || ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(IP_MF | IP_OFFSET) ||
	    ip->protocol == IPPROTO_ICMPV6)
		return NULL;
	p->protocol = ip->protocol;
	if (!flow_transport(cur, p))
		return NULL;
	p->total = bpf_ntohs(ip->tot_len);
	p->wire = segment_wire_len(ctx, p->total, sizeof(*ip), p->protocol, cur);
	p->l4 = sizeof(*ip);
	p->ttl = ip->ttl;
	p->whole = p->total >= sizeof(*ip) && p->total <= left && !csum_ipv4_header(ip);
	return ip;
}

static __always_inline struct ipv6hdr *flow_parse6(hook_ctx *ctx, struct cursor cur, __u32 left,
						   struct flow_packet *p)
{
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

	if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) ||
	    ip->nexthdr == IPPROTO_ICMP)
		return NULL;
	p->protocol = ip->nexthdr;
	if (!flow_transport(cur, p))
		return NULL;
	p->total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	p->wire = segment_wire_len(ctx, p->total, sizeof(*ip), p->protocol, cur);
	p->l4 = sizeof(*ip);
	p->ttl = ip->hop_limit;
	p->whole = ip->payload_len && p->total <= left;
	return ip;
}
