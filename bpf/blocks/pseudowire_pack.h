/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Encapsulation of a frame: what the outer header depends on, and the header itself.
 * Used by pseudowire_encap.h (frames from the interface) and pseudowire_send.h (frames
 * routed past it).
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "hash.h"
#include "hook.h"
#include "pseudowire_maps.h"

/* the inner frame */
struct inside {
	struct ethhdr eth;
	__be16 tags[2][2]; /* type and tag */
	__u32 tags_len;
	__u32 l3;   /* bytes of IP per packet on the wire, or of whatever else it is */
	__u32 flow; /* the same for all packets of a flow */
	__be16 proto;
	__u8 tos, ttl;
};

/* what the outer header and the largest size depend on */
static __always_inline void inside_ip(hook_ctx *ctx, struct inside *in)
{
	/* no more than TCP keeps linear in a GSO packet: to pull in payload costs a copy of the head */
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct ipv6hdr));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	__u32 segment = hook_segment(ctx), header = 0;
	__u8 l4 = 0;

	in->l3 = hook_len(ctx) - ETH_HLEN;
	if (!eth)
		return;
	in->eth = *eth;
	in->proto = eth->h_proto;
	if (in->proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip)
			return;
		in->tos = ip->tos;
		in->ttl = ip->ttl;
		header = ip->ihl << 2;
		l4 = ip->protocol;
		if (HOOK_PLAIN)
			in->flow = hash_mix((__u64)ip->saddr << 32 | ip->daddr);
	} else if (in->proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return;
		in->tos = bpf_ntohl(ip->ver_tc_flow) >> 20;
		in->ttl = ip->hop_limit;
		header = sizeof(*ip);
		l4 = ip->nexthdr;
		/* the flow label that its sender computed of fields not parsed here (RFC 6438) */
		if (HOOK_PLAIN)
			in->flow = hash_mix((__u64)ip->saddr.be32[3] << 32 | ip->daddr.be32[3]) ^
				   bpf_ntohl(ip->ver_tc_flow);
	}
	if (!HOOK_PLAIN)
		in->flow = hook_hash(ctx);
	if (segment && l4 == IPPROTO_TCP) {
		__u8 doff = 0;

		if (!hook_load(ctx, ETH_HLEN + header + 12, &doff, 1))
			in->l3 = header + (doff >> 4 << 2) + segment;
	} else if (segment && l4 == IPPROTO_UDP) {
		in->l3 = header + sizeof(struct udphdr) + segment;
	}
}

/* all headers before the frame */
struct outside {
	__u8 pad[2];
	struct ethhdr eth;
	__u8 bytes[PSEUDOWIRE_OUTER + ETH_HLEN]; /* with the frame's own link header behind */
};

/* Write the link, IP and UDP header: lengths, TOS, TTL. inner: length of the frame. */
static __always_inline void outside_fill(struct outside *out, const struct pseudowire_tx *tx,
					 const struct pseudowire_path *path, const struct inside *in, __u32 inner)
{
	__u32 whole = (tx->outer_len & 127) + inner;
	__u8 tos = (tx->flags & PSEUDOWIRE_INHERIT ? in->tos & ~3 : tx->tos) | (in->tos & 3);
	__u8 ttl = tx->flags & PSEUDOWIRE_INHERIT_TTL && in->ttl ? in->ttl : tx->ttl;
	struct udphdr *udp;

	__builtin_memcpy(out->bytes, tx->outer, sizeof(tx->outer));
	__builtin_memcpy(out->eth.h_dest, path->dst, ETH_ALEN);
	__builtin_memcpy(out->eth.h_source, path->src, ETH_ALEN);
	if (tx->family == AF_INET) {
		struct iphdr *ip = (void *)out->bytes;

		out->eth.h_proto = bpf_htons(ETH_P_IP);
		ip->tot_len = bpf_htons(whole);
		ip->tos = tos;
		ip->ttl = ttl;
		if (tx->flags & PSEUDOWIRE_NO_DF)
			ip->id = bpf_get_prandom_u32(); /* RFC 6864: only packets that may be fragmented need one */
		ip->check = csum_ipv4_header(ip);
		udp = (void *)(ip + 1);
		whole -= sizeof(*ip);
	} else {
		struct ipv6hdr *ip = (void *)out->bytes;

		out->eth.h_proto = bpf_htons(ETH_P_IPV6);
		whole -= sizeof(*ip);
		/* the flow label lets routers on the path distinguish flows (RFC 6438) */
		ip->ver_tc_flow = bpf_htonl(6U << 28 | (__u32)tos << 20 | (in->flow & 0xfffff));
		ip->payload_len = bpf_htons(whole);
		ip->hop_limit = ttl;
		udp = (void *)(ip + 1);
	}
	if (tx->kind == PSEUDOWIRE_L2TP_UDP)
		udp->len = bpf_htons(whole);
}

/* the sequence number (RFC 3931 4.6), QEMU's counter, or GRE's sequence number, in network byte order */
static __always_inline __be32 outside_number(struct pseudowire_tx *tx)
{
	__u32 number = __sync_fetch_and_add(&tx->sequence, 1);

	if (tx->flags & PSEUDOWIRE_SEQUENCE && tx->kind <= PSEUDOWIRE_L2TP_IP)
		number = 0x40000000 | (number & 0xffffff);
	return bpf_htonl(number);
}

/* bytes of IP that a frame may have */
static __always_inline __u32 room_for(const struct pseudowire_tx *tx, const struct pseudowire_path *path,
				      __u32 tags_len)
{
	__u32 mtu = path->mtu, off = tx->outer_len + ETH_HLEN + tags_len;

	/* packets that routers may fragment may exceed the path MTU, but not the link's */
	if (path->path_mtu && path->path_mtu < mtu && !(tx->flags & PSEUDOWIRE_NO_DF))
		mtu = path->path_mtu;
	mtu = mtu > off ? mtu - off : 0;
	return tx->mtu && tx->mtu < mtu ? tx->mtu : mtu;
}

static __always_inline void pseudowire_sent(__u32 ifindex, __u32 len, __u32 segment)
{
	struct pseudowire_stats *stats = bpf_map_lookup_elem(&pseudowire_counts, &ifindex);

	if (!stats)
		return;
	stats->tx_packets += pseudowire_packets(len, segment);
	stats->tx_bytes += len;
}

/* the kind of encapsulation, for the function that makes room for it */
static __always_inline enum hook_tunnel pseudowire_tunnel(const struct pseudowire_tx *tx)
{
	/* the kernel can neither segment IP protocol 115 nor number segments: such GSO packets do not arrive */
	if (tx->kind == PSEUDOWIRE_L2TP_IP || (tx->flags & (PSEUDOWIRE_COUNTER | PSEUDOWIRE_PINNED)) == PSEUDOWIRE_COUNTER)
		return TUNNEL_OTHER;
	return tx->kind == PSEUDOWIRE_L2TP_UDP ? TUNNEL_UDP : TUNNEL_GRE;
}
