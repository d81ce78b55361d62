// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A packet generator for packets of many sessions, in the order of a list of numbers.
 * Run with BPF_PROG_RUN on live frames; as in generate.bpf.c each frame is written
 * completely.
 *
 * A number selects the session's client, its port, and the remote address:
 *
 *   binding  number % BINDINGS
 *   client   binding / 64, in the last 16 bits of the source address
 *   port     one of 64 of each client; neighbours have different ones
 *   remote   one of 64 for each pass over the bindings
 *
 * The frame comes with zero in the place of those bits and 0x8000 in that of the port;
 * the checksums that cover them are updated (RFC 1624).
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"

#define FRAME_MAX 128
#define NUMBERS (1U << 20)
#define BINDINGS 250000

const volatile __u8 frame[FRAME_MAX];
const volatile __u32 frame_len = 78;
const volatile __u32 out = 0; /* interface */
const volatile bool ipv6 = false;

struct numbers { __u32 at[NUMBERS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct numbers);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} numbers SEC(".maps");

/* the position in the list */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} position SEC(".maps");

struct head4 {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

struct head6 {
	struct ethhdr eth;
	struct ipv6hdr ip;
	struct udphdr udp;
} __attribute__((packed));

static __always_inline __sum16 righted(__sum16 check, __u32 more)
{
	return ~csum_fold16((__u16)~check + more);
}

SEC("xdp")
int sessions(struct xdp_md *ctx)
{
	__u32 zero = 0, number, binding, times, more;
	__u32 *at = bpf_map_lookup_elem(&position, &zero);
	struct numbers *list = bpf_map_lookup_elem(&numbers, &zero);
	__be16 client, port, far;

	if (!at || !list || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	number = list->at[*at & (NUMBERS - 1)];
	*at += 1;
	binding = number % BINDINGS;
	times = number / BINDINGS;
	client = bpf_htons(binding / 64);
	port = bpf_htons(1024 + binding % 64 * 512 + binding / 64 % 512);
	far = bpf_htons((times * 64 + (binding * 2654435761U >> 26)) & 0xff);
	more = client + far;
	if (ipv6) {
		struct head6 *head = (void *)(long)ctx->data;

		if ((void *)(head + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		head->ip.saddr.be16[7] = client;
		head->ip.daddr.be16[7] = far;
		head->udp.source = port;
		head->udp.check = righted(head->udp.check, more + port + 0xffff - bpf_htons(0x8000)) ?: 0xffff;
	} else {
		struct head4 *head = (void *)(long)ctx->data;

		if ((void *)(head + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		head->ip.saddr |= (__u32)client << 16;
		head->ip.daddr |= (__u32)far << 16;
		head->ip.check = righted(head->ip.check, more);
		head->udp.source = port;
		head->udp.check = righted(head->udp.check, more + port + 0xffff - bpf_htons(0x8000)) ?: 0xffff;
	}
	return bpf_redirect(out, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
