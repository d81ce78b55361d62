/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Packets to the slow path go through the translator's TAP device, whose file the
 * daemon reads. Link addresses have no meaning there, so they carry the program's
 * information about the packet; on the way back they carry the interface to reinject
 * it at.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"
#include "hook.h"
#include "outcome.h"

/* no limit on packets to the slow path, for a trace or a test */
const volatile bool slow_unlimited = false;

/* not a link address of any device: locally administered, then 'w' */
/* go: slowpath SLOW_= */
#define SLOW_MARK0 0x06
#define SLOW_MARK1 'w'

/* replaces both link addresses; internal/slowpath reads it */
struct slow_note {
	__u8 mark[2];
	__u8 outcome;   /* enum outcome: the reason */
	__u8 pad;
	__be16 mtu_out; /* of the egress on the other side; 0: not known */
	__be16 mtu_in;  /* of the interface that it came by; 0: not known */
	__be32 ifindex; /* that interface; 0: this host made the packet */
};
_Static_assert(sizeof(struct slow_note) == 2 * ETH_ALEN, "as long as two link addresses");

/* replaces the source address, on the way back */
struct slow_back {
	__u8 mark[2];
	__be32 ifindex;
} __attribute__((packed));
_Static_assert(sizeof(struct slow_back) == ETH_ALEN, "as long as a link address");

static __always_inline bool slow_marked(const __u8 *mark)
{
	return mark[0] == SLOW_MARK0 && mark[1] == SLOW_MARK1;
}

/*
 * The rate to the slow path is limited by kind: packets per CPU in a window of 2^27 ns
 * (134 ms). Fragments and packets to be fragmented carry data; errors are few in a
 * network that works, and answers have a limit of their own.
 */
struct slow_window {
	__u64 window;
	__u64 packets;
};

#define SLOW_WINDOW_SHIFT 27
#define SLOW_CLASSES 16

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct slow_window);
	__uint(max_entries, SLOW_CLASSES);
} slow_windows SEC(".maps");

static __always_inline __u64 slow_limit(enum outcome outcome)
{
	switch (outcome) {
	case SLOW_FRAGMENT:
	case SLOW_FRAG_NEEDED:
	case SLOW_UDP_CHECKSUM:
	case SLOW_FORCED:
		return 4096; /* 30,000 a second */
	case SLOW_ICMP_ERROR:
		return 1024; /* 7,600 a second */
	default:
		return 128; /* 950 a second */
	}
}

static __always_inline bool slow_allowed(enum outcome outcome)
{
	__u32 class = (outcome - SLOW_FRAGMENT) & (SLOW_CLASSES - 1);
	struct slow_window *w = bpf_map_lookup_elem(&slow_windows, &class);
	__u64 now = bpf_ktime_get_ns() >> SLOW_WINDOW_SHIFT;

	if (slow_unlimited || !w)
		return true;
	if (w->window != now) {
		w->window = now;
		w->packets = 0;
	}
	return w->packets++ < slow_limit(outcome);
}

static __always_inline __u32 slow_mtu(hook_ctx *ctx, __u32 ifindex)
{
	__u32 mtu = 0;

	if (ifindex)
		bpf_check_mtu(ctx, ifindex, &mtu, 0, 0);
	return mtu < 0xffff ? mtu : 0xffff;
}

/*
 * Write the note that the slow path reads. ifindex: ingress interface. Returns
 * outcome, or the reason why the packet is dropped instead.
 */
static __always_inline enum outcome slow_hand_up(hook_ctx *ctx, enum outcome outcome, __u32 ifindex, __u32 mtu_out)
{
	struct slow_note note = {
		.mark = { SLOW_MARK0, SLOW_MARK1 },
		.outcome = outcome,
		.mtu_out = bpf_htons(mtu_out < 0xffff ? mtu_out : 0xffff),
		.mtu_in = bpf_htons(slow_mtu(ctx, ifindex)),
		.ifindex = bpf_htonl(ifindex),
	};
	struct cursor cur;
	struct ethhdr *eth;

	if (!slow_allowed(outcome))
		return DROP_SLOW_LIMIT;
	cur = hook_cursor(ctx, ETH_HLEN);
	eth = PULL(&cur, struct ethhdr);
	if (!eth)
		return DROP_TRUNCATED;
	__builtin_memcpy(eth, &note, sizeof(note));
	return outcome;
}
