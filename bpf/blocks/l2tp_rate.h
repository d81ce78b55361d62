/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What passes is counted, and held to the session's rate: a token bucket in
 * the form of a clock. `due` is when all that has passed would have passed at
 * exactly the rate; as far as it may run ahead of the time is the bucket: what
 * comes in a tenth of a second, or 64 KiB (a super-packet) if that is more.
 * The clock is the coarse one: a rate changes with the next packet.
 */
#include "l2tp_maps.h"
#include "outcome.h"

#define L2TP_BURST_NS 100000000ULL
#define L2TP_BURST_BYTES 65536ULL

/* ns that so many bytes take at a rate in 1000 bit/s */
static __always_inline __u64 l2tp_takes(__u64 bytes, __u32 rate)
{
	return bytes * 8000000 / rate;
}

static __always_inline bool l2tp_within(struct l2tp_flow *flow, __u32 rate, __u32 bytes, __u64 now)
{
	__u64 due, start, burst;

	if (!rate)
		return true;
	burst = l2tp_takes(L2TP_BURST_BYTES, rate);
	if (burst < L2TP_BURST_NS)
		burst = L2TP_BURST_NS;
	due = flow->due;
	start = due > now ? due : now;
	if (start - now > burst)
		return false;
	/* if another CPU has moved it in the meantime this one packet is free */
	__sync_val_compare_and_swap(&flow->due, due, start + l2tp_takes(bytes, rate));
	return true;
}

static __always_inline bool l2tp_pass(struct l2tp_flow *flow, __u32 rate, __u32 packets, __u32 bytes)
{
	__u64 now = bpf_ktime_get_coarse_ns();

	if (!l2tp_within(flow, rate, bytes, now))
		return false;
	__sync_fetch_and_add(&flow->packets, packets);
	__sync_fetch_and_add(&flow->bytes, bytes);
	flow->seen = now;
	return true;
}

/* Count what has come from a subscriber: OUTCOME_NONE, or it was too much. */
static __always_inline enum outcome l2tp_charge(hook_ctx *ctx, const struct arrival *from)
{
	__u32 id = from->session;
	struct l2tp_up *s = l2tp_up_at(id);

	if (!s)
		return DROP_NO_SUBSCRIBER;
	if (l2tp_pass(&s->flow, s->rate, hook_packets(ctx), from->bytes))
		return OUTCOME_NONE;
	l2tp_drop(id, L2TP_DROP_RATE_UP);
	return DROP_RATE_UP;
}
