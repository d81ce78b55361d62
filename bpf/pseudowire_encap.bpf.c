// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of a pseudowire's hidden end: what its interface sends. The frame
 * is packed up and leaves by the device that leads to the other end. A
 * super-packet stays one: the kernel segments it where it must.
 *
 *   too large        -> the sender is told, as by a router (RFC 4459 3.1)
 *   ECN              -> copied to the outside (RFC 6040 4.1)
 *   VLAN tag outside -> goes into the frame again
 */
#include "tc.h"
#include "counters.h"
#include "pseudowire_answer.h"
#include "pseudowire_maps.h"
#include "pseudowire_sum.h"

#define EALREADY 114

/* the frame as it is to be inside */
struct inside {
	struct ethhdr eth;
	__be16 tags[2][2]; /* type and tag */
	__u32 tags_len;
	__u32 l3;   /* bytes of IP per packet on the wire, or of whatever else it is */
	__be16 proto;
	__u8 tos, ttl;
};

static __always_inline long inside_tag(struct __sk_buff *ctx, struct inside *in)
{
	if (!ctx->vlan_present && !link_is_vlan(ctx->protocol))
		return 0;
	if (in->tags_len >= sizeof(in->tags))
		return -1;
	if (!ctx->vlan_present) {
		/* in the frame: it is the first thing behind the addresses */
		if (bpf_skb_load_bytes(ctx, 12, in->tags[in->tags_len >> 2 & 1], 4))
			return -1;
	} else {
		in->tags[in->tags_len >> 2 & 1][0] = ctx->vlan_proto;
		in->tags[in->tags_len >> 2 & 1][1] = bpf_htons(ctx->vlan_tci);
	}
	in->tags_len += 4;
	return bpf_skb_vlan_pop(ctx);
}

/* what the outer header and the largest size depend on */
static __always_inline void inside_ip(struct __sk_buff *ctx, struct inside *in)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + 60);
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
	} else if (in->proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return;
		in->tos = bpf_ntohl(ip->ver_tc_flow) >> 20;
		in->ttl = ip->hop_limit;
		header = sizeof(*ip);
		l4 = ip->nexthdr;
	}
	if (segment && l4 == IPPROTO_TCP) {
		__u8 doff = 0;

		if (!bpf_skb_load_bytes(ctx, ETH_HLEN + header + 12, &doff, 1))
			in->l3 = header + (doff >> 4 << 2) + segment;
	} else if (segment && l4 == IPPROTO_UDP) {
		in->l3 = header + sizeof(struct udphdr) + segment;
	}
}

/* room in front for what is outside, and for the frame's own link header */
static __always_inline long make_room(struct __sk_buff *ctx, const struct pseudowire_tx *tx,
				      const struct inside *in)
{
	__u32 link = ETH_HLEN + (in->tags_len & 12), room = (tx->outer_len & 127) + link;
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;
	long failed;

	if (in->proto != bpf_htons(ETH_P_IP) && in->proto != bpf_htons(ETH_P_IPV6))
		return bpf_skb_change_head(ctx, room, 0);
	/* IP protocol 115 the kernel cannot segment: such super-packets do not come */
	if (tx->kind == PSEUDOWIRE_L2TP_IP || tx->flags & PSEUDOWIRE_COUNTER)
		return bpf_skb_adjust_room(ctx, room, BPF_ADJ_ROOM_MAC, flags);
	flags |= tx->family == AF_INET ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	flags |= tx->kind == PSEUDOWIRE_L2TP_UDP ? BPF_F_ADJ_ROOM_ENCAP_L4_UDP : BPF_F_ADJ_ROOM_ENCAP_L4_GRE;
	flags |= BPF_F_ADJ_ROOM_ENCAP_L2_ETH | BPF_F_ADJ_ROOM_ENCAP_L2(link);
	failed = bpf_skb_adjust_room(ctx, room, BPF_ADJ_ROOM_MAC, flags);
	/*
	 * A segment of what came out of a tunnel as a super-packet: the kernel still knows it as that.
	 * Super-packets of tunnels do not come: the interface has them segmented.
	 */
	if (failed == -EALREADY && !hook_segment(ctx))
		failed = bpf_skb_adjust_room(ctx, room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
	return failed;
}

/* all that stands before the frame */
struct outside {
	__u8 pad[2];
	struct ethhdr eth;
	__u8 bytes[PSEUDOWIRE_OUTER];
};

/* IP and UDP header: lengths, TOS, TTL. inner is how long the frame is. */
static __always_inline void outside_fill(struct __sk_buff *ctx, struct outside *out, const struct pseudowire_tx *tx,
					 const struct inside *in, __u32 inner)
{
	__u32 whole = (tx->outer_len & 127) + inner;
	__u8 tos = (tx->flags & PSEUDOWIRE_INHERIT ? in->tos & ~3 : tx->tos) | (in->tos & 3);
	__u8 ttl = tx->flags & PSEUDOWIRE_INHERIT_TTL && in->ttl ? in->ttl : tx->ttl;
	struct udphdr *udp;

	if (tx->family == AF_INET) {
		struct iphdr *ip = (void *)out->bytes;

		out->eth.h_proto = bpf_htons(ETH_P_IP);
		ip->tot_len = bpf_htons(whole);
		ip->tos = tos;
		ip->ttl = ttl;
		if (tx->flags & PSEUDOWIRE_NO_DF)
			ip->id = bpf_get_prandom_u32(); /* RFC 6864: only what may be cut needs one */
		ip->check = csum_ipv4_header(ip);
		udp = (void *)(ip + 1);
		whole -= sizeof(*ip);
	} else {
		struct ipv6hdr *ip = (void *)out->bytes;

		out->eth.h_proto = bpf_htons(ETH_P_IPV6);
		whole -= sizeof(*ip);
		/* the flow label lets routers under way tell flows apart (RFC 6438) */
		ip->ver_tc_flow = bpf_htonl(6U << 28 | (__u32)tos << 20 | (ctx->hash & 0xfffff));
		ip->payload_len = bpf_htons(whole);
		ip->hop_limit = ttl;
		udp = (void *)(ip + 1);
	}
	if (tx->kind == PSEUDOWIRE_L2TP_UDP)
		udp->len = bpf_htons(whole);
}

/* the counter, RFC 3931 4.6 or QEMU's, or GRE's sequence number */
static __always_inline long outside_number(struct __sk_buff *ctx, struct pseudowire_tx *tx)
{
	__u32 number = __sync_fetch_and_add(&tx->sequence, 1);

	if (tx->flags & PSEUDOWIRE_PINNED)
		return 0;
	if (tx->flags & PSEUDOWIRE_SEQUENCE && tx->kind <= PSEUDOWIRE_L2TP_IP)
		number = 0x40000000 | (number & 0xffffff);
	number = bpf_htonl(number);
	return bpf_skb_store_bytes(ctx, ETH_HLEN + (tx->seqoff & 127), &number, sizeof(number), 0);
}

/* of UDP over IPv6 (RFC 8200 8.1), or of GRE (RFC 2784 2.1) */
static __always_inline long outside_checksum(struct __sk_buff *ctx, const struct pseudowire_tx *tx)
{
	__u32 from = ETH_HLEN + (tx->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	__u32 to = hook_len(ctx), off = from + 4, sum = 0;
	__sum16 check;

	if (tx->kind == PSEUDOWIRE_L2TP_UDP) {
		off = from + 6;
		sum = csum_reduce(csum_addr6(&tx->pair.local) + csum_addr6(&tx->pair.remote) +
				  bpf_htonl(to - from) + bpf_htonl(IPPROTO_UDP));
	}
	check = ~pseudowire_sum(ctx, from, to, sum);
	if (tx->kind == PSEUDOWIRE_L2TP_UDP && !check)
		check = 0xffff;
	return bpf_skb_store_bytes(ctx, off, &check, sizeof(check), 0);
}

static __always_inline long pack(struct __sk_buff *ctx, struct pseudowire_tx *tx,
				 const struct pseudowire_way *way, struct inside *in)
{
	__u32 len = tx->outer_len, inner = hook_len(ctx) + in->tags_len;
	struct outside *out = pseudowire_room(0);

	if (!out)
		return -1;
	__builtin_memcpy(out->bytes, tx->outer, sizeof(out->bytes));
	__builtin_memcpy(out->eth.h_dest, way->dst, ETH_ALEN);
	__builtin_memcpy(out->eth.h_source, way->src, ETH_ALEN);
	outside_fill(ctx, out, tx, in, inner);
	asm volatile("" : "+r"(len)); /* the verifier has to see the bounds */
	if (len > sizeof(out->bytes) || len < 24)
		return -1;
	if (make_room(ctx, tx, in) || bpf_skb_store_bytes(ctx, 0, &out->eth, ETH_HLEN + len, 0))
		return -1;
	if (in->tags_len) {
		if (bpf_skb_store_bytes(ctx, ETH_HLEN + len, &in->eth, 2 * ETH_ALEN, 0) ||
		    bpf_skb_store_bytes(ctx, ETH_HLEN + len + 12, in->tags, 4, 0) ||
		    (in->tags_len == 8 && bpf_skb_store_bytes(ctx, ETH_HLEN + len + 16, in->tags[1], 4, 0)) ||
		    bpf_skb_store_bytes(ctx, ETH_HLEN + len + 12 + in->tags_len, &in->eth.h_proto, 2, 0))
			return -1;
	} else if (bpf_skb_store_bytes(ctx, ETH_HLEN + len, &in->eth, sizeof(in->eth), 0)) {
		return -1;
	}
	if (tx->seqoff && outside_number(ctx, tx))
		return -1;
	if (tx->flags & PSEUDOWIRE_CHECKSUM && outside_checksum(ctx, tx))
		return -1;
	/* loopback wants to see it as its own */
	if (ctx->pkt_type != PACKET_HOST)
		bpf_skb_change_type(ctx, PACKET_HOST);
	return 0;
}

/* where it goes: by the neighbour that is known, or by the kernel's */
static __always_inline int leave(struct __sk_buff *ctx, const struct pseudowire_tx *tx,
				 const struct pseudowire_way *way, const struct inside *in)
{
	struct bpf_redir_neigh to = { .nh_family = tx->family };

	if (way->flags & PSEUDOWIRE_RESOLVED)
		return bpf_redirect(way->ifindex, 0);
	/* the kernel takes the frame's own protocol for that of the packet: others than IP it would drop */
	if (ctx->protocol != bpf_htons(tx->family == AF_INET ? ETH_P_IP : ETH_P_IPV6))
		return -1;
	__builtin_memcpy(to.ipv6_nh, &way->gateway, sizeof(to.ipv6_nh));
	return bpf_redirect_neigh(way->ifindex, &to, sizeof(to), 0);
}

/* bytes of IP that a frame may have */
static __always_inline __u32 room_for(const struct pseudowire_tx *tx, const struct pseudowire_way *way,
				      __u32 tags_len)
{
	__u32 mtu = way->mtu, off = tx->outer_len + ETH_HLEN + tags_len;

	/* what routers may cut may be larger than the path, not than the link */
	if (way->path_mtu && way->path_mtu < mtu && !(tx->flags & PSEUDOWIRE_NO_DF))
		mtu = way->path_mtu;
	mtu = mtu > off ? mtu - off : 0;
	return tx->mtu && tx->mtu < mtu ? tx->mtu : mtu;
}

SEC("tcx/ingress")
int pseudowire_encap(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex, len, segment, room;
	enum pseudowire_fault fault = PSEUDOWIRE_FAULT_KERNEL;
	enum outcome outcome = DROP_KERNEL;
	struct pseudowire_stats *stats;
	struct pseudowire_way *way;
	struct pseudowire_tx *tx;
	struct inside in = {};
	int verdict;

	tx = bpf_map_lookup_elem(&pseudowire_txs, &ifindex);
	if (!tx)
		return TCX_DROP;
	way = bpf_map_lookup_elem(&pseudowire_ways, &tx->pair);
	if (!way || !way->ifindex) {
		fault = PSEUDOWIRE_FAULT_NO_WAY;
		outcome = DROP_WIRE_NO_WAY;
		goto dropped;
	}
	if (inside_tag(ctx, &in) || inside_tag(ctx, &in))
		goto dropped;
	inside_ip(ctx, &in);
	room = room_for(tx, way, in.tags_len);
	len = hook_len(ctx) + in.tags_len;
	segment = hook_segment(ctx);
	if (in.l3 > room || len + tx->outer_len > 65535) {
		fault = PSEUDOWIRE_FAULT_TOO_BIG;
		outcome = DROP_WIRE_TOO_BIG;
		if (!(tx->flags & PSEUDOWIRE_ANSWER) || in.tags_len || !answer_allowed(&tx->answered) ||
		    answer_too_big(ctx, in.proto, room))
			goto dropped;
		pseudowire_fault(ifindex, PSEUDOWIRE_FAULT_ANSWERED);
		count(PSEUDOWIRE_ENCAP, FORWARD_WIRE_TOO_BIG);
		return bpf_redirect(ifindex, 0);
	}
	if (pack(ctx, tx, way, &in))
		goto dropped;
	verdict = leave(ctx, tx, way, &in);
	if (verdict < 0) {
		fault = PSEUDOWIRE_FAULT_NO_WAY;
		outcome = DROP_WIRE_NO_WAY;
		goto dropped;
	}
	stats = bpf_map_lookup_elem(&pseudowire_counts, &ifindex);
	if (stats) {
		stats->tx_packets += pseudowire_packets(len, segment);
		stats->tx_bytes += len;
	}
	count(PSEUDOWIRE_ENCAP, FORWARD_WIRE_OUT);
	return verdict;
dropped:
	pseudowire_fault(ifindex, fault);
	count(PSEUDOWIRE_ENCAP, outcome);
	return TCX_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
