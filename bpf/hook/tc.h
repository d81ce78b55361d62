/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The TC hook (TCX), with the same functions as xdp.h. Here a frame may be a GSO or
 * GRO packet, its payload may lie outside the linear bytes, and a transport checksum
 * may be left to the device (CHECKSUM_PARTIAL): the kernel helpers used below handle
 * all three.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "dsa.h"
#include "link.h"
#include "outcome.h"

#define HOOK_IS_XDP 0
#define HOOK_PLAIN 0
#define HOOK_SENDS_RAW 0
#define HOOK_FIRST 0
#define HOOK_FAILED DROP_KERNEL /* it may be partly changed */
#define HOOK_NEXT TCX_NEXT
#define HOOK_DROP TCX_DROP
#define HOOK_FIB_FLAGS BPF_FIB_LOOKUP_SKIP_NEIGH
typedef struct __sk_buff hook_ctx;

static __always_inline __u32 hook_len(hook_ctx *ctx)
{
	return ctx->len;
}

static __always_inline struct cursor hook_cursor(hook_ctx *ctx, __u32 want)
{
	/* the bytes may be in the frame and yet not linear: pull them in */
	if ((void *)(long)ctx->data + want > (void *)(long)ctx->data_end)
		bpf_skb_pull_data(ctx, want < ctx->len ? want : ctx->len);
	return (struct cursor){ (void *)(long)ctx->data, (void *)(long)ctx->data_end };
}

static __always_inline __u32 hook_ingress(hook_ctx *ctx)
{
	return ctx->ingress_ifindex;
}

static __always_inline __u32 hook_device(hook_ctx *ctx)
{
	return ctx->ifindex;
}

static __always_inline __u32 hook_segment(hook_ctx *ctx)
{
	return ctx->gso_size;
}

static __always_inline long hook_load(hook_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes(ctx, off, to, len);
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
	/* the kernel replaces 20 bytes by 40, or the reverse; further bytes of the old header are removed first */
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

/*
 * Send the packet to the next hop in fib, through the neighbour subsystem: it resolves
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

/* the shortest Ethernet frame, without its checksum */
#define ETH_ZLEN 60

/*
 * Remove len bytes behind the link header: the tunnel's headers and the inner frame's
 * link header, which becomes the frame's. The kernel segments the result by its
 * protocol, so its ethertype is updated. At least an IP header remains: a shorter
 * frame is padded to the minimum length of Ethernet (IEEE 802.3 3.2.8).
 */
static __always_inline long hook_unpack(hook_ctx *ctx, __u32 len, const struct ethhdr *inside)
{
	const __u32 least = inside->h_proto == bpf_htons(ETH_P_IPV6) ? sizeof(struct ipv6hdr) :
								      sizeof(struct iphdr);
	__u64 flags = inside->h_proto == bpf_htons(ETH_P_IPV6) ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 :
								BPF_F_ADJ_ROOM_DECAP_L3_IPV4;

	if (ctx->len < ETH_HLEN + len + least && bpf_skb_change_tail(ctx, len + ETH_ZLEN, 0))
		return -1;
	if (bpf_skb_adjust_room(ctx, -(__s32)len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | flags))
		return -1;
	return bpf_skb_store_bytes(ctx, 0, inside, sizeof(*inside), 0);
}

/* the kind of encapsulation, where the kernel has to know it */
enum hook_tunnel { TUNNEL_OTHER, TUNNEL_UDP, TUNNEL_GRE };

/*
 * Make room before an IP frame: outer bytes for the outer headers from IP on, and link
 * bytes for the inner frame's link header, which must be written again. Each segment
 * of a GSO packet gets both. On failure the frame is unchanged.
 */
static __always_inline long hook_pack(hook_ctx *ctx, __u32 outer, __u32 link, bool ipv4,
				      enum hook_tunnel tunnel)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	if (tunnel != TUNNEL_OTHER) {
		flags |= ipv4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
		flags |= tunnel == TUNNEL_UDP ? BPF_F_ADJ_ROOM_ENCAP_L4_UDP : BPF_F_ADJ_ROOM_ENCAP_L4_GRE;
		flags |= BPF_F_ADJ_ROOM_ENCAP_L2_ETH | BPF_F_ADJ_ROOM_ENCAP_L2(link);
	}
	return bpf_skb_adjust_room(ctx, outer + link, BPF_ADJ_ROOM_MAC, flags);
}

/* Write all headers before an encapsulated frame, len bytes; its link header follows them. */
static __always_inline long hook_set_outer(hook_ctx *ctx, void *header, __u32 len)
{
	return bpf_skb_store_bytes(ctx, 0, header, len + ETH_HLEN, 0);
}

/* the hash of the packet's flow, computed by the kernel or the device */
static __always_inline __u32 hook_hash(hook_ctx *ctx)
{
	return ctx->hash;
}

/*
 * Cut the frame to keep bytes and replace its link header by len bytes. It is no GSO
 * packet afterwards, and has no offloads.
 */
static __always_inline long hook_answer(hook_ctx *ctx, __u32 keep, const void *bytes, const __u32 len)
{
	if (bpf_skb_change_tail(ctx, keep, 0) || bpf_skb_change_head(ctx, len - ETH_HLEN, 0))
		return -1;
	return bpf_skb_store_bytes(ctx, 0, bytes, len, 0);
}

/* The kernel removes the outermost tag from a frame before TC sees it. */
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

/* If it fails the frame may be partly changed, and must be dropped. */
static __always_inline long hook_set_l2(hook_ctx *ctx, __u32 tags, const struct link *link,
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

#define HOOK_PUSH_MAX (2 + 40 + 8 + 14)

/*
 * The kernel treats the bytes between UDP and the packet as a link header that each
 * segment of a GSO packet gets.
 */
static __always_inline long hook_push(hook_ctx *ctx, __u32 l3, __u32 tags, __u32 strip,
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

/*
 * The bytes behind UDP do not move, so that the kernel's information on segments and
 * on checksums that are left to the device stays valid.
 */
static __always_inline long hook_rewrap(hook_ctx *ctx, __u32 l3, __u32 tags, __u32 was, bool other,
					void *header, __u32 len)
{
	const __s32 longer = sizeof(struct ipv6hdr) - sizeof(struct iphdr);
	__s32 grow = (__s32)len - 2 - (__s32)was;
	__be16 proto = *(__be16 *)header;

	if ((tags > 0 && bpf_skb_vlan_pop(ctx)) || (tags > 1 && bpf_skb_vlan_pop(ctx)))
		return -1;
	if (other) {
		if (bpf_skb_change_proto(ctx, proto, 0))
			return -1;
		grow -= proto == bpf_htons(ETH_P_IPV6) ? longer : -longer;
	}
	if (grow && bpf_skb_adjust_room(ctx, grow, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	return bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, header, len, 0);
}

static __always_inline __u32 hook_packets(hook_ctx *ctx)
{
	return ctx->gso_segs ?: 1;
}

static __always_inline bool hook_segments_fit(hook_ctx *ctx, __u32 ifindex)
{
	__u32 any = 0;

	return !bpf_check_mtu(ctx, ifindex, &any, 0, BPF_MTU_CHK_SEGS);
}

/*
 * Remove n bytes behind the link header; proto is the ethertype of the packet behind
 * them. The kernel does so for IP only, and it updates the frame's protocol only when
 * VLAN tags are popped: so two are pushed and popped.
 */
static __always_inline long hook_pop(hook_ctx *ctx, __u32 n, __be16 proto)
{
	if (bpf_skb_store_bytes(ctx, 2 * ETH_ALEN, &proto, sizeof(proto), 0) ||
	    bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 1) ||
	    bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 1) || bpf_skb_vlan_pop(ctx) ||
	    bpf_skb_vlan_pop(ctx))
		return -1;
	return bpf_skb_adjust_room(ctx, -(__s32)n, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* whether the whole link header must be in the frame: a switch reads its tag only there */
static __always_inline bool hook_in_frame(const struct link *link)
{
	return link_is_dsa(link);
}

/* If it fails the frame may be partly changed, and must be dropped. */
static __always_inline long hook_reframe(hook_ctx *ctx, __u32 tags, __u32 strip,
					 const struct link *link, __be16 session, __be16 proto,
					 __u32 len)
{
	const struct link bare = {};
	__u32 grow;

	/* make room while the frame has no tag in it: one of them stays outside */
	if ((tags > 0 && bpf_skb_vlan_pop(ctx)) || (tags > 1 && bpf_skb_vlan_pop(ctx)))
		return -1;
	if (strip && hook_pop(ctx, strip, proto))
		return -1;
	grow = link_len(hook_in_frame(link) ? link : &bare, session) - ETH_HLEN;
	if (!grow)
		return hook_set_l2(ctx, 0, link, proto);
	if (bpf_skb_adjust_room(ctx, grow, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO) ||
	    !link_put(hook_cursor(ctx, LINK_MAX), hook_in_frame(link) ? link : &bare, session, proto, len))
		return -1;
	return hook_in_frame(link) ? 0 : hook_set_l2(ctx, 0, link, proto);
}

/* where the network header starts behind a link header made by hook_reframe() */
static __always_inline __u32 hook_reframed(const struct link *link, __be16 session)
{
	if (hook_in_frame(link))
		return link_len(link, session);
	return hook_l3(link_tags(link)) + (session ? sizeof(struct pppoehdr) : 0);
}

/* The mark of packets that a program sent, which distinguishes them from the stack's. */
#define HOOK_OURS 0x5746

static __always_inline void hook_set_ours(hook_ctx *ctx)
{
	ctx->tc_index = HOOK_OURS;
}

static __always_inline bool hook_is_ours(hook_ctx *ctx)
{
	return ctx->tc_index == HOOK_OURS;
}

static __always_inline long hook_put32(hook_ctx *ctx, __u32 off, __be32 value)
{
	return bpf_skb_store_bytes(ctx, off, &value, sizeof(value), 0);
}

/*
 * Transport checksums may be left to the device (CHECKSUM_PARTIAL), or the device may
 * have summed the packet.
 */
static __always_inline long hook_l4_checksum(hook_ctx *ctx, __u32 off, __u32 diff,
					     const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS  ? BPF_F_MARK_MANGLED_0 :
		      zero == ZERO_NEVER ? BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE :
					   0;

	return bpf_l4_csum_replace(ctx, off, 0, diff, BPF_F_PSEUDO_HDR | flags);
}

/*
 * Replace two bytes at off that the checksum at check_off covers as data: if the
 * checksum is left to the device it stays as it is.
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
 * Replace two bytes of data at off, which may be at an odd offset (then the halves
 * belong to two words of the sum): a checksum that is left to the device does not
 * cover them yet, and stays.
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
 * The same in a packet that is still encapsulated. The kernel's checksum state may be
 * about the outer packet (a sender in user space behind a virtual device leaves that
 * one to the device), so the inner checksum itself is examined: if it is only the
 * pseudo-header's sum it is left to the device, and stays.
 */
static __always_inline long hook_replace_inner(hook_ctx *ctx, __u32 off, __u32 check_off,
					       __be16 from, __be16 to, bool odd, __u16 pseudo)
{
	__be16 was = odd ? bpf_htons(from) : from, is = odd ? bpf_htons(to) : to;
	__u16 check;

	if (bpf_skb_load_bytes(ctx, check_off, &check, sizeof(check)))
		return -1;
	if (check != pseudo) {
		/* RFC 1624; the two changes cancel in every sum around them */
		check = ~csum_fold16((__u32)(__u16)~check + (__u16)~was + is);
		if (bpf_skb_store_bytes(ctx, check_off, &check, sizeof(check), 0))
			return -1;
	}
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/* A checksum that is left to the device does not cover it yet, and stays. */
static __always_inline long hook_data_diff(hook_ctx *ctx, __u32 off, __u32 diff)
{
	return bpf_l4_csum_replace(ctx, off, 0, diff, BPF_F_MARK_MANGLED_0);
}

/* The device may have summed the whole packet (CHECKSUM_COMPLETE). */
static __always_inline void hook_summed(hook_ctx *ctx, __u32 diff)
{
	bpf_csum_update(ctx, diff);
}

static __always_inline long hook_data_checksum(hook_ctx *ctx, __u32 off, __be32 from, __be32 to,
					       const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS ? BPF_F_MARK_MANGLED_0 : 0;

	return bpf_l4_csum_replace(ctx, off, from, to, sizeof(to) | flags);
}

/* For TC programs only, on devices that weft makes: xdp.h has none of these. */

/* the ethertype that the kernel has for the frame */
static __always_inline __be16 hook_protocol(hook_ctx *ctx)
{
	return ctx->protocol;
}

/* whether a VLAN tag is outermost, beside the frame or in it */
static __always_inline bool hook_tagged(hook_ctx *ctx)
{
	return ctx->vlan_present || link_is_vlan(ctx->protocol);
}

/* The outermost tag with its priority: type and TCI. In the frame it follows the addresses. */
static __always_inline long hook_outer_tag(hook_ctx *ctx, __be16 *tag)
{
	if (!ctx->vlan_present)
		return bpf_skb_load_bytes(ctx, 2 * ETH_ALEN, tag, 4);
	tag[0] = ctx->vlan_proto;
	tag[1] = bpf_htons(ctx->vlan_tci);
	return 0;
}

/* Make room of len bytes before a frame that is not IP. */
static __always_inline long hook_open(hook_ctx *ctx, __u32 len)
{
	return bpf_skb_change_head(ctx, len, 0);
}

/* Mark the frame as addressed to this host, whatever its link addresses are. */
static __always_inline void hook_to_host(hook_ctx *ctx)
{
	if (ctx->pkt_type != PACKET_HOST)
		bpf_skb_change_type(ctx, PACKET_HOST);
}
