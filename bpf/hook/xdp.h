/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The XDP hook. Only this file and tc.h know which hook a block runs on. The packet is
 * linear, there are no GSO packets, and every checksum is complete in the packet.
 *
 * Blocks ask the same questions about a frame at both hooks. Where XDP has one answer
 * only (hook_segment, hook_hash, hook_tag, hook_packets, hook_summed,
 * hook_segments_fit, hook_set_ours), a function here gives it, so that the block needs
 * no condition, and the compiler removes both. internal/archtest checks that tc.h has
 * each of them, that a header uses it, and that there are no others.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"
#include "dsa.h"
#include "link.h"
#include "outcome.h"

/*
 * Properties of a hook that blocks need, beside its functions.
 *
 *   HOOK_PLAIN      all bytes are linear, a frame is one packet with complete checksums,
 *                   and the kernel keeps no state about it that must be preserved
 *   HOOK_SENDS_RAW  frames leave as they are, link addresses included, and only by devices
 *                   that can be the target of an XDP redirect
 *   HOOK_FIRST      packets that this hook passes reach TC too
 *   HOOK_FAILED     the outcome of a frame that could not be changed: at XDP nothing has
 *                   been written then
 */
#define HOOK_IS_XDP 1 /* for hook/ alone */
#define HOOK_PLAIN 1
#define HOOK_SENDS_RAW 1
#define HOOK_FIRST 1
#define HOOK_FAILED PASS_TO_TC
/* verdicts: passed to the next program, and dropped */
#define HOOK_NEXT XDP_PASS
#define HOOK_DROP XDP_DROP
#define HOOK_FIB_FLAGS 0
typedef struct xdp_md hook_ctx;

/* bytes of the frame, link header included */
static __always_inline __u32 hook_len(hook_ctx *ctx)
{
	void *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	/* keep them pointers, not 4-byte numbers, if they are spilled */
	asm volatile("" : "+r"(start), "+r"(end));
	return end - start;
}

/* cursor at the frame's first byte; want is how many bytes will be looked at */
static __always_inline struct cursor hook_cursor(hook_ctx *ctx, __u32 want)
{
	return (struct cursor){ (void *)(long)ctx->data, (void *)(long)ctx->data_end };
}

/* interface that the packet came in by */
static __always_inline __u32 hook_ingress(hook_ctx *ctx)
{
	return ctx->ingress_ifindex;
}

/* the device that the program is attached to */
static __always_inline __u32 hook_device(hook_ctx *ctx)
{
	return ctx->ingress_ifindex;
}

/* payload bytes per packet on the wire when the frame is a GSO packet, or 0 */
static __always_inline __u32 hook_segment(hook_ctx *ctx)
{
	return 0;
}

static __always_inline long hook_load(hook_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_xdp_load_bytes(ctx, off, to, len);
}

static __always_inline long hook_store(hook_ctx *ctx, __u32 off, void *from, __u32 len)
{
	return bpf_xdp_store_bytes(ctx, off, from, len);
}

/* cut the frame to len bytes */
static __always_inline long hook_trim(hook_ctx *ctx, __u32 len)
{
	return bpf_xdp_adjust_tail(ctx, (__s32)(len - hook_len(ctx)));
}

/*
 * Replace the IP header, old_len bytes with its options or extension headers,
 * by new_len bytes of the other family. Nothing is written if it fails.
 */
static __always_inline long hook_swap_l3(hook_ctx *ctx, __u32 old_len, const void *header,
					 const __u32 new_len, __be16 ethertype)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN);
	struct ethhdr *eth = PULL(&cur, struct ethhdr), saved;
	void *l3;

	if (!eth)
		return -1;
	saved = *eth;
	saved.h_proto = ethertype;
	if (bpf_xdp_adjust_head(ctx, (__s32)old_len - (__s32)new_len))
		return -1;
	cur = hook_cursor(ctx, ETH_HLEN + new_len);
	eth = PULL(&cur, struct ethhdr);
	l3 = cur.pos;
	if (!eth || l3 + new_len > cur.end)
		return -1;
	*eth = saved;
	__builtin_memcpy(l3, header, new_len);
	return 0;
}

/* Correct the transport checksum at off for a change by diff. */
static __always_inline long hook_l4_checksum(hook_ctx *ctx, __u32 off, __u32 diff,
					     const enum hook_zero zero)
{
	__sum16 *check = (void *)(long)ctx->data + off;

	if ((void *)(check + 1) > (void *)(long)ctx->data_end)
		return -1;
	if (zero == ZERO_STAYS && !*check)
		return 0;
	*check = csum_update(*check, diff);
	if (zero != ZERO_PLAIN && !*check)
		*check = 0xffff;
	return 0;
}

/* Replace two bytes at off that the checksum at check_off covers. */
static __always_inline long hook_replace_port(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, const enum hook_zero zero)
{
	if (hook_store(ctx, off, &to, sizeof(to)))
		return -1;
	return hook_l4_checksum(ctx, check_off, csum_reduce((__u64)(__u16)~from + to), zero);
}

/* Replace two bytes of data at off, which may be at an odd offset in the sum. */
static __always_inline long hook_replace_data(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, bool odd)
{
	__u32 diff = csum_reduce((__u64)(__u16)~from + to);

	/* at an odd offset the value straddles two words of the sum: swap its bytes */
	if (odd)
		diff = bpf_ntohs(csum_fold16(diff));
	if (hook_store(ctx, off, &to, sizeof(to)))
		return -1;
	return hook_l4_checksum(ctx, check_off, diff, ZERO_PLAIN);
}

/* The same in a packet that is still encapsulated: at XDP all checksums are complete. */
static __always_inline long hook_replace_inner(hook_ctx *ctx, __u32 off, __u32 check_off,
					       __be16 from, __be16 to, bool odd, __u16 pseudo)
{
	return hook_replace_data(ctx, off, check_off, from, to, odd);
}

/* Send the frame to the next hop in fib, with the link addresses in fib. */
static __always_inline int hook_send(hook_ctx *ctx, struct bpf_fib_lookup *fib)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	if (!eth)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, fib->dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib->smac, ETH_ALEN);
	return bpf_redirect(fib->ifindex, 0);
}

/*
 * Remove len bytes behind the link header. They end with the link header of the inner
 * frame, which becomes the frame's.
 */
static __always_inline long hook_unpack(hook_ctx *ctx, __u32 len, const struct ethhdr *inside)
{
	return bpf_xdp_adjust_head(ctx, (__s32)len);
}

/* the kind of encapsulation, where the kernel has to know it */
enum hook_tunnel { TUNNEL_OTHER, TUNNEL_UDP, TUNNEL_GRE };

/*
 * Make room before an IP frame for the outer headers from IP on, and for the inner
 * frame's link header. On failure the frame is unchanged.
 */
static __always_inline long hook_pack(hook_ctx *ctx, __u32 outer, __u32 link, bool ipv4,
				      enum hook_tunnel tunnel)
{
	return bpf_xdp_adjust_head(ctx, -(__s32)(outer + ETH_HLEN));
}

/* Write all headers before an encapsulated frame, len bytes; its link header is there. */
static __always_inline long hook_set_outer(hook_ctx *ctx, void *header, __u32 len)
{
	return bpf_xdp_store_bytes(ctx, 0, header, len);
}

/* the hash of the packet's flow: at XDP none has been computed yet */
static __always_inline __u32 hook_hash(hook_ctx *ctx)
{
	return 0;
}

/* the VLAN tag that is kept outside the packet; proto 0: none */
static __always_inline struct vlan_tag hook_tag(hook_ctx *ctx)
{
	return (struct vlan_tag){};
}

/* where the network header starts behind a link header made by hook_set_l2() */
static __always_inline __u32 hook_l3(__u32 tags)
{
	return ETH_HLEN + tags * 4;
}

/*
 * Replace the link header, which has that many tags, by another; proto is the
 * ethertype. On failure nothing has been written.
 */
static __always_inline long hook_set_l2(hook_ctx *ctx, __u32 tags, const struct link *link,
					__be16 proto)
{
	__u32 want = link_tags(link);
	struct cursor cur;
	__be16 *at;

	if (tags != want && bpf_xdp_adjust_head(ctx, 4 * (int)tags - 4 * (int)want))
		return -1;
	cur = hook_cursor(ctx, 0);
	at = cur.pos;
	/* a frame with an IP header is longer than that */
	if (cur.pos + ETH_HLEN + 8 > cur.end)
		return -1;
	__builtin_memcpy(at, link, 2 * ETH_ALEN);
	at += ETH_ALEN;
	if (want > 0) {
		at[0] = link->tags[0].proto;
		at[1] = link->tags[0].id;
		at += 2;
	}
	if (want > 1) {
		at[0] = link->tags[1].proto;
		at[1] = link->tags[1].id;
		at += 2;
	}
	*at = proto;
	return 0;
}

/*
 * Remove n bytes of encapsulation between the link header and the inner packet, whose
 * ethertype is proto. The link addresses are invalid afterwards: hook_set_l2() writes
 * them.
 */
static __always_inline long hook_strip(hook_ctx *ctx, __u32 n, __be16 proto)
{
	return bpf_xdp_adjust_head(ctx, (__s32)n);
}

/* bytes of an ethertype and the longest header that hook_push() puts before a packet */
#define HOOK_PUSH_MAX (2 + 40 + 8 + 14)

/*
 * Encapsulate a packet. The bytes before it in the frame (the link header with that
 * many tags, and strip bytes of encapsulation: l3 + strip bytes) are replaced by a
 * link header without tags and by header, len bytes, which starts with the ethertype.
 * inner: bytes of header behind UDP. proto: ethertype of the packet. On failure
 * nothing has been written.
 */
static __always_inline long hook_push(hook_ctx *ctx, __u32 l3, __u32 tags, __u32 strip,
				      void *header, __u32 len, __u32 inner, __be16 proto)
{
	if (bpf_xdp_adjust_head(ctx, (__s32)(l3 + strip) - (__s32)(2 * ETH_ALEN + len)))
		return -1;
	return bpf_xdp_store_bytes(ctx, 2 * ETH_ALEN, header, len);
}

/*
 * Replace the headers of the tunnel that a packet is in, was bytes behind a link
 * header which ends at l3, by header (as for hook_push()), and remove the tags. other:
 * the IP version changes. On failure nothing has been written.
 */
static __always_inline long hook_rewrap(hook_ctx *ctx, __u32 l3, __u32 tags, __u32 was, bool other,
					void *header, __u32 len)
{
	if (bpf_xdp_adjust_head(ctx, (__s32)(l3 + was) - (__s32)(2 * ETH_ALEN + len)))
		return -1;
	return bpf_xdp_store_bytes(ctx, 2 * ETH_ALEN, header, len);
}

/* Correct the checksum at off for a change by diff of data, not of addresses. */
static __always_inline long hook_data_diff(hook_ctx *ctx, __u32 off, __u32 diff)
{
	return hook_l4_checksum(ctx, off, diff, ZERO_STAYS);
}

/* the number of packets that it is on the wire */
static __always_inline __u32 hook_packets(hook_ctx *ctx)
{
	return 1;
}

/* The frame's IP bytes changed by diff (new minus old), which no checksum of theirs covers. */
static __always_inline void hook_summed(hook_ctx *ctx, __u32 diff)
{
}

/* whether the segments of a GSO packet fit the interface */
static __always_inline bool hook_segments_fit(hook_ctx *ctx, __u32 ifindex)
{
	return true;
}

/*
 * Replace all bytes before the IP packet, strip bytes more than a link header with
 * that many tags, by another link header; len: bytes of the packet. On failure nothing
 * has been written. hook_reframed() gives the packet's new offset.
 */
static __always_inline long hook_reframe(hook_ctx *ctx, __u32 tags, __u32 strip,
					 const struct link *link, __be16 session, __be16 proto,
					 __u32 len)
{
	__u32 was = ETH_HLEN + 4 * tags + strip, is = link_len(link, session);

	if (was != is && bpf_xdp_adjust_head(ctx, (int)was - (int)is))
		return -1;
	return link_put(hook_cursor(ctx, LINK_MAX), link, session, proto, len) ? 0 : -1;
}

static __always_inline __u32 hook_reframed(const struct link *link, __be16 session)
{
	return link_len(link, session);
}

/* At TC this marks packets that a program sent; XDP's are not seen there. */
static __always_inline void hook_set_ours(hook_ctx *ctx)
{
}

/* Correct the transport checksum at off for a change of data under it. */
static __always_inline long hook_data_checksum(hook_ctx *ctx, __u32 off, __be32 from, __be32 to,
					       const enum hook_zero zero)
{
	return hook_l4_checksum(ctx, off, csum_reduce((__u64)(__u32)~from + to), zero);
}

/* Write four bytes that no checksum of the frame's own covers any more. */
static __always_inline long hook_put32(hook_ctx *ctx, __u32 off, __be32 value)
{
	__be32 *at = (void *)(long)ctx->data + off;

	if ((void *)(at + 1) > (void *)(long)ctx->data_end)
		return -1;
	*at = value;
	return 0;
}

