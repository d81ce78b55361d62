/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Parses the headers of packets that may be a pseudowire's: addresses, ports, and
 * session or key, which identify the pseudowire.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "interface.h"
#include "link.h"
#include "outcome.h"
#include "pseudowire_maps.h"
#include "pseudowire_sum.h"

/* UDP, L2TP with its longest cookie, counter; or GRE with all it can have */
#define PSEUDOWIRE_HEADER 28

#define TUNNEL_L2TP_CONTROL bpf_htons(0x8000)
#define TUNNEL_L2TP_V3 bpf_htons(3)
#define TUNNEL_L2TP_V2 bpf_htons(2)
#define TUNNEL_L2TP_VERSION bpf_htons(0x000f)
#define TUNNEL_GRE_CSUM bpf_htons(0x8000)
#define TUNNEL_GRE_KEY bpf_htons(0x2000)
#define TUNNEL_GRE_SEQ bpf_htons(0x1000)

/* in a map: the stack is short */
struct pseudowire_packet {
	struct pseudowire_key key;
	__u32 l4;  /* where the header behind IP starts */
	__u32 end; /* where the packet ends, by its length field */
	__u32 tunnel; /* bytes from l4 to the frame inside */
	__be16 flags; /* of GRE */
	__u8 ecn;
	__u8 protocol; /* IPPROTO_FRAGMENT: it is a fragment */
	__u32 fixed;  /* bytes from l4 to cookie or sequence */
	__u8 header[PSEUDOWIRE_HEADER];
};

_Static_assert(sizeof(struct pseudowire_packet) <= sizeof(struct pseudowire_bytes), "it has room");

static __always_inline void pseudowire_map4(struct in6_addr *to, __be32 addr)
{
	to->be16[5] = 0xffff;
	to->be32[3] = addr;
}

/* parse the IP header; false: no pseudowire could have sent it */
static __always_inline bool pseudowire_ip(hook_ctx *ctx, const struct interface *at,
					  struct pseudowire_packet *p)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct ipv6hdr));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	if (!eth || hook_tag(ctx).proto || !link_same_mac(eth->h_dest, at->mac))
		return false;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip || ip->version != 4 || ip->ihl != 5 || csum_ipv4_header(ip))
			return false;
		p->protocol = ip->frag_off & bpf_htons(IP_MF | IP_OFFSET) ? IPPROTO_FRAGMENT : ip->protocol;
		p->ecn = ip->tos & 3;
		p->l4 = ETH_HLEN + sizeof(*ip);
		p->end = ETH_HLEN + bpf_ntohs(ip->tot_len);
		pseudowire_map4(&p->key.local, ip->daddr);
		pseudowire_map4(&p->key.remote, ip->saddr);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
			return false;
		p->protocol = ip->nexthdr;
		p->ecn = bpf_ntohl(ip->ver_tc_flow) >> 20 & 3;
		p->l4 = ETH_HLEN + sizeof(*ip);
		p->end = p->l4 + bpf_ntohs(ip->payload_len);
		p->key.local = ip->daddr;
		p->key.remote = ip->saddr;
	} else {
		return false;
	}
	return p->protocol == IPPROTO_UDP || p->protocol == IPPROTO_L2TP ||
	       p->protocol == IPPROTO_GRE || p->protocol == IPPROTO_ICMP ||
	       p->protocol == IPPROTO_ICMPV6 || p->protocol == IPPROTO_FRAGMENT;
}

/* whether a pseudowire exists between the packet's source and destination */
static __always_inline bool pseudowire_between(const struct pseudowire_packet *p)
{
	struct pseudowire_endpoints endpoints = { .local = p->key.local, .remote = p->key.remote };

	return bpf_map_lookup_elem(&pseudowire_paths, &endpoints);
}

/* whether only pseudowires receive at the packet's destination */
static __always_inline bool pseudowire_some(struct pseudowire_packet *p)
{
	p->key.kind |= PSEUDOWIRE_SOME;
	p->key.id = 0;
	p->key.remote_port = 0;
	if (p->protocol == IPPROTO_UDP)
		__builtin_memset(&p->key.remote, 0, sizeof(p->key.remote));
	return bpf_map_lookup_elem(&pseudowire_rxs, &p->key);
}

/*
 * Parse the header behind IP and fill in the key. OUTCOME_NONE: it may be a
 * pseudowire's. PASS_NOT_FOR_US: it is not.
 */
static __always_inline enum outcome pseudowire_l4(hook_ctx *ctx, struct pseudowire_packet *p)
{
	__u32 have = hook_len(ctx), at = p->l4;
	struct udphdr *udp = (void *)p->header;
	__be16 *half = (void *)p->header;
	__be32 *word = (void *)p->header;

	if (have > p->end)
		have = p->end;
	if (have < at + 4)
		return PASS_NOT_FOR_US;
	have -= at;
	if (have > sizeof(p->header))
		have = sizeof(p->header);
	if (hook_load_some(ctx, at, p->header, have, sizeof(p->header)))
		return PASS_NOT_FOR_US;
	switch (p->protocol) {
	case IPPROTO_UDP:
		p->key.local_port = udp->dest;
		p->key.remote_port = udp->source;
		p->key.kind = PSEUDOWIRE_L2TP_UDP;
		p->key.id = word[3];
		p->fixed = 16;
		if (half[4] == TUNNEL_L2TP_V3 && have >= 16)
			return OUTCOME_NONE;
		/* control messages, and L2TPv2, which may share the port (RFC 3931 4.1.2.1) */
		if (have < 8 || half[4] & TUNNEL_L2TP_CONTROL || (half[4] & TUNNEL_L2TP_VERSION) == TUNNEL_L2TP_V2 ||
		    !pseudowire_some(p))
			return PASS_NOT_FOR_US;
		return have < 16 ? DROP_PSEUDOWIRE_TRUNCATED : DROP_PSEUDOWIRE_HEADER;
	case IPPROTO_L2TP:
		p->key.kind = PSEUDOWIRE_L2TP_IP;
		p->key.id = word[0];
		p->fixed = 4;
		return word[0] ? OUTCOME_NONE : PASS_NOT_FOR_US; /* zero: control (RFC 3931 4.1.1.2) */
	case IPPROTO_GRE:
		if (half[1] != bpf_htons(ETH_P_TEB) || half[0] & ~(TUNNEL_GRE_CSUM | TUNNEL_GRE_KEY | TUNNEL_GRE_SEQ))
			return PASS_NOT_FOR_US;
		p->flags = half[0];
		p->fixed = 4;
		if (p->flags & TUNNEL_GRE_CSUM)
			p->fixed = 8;
		p->key.kind = PSEUDOWIRE_GRE;
		if (p->flags & TUNNEL_GRE_KEY) {
			p->key.kind = PSEUDOWIRE_GRE_KEY;
			p->key.id = p->flags & TUNNEL_GRE_CSUM ? word[2] : word[1];
			p->fixed += 4;
		}
		return OUTCOME_NONE;
	}
	return PASS_NOT_FOR_US;
}
