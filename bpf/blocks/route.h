/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Routing past the stack: the longest prefix over the destination gives a
 * next hop, TTL or hop limit goes down by one, the frame goes out.
 *
 * Everything is decided before anything is written. Whatever needs more than
 * that goes to the kernel untouched: TTL at its end, too large for the link,
 * neighbour not resolved, addressed to the router, multicast and link scope,
 * IPv4 options, hop-by-hop options (RFC 8200 4.3), a destination without route.
 *
 * No packet with addresses that must not cross a router is forwarded
 * (RFC 1812 5.3.7, RFC 4291 2.5): they go to the kernel, which drops them.
 */
#include "addresses.h"
#include "checksum.h"
#include "cursor.h"
#include "fib.h"
#include "nexthop.h"

/* see fib.h; the arrays' sizes are chosen when they are loaded */
const volatile __u32 fib4_last = FIB_MIN_WORDS4 - FIB_SLACK;
const volatile __u32 fib6_last = FIB_MIN_WORDS6 - FIB_SLACK;

struct fib4_words { __u32 at[FIB_MIN_WORDS4]; };
struct fib6_words { __u32 at[FIB_MIN_WORDS6]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct fib4_words);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fib4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct fib6_words);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fib6 SEC(".maps");

/* the ports of TCP, UDP, UDP-Lite, SCTP and DCCP: the first four bytes */
static __always_inline __u32 route_ports(struct cursor *cur, __u8 protocol)
{
	__u32 *ports;

	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case 33: /* DCCP */
	case 132: /* SCTP */
	case 136: /* UDP-Lite */
		ports = PULL(cur, __u32);
		return ports ? *ports : 0;
	}
	return 0;
}

/* header: what a super-packet's segments have beside their payload, or 0 */
static __always_inline __u32 route_wire_len(hook_ctx *ctx, __u32 total, __u32 header)
{
	__u32 segment = hook_segment(ctx);

	return segment ? header + segment : total;
}

/* most that IP and transport headers of a segment take: 40 + 60 */
#define ROUTE_HEADERS 100

static __always_inline enum outcome route4(hook_ctx *ctx, struct cursor cur, struct neighbour **to)
{
	struct iphdr *ip = PULL(&cur, struct iphdr);
	struct flow_hash flow = {};
	struct fib4_words *words;
	__u32 zero = 0, number;

	if (!ip || ip->version != 4 || ip->ihl != 5 || bpf_ntohs(ip->tot_len) < sizeof(*ip) ||
	    bpf_ntohs(ip->tot_len) > hook_len(ctx) - ETH_HLEN)
		return PASS_OPTIONS;
	if (addr4_link_scope(ip->daddr) || addr4_link_scope(ip->saddr) ||
	    addr4_illegal(ip->daddr) || addr4_illegal(ip->saddr))
		return PASS_LINK_SCOPE;
	if (ip->ttl <= 1)
		return PASS_TTL;
	words = bpf_map_lookup_elem(&fib4, &zero);
	number = words ? fib_lookup4(words->at, fib4_last, bpf_ntohl(ip->daddr)) : 0;
	if (!number)
		return PASS_NO_ROUTE;
	flow.from = ip->saddr;
	flow.to = ip->daddr;
	flow.protocol = ip->protocol;
	if (!(ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)))
		flow.ports = route_ports(&cur, ip->protocol);
	return nexthop_find(number, &flow, route_wire_len(ctx, bpf_ntohs(ip->tot_len), ROUTE_HEADERS), to);
}

static __always_inline enum outcome route6(hook_ctx *ctx, struct cursor cur, struct neighbour **to)
{
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);
	struct flow_hash flow = {};
	struct fib6_words *words;
	struct fib_addr6 dst;
	__u32 zero = 0, number, len;

	if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) ||
	    ip->nexthdr == IPPROTO_HOPOPTS)
		return PASS_OPTIONS;
	len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (len > hook_len(ctx) - ETH_HLEN)
		return PASS_OPTIONS;
	if (addr6_link_scope(&ip->daddr) || addr6_link_scope(&ip->saddr) ||
	    addr6_illegal(&ip->daddr) || addr6_illegal(&ip->saddr))
		return PASS_LINK_SCOPE;
	if (ip->hop_limit <= 1)
		return PASS_TTL;
	dst.hi = addr6_high(&ip->daddr);
	dst.lo = addr6_low(&ip->daddr);
	words = bpf_map_lookup_elem(&fib6, &zero);
	number = words ? fib_lookup6(words->at, fib6_last, dst) : 0;
	if (!number)
		return PASS_NO_ROUTE;
	flow.from = addr6_high(&ip->saddr) ^ hash_mix(addr6_low(&ip->saddr));
	flow.to = dst.hi ^ hash_mix(dst.lo);
	/* the flow label is the sender's and may stand for what follows (RFC 6438) */
	flow.protocol = ip->nexthdr ^ (ip->ver_tc_flow & bpf_htonl(0xfffff));
	flow.ports = route_ports(&cur, ip->nexthdr);
	return nexthop_find(number, &flow, route_wire_len(ctx, len, ROUTE_HEADERS), to);
}

/* RFC 1624: the TTL is the upper half of its word */
static __always_inline void route_decrement4(struct iphdr *ip)
{
	__u32 sum = (__u32)ip->check + bpf_htons(0x0100);

	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
}

/*
 * Route a frame that the caller has found to be addressed to this station.
 * *verdict is set where the outcome is FORWARD_ROUTED; otherwise nothing has
 * been written.
 */
static __always_inline enum outcome route(hook_ctx *ctx, int *verdict)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct ipv6hdr) + 4);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct neighbour *to = NULL;
	struct cursor l3 = cur;
	enum outcome outcome;

	if (!eth)
		return PASS_NOT_IP;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&l3, struct iphdr);

		outcome = route4(ctx, cur, &to);
		if (outcome != OUTCOME_NONE || !ip || !to)
			return outcome ?: PASS_OPTIONS;
		route_decrement4(ip);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = PULL(&l3, struct ipv6hdr);

		outcome = route6(ctx, cur, &to);
		if (outcome != OUTCOME_NONE || !ip || !to)
			return outcome ?: PASS_OPTIONS;
		ip->hop_limit--;
	} else {
		return PASS_NOT_IP;
	}
	*verdict = nexthop_send(eth, to);
	return FORWARD_ROUTED;
}
