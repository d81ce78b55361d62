/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Copies the packets of sessions that are being captured (L2TP_CAPTURE) for weft
 * capture: those from the subscriber before the rate limit, those to it behind the
 * rate limit. A GSO packet is copied once. A reader that is too slow misses packets,
 * and the session counts them.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "hook.h"
#include "l2tp_maps.h"

static __noinline void l2tp_copy(hook_ctx *ctx, struct l2tp_captured *c, __u32 off, __u32 bytes)
{
	c->at = bpf_ktime_get_ns();
	c->bytes = bytes;
	c->kept = bytes < L2TP_CAPTURED_MOST ? bytes : L2TP_CAPTURED_MOST;
	if (hook_load_some(ctx, off, c->packet, c->kept, L2TP_CAPTURED_MOST))
		c->kept = 0;
}

/* Copy the packet at off, of that many bytes, up to L2TP_CAPTURED_MOST. */
__noinline int l2tp_capture(hook_ctx *ctx, __u32 id, __u32 off, __u32 bytes, __u32 flags)
{
	struct l2tp_state *state = bpf_map_lookup_elem(&l2tp_states, &id);
	struct l2tp_captured *c;

	c = bpf_ringbuf_reserve(&l2tp_captures, sizeof(*c), 0);
	if (!c) {
		if (state)
			__sync_fetch_and_add(&state->uncaptured, 1);
		return 0;
	}
	c->session = id;
	c->flags = flags;
	l2tp_copy(ctx, c, off, bytes);
	bpf_ringbuf_submit(c, 0);
	return 0;
}
