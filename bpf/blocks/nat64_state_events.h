/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Tells those who asked for it (struct nat64_stateful, events) what was made
 * and what ended. Nobody is woken up: readers come by often enough, and a
 * wake-up for each binding would cost more than the binding. What a ring has no
 * room for is counted, and its reader then goes through the tables.
 */

static __always_inline struct nat64_end *nat64_end(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nat64_ends, &zero);
}

static __always_inline void nat64_event_lost(__u32 ring)
{
	__u64 *lost = bpf_map_lookup_elem(&nat64_events_lost, &ring);

	if (lost)
		*lost += 1;
}

/* rings: as struct nat64_stateful has it */
__noinline int nat64_event_send(struct nat64_event *e, __u8 rings)
{
	if (!e)
		return 0;
	e->pad = 0;
	if (rings & 1 << NAT64_RING_LOG && e->kind <= NAT64_BINDING_ENDED &&
	    bpf_ringbuf_output(&nat64_log_events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		nat64_event_lost(NAT64_RING_LOG);
	if (rings & 1 << NAT64_RING_SYNC &&
	    bpf_ringbuf_output(&nat64_sync_events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		nat64_event_lost(NAT64_RING_SYNC);
	return 0;
}

static __always_inline void nat64_event_binding(__u8 kind, const struct nat64_stateful *c,
						const struct nat64_binding *b, __u32 now)
{
	struct nat64_end *end;
	struct nat64_event *e;

	if (!c || !c->events)
		return;
	end = nat64_end();
	if (!end)
		return;
	e = &end->event;
	__builtin_memset(e, 0, sizeof(*e));
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
	nat64_event_send(e, c->events);
}

static __always_inline void nat64_event_session(__u8 kind, const struct nat64_stateful *c,
						const struct nat64_session *s, __u8 state,
						__u32 expires, __u32 now)
{
	struct nat64_end *end;
	struct nat64_event *e;

	if (!c || !(c->events & 1 << NAT64_RING_SYNC))
		return;
	end = nat64_end();
	if (!end)
		return;
	e = &end->event;
	e->kind = kind;
	e->protocol = s->protocol;
	e->translator = s->translator;
	e->flags = 0;
	e->at = now;
	e->client = s->client;
	e->pool = s->pool;
	e->pool_port = s->pool_port;
	e->port = s->port;
	e->remote = s->remote;
	e->remote_port = s->remote_port;
	e->state = state;
	e->remote6 = s->remote6;
	e->expires = expires;
	e->made = s->made;
	nat64_event_send(e, c->events);
}
