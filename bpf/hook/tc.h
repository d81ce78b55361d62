/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The TC hook (TCX). Same functions as xdp.h. Here a frame may be a GSO/GRO
 * super-packet, its payload may lie outside the linear bytes, and a transport
 * checksum may be left to the device (CHECKSUM_PARTIAL): the helpers used
 * below keep all three right.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "link.h"

#define HOOK_IS_XDP 0
#define HOOK_FIB_FLAGS BPF_FIB_LOOKUP_SKIP_NEIGH
typedef struct __sk_buff hook_ctx;

static __always_inline __u32 hook_len(hook_ctx *ctx)
{
	return ctx->len;
}

static __always_inline struct cursor hook_cursor(hook_ctx *ctx, __u32 want)
{
	/* the bytes wanted may be in the frame and yet not linear: pull them in */
	if ((void *)(long)ctx->data + want > (void *)(long)ctx->data_end)
		bpf_skb_pull_data(ctx, want < ctx->len ? want : ctx->len);
	return (struct cursor){ (void *)(long)ctx->data, (void *)(long)ctx->data_end };
}

static __always_inline __u32 hook_arrived_on(hook_ctx *ctx)
{
	return ctx->ingress_ifindex;
}

static __always_inline __u32 hook_segment(hook_ctx *ctx)
{
	return ctx->gso_size;
}

static __always_inline long hook_load(hook_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes(ctx, off, to, len);
}

/*
 * hook_load of a length that is not known beforehand, at least 1, at most `most`.
 * Both bounds are comparisons of their own: compilers make one of the two, and
 * the verifiers of older kernels (6.12) do not see that it bounds the length.
 */
static __always_inline long hook_load_some(hook_ctx *ctx, __u32 off, void *to, __u32 len,
					   const __u32 most)
{
	asm volatile("" : "+r"(len));
	if (len < 1)
		return -1;
	asm volatile("" : "+r"(len));
	if (len > most)
		return -1;
	asm volatile("" : "+r"(len));
	return hook_load(ctx, off, to, len);
}

static __always_inline long hook_store(hook_ctx *ctx, __u32 off, void *from, __u32 len)
{
	return bpf_skb_store_bytes(ctx, off, from, len, BPF_F_RECOMPUTE_CSUM);
}

static __always_inline long hook_trim(hook_ctx *ctx, __u32 len)
{
	return bpf_skb_change_tail(ctx, len, 0);
}

static __always_inline long hook_swap_l3(hook_ctx *ctx, __u32 old_len, const void *header,
					 const __u32 new_len, __be16 ethertype)
{
	/* the kernel changes 20 bytes for 40; what the old header had beyond that goes first */
	const __u32 base = new_len == sizeof(struct iphdr) ? sizeof(struct ipv6hdr) :
							     sizeof(struct iphdr);

	if (old_len > base &&
	    bpf_skb_adjust_room(ctx, -(__s32)(old_len - base), BPF_ADJ_ROOM_NET,
				BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET))
		return -1;
	if (bpf_skb_change_proto(ctx, ethertype, 0))
		return -1;
	if (bpf_skb_store_bytes(ctx, ETH_HLEN, header, new_len, BPF_F_RECOMPUTE_CSUM))
		return -1;
	return bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, &ethertype, sizeof(ethertype), 0);
}

static __always_inline long hook_l4_checksum(hook_ctx *ctx, __u32 off, __u32 diff,
					     const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS  ? BPF_F_MARK_MANGLED_0 :
		      zero == ZERO_NEVER ? BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE :
					   0;

	return bpf_l4_csum_replace(ctx, off, 0, diff, BPF_F_PSEUDO_HDR | flags);
}

/*
 * Replace two bytes at off that the checksum at check_off covers as data: in a
 * packet whose checksum is left to the device it stays as it is.
 */
static __always_inline long hook_replace_port(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS  ? BPF_F_MARK_MANGLED_0 :
		      zero == ZERO_NEVER ? BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE :
					   0;

	if (bpf_l4_csum_replace(ctx, check_off, from, to, sizeof(to) | flags))
		return -1;
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/*
 * Replace two bytes of data at off, which may stand at an odd place (then
 * their halves belong to two words of the sum): a checksum that is left to the
 * device does not cover them yet, and stays.
 */
static __always_inline long hook_replace_data(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, bool odd)
{
	__be16 was = odd ? bpf_htons(from) : from, is = odd ? bpf_htons(to) : to;

	if (bpf_l4_csum_replace(ctx, check_off, was, is, sizeof(is)))
		return -1;
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/*
 * Send the packet where fib says, through the neighbour subsystem: it resolves
 * the link address and keeps it fresh. Returns the program's verdict.
 */
static __always_inline int hook_send(hook_ctx *ctx, struct bpf_fib_lookup *fib)
{
	struct bpf_redir_neigh to = { .nh_family = fib->family };

	if (fib->family == AF_INET)
		to.ipv4_nh = fib->ipv4_dst;
	else
		__builtin_memcpy(to.ipv6_nh, fib->ipv6_dst, sizeof(to.ipv6_nh));
	return bpf_redirect_neigh(fib->ifindex, &to, sizeof(to), 0);
}

/*
 * Take len bytes behind the link header out, tunnel header and the link header
 * of the frame inside, which becomes the frame's. The kernel segments what
 * comes out by its protocol: it has to know that it is another one now.
 */
static __always_inline long hook_unpack(hook_ctx *ctx, __u32 len, const struct ethhdr *inside)
{
	__u64 flags = inside->h_proto == bpf_htons(ETH_P_IPV6) ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 :
								BPF_F_ADJ_ROOM_DECAP_L3_IPV4;

	if (bpf_skb_adjust_room(ctx, -(__s32)len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | flags))
		return -1;
	return bpf_skb_store_bytes(ctx, 0, inside, sizeof(*inside), 0);
}

/*
 * Cut the frame to keep bytes and put another link header and more, len bytes,
 * in the place of its link header. Super-packet and offloads end with it.
 */
static __always_inline long hook_answer(hook_ctx *ctx, __u32 keep, const void *bytes, const __u32 len)
{
	if (bpf_skb_change_tail(ctx, keep, 0) || bpf_skb_change_head(ctx, len - ETH_HLEN, 0))
		return -1;
	return bpf_skb_store_bytes(ctx, 0, bytes, len, 0);
}

/* The kernel takes the outermost tag out of a frame before TC sees it. */
static __always_inline struct vlan_tag hook_tag(hook_ctx *ctx)
{
	struct vlan_tag tag = {};

	if (ctx->vlan_present) {
		tag.proto = ctx->vlan_proto;
		tag.id = bpf_htons(ctx->vlan_tci & 0xfff);
	}
	return tag;
}

static __always_inline long hook_push_tag(hook_ctx *ctx, __u16 id)
{
	return bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), id);
}

static __always_inline long hook_pop_tag(hook_ctx *ctx)
{
	return bpf_skb_vlan_pop(ctx);
}

static __always_inline __u32 hook_l3(__u32 tags)
{
	return tags < 2 ? ETH_HLEN : ETH_HLEN + 4;
}

/* If it fails midway the frame is good for nothing any more. */
static __always_inline long hook_relink(hook_ctx *ctx, __u32 tags, const struct link *link,
					__be16 proto)
{
	if ((tags > 0 && bpf_skb_vlan_pop(ctx)) || (tags > 1 && bpf_skb_vlan_pop(ctx)))
		return -1;
	if (link->tags[1].proto &&
	    bpf_skb_vlan_push(ctx, link->tags[1].proto, bpf_ntohs(link->tags[1].id)))
		return -1;
	if (link->tags[0].proto &&
	    bpf_skb_vlan_push(ctx, link->tags[0].proto, bpf_ntohs(link->tags[0].id)))
		return -1;
	return bpf_skb_store_bytes(ctx, 0, link, 2 * ETH_ALEN, 0);
}

static __always_inline long hook_strip(hook_ctx *ctx, __u32 n, __be16 proto)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO |
		      (proto == bpf_htons(ETH_P_IP) ? BPF_F_ADJ_ROOM_DECAP_L3_IPV4 :
						      BPF_F_ADJ_ROOM_DECAP_L3_IPV6);

	if (bpf_skb_adjust_room(ctx, -(__s32)n, BPF_ADJ_ROOM_MAC, flags))
		return -1;
	return bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, &proto, sizeof(proto), 0);
}

#define HOOK_WRAP_MAX (2 + 40 + 8 + 14)

/*
 * The kernel takes the bytes between UDP and the packet for a link header that
 * each segment of a super-packet gets.
 */
static __always_inline long hook_wrap(hook_ctx *ctx, __u32 l3, __u32 tags, __u32 strip,
				      void *header, __u32 len, __u32 inner, __be16 proto)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
		      BPF_F_ADJ_ROOM_ENCAP_L2(inner);

	flags |= *(__be16 *)header == bpf_htons(ETH_P_IP) ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 :
							     BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	if ((tags > 0 && bpf_skb_vlan_pop(ctx)) || (tags > 1 && bpf_skb_vlan_pop(ctx)))
		return -1;
	if (strip && hook_strip(ctx, strip, proto))
		return -1;
	if (bpf_skb_adjust_room(ctx, (__s32)len - 2, BPF_ADJ_ROOM_MAC, flags))
		return -1;
	return bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, header, len, 0);
}

static __always_inline __u32 hook_packets(hook_ctx *ctx)
{
	return ctx->gso_segs ?: 1;
}

/* The device may have summed the whole packet (CHECKSUM_COMPLETE). */
static __always_inline void hook_summed(hook_ctx *ctx, __u32 diff)
{
	bpf_csum_update(ctx, diff);
}

static __always_inline bool hook_segments_fit(hook_ctx *ctx, __u32 ifindex)
{
	__u32 any = 0;

	return !bpf_check_mtu(ctx, ifindex, &any, 0, BPF_MTU_CHK_SEGS);
}

/* If it fails midway the frame is good for nothing any more. */
static __always_inline long hook_relink_session(hook_ctx *ctx, __u32 tags, bool had,
						const struct link *link, __be16 session,
						__be16 proto, __u32 len)
{
	__be16 ethertype = bpf_htons(ETH_P_PPP_SES);
	__u32 want = link_tags(link);
	struct pppoehdr ppp;

	if (had || (session && want > 1))
		return -1;
	/* the room is made while the frame has no tag in it: one of them stays outside */
	if ((tags > 0 && bpf_skb_vlan_pop(ctx)) || (tags > 1 && bpf_skb_vlan_pop(ctx)))
		return -1;
	if (session) {
		if (bpf_skb_adjust_room(ctx, sizeof(ppp), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
			return -1;
		ppp = link_session(session, proto, len);
		if (bpf_skb_store_bytes(ctx, ETH_HLEN, &ppp, sizeof(ppp), 0) ||
		    bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, &ethertype, sizeof(ethertype), 0))
			return -1;
	}
	return hook_relink(ctx, 0, link, proto);
}

/* What a program sent is told from what the stack sent by this number. */
#define HOOK_OURS 0x5746

static __always_inline void hook_set_ours(hook_ctx *ctx)
{
	ctx->tc_index = HOOK_OURS;
}

static __always_inline bool hook_is_ours(hook_ctx *ctx)
{
	return ctx->tc_index == HOOK_OURS;
}

static __always_inline long hook_data_checksum(hook_ctx *ctx, __u32 off, __be32 from, __be32 to,
					       const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS ? BPF_F_MARK_MANGLED_0 : 0;

	return bpf_l4_csum_replace(ctx, off, from, to, sizeof(to) | flags);
}

/* the device that the program is attached to */
static __always_inline __u32 hook_leaves_by(hook_ctx *ctx)
{
	return ctx->ifindex;
}

static __always_inline long hook_put32(hook_ctx *ctx, __u32 off, __be32 value)
{
	return bpf_skb_store_bytes(ctx, off, &value, sizeof(value), 0);
}
