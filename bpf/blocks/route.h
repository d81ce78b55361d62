/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Routing past the stack: the longest prefix of the destination gives a next hop, TTL
 * or hop limit is decremented, the frame is sent.
 *
 * All checks come before the first write. These packets go to the kernel unchanged:
 * TTL that expires here, larger than the egress MTU, neighbour not resolved, addressed
 * to the router, multicast and link scope, IPv4 options or a wrong header checksum
 * (RFC 1812 5.2.2), hop-by-hop options (RFC 8200 4.3), a destination without route.
 *
 * Packets with addresses that a router must not forward (RFC 1812 5.3.7, RFC 4291 2.5)
 * go to the kernel, which drops them.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "classify.h"
#include "checksum.h"
#include "cursor.h"
#include "fib.h"
#include "hash.h"
#include "hook.h"
#include "ttl.h"
#include "link.h"
#include "nexthop.h"
#include "outcome.h"
#include "segment.h"

/* see fib.h; the loader sets the arrays' sizes */
const volatile __u32 fib4_last = FIB_MIN_WORDS4 - FIB_SLACK;
const volatile __u32 fib6_last = FIB_MIN_WORDS6 - FIB_SLACK;
const volatile __u32 fib_layout = FIB_LAYOUT; /* for user space, which fills them */

/*
 * One array per table (VRF), all of one size, so that the lookup of the words is
 * inlined. The interface selects the table. A table is filled before it is put here,
 * and replaced by one store.
 */
/* go: state ROUTE_TABLES=RouteTablesMax */
#define ROUTE_TABLES 256

struct fib4_array {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32) * FIB_MIN_WORDS4);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
};

struct fib6_array {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32) * FIB_MIN_WORDS6);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, ROUTE_TABLES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct fib4_array);
} fib4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, ROUTE_TABLES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct fib6_array);
} fib6 SEC(".maps");

/* the number of the next hop towards an address in host byte order, or 0 */
static __always_inline __u32 route_lookup4(__u32 table, __u32 addr)
{
	void *array = bpf_map_lookup_elem(&fib4, &table);
	__u32 zero = 0, *words;

	words = array ? bpf_map_lookup_elem(array, &zero) : NULL;
	return words ? fib_lookup4(words, fib4_last, addr) : 0;
}

static __always_inline __u32 route_lookup6(__u32 table, struct fib_addr6 addr)
{
	void *array = bpf_map_lookup_elem(&fib6, &table);
	__u32 zero = 0, *words;

	words = array ? bpf_map_lookup_elem(array, &zero) : NULL;
	return words ? fib_lookup6(words, fib6_last, addr) : 0;
}

/* the ports of TCP, UDP, UDP-Lite, SCTP and DCCP: the first four bytes */
static __always_inline __u32 route_ports(struct cursor cur, __u8 protocol)
{
	__u32 *ports;

	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		ports = PULL(&cur, __u32);
		return ports ? *ports : 0;
	}
	return 0;
}

static __always_inline __u32 route_hash4(const struct iphdr *ip, struct cursor l4)
{
	struct flow_hash flow = { .from = ip->saddr, .to = ip->daddr, .protocol = ip->protocol };

	if (!(ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)))
		flow.ports = route_ports(l4, ip->protocol);
	return flow_hash(&flow);
}

static __always_inline __u32 route_hash6(const struct ipv6hdr *ip, struct cursor l4)
{
	struct flow_hash flow = {
		.from = addr6_high(&ip->saddr) ^ hash_mix(addr6_low(&ip->saddr)),
		.to = addr6_high(&ip->daddr) ^ hash_mix(addr6_low(&ip->daddr)),
		/* the flow label is the sender's and may stand for what follows (RFC 6438) */
		.protocol = ip->nexthdr ^ (ip->ver_tc_flow & bpf_htonl(0xfffff)),
		.ports = route_ports(l4, ip->nexthdr),
	};
	return flow_hash(&flow);
}

/* A UDP GSO packet may carry a tunnel, whose segments have more headers than are seen here. */
static __always_inline enum outcome route_fits(hook_ctx *ctx, __u8 protocol,
					       const struct neighbour *to)
{
	if (hook_segment(ctx) && protocol == IPPROTO_UDP && !hook_segments_fit(ctx, to->ifindex))
		return PASS_TOO_BIG;
	return OUTCOME_NONE;
}

static __always_inline enum outcome route_find4(hook_ctx *ctx, const struct packet_info *from,
						struct cursor cur, struct neighbour **to)
{
	__u32 number, total;
	struct iphdr *ip = PULL(&cur, struct iphdr);
	enum outcome outcome;
	struct nexthop hop;

	if (!ip || ip->version != 4 || ip->ihl != 5)
		return PASS_OPTIONS;
	total = bpf_ntohs(ip->tot_len);
	if (total < sizeof(*ip) || from->l3 + from->strip + total > hook_len(ctx) || csum_ipv4_header(ip))
		return PASS_OPTIONS;
	if (addr4_link_scope(ip->daddr) || addr4_link_scope(ip->saddr) ||
	    addr4_illegal(ip->daddr) || addr4_illegal(ip->saddr))
		return PASS_LINK_SCOPE;
	if (ip->ttl <= 1)
		return PASS_TTL;
	number = route_lookup4(from->table, bpf_ntohl(ip->daddr));
	if (!number)
		return PASS_NO_ROUTE;
	hop = nexthop_read(number);
	if (hop.kind == NEXTHOP_GROUP)
		hop = nexthop_member(hop, route_hash4(ip, cur));
	outcome = nexthop_find(hop, segment_wire_len(ctx, total, sizeof(*ip), ip->protocol, cur), to);
	return outcome ?: route_fits(ctx, ip->protocol, *to);
}

static __always_inline enum outcome route_find6(hook_ctx *ctx, const struct packet_info *from,
						struct cursor cur, struct neighbour **to)
{
	__u32 number, total;
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);
	enum outcome outcome;
	struct fib_addr6 dst;
	struct nexthop hop;

	if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) ||
	    ip->nexthdr == IPPROTO_HOPOPTS)
		return PASS_OPTIONS;
	total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (from->l3 + from->strip + total > hook_len(ctx))
		return PASS_OPTIONS;
	if (addr6_link_scope(&ip->daddr) || addr6_link_scope(&ip->saddr) ||
	    addr6_illegal(&ip->daddr) || addr6_illegal(&ip->saddr))
		return PASS_LINK_SCOPE;
	if (ip->hop_limit <= 1)
		return PASS_TTL;
	dst.hi = addr6_high(&ip->daddr);
	dst.lo = addr6_low(&ip->daddr);
	number = route_lookup6(from->table, dst);
	if (!number)
		return PASS_NO_ROUTE;
	hop = nexthop_read(number);
	if (hop.kind == NEXTHOP_GROUP)
		hop = nexthop_member(hop, route_hash6(ip, cur));
	outcome = nexthop_find(hop, segment_wire_len(ctx, total, sizeof(*ip), ip->nexthdr, cur), to);
	return outcome ?: route_fits(ctx, ip->nexthdr, *to);
}

/*
 * Route a frame that is addressed to the interface which it belongs to, or its inner
 * packet (from->strip), which then leaves without its tunnel. *verdict and from->wire
 * are set where the outcome is FORWARD_ROUTED; with PASS_* nothing has been written. A
 * global function: the verifier checks it once, whatever runs before it, and it has a
 * stack frame of its own.
 */
__noinline int route(hook_ctx *ctx, struct packet_info *from, int *verdict)
{
	struct neighbour *to = NULL;
	enum outcome outcome;
	struct ethhdr *eth;
	struct cursor cur;
	__u32 at, tags;

	if (!from || !verdict)
		return PASS_NOT_IP;
	/* 22 and CLASSIFY_STRIP at most; the verifier has to see it */
	at = (from->l3 & 31) + (from->strip & CLASSIFY_STRIP);
	/* no more than that: bytes that are not linear are pulled in, see l2tp.h */
	cur = hook_cursor(ctx, at + (from->proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
				   sizeof(struct tcphdr));
	cur.pos += at;
	if (from->proto == bpf_htons(ETH_P_IP))
		outcome = route_find4(ctx, from, cur, &to);
	else if (from->proto == bpf_htons(ETH_P_IPV6))
		outcome = route_find6(ctx, from, cur, &to);
	else
		return PASS_NOT_IP;
	if (outcome != OUTCOME_NONE || !to)
		return outcome ?: PASS_NO_NEIGHBOUR;
	tags = link_tags(&to->link);
	if (from->strip && hook_strip(ctx, from->strip & CLASSIFY_STRIP, from->proto))
		return HOOK_FAILED;
	if (from->tags || tags || from->strip) {
		outcome = nexthop_frame(ctx, from->tags, from->proto, to);
		if (outcome != OUTCOME_NONE)
			return outcome;
		cur = hook_cursor(ctx, hook_l3(tags) + sizeof(struct ipv6hdr));
		cur.pos += hook_l3(tags);
	} else {
		cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct ipv6hdr));
		eth = PULL(&cur, struct ethhdr);
		if (!eth)
			return PASS_NOT_IP;
		__builtin_memcpy(eth, &to->link, 2 * ETH_ALEN);
	}
	outcome = ttl_decrement(ctx, cur, from->proto);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (to->flags & NEIGHBOUR_WIRE)
		from->wire = to->ifindex;
	*verdict = nexthop_send(to);
	return FORWARD_ROUTED;
}
