/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The guard filters at ingress, before the stack and before any other block. It drops
 *
 *   sources on the block list, and bogons of this interface
 *   sources that fail the reverse-path check (RFC 2827, RFC 3704)
 *   TCP headers that are split by fragments to hide their flags from filters (RFC 1858),
 *   and first fragments without all of their headers (RFC 7112)
 *   SYNs or ICMP messages above the rate of one source or of all
 *
 * Packets of link scope are not checked: neighbour discovery, router advertisements,
 * and packets from the unspecified address (0.0.0.0, ::).
 *
 * Rates are policed by the generic cell rate algorithm (ITU-T I.371, virtual
 * scheduling): one word holds the time at which the next packet is due, and an
 * addition and a comparison decide. Sources share a fixed number of words by a keyed
 * hash: a flood of forged sources takes no memory and cannot select the sources that
 * it shares a word with. The total limits what such a flood can get through.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "classify.h"
#include "cursor.h"
#include "guard_maps.h"
#include "hash.h"
#include "hook.h"
#include "outcome.h"

/* what the packet is to the guard */
struct guarded {
	struct in6_addr source; /* IPv4: in its first word */
	__u64 site;             /* whose rate it is charged to: the address, or the /64 */
	__u32 l4;               /* offset of the transport header */
	__u32 l4_len;           /* how much of it this packet has */
	__u8 protocol;
	bool later; /* a fragment without the transport header's first bytes */
	bool first; /* a fragment with them */
	bool second; /* a fragment that starts eight bytes on */
	bool hidden; /* its transport header is not in this packet, or behind more headers than are followed */
	bool ipv4;
};

#define GUARD_CHAIN 6 /* extension headers that are followed */

static __always_inline enum outcome guard_read4(hook_ctx *ctx, const struct packet_info *from,
						struct cursor cur, struct guarded *g)
{
	struct iphdr *ip = PULL(&cur, struct iphdr);
	__u32 total, header, offset;

	if (!ip || ip->version != 4 || ip->ihl < 5)
		return PASS_OPTIONS;
	total = bpf_ntohs(ip->tot_len);
	header = ip->ihl * 4;
	offset = bpf_ntohs(ip->frag_off);
	if (total < header)
		return PASS_OPTIONS;
	if (!ip->saddr || addr4_link_scope(ip->saddr))
		return PASS_LINK_SCOPE;
	g->source.be32[0] = ip->saddr;
	g->site = bpf_ntohl(ip->saddr);
	g->protocol = ip->protocol;
	g->l4 = from->l3 + header;
	g->l4_len = total - header;
	g->later = offset & IP_OFFSET;
	g->first = !g->later && offset & IP_MF;
	g->ipv4 = true;
	g->second = (offset & IP_OFFSET) == 1;
	return OUTCOME_NONE;
}

static __always_inline bool guard_is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_FRAGMENT;
}

/* Follow the extension headers to the transport header. */
static __always_inline void guard_chain(hook_ctx *ctx, struct guarded *g)
{
	struct {
		__u8 next;
		__u8 len;
		__be16 fragment;
	} header;

	for (int i = 0; i < GUARD_CHAIN; i++) {
		__u32 size;

		if (!guard_is_extension(g->protocol))
			return;
		if (hook_load(ctx, g->l4, &header, sizeof(header))) {
			g->hidden = g->first; /* otherwise it is truncated, which the stack detects */
			return;
		}
		size = g->protocol == IPPROTO_FRAGMENT ? 8 : (header.len + 1) * 8;
		if (g->protocol == IPPROTO_FRAGMENT) {
			g->later = header.fragment & bpf_htons(0xfff8);
			g->second = (header.fragment & bpf_htons(0xfff8)) == bpf_htons(8);
			g->first = !g->later && header.fragment & bpf_htons(1);
		}
		g->protocol = header.next;
		g->l4 += size;
		g->l4_len = g->l4_len > size ? g->l4_len - size : 0;
		if (g->later) {
			/* eight bytes before it there was room for such a header alone */
			g->hidden = g->second && guard_is_extension(g->protocol);
			return;
		}
	}
	g->hidden = guard_is_extension(g->protocol);
}

static __always_inline enum outcome guard_read6(hook_ctx *ctx, const struct packet_info *from,
						struct cursor cur, struct guarded *g)
{
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

	if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return PASS_OPTIONS;
	if (addr6_link_scope(&ip->saddr) ||
	    !(ip->saddr.be32[0] | ip->saddr.be32[1] | ip->saddr.be32[2] | ip->saddr.be32[3]))
		return PASS_LINK_SCOPE;
	g->source = ip->saddr;
	g->site = addr6_high(&ip->saddr);
	g->protocol = ip->nexthdr;
	g->l4 = from->l3 + sizeof(*ip);
	g->l4_len = bpf_ntohs(ip->payload_len);
	guard_chain(ctx, g);
	return OUTCOME_NONE;
}

static __always_inline enum outcome guard_listed(const struct guarded *g, __u32 flags)
{
	__u32 zero = 0, *said = NULL;
	void *list;

	if (g->ipv4) {
		struct guard_key4 key = { 32, g->source.be32[0] };

		list = bpf_map_lookup_elem(&guard_list4, &zero);
		said = list ? bpf_map_lookup_elem(list, &key) : NULL;
	} else {
		struct guard_key6 key = { 128, g->source };

		list = bpf_map_lookup_elem(&guard_list6, &zero);
		said = list ? bpf_map_lookup_elem(list, &key) : NULL;
	}
	if (!said)
		return OUTCOME_NONE;
	if (*said & GUARD_LISTED_BLOCKED)
		return DROP_BLOCKED;
	return *said & GUARD_LISTED_BOGON && flags & GUARD_BOGONS ? DROP_BOGON : OUTCOME_NONE;
}

/*
 * Reverse-path check: does the route to the source lead to the interface that the
 * packet came in by? The kernel's own routes are used, and so the routing daemons': a
 * blackhole route for a source drops packets from it (RFC 5635).
 */
static __always_inline enum outcome guard_reverse(hook_ctx *ctx, const struct packet_info *from,
						  const struct guarded *g, __u32 flags)
{
	struct bpf_fib_lookup fib = { .ifindex = from->interface };

	fib.family = g->ipv4 ? AF_INET : AF_INET6;
	if (g->ipv4)
		fib.ipv4_dst = g->source.be32[0];
	else
		__builtin_memcpy(fib.ipv6_dst, &g->source, sizeof(g->source));
	switch (bpf_fib_lookup(ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_SKIP_NEIGH)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		break;
	case BPF_FIB_LKUP_RET_BLACKHOLE:
	case BPF_FIB_LKUP_RET_UNREACHABLE:
	case BPF_FIB_LKUP_RET_PROHIBIT:
	case BPF_FIB_LKUP_RET_NOT_FWDED: /* no route, or an address of the router itself */
		return DROP_REVERSE_PATH;
	default:
		return OUTCOME_NONE;
	}
	return flags & GUARD_STRICT && fib.ifindex != from->interface ? DROP_REVERSE_PATH :
									OUTCOME_NONE;
}

/* Whether one more packet conforms to the rate; if so it is counted. */
static __always_inline bool guard_conforms(__u64 *due, const struct guard_rate *rate, __u64 now)
{
	__u64 at = *(volatile __u64 *)due;

	/* unused time does not accumulate */
	if (at < now)
		__sync_val_compare_and_swap(due, at, now);
	at = __sync_fetch_and_add(due, rate->interval);
	if (at <= now + rate->burst)
		return true;
	__sync_fetch_and_add(due, -rate->interval);
	return false;
}

static __always_inline bool guard_rate(struct guard_interface *in, const struct guarded *g,
				       const __u32 source, const __u32 total, __u64 now)
{
	__u32 bucket = hash_mix(g->site ^ in->key) % GUARD_BUCKETS +
		       (source == GUARD_ICMP_SOURCE ? GUARD_BUCKETS : 0);
	__u64 *due;

	if (in->rates[source].interval) {
		due = bpf_map_lookup_elem(&guard_buckets, &bucket);
		if (due && !guard_conforms(due, &in->rates[source], now))
			return false;
	}
	return !in->rates[total].interval || guard_conforms(&in->due[total], &in->rates[total], now);
}

/* neighbour discovery and multicast listeners (RFC 4890 section 4.4): never limited */
static __always_inline bool guard_is_link_icmp6(hook_ctx *ctx, const struct guarded *g)
{
	__u8 type = 0;

	if (g->later || hook_load(ctx, g->l4, &type, sizeof(type)))
		return false;
	return (type >= 130 && type <= 137) || type == 143;
}

static __always_inline enum outcome guard_tcp(hook_ctx *ctx, struct guard_interface *in,
					      const struct guarded *g)
{
	__u8 flags = 0;

	/* RFC 1858: no TCP header is that short, and no rest of one starts there */
	if (g->second || (g->first && g->l4_len < sizeof(struct tcphdr)))
		return DROP_GUARD_FRAGMENT;
	if (g->later)
		return OUTCOME_NONE;
	if (!in->rates[GUARD_SYN_SOURCE].interval && !in->rates[GUARD_SYN_TOTAL].interval)
		return OUTCOME_NONE;
	if (hook_load(ctx, g->l4 + 13, &flags, sizeof(flags)) || (flags & 0x12) != 0x02)
		return OUTCOME_NONE;
	return guard_rate(in, g, GUARD_SYN_SOURCE, GUARD_SYN_TOTAL, bpf_ktime_get_ns()) ?
		       OUTCOME_NONE :
		       DROP_SYN_RATE;
}

/* A packet whose transport header cannot be found could be a SYN or ICMP. */
static __always_inline enum outcome guard_hidden(const struct guard_interface *in,
						 const struct guarded *g)
{
	if (g->first || g->second)
		return DROP_GUARD_FRAGMENT;
	for (int i = 0; i < GUARD_RATES; i++)
		if (in->rates[i].interval)
			return DROP_GUARD_HEADERS;
	return OUTCOME_NONE;
}

static __always_inline enum outcome guard_limits(hook_ctx *ctx, struct guard_interface *in,
						 const struct guarded *g)
{
	if (g->hidden)
		return guard_hidden(in, g);
	switch (g->protocol) {
	case IPPROTO_TCP:
		return guard_tcp(ctx, in, g);
	case IPPROTO_ICMPV6:
		if (g->ipv4 || guard_is_link_icmp6(ctx, g))
			return OUTCOME_NONE;
		break;
	case IPPROTO_ICMP:
		if (!g->ipv4)
			return OUTCOME_NONE;
		break;
	default:
		return OUTCOME_NONE;
	}
	if (!in->rates[GUARD_ICMP_SOURCE].interval && !in->rates[GUARD_ICMP_TOTAL].interval)
		return OUTCOME_NONE;
	return guard_rate(in, g, GUARD_ICMP_SOURCE, GUARD_ICMP_TOTAL, bpf_ktime_get_ns()) ?
		       OUTCOME_NONE :
		       DROP_ICMP_RATE;
}

/*
 * Check a frame. Returns DROP_*, or OUTCOME_NONE if it passes. Nothing is written. A
 * global function: the verifier checks it once.
 */
__noinline int guard(hook_ctx *ctx, const struct packet_info *from)
{
	struct guard_interface *in;
	struct guarded g = {};
	enum outcome outcome;
	struct cursor cur;
	__u32 index;

	if (!from)
		return OUTCOME_NONE;
	index = from->interface;
	in = bpf_map_lookup_elem(&guard_interfaces, &index);
	if (!in || !!(in->flags & GUARD_XDP) != HOOK_FIRST)
		return OUTCOME_NONE;
	cur = hook_cursor(ctx, from->l3 + (from->proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) :
									  sizeof(struct ipv6hdr)));
	cur.pos += from->l3 & 31; /* 22 at most; the verifier has to see it */
	if (from->proto == bpf_htons(ETH_P_IP))
		outcome = guard_read4(ctx, from, cur, &g);
	else if (from->proto == bpf_htons(ETH_P_IPV6))
		outcome = guard_read6(ctx, from, cur, &g);
	else
		return OUTCOME_NONE;
	if (outcome != OUTCOME_NONE)
		return outcome_is_drop(outcome) ? outcome : OUTCOME_NONE;
	outcome = guard_listed(&g, in->flags);
	if (outcome == OUTCOME_NONE && in->flags & (GUARD_LOOSE | GUARD_STRICT))
		outcome = guard_reverse(ctx, from, &g, in->flags);
	return outcome ?: guard_limits(ctx, in, &g);
}
