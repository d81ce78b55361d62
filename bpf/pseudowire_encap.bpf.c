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
#include "pseudowire_pack.h"
#include "pseudowire_sum.h"

#define EALREADY 114
/* of the loopback device, in every namespace (net/core/dev.c) */
#define LOOPBACK_IFINDEX 1

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

/* room in front for what is outside, and for the frame's own link header */
static __always_inline long make_room(struct __sk_buff *ctx, const struct pseudowire_tx *tx,
				      const struct inside *in)
{
	__u32 link = ETH_HLEN + (in->tags_len & 12), outer = tx->outer_len & 127;
	enum hook_tunnel tunnel = pseudowire_tunnel(tx);
	long failed;

	if (in->proto != bpf_htons(ETH_P_IP) && in->proto != bpf_htons(ETH_P_IPV6))
		return bpf_skb_change_head(ctx, outer + link, 0);
	failed = hook_pack(ctx, outer, link, tx->family == AF_INET, tunnel);
	/*
	 * A segment of what came out of a tunnel as a super-packet: the kernel still knows it as that.
	 * Super-packets of tunnels do not come: the interface has them segmented.
	 */
	if (failed == -EALREADY && !hook_segment(ctx))
		failed = hook_pack(ctx, outer, link, tx->family == AF_INET, TUNNEL_OTHER);
	return failed;
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
	outside_fill(out, tx, way, in, inner);
	/* two comparisons: as one, Linux 6.12's verifier does not see that it bounds the length (hook_load_some) */
	asm volatile("" : "+r"(len));
	if (len > PSEUDOWIRE_OUTER)
		return -1;
	asm volatile("" : "+r"(len));
	if (len < 24)
		return -1;
	asm volatile("" : "+r"(len));
	if (tx->seqoff && !(tx->flags & PSEUDOWIRE_PINNED)) {
		__u32 at = tx->seqoff;

		if (at > PSEUDOWIRE_OUTER - sizeof(__be32))
			return -1;
		*(__be32 *)(out->bytes + (at & 127)) = outside_number(tx);
	}
	__builtin_memcpy(out->bytes + len, &in->eth, sizeof(in->eth));
	if (make_room(ctx, tx, in) || hook_put_outside(ctx, &out->eth, ETH_HLEN + len))
		return -1;
	if (in->tags_len) {
		if (bpf_skb_store_bytes(ctx, ETH_HLEN + len + 12, in->tags, 4, 0) ||
		    (in->tags_len == 8 && bpf_skb_store_bytes(ctx, ETH_HLEN + len + 16, in->tags[1], 4, 0)) ||
		    bpf_skb_store_bytes(ctx, ETH_HLEN + len + 12 + in->tags_len, &in->eth.h_proto, 2, 0))
			return -1;
	}
	if (tx->flags & PSEUDOWIRE_CHECKSUM && outside_checksum(ctx, tx))
		return -1;
	return 0;
}

/* where it goes: by the neighbour that is known, or by the kernel's */
static __always_inline int leave(struct __sk_buff *ctx, const struct pseudowire_tx *tx,
				 const struct pseudowire_way *way, const struct inside *in)
{
	struct bpf_redir_neigh to = { .nh_family = tx->family };

	/* loopback wants to see it as its own; other devices ask for nothing of the kind */
	if (way->ifindex == LOOPBACK_IFINDEX && ctx->pkt_type != PACKET_HOST)
		bpf_skb_change_type(ctx, PACKET_HOST);
	if (way->flags & PSEUDOWIRE_RESOLVED)
		return bpf_redirect(way->ifindex, 0);
	/* the kernel takes the frame's own protocol for that of the packet: others than IP it would drop */
	if (ctx->protocol != bpf_htons(tx->family == AF_INET ? ETH_P_IP : ETH_P_IPV6))
		return -1;
	__builtin_memcpy(to.ipv6_nh, &way->gateway, sizeof(to.ipv6_nh));
	return bpf_redirect_neigh(way->ifindex, &to, sizeof(to), 0);
}

SEC("tcx/ingress")
int pseudowire_encap(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex, len, segment, room;
	enum pseudowire_fault fault = PSEUDOWIRE_FAULT_KERNEL;
	enum outcome outcome = DROP_KERNEL;
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
	pseudowire_sent(ifindex, len, segment);
	count(PSEUDOWIRE_ENCAP, FORWARD_WIRE_OUT);
	return verdict;
dropped:
	pseudowire_fault(ifindex, fault);
	count(PSEUDOWIRE_ENCAP, outcome);
	return TCX_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
