/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Counts packets and polices the session's rate: a token bucket in the form of a
 * clock. `due` is the time at which all bytes so far would have passed at exactly the
 * rate. It may be ahead of now by the bucket: a tenth of a second, or 64 KiB (a GSO
 * packet) if that is more. The clock is the coarse one. A new rate applies from the
 * next packet on.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "hook.h"
#include "l2tp_maps.h"
#include "outcome.h"

#define L2TP_BURST_NS 100000000ULL
#define L2TP_BURST_BYTES 65536ULL

/* ns that these bytes take at a rate in 1000 bit/s */
static __always_inline __u64 l2tp_takes(__u64 bytes, __u32 rate)
{
	return bytes * 8000000 / rate;
}

/* where a direction of a session counts */
struct l2tp_meter {
	struct l2tp_flow *flow;
	struct l2tp_clock *clock;
	__u16 *second;
	__u32 rate;
};

static __always_inline struct l2tp_meter l2tp_meter_up(struct l2tp_up *s)
{
	return (struct l2tp_meter){ &s->flow, &l2tp_up_rest(s)->clock, &s->second, s->rate };
}

static __always_inline struct l2tp_meter l2tp_meter_down(struct l2tp_down *s)
{
	return (struct l2tp_meter){ &s->flow, &l2tp_down_rest(s)->clock, &s->second, s->rate };
}

static __always_inline bool l2tp_within(const struct l2tp_meter *m, __u32 bytes, __u64 now)
{
	__u64 due, start, burst;

	if (!m->rate)
		return true;
	burst = l2tp_takes(L2TP_BURST_BYTES, m->rate);
	if (burst < L2TP_BURST_NS)
		burst = L2TP_BURST_NS;
	due = m->clock->due;
	start = due > now ? due : now;
	if (start - now > burst)
		return false;
	/* if another CPU has changed it in the meantime, this packet is not charged */
	__sync_val_compare_and_swap(&m->clock->due, due, start + l2tp_takes(bytes, m->rate));
	return true;
}

/* a second, as the programs count them: 2^30 ns */
#define L2TP_SECOND_SHIFT 30

static __always_inline bool l2tp_pass(const struct l2tp_meter *m, __u32 packets, __u32 bytes)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	__u16 second = now >> L2TP_SECOND_SHIFT;

	if (!l2tp_within(m, bytes, now))
		return false;
	__sync_fetch_and_add(&m->flow->packets, packets);
	__sync_fetch_and_add(&m->flow->bytes, bytes);
	/* the clock is in memory that few packets touch: once a second is enough */
	if (*m->second != second) {
		*m->second = second;
		m->clock->seen = now;
	}
	return true;
}

/* Count a packet from a subscriber. OUTCOME_NONE, or a drop if it exceeds the rate. */
static __always_inline enum outcome l2tp_charge(hook_ctx *ctx, const struct packet_info *from)
{
	__u32 id = from->session;
	struct l2tp_up *s = l2tp_up_at(id);
	struct l2tp_meter m;

	if (!s)
		return DROP_NO_SUBSCRIBER;
	m = l2tp_meter_up(s);
	if (l2tp_pass(&m, hook_packets(ctx), from->bytes))
		return OUTCOME_NONE;
	l2tp_drop(id, L2TP_DROP_UPSTREAM_RATE);
	return DROP_UPSTREAM_RATE;
}
