// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A packet generator whose packets go to many addresses: one after the other
 * of a list. Run with BPF_PROG_RUN on live frames; as in generate.bpf.c every
 * frame is written anew.
 *
 * IPv4 and UDP without checksum; the header's is righted for the destination
 * (RFC 1624): the frame comes with one that holds for the address 0.0.0.0.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"

#define FRAME_MAX 128
#define ADDRESSES (1U << 20)

const volatile __u8 frame[FRAME_MAX];
const volatile __u32 frame_len = 64;
const volatile __u32 out = 0; /* interface */

struct destinations { __u32 at[ADDRESSES]; }; /* host byte order */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct destinations);
	__uint(max_entries, 1);
	__uint(map_flags, 1U << 10); /* BPF_F_MMAPABLE */
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} sent SEC(".maps");

SEC("xdp")
int spread(struct xdp_md *ctx)
{
	__u32 zero = 0, sum;
	__u64 *count = bpf_map_lookup_elem(&sent, &zero);
	struct destinations *to = bpf_map_lookup_elem(&destinations, &zero);
	struct iphdr *ip;

	if (!count || !to || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	ip = (void *)(long)ctx->data + ETH_HLEN;
	if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	ip->daddr = bpf_htonl(to->at[*count & (ADDRESSES - 1)]);
	sum = (__u16)~ip->check + (ip->daddr & 0xffff) + (ip->daddr >> 16);
	ip->check = ~csum_fold16(sum);
	*count += 1;
	return bpf_redirect(out, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
