// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The traffic of weft bench lns, from and to many subscribers in turn.
 *
 * `lac` makes data packets as an L2TP access concentrator sends them: the frame comes
 * with ids and subscriber's address zero; each session's are written, and the
 * checksums that cover the address are updated (RFC 1624). `core` makes packets for
 * subscribers. Both run with BPF_PROG_RUN on live frames, which are recycled: each
 * frame is written completely. `tunnelled` counts and drops L2TP data packets at the
 * concentrator, and passes control messages.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "cursor.h"

#define FRAME_MAX 1536
#define SESSIONS 65536

const volatile __u8 frame[FRAME_MAX];
const volatile __u32 frame_len = 78;
const volatile __u32 sessions = 1; /* number of sessions that take turns */
const volatile __u32 out = 0;      /* interface */

struct session {
	__be16 tunnel, session; /* as the server has given them */
	__be32 addr;            /* of the subscriber */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct session);
	__uint(max_entries, SESSIONS);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2); /* sent, arrived */
} counts SEC(".maps");

static __always_inline __sum16 righted(__sum16 check, __be32 word)
{
	__u32 sum = (__u16)~check;

	sum += (word & 0xffff) + (word >> 16);
	return ~csum_fold16(sum);
}

static __always_inline struct session *turn(void)
{
	__u32 sent = 0, at;
	__u64 *n = bpf_map_lookup_elem(&counts, &sent);

	if (!n)
		return NULL;
	at = *n % sessions;
	*n += 1;
	return bpf_map_lookup_elem(&table, &at);
}

struct data {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__be16 flags, tunnel, session;
	__be16 ppp[2];
	struct iphdr inner;
	struct udphdr inner_udp;
} __attribute__((packed));

SEC("xdp")
int lac(struct xdp_md *ctx)
{
	struct session *s = turn();
	struct data *d;

	if (!s || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	d = (void *)(long)ctx->data;
	if ((void *)(d + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	d->tunnel = s->tunnel;
	d->session = s->session;
	d->inner.saddr = s->addr;
	d->inner.check = righted(d->inner.check, s->addr);
	d->inner_udp.check = righted(d->inner_udp.check, s->addr) ?: 0xffff;
	return bpf_redirect(out, 0);
}

struct plain {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

SEC("xdp")
int core(struct xdp_md *ctx)
{
	struct session *s = turn();
	struct plain *d;

	if (!s || bpf_xdp_store_bytes(ctx, 0, (void *)frame, frame_len))
		return XDP_ABORTED;
	d = (void *)(long)ctx->data;
	if ((void *)(d + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	d->ip.daddr = s->addr;
	d->ip.check = righted(d->ip.check, s->addr);
	d->udp.check = righted(d->udp.check, s->addr) ?: 0xffff;
	return bpf_redirect(out, 0);
}

SEC("xdp")
int tunnelled(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct iphdr *ip = PULL(&cur, struct iphdr);
	struct udphdr *udp = PULL(&cur, struct udphdr);
	__be16 *flags = PULL(&cur, __be16);
	__u32 received = 1;
	__u64 *n = bpf_map_lookup_elem(&counts, &received);

	if (!eth || !ip || !udp || !flags || !n || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(1701) ||
	    *flags & bpf_htons(0x8000) || bpf_ntohs(ip->tot_len) < 72)
		return XDP_PASS;
	*n += 1;
	return XDP_DROP;
}

/* the receiver in the core: datagrams to the discard port */
SEC("xdp")
int landed(struct xdp_md *ctx)
{
	struct cursor cur = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct iphdr *ip = PULL(&cur, struct iphdr);
	struct udphdr *udp = PULL(&cur, struct udphdr);
	__u32 received = 1;
	__u64 *n = bpf_map_lookup_elem(&counts, &received);

	if (!eth || !ip || !udp || !n || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(9))
		return XDP_PASS;
	*n += 1;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
