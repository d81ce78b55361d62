/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Answers ARP (RFC 826) and neighbour discovery (RFC 4861) for translated
 * addresses that lie in a subnet of the interface, so that its hosts find them
 * without static entries. The answer is made in place and leaves by the
 * interface that asked.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "interface.h"
#include "outcome.h"

/* which addresses, by interface; IPv4 as ::ffff:a.b.c.d */
struct proxy_key {
	__u32 prefixlen; /* 32 for the interface + that of the prefix */
	__be32 ifindex;
	struct in6_addr addr;
};
_Static_assert(sizeof(struct proxy_key) == 24, "key without holes");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct proxy_key);
	__type(value, __u32);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} neighbour_proxies SEC(".maps");

static __always_inline bool neighbour_is_proxied(__u32 ifindex, struct in6_addr addr)
{
	struct proxy_key key = {
		.prefixlen = 160,
		.ifindex = bpf_htonl(ifindex),
		.addr = addr,
	};
	return bpf_map_lookup_elem(&neighbour_proxies, &key) != NULL;
}

static __always_inline enum outcome neighbour_answer_arp(hook_ctx *ctx, __u32 ifindex,
							 const struct interface *in)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct arp_ipv4));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct arp_ipv4 *arp = PULL(&cur, struct arp_ipv4);
	struct in6_addr target = {};
	__be32 asked;

	if (!eth || !arp || arp->ar_hrd != bpf_htons(ARPHRD_ETHER) ||
	    arp->ar_pro != bpf_htons(ETH_P_IP) || arp->ar_hln != ETH_ALEN || arp->ar_pln != 4 ||
	    arp->ar_op != bpf_htons(ARPOP_REQUEST) || arp->ar_sip == arp->ar_tip)
		return PASS_NOT_IP;
	target.be16[5] = 0xffff;
	target.be32[3] = arp->ar_tip;
	if (!neighbour_is_proxied(ifindex, target))
		return PASS_NOT_IP;
	asked = arp->ar_tip;
	arp->ar_op = bpf_htons(ARPOP_REPLY);
	arp->ar_tip = arp->ar_sip;
	arp->ar_sip = asked;
	__builtin_memcpy(arp->ar_tha, arp->ar_sha, ETH_ALEN);
	__builtin_memcpy(arp->ar_sha, in->mac, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, in->mac, ETH_ALEN);
	return FORWARD_ARP_REPLY;
}

/* ICMPv6 checksum over a neighbour message of len (24 or 32) bytes */
static __always_inline __u16 neighbour_sum(const struct ipv6hdr *ip, const void *msg, __u32 len)
{
	const __u32 *w = msg;
	__u64 acc = csum_addr6(&ip->saddr) + csum_addr6(&ip->daddr) + bpf_htonl(len) +
		    bpf_htonl(IPPROTO_ICMPV6);

	acc += (__u64)w[0] + w[1] + w[2] + w[3] + w[4] + w[5];
	if (len == sizeof(struct nd_msg))
		acc += (__u64)w[6] + w[7];
	return csum_fold16(csum_reduce(acc));
}

/*
 * Answer a solicitation with no option or one of 8 bytes (source link address, or the
 * nonce of RFC 7527): all that stacks send. The kernel gets the others.
 */
static __always_inline enum outcome neighbour_answer_nd(hook_ctx *ctx, __u32 ifindex,
							const struct interface *in)
{
	const __u32 bare = sizeof(struct nd_msg) - 8;
	const __u32 full = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct nd_msg);
	struct cursor cur = hook_cursor(ctx, full);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);
	struct nd_msg *nd = cur.pos;
	bool unspecified;
	__u32 len;

	if (!eth || !ip || ip->nexthdr != IPPROTO_ICMPV6 || ip->hop_limit != 255)
		return OUTCOME_NONE;
	len = bpf_ntohs(ip->payload_len);
	if ((len != bare && len != sizeof(*nd)) || cur.pos + bare > cur.end ||
	    nd->type != ICMPV6_NS || nd->code)
		return OUTCOME_NONE;
	if (!neighbour_is_proxied(ifindex, nd->target))
		return OUTCOME_NONE;
	if (len == sizeof(*nd)) {
		if (cur.pos + sizeof(*nd) > cur.end)
			return DROP_TRUNCATED;
		if (neighbour_sum(ip, nd, sizeof(*nd)) != 0xffff)
			return DROP_BAD_HEADER;
	} else {
		if (neighbour_sum(ip, nd, bare) != 0xffff)
			return DROP_BAD_HEADER;
		if (hook_trim(ctx, full))
			return DROP_KERNEL;
		cur = hook_cursor(ctx, full);
		eth = PULL(&cur, struct ethhdr);
		ip = PULL(&cur, struct ipv6hdr);
		nd = cur.pos;
		if (!eth || !ip || cur.pos + sizeof(*nd) > cur.end)
			return DROP_KERNEL;
	}
	/* RFC 4861 7.2.4: asked from no address, answer all nodes, unsolicited */
	unspecified = addr6_illegal(&ip->saddr);
	nd->type = ICMPV6_NA;
	nd->checksum = 0;
	/* router, solicited; no override, as 7.2.8 wants of a proxy */
	nd->flags = bpf_htonl(unspecified ? 0x80000000 : 0xc0000000);
	nd->opt_type = 2;
	nd->opt_len = 1;
	__builtin_memcpy(nd->opt_lladdr, in->mac, ETH_ALEN);
	ip->payload_len = bpf_htons(sizeof(*nd));
	if (unspecified) {
		__builtin_memset(&ip->daddr, 0, sizeof(ip->daddr));
		ip->daddr.be16[0] = bpf_htons(0xff02);
		ip->daddr.u8[15] = 1;
		__builtin_memset(eth->h_dest, 0, ETH_ALEN);
		eth->h_dest[0] = eth->h_dest[1] = 0x33;
		eth->h_dest[5] = 1;
	} else {
		ip->daddr = ip->saddr;
		__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	}
	ip->saddr = nd->target;
	__builtin_memcpy(eth->h_source, in->mac, ETH_ALEN);
	nd->checksum = ~neighbour_sum(ip, nd, sizeof(*nd));
	return FORWARD_ND_REPLY;
}
