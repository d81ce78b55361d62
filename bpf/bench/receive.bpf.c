// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiver of weft bench's packets: UDP to one port is counted by family and
 * dropped, one frame in 1024 is kept for inspection. All others (ARP, neighbour
 * discovery, pings) pass.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"

#define FRAME_MAX 1536
#define KEEP_MASK 1023

const volatile __u16 port = 9; /* destination, host order */

enum { FAMILY_4, FAMILY_6, FAMILY_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, FAMILY_COUNT);
} received SEC(".maps");

struct kept {
	__u32 len;
	__u8 frame[FRAME_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct kept);
	__uint(max_entries, 1);
} last SEC(".maps");

static __always_inline void keep(struct xdp_md *ctx)
{
	__u32 zero = 0, len = (long)ctx->data_end - (long)ctx->data;
	struct kept *k = bpf_map_lookup_elem(&last, &zero);

	if (!k || len > FRAME_MAX)
		return;
	/* two bounds, so that the compiler does not merge them into one that the verifier cannot follow */
	asm volatile("" : "+r"(len));
	if (len < ETH_HLEN)
		return;
	if (!bpf_xdp_load_bytes(ctx, 0, k->frame, len))
		k->len = len;
}

SEC("xdp")
int receive(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct ipv6hdr *ip6;
	struct udphdr *udp;
	struct iphdr *ip4;
	__u32 family;
	__u64 *count;

	if (!eth)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		ip4 = PULL(&cur, struct iphdr);
		if (!ip4 || ip4->ihl != 5 || ip4->protocol != IPPROTO_UDP)
			return XDP_PASS;
		family = FAMILY_4;
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		ip6 = PULL(&cur, struct ipv6hdr);
		if (!ip6 || ip6->nexthdr != IPPROTO_UDP)
			return XDP_PASS;
		family = FAMILY_6;
	} else {
		return XDP_PASS;
	}
	udp = PULL(&cur, struct udphdr);
	count = bpf_map_lookup_elem(&received, &family);
	if (!udp || udp->dest != bpf_htons(port) || !count)
		return XDP_PASS;
	*count += 1;
	if ((*count & KEEP_MASK) == 1)
		keep(ctx);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
