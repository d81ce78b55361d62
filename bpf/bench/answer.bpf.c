// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiver of weft bench's packets while connections are opened: UDP to the
 * discard port is returned to its sender. The sender's end drops the answers.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"

const volatile __u16 port = 9;
const volatile bool near = false;

/* whether to send an answer; otherwise *verdict is the program's verdict */
static __always_inline bool asks(const struct udphdr *udp, int *verdict)
{
	*verdict = near && udp && udp->source == bpf_htons(port) ? XDP_DROP : XDP_PASS;
	return !near && udp && udp->dest == bpf_htons(port);
}

SEC("xdp")
int answer(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr), old;
	struct in6_addr address6;
	struct udphdr *udp;
	__be32 address4;
	int verdict;
	__be16 p;

	if (!eth)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&cur, struct iphdr);

		if (!ip || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
			return XDP_PASS;
		udp = PULL(&cur, struct udphdr);
		if (!asks(udp, &verdict))
			return verdict;
		address4 = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = address4;
	} else {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip || eth->h_proto != bpf_htons(ETH_P_IPV6) || ip->nexthdr != IPPROTO_UDP)
			return XDP_PASS;
		udp = PULL(&cur, struct udphdr);
		if (!asks(udp, &verdict))
			return verdict;
		address6 = ip->saddr;
		ip->saddr = ip->daddr;
		ip->daddr = address6;
	}
	old = *eth;
	__builtin_memcpy(eth->h_dest, old.h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, old.h_dest, ETH_ALEN);
	p = udp->source;
	udp->source = udp->dest;
	udp->dest = p;
	/* XDP_TX of a veth wakes its peer only if that has an XDP program, too */
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
