/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Tunnel switching: forwards frames of subscribers of another LNS, towards which this
 * router is the LAC (RFC 2661). The PPP frame is not changed, be it data or control.
 * The headers before it are replaced, with the ids, addresses and ports of the other
 * tunnel:
 *
 *   length, offset -> omitted; the frame is as long as they say
 *   priority -> kept; sequence numbers -> our own, if that session has them (5.4)
 *   DSCP -> kept; ECN -> not-ECT (RFC 6040 4.1, compatibility); TTL -> 64
 *   UDP checksum -> updated, not computed, so that it still protects the frame. A packet
 *           without one is sent without one over IPv4 (8.1); IPv6 requires one
 *
 * Frames that are too large for the path, GSO packets whose header would become
 * longer, and packets whose checksum is not available go to the daemon, which
 * fragments if needed.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "classify.h"
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "l2tp.h"
#include "l2tp_capture.h"
#include "l2tp_maps.h"
#include "l2tp_owner.h"
#include "l2tp_rate.h"
#include "l2tp_send.h"
#include "outcome.h"
#include "segment.h"
#include "sum.h"

#define L2TP_HEADER_WORDS 6 /* of a header without offset */
#define PPP_CONTROL 0x4000  /* the first protocol that is not of the network (RFC 1661 2) */

struct l2tp_passing {
	struct l2tp_out out; /* total and wire are those of the frame */
	__u32 off;    /* of the frame in the packet */
	__u32 data;   /* bytes of the network's packet in it; 0: there is none */
	__u32 header; /* bytes of the L2TP header that it came with */
	__u32 pseudo; /* sum of the pseudo-header that it came with */
	__u32 words;  /* sum of the UDP and L2TP headers, the checksum left out */
	__u16 flags;  /* of that header */
	__sum16 check;
	bool device; /* the checksum is the pseudo-header's alone: the rest is left to the device */
	bool plain;  /* nothing but header and frame is in the datagram */
};

/* Parse the headers that the frame came with. False: they are not there any more. */
static __always_inline bool l2tp_came(hook_ctx *ctx, const struct packet_info *from, struct l2tp_passing *p)
{
	__u32 outer = from->proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	struct cursor cur = hook_cursor(ctx, L2TP_BYTES);
	__u64 pseudo, words;
	struct udphdr *udp;
	__be16 *word;

	cur.pos += from->l3 & 31;
	if (from->proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip)
			return false;
		pseudo = (__u64)ip->saddr + ip->daddr;
		p->out.tos = ip->tos;
	} else {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return false;
		pseudo = csum_addr6(&ip->saddr) + csum_addr6(&ip->daddr);
		p->out.tos = bpf_ntohl(ip->ver_tc_flow) >> 20;
	}
	udp = PULL(&cur, struct udphdr);
	if (!udp)
		return false;
	p->header = (from->strip & CLASSIFY_STRIP) - outer - sizeof(*udp);
	p->pseudo = csum_reduce(pseudo + udp->len + bpf_htons(IPPROTO_UDP));
	p->check = udp->check;
	p->device = p->check && p->check == csum_fold16(p->pseudo);
	words = (__u64)udp->source + udp->dest + udp->len;
	p->plain = bpf_ntohs(udp->len) == sizeof(*udp) + p->header + from->bytes;
	for (int i = 0; i < L2TP_HEADER_WORDS && 2 * i < p->header; i++) {
		word = PULL(&cur, __be16);
		if (!word)
			return false;
		if (!i)
			p->flags = bpf_ntohs(*word);
		words += *word;
	}
	p->words = csum_reduce(words);
	p->plain = p->plain && !(p->flags & L2TP_OFFSET);
	return true;
}

/*
 * Classify the frame: a network-layer packet, or PPP control. If the packet's or the
 * datagram's checksum gives the sum of the frame, it is stored. A function of its own,
 * as the next ones are: the stack is small.
 */
static __noinline void l2tp_look(hook_ctx *ctx, struct l2tp_passing *p)
{
	struct cursor cur = hook_cursor(ctx, L2TP_BYTES), start, l4;
	struct l2tp_out *out = &p->out, inside = {};
	__u32 n, protocol, frame = out->total, head = 0, *word;

	cur.pos += p->off & 127;
	start = cur;
	word = PULL(&start, __u32);
	if (word)
		head = *word;
	protocol = l2tp_protocol(&cur, &n);
	if (protocol && protocol < PPP_CONTROL && n < frame)
		p->data = frame - n;
	if (p->check && !p->device && p->plain) {
		out->summed = true;
		out->sum = csum_reduce((__u64)(__u16)~p->check + (__u32)~p->pseudo + (__u32)~p->words);
	}
	if (protocol == 0x21) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip || ip->version != 4 || ip->ihl < 5)
			return;
		inside.total = bpf_ntohs(ip->tot_len);
		l2tp_sum4(ip, cur, &inside);
		l4 = cur;
		l4.pos += (ip->ihl - 5) * 4;
		out->wire = n + segment_wire_len(ctx, inside.total, ip->ihl * 4, ip->protocol, l4);
	} else if (protocol == 0x57) {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return;
		inside.total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
		l2tp_sum6(ip, false, &inside);
		out->wire = n + segment_wire_len(ctx, inside.total, sizeof(*ip), ip->nexthdr, cur);
	} else {
		return;
	}
	if (inside.total != p->data) {
		out->wire = frame; /* it lies, or there is padding: the ends will judge it */
		return;
	}
	if (out->summed || !inside.summed)
		return;
	/* with what PPP has before it; at an odd place bytes are swapped */
	out->sum = csum_fold16(inside.sum);
	if (n & 1)
		out->sum = bpf_ntohs(out->sum);
	if (n < 4)
		head &= (1U << 8 * n) - 1;
	out->sum += (head & 0xffff) + (head >> 16);
	out->summed = true;
}

/* Whether the walled garden lets a frame with a network-layer packet pass. */
__noinline bool l2tp_switch_let(hook_ctx *ctx, __u32 off, __u32 lns, __u32 flags, __u32 up)
{
	struct cursor cur = hook_cursor(ctx, L2TP_BYTES);
	__u32 n, protocol;
	struct in6_addr far;

	cur.pos += off & 127;
	protocol = l2tp_protocol(&cur, &n);
	if (protocol == 0x21) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip)
			return false;
		far = l2tp_mapped(up ? ip->daddr : ip->saddr);
	} else if (protocol == 0x57) {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return false;
		if (addr6_link_scope(&ip->saddr) || addr6_link_scope(&ip->daddr))
			return true; /* how the two ends find each other */
		far = up ? ip->daddr : ip->saddr;
	} else {
		return protocol >= PPP_CONTROL;
	}
	return l2tp_let(flags, lns, &far);
}

/* Whether the programs can forward the frame; nothing is written. */
static __always_inline enum outcome l2tp_switch_may(hook_ctx *ctx, const struct packet_info *from,
						    struct l2tp_passing *p, __u32 header)
{
	bool same = (p->out.tunnel->family == AF_INET) == (from->proto == bpf_htons(ETH_P_IP));
	__s64 sum;

	/* segments share what stands before them */
	if (hook_segment(ctx) && (!same || p->header != header || header != 6 || !p->plain ||
				  (p->check && !p->device) || p->out.wire >= p->out.total))
		return PASS_L2TP_CONTROL;
	/* what the device begins to sum at must not move */
	if (!HOOK_PLAIN && p->device && (p->header != header || !p->plain))
		return PASS_L2TP_CONTROL;
	if (p->out.summed || p->out.tunnel->family == AF_INET || (!HOOK_PLAIN && p->device))
		return OUTCOME_NONE;
	/* the checksum of the inner packet may be left to the device too, which cannot be seen here */
	if (!HOOK_PLAIN && p->data)
		return PASS_L2TP_CONTROL;
	sum = udp_sum(ctx, p->off, p->out.total);
	if (sum < 0)
		return PASS_L2TP_CONTROL;
	p->out.sum = sum;
	p->out.summed = true;
	return OUTCOME_NONE;
}

/* Write the L2TP header and return its length; the rest of the buffer stays zero. */
static __always_inline __u32 l2tp_switch_header(const struct l2tp_passing *p, struct l2tp_inner *in)
{
	bool numbers = p->out.session->flags & L2TP_SEQUENCE;
	__be16 *words = (__be16 *)in->bytes;
	struct l2tp_state *state;

	words[0] = bpf_htons((numbers ? L2TP_NUMBERS | 2 : 2) | (p->flags & L2TP_PRIORITY));
	words[1] = p->out.tunnel->remote;
	words[2] = p->out.session->remote;
	if (!numbers)
		return 6;
	state = bpf_map_lookup_elem(&l2tp_states, &p->out.id);
	words[3] = state ? bpf_htons(__sync_fetch_and_add(&state->sequence, 1)) : 0;
	return 10;
}

/* Replace the sums of the old headers by those of the new ones. */
static __always_inline void l2tp_switch_sums(struct l2tp_passing *p, const struct l2tp_inner *in,
					     __u32 inner)
{
	const struct l2tp_tunnel *t = p->out.tunnel;
	__be16 udp = bpf_htons(sizeof(struct udphdr) + inner + p->out.total);
	__u64 words = (__u64)t->here_port + t->peer_port + udp;
	__u32 was = p->pseudo, wore = p->words;

	for (int i = 0; i < 5; i++)
		words += ((__be16 *)in->bytes)[i];
	p->words = csum_reduce(words);
	p->pseudo = csum_reduce(csum_addr6(&t->local_addr) + csum_addr6(&t->peer) + udp + bpf_htons(IPPROTO_UDP));
	if (!HOOK_PLAIN && p->device) {
		/* the kernel knows what the checksum covers: it gets the differences */
		p->pseudo = csum_reduce((__u64)p->pseudo + (__u32)~was);
		p->words = csum_reduce((__u64)p->words + (__u32)~wore);
		return;
	}
	if (p->out.summed && (t->family == AF_INET6 || p->check))
		p->check = (__u16)~csum_fold16(csum_reduce((__u64)p->pseudo + p->words + p->out.sum)) ?: 0xffff;
	else
		p->check = 0;
}

/* len: of header, which starts with the ethertype and ends with inner bytes of L2TP */
static __always_inline enum outcome l2tp_switch_put(hook_ctx *ctx, const struct packet_info *from,
						    struct l2tp_passing *p, void *header, __u32 len,
						    const __be16 proto)
{
	__u32 end = p->off + p->out.total;

	if (hook_len(ctx) > end && hook_trim(ctx, end))
		return DROP_KERNEL;
	if (len > HOOK_PUSH_MAX || hook_rewrap(ctx, from->l3 & 31, from->tags, from->strip & CLASSIFY_STRIP,
					       from->proto != proto, header, len))
		return DROP_KERNEL;
	if (HOOK_PLAIN || !p->device)
		return OUTCOME_NONE;
	/* where the checksum stands */
	end = ETH_HLEN + (proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
	      __builtin_offsetof(struct udphdr, check);
	if (hook_l4_checksum(ctx, end, p->pseudo, ZERO_STAYS) || hook_data_diff(ctx, end, p->words))
		return DROP_KERNEL;
	return OUTCOME_NONE;
}

static __noinline enum outcome l2tp_switch_write4(hook_ctx *ctx, const struct packet_info *from,
						  struct l2tp_passing *p)
{
	struct l2tp_outer4 h = {};
	__u32 inner = l2tp_switch_header(p, &h.inner);

	l2tp_switch_sums(p, &h.inner, inner);
	l2tp_fill4((union l2tp_outer_header *)&h, &p->out, inner);
	h.udp.check = p->check;
	return l2tp_switch_put(ctx, from, p, &h.proto, 2 + sizeof(h.ip) + sizeof(h.udp) + inner,
			       bpf_htons(ETH_P_IP));
}

static __noinline enum outcome l2tp_switch_write6(hook_ctx *ctx, const struct packet_info *from,
						  struct l2tp_passing *p)
{
	struct l2tp_outer6 h = {};
	__u32 inner = l2tp_switch_header(p, &h.inner);

	l2tp_switch_sums(p, &h.inner, inner);
	h.proto = bpf_htons(ETH_P_IPV6);
	l2tp_ip6(&h.ip, &p->out, sizeof(struct udphdr) + inner + p->out.total);
	h.udp = (struct udphdr){
		.source = p->out.tunnel->here_port, .dest = p->out.tunnel->peer_port, .len = h.ip.payload_len,
		.check = p->check,
	};
	return l2tp_switch_put(ctx, from, p, &h.proto, 2 + sizeof(h.ip) + sizeof(h.udp) + inner,
			       bpf_htons(ETH_P_IPV6));
}

/* Network-layer packets are counted and rate-limited; PPP control is only rate-limited. */
static __always_inline bool l2tp_switch_pass(hook_ctx *ctx, const struct l2tp_meter *m,
					     const struct l2tp_passing *p)
{
	if (p->data)
		return l2tp_pass(m, hook_packets(ctx), p->data);
	return l2tp_within(m, p->out.total, bpf_ktime_get_coarse_ns());
}

/*
 * Forward a frame whose session (from->session) l2tp_receive() has found to be
 * switched. *verdict is set with FORWARD_SWITCHED; with PASS_* nothing has been written,
 * and the daemon gets it.
 */
__noinline int l2tp_switch(hook_ctx *ctx, const struct packet_info *from, int *verdict)
{
	struct l2tp_passing p = {};
	struct bpf_fib_lookup fib;
	struct l2tp_meter meter;
	struct l2tp_up *in;
	__u32 key, header, subscriber;
	enum outcome outcome;
	__u8 flags;
	bool up;

	if (!from || !verdict)
		return PASS_NOT_IP;
	in = l2tp_up_at(from->session);
	if (!in)
		return PASS_L2TP_UNKNOWN;
	p.out.id = in->ip4;
	p.out.session = l2tp_down_at(p.out.id);
	if (!p.out.session)
		return PASS_L2TP_UNKNOWN;
	key = p.out.session->tunnel;
	p.out.tunnel = bpf_map_lookup_elem(&l2tp_tunnels, &key);
	if (!p.out.tunnel || !p.out.tunnel->family)
		return PASS_L2TP_UNKNOWN;
	p.off = (from->l3 & 31) + (from->strip & CLASSIFY_STRIP);
	p.out.total = p.out.wire = from->bytes;
	if (!l2tp_came(ctx, from, &p))
		return PASS_L2TP_CONTROL;
	l2tp_look(ctx, &p);

	/* the side of the LNS may send any source address */
	up = !(in->flags & L2TP_TRUSTED);
	subscriber = up ? from->session : p.out.id;
	flags = in->flags | p.out.session->flags;
	if (flags & (L2TP_WALLED_GARDEN | L2TP_BLOCKED) && !l2tp_switch_let(ctx, p.off, in->lns, flags, up)) {
		l2tp_drop(subscriber, L2TP_DROP_WALLED_GARDEN);
		return DROP_WALLED_GARDEN;
	}
	header = p.out.session->flags & L2TP_SEQUENCE ? 10 : 6;
	outcome = l2tp_switch_may(ctx, from, &p, header);
	if (outcome != OUTCOME_NONE)
		return outcome;
	header += sizeof(struct udphdr);
	header += p.out.tunnel->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	outcome = l2tp_path(ctx, &p.out, header, &fib);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (flags & L2TP_CAPTURE)
		l2tp_capture(ctx, subscriber, p.off, p.out.total, L2TP_CAPTURED_PPP | (up ? L2TP_CAPTURED_UP : 0));
	meter = l2tp_meter_up(in);
	if (!l2tp_switch_pass(ctx, &meter, &p)) {
		l2tp_drop(subscriber, L2TP_DROP_UPSTREAM_RATE);
		return DROP_UPSTREAM_RATE;
	}
	meter = l2tp_meter_down(p.out.session);
	if (!l2tp_switch_pass(ctx, &meter, &p)) {
		l2tp_drop(subscriber, L2TP_DROP_DOWNSTREAM_RATE);
		return DROP_DOWNSTREAM_RATE;
	}
	outcome = p.out.tunnel->family == AF_INET ? l2tp_switch_write4(ctx, from, &p) :
						    l2tp_switch_write6(ctx, from, &p);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, &fib);
	return FORWARD_SWITCHED;
}
