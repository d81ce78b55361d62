// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A packet generator for packets to many addresses, in the order of a list. Run with
 * BPF_PROG_RUN on live frames; as in generate.bpf.c each frame is written completely.
 *
 * The frame comes for the address zero; the checksum that covers it (IPv4's header's,
 * IPv6's UDP's) is updated for each destination (RFC 1624).
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"

#define FRAME_MAX 128
#define ADDRESSES (1U << 20)

const volatile __u8 frame[FRAME_MAX];
const volatile __u32 frame_len = 78;
const volatile __u32 out = 0; /* interface */
const volatile bool ipv6 = false;

/* IPv4: one word each, IPv6: four */
struct destinations { __be32 at[4 * ADDRESSES]; };

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

/* the checksum when words that were zero get these values */
static __always_inline __sum16 righted(__sum16 check, const __be32 *words, __u32 n)
{
	__u32 sum = (__u16)~check;

	for (__u32 i = 0; i < n; i++)
		sum += (words[i] & 0xffff) + (words[i] >> 16);
	return ~csum_fold16(sum);
}

SEC("xdp")
int spread(struct xdp_md *ctx)
{
	__u32 zero = 0, at;
	__u64 *count = bpf_map_lookup_elem(&sent, &zero);
	struct destinations *to = bpf_map_lookup_elem(&destinations, &zero);
	struct {
		struct ethhdr eth;
		union {
			struct iphdr v4;
			struct {
				struct ipv6hdr v6;
				struct udphdr udp;
			};
		};
	} __attribute__((packed)) *head;

	if (!count || !to || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	head = (void *)(long)ctx->data;
	if ((void *)(head + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	at = *count & (ADDRESSES - 1);
	*count += 1;
	if (ipv6) {
		const __be32 *words = &to->at[4 * at];

		__builtin_memcpy(&head->v6.daddr, words, 16);
		head->udp.check = righted(head->udp.check, words, 4) ?: 0xffff;
	} else {
		head->v4.daddr = to->at[at];
		head->v4.check = righted(head->v4.check, &to->at[at], 1);
	}
	return bpf_redirect(out, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
