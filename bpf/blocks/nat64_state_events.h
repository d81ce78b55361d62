/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Tells the log of allocations which bindings were made and which ended, where
 * a translator has one. Nobody is woken up: the daemon comes by often enough,
 * and a wake-up for each binding would cost more than the binding. What finds
 * no room is counted, and the daemon then goes through the tables.
 */

static __noinline void nat64_event_fill(struct nat64_event *e, const struct nat64_binding *b,
					__u32 kind, __u32 now)
{
	e->kind = kind;
	e->protocol = b->protocol;
	e->translator = b->translator;
	e->flags = b->flags;
	e->at = now;
	e->client = b->client;
	e->pool = b->pool;
	e->pool_port = b->pool_port;
	e->port = b->port;
	e->made = b->made;
	e->pad = 0;
}

__noinline int nat64_event_binding(const struct nat64_binding *b, __u32 kind, __u32 now)
{
	struct nat64_event *e;
	__u32 which = NAT64_LOST_EVENTS;
	__u64 *lost;

	if (!b)
		return 0;
	e = bpf_ringbuf_reserve(&nat64_log_events, sizeof(*e), 0);
	if (!e) {
		lost = bpf_map_lookup_elem(&nat64_lost, &which);
		if (lost)
			++*lost;
		return 0;
	}
	nat64_event_fill(e, b, kind, now);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}
