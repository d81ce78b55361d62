/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * An ICMP error to the sender of a packet that a pseudowire cannot carry whole: RFC
 * 1191 section 4, RFC 4443 section 3.2. A pseudowire has no address of its own, and
 * its frames may come from a bridge: as with the kernel's tunnels, the error's source
 * is the packet's destination.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "checksum.h"
#include "hook.h"

/* bytes of the packet that the error quotes, enough for every header that a host looks at */
#define ANSWER_QUOTE 128
/* at most one in so many ns for each pseudowire (RFC 4443 2.4 (f), RFC 1812 4.3.2.8) */
#define ANSWER_PAUSE 1000000

static __always_inline bool answer_allowed(__u64 *last)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - *last < ANSWER_PAUSE)
		return false;
	*last = now;
	return true;
}

struct answer4 {
	__u8 pad[2];
	struct ethhdr eth;
	struct iphdr ip;
	__u8 type, code;
	__sum16 check;
	__be16 unused, mtu;
};

struct answer6 {
	__u8 pad[2];
	struct ethhdr eth;
	struct ipv6hdr ip;
	__u8 type, code;
	__sum16 check;
	__be32 mtu;
};

/* no error about an error, a fragment, or a packet that was not for one host (RFC 1122 3.2.2) */
static __always_inline bool answer4_due(const __u32 *quote, const struct ethhdr *eth)
{
	const struct iphdr *ip = (const void *)quote;
	__u8 type = ((const __u8 *)quote)[20];

	if (ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(IP_OFFSET) ||
	    !(ip->frag_off & bpf_htons(IP_DF)) || addr4_link_scope(ip->daddr) || addr4_illegal(ip->saddr) ||
	    eth->h_dest[0] & 1)
		return false;
	return ip->protocol != IPPROTO_ICMP || type == ICMP_ECHO || type == ICMP_ECHOREPLY;
}

static __always_inline bool answer6_due(const __u32 *quote)
{
	const struct ipv6hdr *ip = (const void *)quote;
	__u8 type = ((const __u8 *)quote)[40];

	if (addr6_illegal(&ip->saddr) || ip->saddr.u8[0] == 0xff)
		return false;
	return ip->nexthdr != IPPROTO_ICMPV6 || type > ICMPV6_ERROR_MAX;
}

static __always_inline __u32 answer_sum(__u32 *quote, __u64 more)
{
	__u32 sum = bpf_csum_diff(NULL, 0, quote, ANSWER_QUOTE, 0);

	return csum_fold16(csum_reduce(more + sum));
}

/* Turn the frame into the ICMP error about it. 0, or no error must be sent. */
static __noinline int answer_too_big(hook_ctx *ctx, __u32 proto, __u32 mtu)
{
	__u32 quote[ANSWER_QUOTE / 4];
	struct ethhdr eth;

	if (hook_load(ctx, 0, &eth, sizeof(eth)) || hook_load(ctx, ETH_HLEN, quote, sizeof(quote)))
		return -1;
	if (proto == bpf_htons(ETH_P_IP)) {
		const struct iphdr *was = (const void *)quote;
		struct answer4 a = { .type = ICMP_DEST_UNREACH, .code = ICMP_FRAG_NEEDED, .mtu = bpf_htons(mtu) };

		if (!answer4_due(quote, &eth))
			return -1;
		__builtin_memcpy(a.eth.h_dest, eth.h_source, ETH_ALEN);
		__builtin_memcpy(a.eth.h_source, eth.h_dest, ETH_ALEN);
		a.eth.h_proto = eth.h_proto;
		a.ip = (struct iphdr){ .version = 4, .ihl = 5, .tos = 0xc0, .ttl = 64, .protocol = IPPROTO_ICMP };
		a.ip.tot_len = bpf_htons(sizeof(a) - 2 - ETH_HLEN + ANSWER_QUOTE);
		a.ip.saddr = was->daddr;
		a.ip.daddr = was->saddr;
		a.ip.check = csum_ipv4_header(&a.ip);
		a.check = ~answer_sum(quote, (__u64)*(__u16 *)&a.type + a.mtu);
		return hook_answer(ctx, ETH_HLEN + ANSWER_QUOTE, &a.eth, sizeof(a) - 2);
	}
	if (proto == bpf_htons(ETH_P_IPV6)) {
		const struct ipv6hdr *was = (const void *)quote;
		struct answer6 a = { .type = ICMPV6_PKT_TOOBIG, .mtu = bpf_htonl(mtu < 1280 ? 1280 : mtu) };
		const __u32 len = sizeof(a) - 2 - ETH_HLEN - sizeof(a.ip) + ANSWER_QUOTE;

		if (!answer6_due(quote))
			return -1;
		__builtin_memcpy(a.eth.h_dest, eth.h_source, ETH_ALEN);
		__builtin_memcpy(a.eth.h_source, eth.h_dest, ETH_ALEN);
		a.eth.h_proto = eth.h_proto;
		a.ip = (struct ipv6hdr){ .ver_tc_flow = bpf_htonl(6U << 28), .nexthdr = IPPROTO_ICMPV6, .hop_limit = 64 };
		a.ip.payload_len = bpf_htons(len);
		a.ip.saddr = was->daddr;
		a.ip.daddr = was->saddr;
		/* to a group: the source address cannot be the group's (RFC 4443 2.4 (e) allows the error) */
		if (was->daddr.u8[0] == 0xff)
			return -1;
		a.check = ~answer_sum(quote, csum_addr6(&a.ip.saddr) + csum_addr6(&a.ip.daddr) + bpf_htonl(len) +
						     bpf_htonl(IPPROTO_ICMPV6) + *(__u16 *)&a.type + a.mtu);
		return hook_answer(ctx, ETH_HLEN + ANSWER_QUOTE, &a.eth, sizeof(a) - 2);
	}
	return -1;
}
