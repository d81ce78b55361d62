// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The far end of weft bench's packets while connections are made: IPv4 UDP to
 * the discard port goes back to where it came from. The near end takes the
 * answers and drops them.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"

const volatile __u16 port = 9;
const volatile bool near = false;

SEC("xdp")
int answer(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr), old;
	struct iphdr *ip = PULL(&cur, struct iphdr);
	struct udphdr *udp = PULL(&cur, struct udphdr);
	__be32 address;
	__be16 p;

	if (!eth || !ip || !udp || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
	    ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	if (near)
		return udp->source == bpf_htons(port) ? XDP_DROP : XDP_PASS;
	if (udp->dest != bpf_htons(port))
		return XDP_PASS;
	old = *eth;
	__builtin_memcpy(eth->h_dest, old.h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, old.h_dest, ETH_ALEN);
	address = ip->saddr;
	ip->saddr = ip->daddr;
	ip->daddr = address;
	p = udp->source;
	udp->source = udp->dest;
	udp->dest = p;
	/* XDP_TX of a veth wakes its peer only if that has an XDP program, too */
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
