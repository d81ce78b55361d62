// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The packet generator of weft bench, run with BPF_PROG_RUN on live frames. The kernel
 * recycles those frames without resetting them, and their receiver has rewritten them:
 * so each frame is written completely before it is sent.
 *
 * Flows differ by their UDP source port and the source address. The first word of the
 * payload decreases by as much as those increase: the checksum is right for all of
 * them. They take turns, one host after the other, or mixed: in an unrelated order in
 * which each occurs once before the first comes again.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FRAME_MAX 1536

const volatile __u8 frame[FRAME_MAX];
const volatile __u32 frame_len = 64; /* bytes of the frame */
const volatile __u32 port_at = 34;   /* offset of the UDP source port in it */
const volatile __u32 flows = 1;      /* flows of one host, a power of two */
const volatile __u32 hosts = 1;      /* a power of two: addresses from the frame's on, whose last 16 bits leave room for them */
const volatile bool ipv6 = false;
const volatile bool mixed = false;
const volatile __u32 out = 0;        /* interface */

const volatile __u32 window = 0;     /* packets that may be in flight; 0: unlimited */
const volatile __u32 cpus = 1;       /* of the machine */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} sent SEC(".maps");

/* packets that arrived, IPv4 and IPv6: the map of receive.bpf.c, if there is a window */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2);
} received SEC(".maps");

/* packets that had not arrived when a bundle gave up waiting */
volatile __u64 lost;
/* packets of other senders that arrived, less the lost ones */
volatile __u64 before;

/* source port, destination port, length, checksum, first word of the payload */
struct flow {
	__be16 port;
	__be16 rest[3];
	__be16 word;
};

/*
 * Multiplication by an odd factor and a shifted exclusive or are a permutation of the
 * numbers below a power of two (as in MurmurHash3's finaliser for 32 bits).
 * Multiplication alone would place flows at regular distances from earlier ones.
 */
#define MIX_SHIFT 10

static __always_inline __u32 mix(__u32 n, __u32 mask)
{
	n = n * 0x85ebca6b & mask;
	n ^= n >> MIX_SHIFT;
	n = n * 0xc2b2ae35 & mask;
	return n ^ n >> MIX_SHIFT;
}

#define BUNDLE 64          /* packets that go out together */
#define CPUS_MAX 256
#define PATIENCE (1 << 18) /* polls, some milliseconds */

static __always_inline __u64 all_received(void)
{
	__u32 family = ipv6;
	__u64 all = 0, *n;

	for (__u32 i = 0; i < cpus && i < CPUS_MAX; i++) {
		n = bpf_map_lookup_percpu_elem(&received, &family, i);
		if (n)
			all += *(volatile __u64 *)n;
	}
	return all;
}

/* packets in flight, of `made` sent ones; below zero: others have sent some since */
static __always_inline __s64 under_way(__u64 made)
{
	return made + before - all_received();
}

/* whether one more bundle has room in the window */
static long has_room(__u32 i, __u64 *made)
{
	return under_way(*made) + BUNDLE <= (__s64)window;
}

/*
 * Hold back the first packet of a bundle until the earlier ones have arrived, except
 * for as many as a queue on the path holds. So the forwarder always has work, and no
 * packet is lost to an overflow (RFC 2544 26.1).
 */
static __always_inline void wait(__u64 made)
{
	__s64 left = under_way(made);

	if (left < 0)
		before -= left;
	if (bpf_loop(PATIENCE, has_room, &made, 0) < PATIENCE)
		return;
	left = under_way(made);
	lost += left;
	before -= left;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 zero = 0, all = flows * hosts - 1, n;
	__u64 *count = bpf_map_lookup_elem(&sent, &zero);
	__u32 host, sum;
	struct ipv6hdr *ip6;
	struct iphdr *ip;
	struct flow *flow;

	if (!count || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	if (window && !(*count % BUNDLE))
		wait(*count);
	n = *count & all;
	if (mixed)
		n = mix(n, all);
	host = n / flows;
	n &= flows - 1;
	*count += 1;
	flow = (void *)(long)ctx->data + port_at;
	if ((void *)(flow + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	flow->port = bpf_htons(bpf_ntohs(flow->port) + n);
	flow->word = bpf_htons(bpf_ntohs(flow->word) - n - host);
	if (hosts > 1 && ipv6) {
		ip6 = (void *)(long)ctx->data + ETH_HLEN;
		if ((void *)(ip6 + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		ip6->saddr.be32[3] = bpf_htonl(bpf_ntohl(ip6->saddr.be32[3]) + host);
	} else if (hosts > 1) {
		ip = (void *)(long)ctx->data + ETH_HLEN;
		if ((void *)(ip + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		ip->saddr = bpf_htonl(bpf_ntohl(ip->saddr) + host);
		sum = (__u16)~bpf_ntohs(ip->check) + host;
		ip->check = bpf_htons(~(sum + (sum >> 16)));
	}
	return bpf_redirect(out, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
