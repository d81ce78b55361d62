// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The minimal XDP forwarder: the kernel's routing table is looked up (bpf_fib_lookup),
 * TTL or hop limit is decremented, the link addresses are replaced, the frame is sent.
 * No translation, no options, no counters: weft bench compares the translator with it.
 * All other packets pass.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"

static __always_inline int forward4(struct cursor *cur, struct bpf_fib_lookup *fib, __u8 **ttl,
				    __sum16 **check)
{
	struct iphdr *ip = PULL(cur, struct iphdr);

	if (!ip || ip->ihl != 5 || ip->ttl <= 1)
		return -1;
	fib->family = AF_INET;
	fib->tot_len = bpf_ntohs(ip->tot_len);
	fib->ipv4_src = ip->saddr;
	fib->ipv4_dst = ip->daddr;
	*ttl = &ip->ttl;
	*check = &ip->check;
	return 0;
}

static __always_inline int forward6(struct cursor *cur, struct bpf_fib_lookup *fib, __u8 **ttl)
{
	struct ipv6hdr *ip = PULL(cur, struct ipv6hdr);

	if (!ip || ip->hop_limit <= 1)
		return -1;
	fib->family = AF_INET6;
	fib->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	__builtin_memcpy(fib->ipv6_src, &ip->saddr, sizeof(ip->saddr));
	__builtin_memcpy(fib->ipv6_dst, &ip->daddr, sizeof(ip->daddr));
	*ttl = &ip->hop_limit;
	return 0;
}

SEC("xdp")
int xdp_forward(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct bpf_fib_lookup fib = { .ifindex = ctx->ingress_ifindex };
	__sum16 *check = NULL;
	__u8 *ttl = NULL;
	__u32 sum;

	if (!eth)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (forward4(&cur, &fib, &ttl, &check))
			return XDP_PASS;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if (forward6(&cur, &fib, &ttl))
			return XDP_PASS;
	} else {
		return XDP_PASS;
	}
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	*ttl -= 1;
	if (check) {
		/* RFC 1141: the word that holds the TTL went down by 0x0100 */
		sum = *check + bpf_htons(0x0100);
		*check = sum + (sum >= 0xffff);
	}
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return bpf_redirect(fib.ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
