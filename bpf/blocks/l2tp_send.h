/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Encapsulation towards a subscriber: the last step of a packet whose next hop is
 * NEXTHOP_SESSION, or that the stack sends to an LNS's device. The destination selects
 * the session; IP, UDP, L2TP and PPP headers are put before the packet, and the
 * kernel's routing table gives the path to the tunnel's peer (fib_lookup.h).
 *
 * The L2TP header has no length field, so that all segments of a GSO packet can share
 * it. Over IPv4, UDP has no checksum (RFC 2661 8.1 allows that); IPv6 requires one
 * (RFC 8200 8.1). It is computed from the headers alone, because the inner transport
 * checksum determines the sum of the rest.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "classify.h"
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "ttl.h"
#include "l2tp.h"
#include "l2tp_capture.h"
#include "l2tp_maps.h"
#include "l2tp_owner.h"
#include "l2tp_rate.h"
#include "fib_lookup.h"
#include "options.h"
#include "outcome.h"
#include "segment.h"

/* a packet on its way into a tunnel */
struct l2tp_out {
	struct l2tp_down *session;
	struct l2tp_tunnel *tunnel;
	__u32 id;
	__u32 total; /* IP bytes of the packet */
	__u32 wire;  /* IP bytes of each packet on the wire */
	__u32 syn;   /* see l2tp_syn() */
	__u32 sum;   /* of the packet, if it is known */
	bool summed;
	bool let; /* the walled garden lets it pass */
	__u8 tos;
	__be16 proto;
};

/* IPv4: the header sums to zero, and so does the rest with its pseudo-header. */
static __always_inline void l2tp_sum4(const struct iphdr *ip, struct cursor l4, struct l2tp_out *out)
{
	__u64 pseudo = (__u64)ip->saddr + ip->daddr + bpf_htons(out->total - sizeof(*ip)) +
		       bpf_htons(ip->protocol);
	struct udphdr *udp;

	if (ip->frag_off & bpf_htons(IP_MF | IP_OFFSET) || ip->ihl != 5)
		return;
	if (ip->protocol == IPPROTO_UDP) {
		udp = PULL(&l4, struct udphdr);
		out->summed = udp && udp->check;
	} else {
		out->summed = ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_ICMP;
	}
	out->sum = ip->protocol == IPPROTO_ICMP ? 0 : (__u16)~csum_fold16(csum_reduce(pseudo));
}

/* IPv6: of header and rest, all but these words of the header sum to zero. */
static __always_inline void l2tp_sum6(const struct ipv6hdr *ip, bool hop, struct l2tp_out *out)
{
	__u16 length = out->total - sizeof(*ip);
	__u64 header = (__u64)ip->ver_tc_flow + bpf_htons(length) +
		       bpf_htons(ip->nexthdr << 8 | (__u8)(ip->hop_limit - hop));
	__u64 pseudo = (__u64)bpf_htons(length) + bpf_htons(ip->nexthdr);

	out->summed = ip->nexthdr == IPPROTO_TCP || ip->nexthdr == IPPROTO_UDP ||
		      ip->nexthdr == IPPROTO_ICMPV6;
	out->sum = csum_reduce(header + (__u16)~csum_fold16(csum_reduce(pseudo)));
}

static __always_inline void l2tp_whose(__u32 id, struct l2tp_out *out)
{
	out->id = id;
	out->session = id ? l2tp_down_at(id) : NULL;
}

static __always_inline enum outcome l2tp_find4(hook_ctx *ctx, __u32 at, __u32 table, struct l2tp_out *out)
{
	struct cursor cur = hook_cursor(ctx, at + sizeof(struct iphdr) + sizeof(struct tcphdr));
	struct iphdr *ip;

	cur.pos += at;
	ip = PULL(&cur, struct iphdr);
	if (!HOOK_PLAIN && ip && ip->ihl > 5) { /* behind options there is more to see */
		cur = hook_cursor(ctx, at + 60 + sizeof(struct tcphdr));
		cur.pos += at;
		ip = PULL(&cur, struct iphdr);
	}
	if (!ip || ip->version != 4 || ip->ihl < 5)
		return PASS_OPTIONS;
	if (addr4_link_scope(ip->daddr))
		return PASS_LINK_SCOPE;
	l2tp_whose(l2tp_owner4(table, ip->daddr), out);
	if (out->session) {
		struct in6_addr far = l2tp_mapped(ip->saddr);

		out->let = l2tp_let(out->session->flags, out->session->lns, &far);
	}
	out->total = bpf_ntohs(ip->tot_len);
	out->tos = ip->tos;
	if (ip->ihl == 5 && !(ip->frag_off & bpf_htons(IP_OFFSET)))
		out->syn = l2tp_syn(cur, ip->protocol, sizeof(*ip));
	l2tp_sum4(ip, cur, out);
	cur.pos += (ip->ihl - 5) * 4;
	out->wire = segment_wire_len(ctx, out->total, ip->ihl * 4, ip->protocol, cur);
	return OUTCOME_NONE;
}

static __always_inline enum outcome l2tp_find6(hook_ctx *ctx, __u32 at, __u32 table, bool hop,
					       struct l2tp_out *out)
{
	struct cursor cur = hook_cursor(ctx, at + sizeof(struct ipv6hdr) + sizeof(struct tcphdr));
	struct ipv6hdr *ip;

	cur.pos += at;
	ip = PULL(&cur, struct ipv6hdr);
	if (!ip)
		return PASS_OPTIONS;
	if (addr6_link_scope(&ip->daddr) || addr6_link_scope(&ip->saddr))
		return PASS_LINK_SCOPE;
	l2tp_whose(l2tp_owner6(table, addr6_high(&ip->daddr), addr6_low(&ip->daddr)), out);
	if (out->session)
		out->let = l2tp_let(out->session->flags, out->session->lns, &ip->saddr);
	out->total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	out->tos = bpf_ntohl(ip->ver_tc_flow) >> 20;
	out->syn = l2tp_syn(cur, ip->nexthdr, sizeof(*ip));
	l2tp_sum6(ip, hop, out);
	out->wire = segment_wire_len(ctx, out->total, sizeof(*ip), ip->nexthdr, cur);
	return OUTCOME_NONE;
}

/* Write the L2TP and PPP headers and return their length; the rest stays zero. */
#define L2TP_INNER_MAX 14
struct l2tp_inner {
	__u8 bytes[16];
};

static __always_inline __u32 l2tp_inner_header(const struct l2tp_out *out, struct l2tp_inner *in)
{
	bool numbers = out->session->flags & L2TP_SEQUENCE;
	__be16 *words = (__be16 *)in->bytes;
	__u32 type = out->proto == bpf_htons(ETH_P_IP) ? 0x21 : 0x57, n, ppp;
	struct l2tp_state *state;

	words[0] = bpf_htons(numbers ? L2TP_NUMBERS | 2 : 2);
	words[1] = out->tunnel->remote;
	words[2] = out->session->remote;
	/* the bytes in the order in which they go out, the first the lowest */
	switch (out->session->flags & (L2TP_NO_ADDRESS | L2TP_SHORT_TYPE)) {
	case L2TP_NO_ADDRESS | L2TP_SHORT_TYPE:
		ppp = type;
		n = 1;
		break;
	case L2TP_NO_ADDRESS:
		ppp = type << 8;
		n = 2;
		break;
	case L2TP_SHORT_TYPE:
		ppp = 0x03ff | type << 16;
		n = 3;
		break;
	default:
		ppp = 0x03ff | type << 24;
		n = 4;
	}
	if (!numbers) {
		words[3] = ppp;
		words[4] = ppp >> 16;
		return 6 + n;
	}
	state = bpf_map_lookup_elem(&l2tp_states, &out->id);
	words[3] = state ? bpf_htons(__sync_fetch_and_add(&state->sequence, 1)) : 0;
	words[5] = ppp;
	words[6] = ppp >> 16;
	return 10 + n;
}

/* what hook_push() takes starts behind the pad, so that words are aligned */
struct l2tp_outer4 {
	__u16 pad;
	__be16 proto;
	struct iphdr ip;
	struct udphdr udp;
	struct l2tp_inner inner;
};

struct l2tp_outer6 {
	__u16 pad;
	__be16 proto;
	struct ipv6hdr ip;
	struct udphdr udp;
	struct l2tp_inner inner;
};

union l2tp_outer_header {
	struct l2tp_outer4 v4;
	struct l2tp_outer6 v6;
};
_Static_assert(sizeof(struct l2tp_outer6) == 68, "no holes");

static __always_inline void l2tp_fill4(union l2tp_outer_header *h, const struct l2tp_out *out, __u32 inner)
{
	__u32 udp = sizeof(struct udphdr) + inner + out->total;

	h->v4.proto = bpf_htons(ETH_P_IP);
	h->v4.ip = (struct iphdr){
		.version = 4, .ihl = 5, .tos = out->tos & 0xfc, /* RFC 6040 4.1, compatibility */
		.tot_len = bpf_htons(sizeof(struct iphdr) + udp),
		.id = bpf_get_prandom_u32(), /* it may be fragmented on its way */
		.ttl = 64, .protocol = IPPROTO_UDP,
		.saddr = out->tunnel->local_addr.be32[0], .daddr = out->tunnel->peer.be32[0],
	};
	h->v4.ip.check = csum_ipv4_header(&h->v4.ip);
	h->v4.udp = (struct udphdr){
		.source = out->tunnel->here_port, .dest = out->tunnel->peer_port, .len = bpf_htons(udp),
	};
}

static __always_inline void l2tp_ip6(struct ipv6hdr *ip, const struct l2tp_out *out, __u32 udp)
{
	/* the flow label tells sessions apart (RFC 6438) */
	ip->ver_tc_flow = bpf_htonl(6U << 28 | (__u32)(out->tos & 0xfc) << 20 | out->id);
	ip->payload_len = bpf_htons(udp);
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = 64;
	ip->saddr = out->tunnel->local_addr;
	ip->daddr = out->tunnel->peer;
}

static __always_inline void l2tp_fill6(union l2tp_outer_header *h, const struct l2tp_out *out, __u32 inner)
{
	__u32 udp = sizeof(struct udphdr) + inner + out->total;
	__u32 sum = out->sum;
	__u64 acc;

	h->v6.proto = bpf_htons(ETH_P_IPV6);
	l2tp_ip6(&h->v6.ip, out, udp);
	/* what stands at odd bytes counts with its bytes swapped (RFC 1071 2) */
	sum = csum_fold16(sum);
	if (inner & 1)
		sum = bpf_ntohs(sum);
	acc = csum_addr6(&out->tunnel->local_addr) + csum_addr6(&out->tunnel->peer);
	acc += (__u64)sum + 2 * (__u64)bpf_htons(udp) + bpf_htons(IPPROTO_UDP);
	acc += (__u64)out->tunnel->here_port + out->tunnel->peer_port;
	for (int i = 0; i < L2TP_INNER_MAX / 2; i++)
		acc += ((__u16 *)h->v6.inner.bytes)[i];
	h->v6.udp = (struct udphdr){
		.source = out->tunnel->here_port, .dest = out->tunnel->peer_port, .len = bpf_htons(udp),
		.check = (__u16)~csum_fold16(csum_reduce(acc)) ?: 0xffff,
	};
}

static __always_inline enum outcome l2tp_path(hook_ctx *ctx, struct l2tp_out *out, __u32 outer,
					     struct bpf_fib_lookup *fib)
{
	__u32 key = out->session->lns;
	struct l2tp_lns *lns = bpf_map_lookup_elem(&l2tp_lnses, &key);

	if (!lns || !lns->ifindex)
		return DROP_NO_SUBSCRIBER;
	if (out->total + outer > 0xffff)
		return PASS_TOO_BIG; /* a GSO packet with no room for more headers */
	if (out->tunnel->family == AF_INET)
		return egress_route4(ctx, fib, lns->ifindex, out->tunnel->local_addr.be32[0],
				    out->tunnel->peer.be32[0], out->wire + outer);
	return egress_route6(ctx, fib, lns->ifindex, &out->tunnel->local_addr, &out->tunnel->peer,
			    out->wire + outer);
}

static __always_inline enum outcome l2tp_may(hook_ctx *ctx, struct l2tp_out *out, bool hop)
{
	__u32 key;

	if (!out->session)
		return hop ? PASS_SUBSCRIBER : DROP_NO_SUBSCRIBER;
	key = out->session->tunnel;
	out->tunnel = bpf_map_lookup_elem(&l2tp_tunnels, &key);
	if (!out->tunnel || !out->tunnel->family)
		return hop ? PASS_SUBSCRIBER : DROP_NO_SUBSCRIBER;
	if (!out->let) {
		l2tp_drop(out->id, L2TP_DROP_WALLED_GARDEN);
		return DROP_WALLED_GARDEN;
	}
	if (out->wire > out->session->mtu)
		return PASS_TOO_BIG;
	/* segments would share one number, or one checksum */
	if (hook_segment(ctx) && (out->session->flags & L2TP_SEQUENCE || out->tunnel->family == AF_INET6))
		return PASS_SUBSCRIBER;
	if (out->tunnel->family == AF_INET6 && !out->summed)
		return PASS_SUBSCRIBER;
	return OUTCOME_NONE;
}

/* Everything is decided: clamp, wrap, send. */
static __always_inline enum outcome l2tp_write(hook_ctx *ctx, const struct packet_info *from, struct l2tp_out *out,
					       struct bpf_fib_lookup *fib, bool hop)
{
	union l2tp_outer_header h = {};
	__u32 inner, len, mss = out->session->mss;
	struct cursor cur;

	if (out->syn && mss &&
	    tcp_clamp_mss(ctx, (from->l3 & 31) + (from->strip & CLASSIFY_STRIP) + (out->syn & 63),
			  from->proto == bpf_htons(ETH_P_IP) ? mss : mss - 20) < 0)
		return DROP_KERNEL;
	if (out->tunnel->family == AF_INET) {
		inner = l2tp_inner_header(out, &h.v4.inner);
		l2tp_fill4(&h, out, inner);
		len = 2 + sizeof(struct iphdr) + sizeof(struct udphdr) + inner;
	} else {
		inner = l2tp_inner_header(out, &h.v6.inner);
		l2tp_fill6(&h, out, inner);
		len = 2 + sizeof(struct ipv6hdr) + sizeof(struct udphdr) + inner;
	}
	if (len > HOOK_PUSH_MAX ||
	    hook_push(ctx, from->l3, from->tags, from->strip, &h.v4.proto, len, inner, from->proto))
		return DROP_KERNEL;
	if (!hop)
		return OUTCOME_NONE;
	cur = hook_cursor(ctx, 2 * ETH_ALEN + len + sizeof(struct ipv6hdr));
	cur.pos += 2 * ETH_ALEN + len;
	return ttl_decrement(ctx, cur, from->proto);
}

/*
 * Send the packet that *from describes to the subscriber that owns its destination.
 * hop: the TTL is decremented here; otherwise the stack has done that already.
 * *verdict is set with FORWARD_TO_SUBSCRIBER; with PASS_* nothing has been written.
 */
__noinline int l2tp_send(hook_ctx *ctx, const struct packet_info *from, int *verdict, bool hop)
{
	struct l2tp_out out = {};
	struct bpf_fib_lookup fib;
	struct l2tp_meter meter;
	enum outcome outcome;
	__u32 at, outer;

	if (!from || !verdict)
		return PASS_NOT_IP;
	out.proto = from->proto;
	at = (from->l3 & 31) + (from->strip & CLASSIFY_STRIP);
	if (from->proto == bpf_htons(ETH_P_IP))
		outcome = l2tp_find4(ctx, at, from->table, &out);
	else if (from->proto == bpf_htons(ETH_P_IPV6))
		outcome = l2tp_find6(ctx, at, from->table, hop, &out);
	else
		return PASS_NOT_IP;
	if (outcome == OUTCOME_NONE)
		outcome = l2tp_may(ctx, &out, hop);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (!out.session || !out.tunnel)
		return PASS_SUBSCRIBER;
	outer = out.tunnel->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	outer += sizeof(struct udphdr) + L2TP_INNER_MAX;
	if (!(out.session->flags & L2TP_SEQUENCE))
		outer -= 4;
	outcome = l2tp_path(ctx, &out, outer, &fib);
	if (outcome != OUTCOME_NONE)
		return outcome;
	meter = l2tp_meter_down(out.session);
	if (!l2tp_pass(&meter, hook_packets(ctx), out.total)) {
		l2tp_drop(out.id, L2TP_DROP_DOWNSTREAM_RATE);
		return DROP_DOWNSTREAM_RATE;
	}
	if (out.session->flags & L2TP_CAPTURE)
		l2tp_capture(ctx, out.id, (from->l3 & 31) + (from->strip & CLASSIFY_STRIP), out.total, 0);
	outcome = l2tp_write(ctx, from, &out, &fib, hop);
	if (outcome != OUTCOME_NONE)
		return outcome;
	*verdict = hook_send(ctx, &fib);
	return FORWARD_TO_SUBSCRIBER;
}
