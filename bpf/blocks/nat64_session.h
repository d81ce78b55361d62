/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Sessions of stateful NAT64 (RFC 6146): their packed state, how packets and time
 * change it, the session cache for packets from inside, events for the allocation log
 * and for other routers, and how a session ends together with a binding that only it
 * referenced. internal/translate/session, the reference in Go, has the same state
 * machine.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "hash.h"
#include "nat64_state_maps.h"

/*
 * A session is refreshed when it has less than its timer left, and then gets a 16th
 * more, 16 s at most: so it is rarely written, and never expires early.
 */
#define NAT64_SLACK_MAX 240 /* ticks */
#define NAT64_RETRIES 4  /* of a compare-and-swap that another CPU disturbed */

static __always_inline __u32 nat64_now(void)
{
	__u32 zero = 0, *set;

	if (nat64_test_clock) {
		set = bpf_map_lookup_elem(&nat64_clock, &zero);
		return set ? *set : 0;
	}
	return bpf_ktime_get_coarse_ns() >> NAT64_TICK_SHIFT;
}

static __always_inline __u32 nat64_lifetime(const struct nat64_stateful *c, __u32 timer)
{
	__u32 slack;

	if (timer >= NAT64_TIMERS)
		return 0;
	slack = c->timers[timer] / 16;
	if (slack > NAT64_SLACK_MAX)
		slack = NAT64_SLACK_MAX;
	return c->timers[timer] + (timer == NAT64_TIMER_TRANS ? 0 : slack);
}

#define nat64_read(word) (*(volatile __u64 *)&(word))
#define nat64_packed_expires(w) ((__u32)(w))
#define nat64_packed_state(w) ((__u8)((w) >> NAT64_PACKED_STATE))
#define nat64_packed_flags(w) ((__u8)((w) >> NAT64_PACKED_FLAGS))
#define NAT64_PACKED(expires, state, flags, generation)             \
	((__u64)(generation) << NAT64_PACKED_GENERATION |           \
	 (__u64)(__u8)(flags) << NAT64_PACKED_FLAGS |               \
	 (__u64)(__u8)(state) << NAT64_PACKED_STATE | (__u32)(expires))

static __always_inline bool nat64_expired(__u64 word, __u32 now)
{
	return (__s32)(nat64_packed_expires(word) - now) <= 0;
}

static __always_inline struct nat64_stateful *nat64_config(__u32 translator)
{
	return bpf_map_lookup_elem(&nat64_stateful_configs, &translator);
}

static __always_inline struct nat64_usage *nat64_usage(__u32 translator, __u8 protocol)
{
	__u32 key = translator * NAT64_PROTOCOLS + (protocol == IPPROTO_TCP ? NAT64_IS_TCP :
						    protocol == IPPROTO_UDP ? NAT64_IS_UDP :
									      NAT64_IS_ICMP);
	return bpf_map_lookup_elem(&nat64_usages, &key);
}

static __always_inline void nat64_bib6_key(struct nat64_bib6_key *k, const struct in6_addr *client,
					   __be16 port, __u8 protocol, __u8 translator)
{
	k->client = *client;
	k->port = port;
	k->protocol = protocol;
	k->translator = translator;
	k->pad = 0;
}

static __always_inline void nat64_session_key(struct nat64_session_key *k,
					      const struct nat64_flow *f)
{
	k->pool = f->pool;
	k->remote = f->remote;
	k->pool_port = f->pool_port;
	k->remote_port = f->remote_port;
	k->protocol = f->protocol;
	__builtin_memset(k->pad, 0, sizeof(k->pad));
}

#define NAT64_KEEP NAT64_TIMERS /* the time of expiry stays */

/*
 * The next state of a TCP session (RFC 6146 3.5.2.2), and its timer. A reset
 * shortens the life of half-closed sessions too, which the RFC leaves out and
 * RFC 7857 2 asks for in spirit: their peer has gone.
 */
static __always_inline __u8 nat64_tcp_next(__u8 state, bool from6, __u8 flags, __u32 *timer)
{
	*timer = NAT64_KEEP;
	switch (state) {
	case NAT64_V4_INIT:
		if (!from6 || !(flags & TCP_SYN))
			return state;
		*timer = NAT64_TIMER_EST;
		return NAT64_ESTABLISHED;
	case NAT64_V6_INIT:
		if (!(flags & TCP_SYN))
			return state;
		*timer = from6 ? NAT64_TIMER_TRANS : NAT64_TIMER_EST;
		return from6 ? NAT64_V6_INIT : NAT64_ESTABLISHED;
	case NAT64_ESTABLISHED:
	case NAT64_V4_FIN:
	case NAT64_V6_FIN:
		if (flags & TCP_RST) {
			*timer = NAT64_TIMER_TRANS;
			return NAT64_TRANS;
		}
		*timer = NAT64_TIMER_EST;
		if (!(flags & TCP_FIN))
			return state;
		if (state == NAT64_ESTABLISHED)
			return from6 ? NAT64_V6_FIN : NAT64_V4_FIN;
		if ((state == NAT64_V4_FIN) != from6)
			return state; /* the same side again */
		*timer = NAT64_TIMER_TRANS;
		return NAT64_BOTH_FIN;
	case NAT64_TRANS:
		if (flags & TCP_RST)
			return state;
		*timer = NAT64_TIMER_EST;
		return NAT64_ESTABLISHED;
	}
	return state; /* both FINs: only time changes it */
}

static __always_inline __u8 nat64_next(const struct nat64_flow *f, __u8 state, __u32 *timer)
{
	if (f->protocol == IPPROTO_TCP)
		return nat64_tcp_next(state, f->outbound, f->tcp_flags, timer);
	*timer = f->protocol == IPPROTO_UDP ? NAT64_TIMER_UDP : NAT64_TIMER_ICMP;
	return state;
}

/*
 * Events for the allocation log: bindings made and ended, if the translator has a log.
 * The daemon is not woken: it polls often enough, and a wake-up for each binding would
 * cost more than the binding. Events that find no room are counted, and the daemon
 * then reads the tables.
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

/*
 * The session cache, for packets from inside. With a million sessions every look-up in
 * a hash table misses the cache twice, and a packet from inside needs two tables, one
 * after the other. Here it misses once, for the set that its addresses and ports
 * select.
 *
 * An entry is a copy, and never authoritative. It is valid up to the tick at which a
 * packet would refresh the session; until then packets that leave the state as it is
 * change nothing, and the entry has their translation. Code that changes a session's
 * state or ends it clears its entry. Entries are written without a lock; a
 * half-written one fails the check.
 */

/* only TCP and UDP packets that do not change the connection's state */
static __always_inline bool nat64_fast_may(const struct nat64_flow *f)
{
	return f->protocol == IPPROTO_UDP ||
	       (f->protocol == IPPROTO_TCP && !(f->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)));
}

static __always_inline __u64 nat64_fast_hash(const struct in6_addr *client, __be16 port,
					     __be32 remote, __be16 remote_port, __u8 protocol,
					     __u8 translator)
{
	__u64 h = addr6_high(client) * HASH_GOLDEN ^ addr6_low(client);

	h = (h ^ h >> 32) * HASH_SPREAD;
	h ^= (__u64)remote << 32 | (__u32)port << 16 | remote_port;
	return hash_mix(h ^ (__u64)protocol << 8 ^ translator);
}

static __always_inline __u32 nat64_fast_check(__u64 hash, __u64 pool, __u32 until)
{
	return hash_mix(hash ^ pool ^ (__u64)until << 21) >> 32 | 1;
}

static __always_inline struct nat64_fast_set *nat64_fast_set(__u64 hash)
{
	__u32 at = (__u32)(hash >> 32) & nat64_fast_mask, zero = 0;
	__u64 set = ((__u64)(__u32)hash * NAT64_FAST_SETS) >> 32;
	struct nat64_fast_chunk *chunk;
	void *fragment;

	fragment = bpf_map_lookup_elem(&nat64_fast_sets, &at);
	if (!fragment)
		return NULL;
	chunk = bpf_map_lookup_elem(fragment, &zero);
	/* shifts made one of two lose the bound in the verifier of 6.12 */
	asm volatile("" : "+r"(set));
	if (!chunk || set >= NAT64_FAST_SETS)
		return NULL;
	return (void *)(chunk->bytes + (nat64_fast_shift & 56) + set * sizeof(struct nat64_fast_set));
}

#define nat64_once(x) (*(volatile typeof(x) *)&(x))
#define NAT64_FAST_KIND 48 /* where in the word of the pool protocol and translator begin */

static __always_inline void nat64_fast_key(struct nat64_fast_words *k, const struct in6_addr *client,
					   __be16 port, __be32 remote, __be16 remote_port,
					   __u8 protocol, __u8 translator)
{
	k->client[0] = (__u64)client->be32[1] << 32 | client->be32[0];
	k->client[1] = (__u64)client->be32[3] << 32 | client->be32[2];
	k->ends = (__u64)remote_port << 48 | (__u64)port << 32 | remote;
	k->pool = (__u64)translator << 56 | (__u64)protocol << NAT64_FAST_KIND;
}

/* zero if l is the entry of k */
static __always_inline __u64 nat64_fast_differs(struct nat64_fast_words *l,
						const struct nat64_fast_words *k, __u64 pool)
{
	return (nat64_once(l->client[0]) ^ k->client[0]) | (nat64_once(l->client[1]) ^ k->client[1]) |
	       (nat64_once(l->ends) ^ k->ends) | (pool ^ k->pool) >> NAT64_FAST_KIND;
}

static __always_inline struct nat64_fast_words *nat64_fast_path(struct nat64_fast_set *set, __u32 i)
{
	return (struct nat64_fast_words *)&set->way[i];
}

/*
 * Fills the pool's side of f, if the set has an entry for it. The way that holds it is
 * unpredictable, so it is selected by masks: a mispredicted branch would wait for the
 * memory before any other work on the packet could begin.
 */
static __always_inline bool nat64_fast_find(struct nat64_flow *f)
{
	struct nat64_fast_words *k = &f->line;
	struct nat64_fast_set *set;
	__u64 pool = 0, last = 0;
	__u32 until;

	f->hash = nat64_fast_hash(&f->client, f->port, f->remote, f->remote_port, f->protocol,
				  f->translator);
	set = nat64_fast_set(f->hash);
	if (!set)
		return false;
	nat64_fast_key(k, &f->client, f->port, f->remote, f->remote_port, f->protocol,
		       f->translator);
	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast_words *l = nat64_fast_path(set, i);
		__u64 its = nat64_once(l->pool), differs = nat64_fast_differs(l, k, its), mask;

		mask = ((differs | -differs) >> 63) - 1;
		asm volatile("" : "+r"(mask));
		pool |= its & mask;
		last |= nat64_once(l->until) & mask;
	}
	until = last;
	if (!last || last >> 32 != nat64_fast_check(f->hash, pool, until) ||
	    (__s32)(until - f->now) < 0)
		return false;
	f->pool = (__u32)pool;
	f->pool_port = pool >> 32;
	return true;
}

static __always_inline void nat64_fast_empty(struct nat64_fast_words *l)
{
	nat64_once(l->until) = 0;
	nat64_once(l->pool) = 0;
}

/* Clear the cache entry of a session whose state has changed or that has ended. */
__noinline int nat64_fast_clear(const struct nat64_session *s)
{
	struct nat64_fast_words k;
	struct nat64_fast_set *set;

	if (!s || (s->protocol != IPPROTO_UDP && s->protocol != IPPROTO_TCP))
		return 0;
	set = nat64_fast_set(nat64_fast_hash(&s->client, s->port, s->remote, s->remote_port,
					     s->protocol, s->translator));
	if (!set)
		return 0;
	nat64_fast_key(&k, &s->client, s->port, s->remote, s->remote_port, s->protocol,
		       s->translator);
	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast_words *l = nat64_fast_path(set, i);

		if (!nat64_fast_differs(l, &k, nat64_once(l->pool)))
			nat64_fast_empty(l);
	}
	return 0;
}

/*
 * The way for an entry: the one that holds it already (there is only one), or one that
 * is empty or expired, or the one that its hash selects.
 */
static __always_inline __u32 nat64_fast_place(struct nat64_fast_set *set,
					      const struct nat64_fast_words *k, __u64 hash, __u32 now)
{
	__u32 at = hash >> 62;
	bool own = false;

	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast_words *l = nat64_fast_path(set, i);
		__u64 last = nat64_once(l->until);

		if (!nat64_fast_differs(l, k, nat64_once(l->pool))) {
			nat64_fast_empty(l);
			own = true;
			at = i;
		} else if (!own && (!last || (__s32)((__u32)last - now) < 0)) {
			at = i;
		}
	}
	return at;
}

/* Add a cache entry: a packet of f, which had none, found or made session s. */
__noinline int nat64_fast_fill(const struct nat64_flow *f, const struct nat64_session *s)
{
	struct nat64_fast_words *l;
	struct nat64_fast_set *set;
	struct nat64_stateful *c;
	__u32 timer, until, at;
	__u64 word, pool;
	__u8 state;

	if (!f || !s)
		return 0;
	c = nat64_config(f->translator);
	word = nat64_read(s->word);
	state = nat64_packed_state(word);
	/* the first packet here of another router's session must send an event */
	if (!c || nat64_packed_flags(word) & NAT64_SESSION_REMOTE)
		return 0;
	if (!nat64_fast_may(f) || (state != NAT64_ACTIVE && state != NAT64_ESTABLISHED &&
				   state != NAT64_V4_FIN && state != NAT64_V6_FIN))
		return 0;
	timer = f->protocol == IPPROTO_UDP ? NAT64_TIMER_UDP : NAT64_TIMER_EST;
	until = nat64_packed_expires(word) - c->timers[timer];
	if ((__s32)(until - f->now) <= 0)
		return 0;
	set = nat64_fast_set(f->hash);
	if (!set)
		return 0;
	at = nat64_fast_place(set, &f->line, f->hash, f->now);
	if (at >= NAT64_FAST_WAYS)
		at = 0;
	l = nat64_fast_path(set, at);
	pool = f->line.pool | (__u64)f->pool_port << 32 | f->pool;
	nat64_once(l->until) = 0;
	nat64_once(l->client[0]) = f->line.client[0];
	nat64_once(l->client[1]) = f->line.client[1];
	nat64_once(l->ends) = f->line.ends;
	nat64_once(l->pool) = pool;
	/* with a full barrier: code that changes the state after this sees the entry */
	__sync_lock_test_and_set(&l->until,
				 (__u64)nat64_fast_check(f->hash, pool, until) << 32 | until);
	if ((nat64_read(s->word) ^ word) >> 32)
		nat64_once(l->until) = 0;
	return 0;
}

/*
 * State that other routers need to continue this one's sessions (session
 * synchronisation). The daemon reads it from a ring buffer; events that find no room
 * are counted, and the daemon then dumps all sessions again.
 */

/*
 * Packets extend a session's lifetime all the time: other routers get about four
 * updates in its life, and add a quarter to it.
 */
static __always_inline __u32 nat64_slack(const struct nat64_stateful *c, __u32 timer)
{
	return timer < NAT64_TIMERS ? c->timers[timer] / 4 : 0;
}

static __always_inline bool nat64_worth_notifying(const struct nat64_stateful *c, __u32 timer,
						__u32 before, __u32 expires)
{
	__u32 part = nat64_slack(c, timer);

	return part && before / part != expires / part;
}

/* word: of s. The daemon is not woken: it polls. */
__noinline int nat64_announce(const struct nat64_session *s, __u64 word, __u32 what)
{
	struct nat64_session *to;
	__u32 which = NAT64_LOST_CHANGES;
	__u64 *lost;

	if (!s)
		return 0;
	to = bpf_ringbuf_reserve(&nat64_changes, sizeof(*to), 0);
	if (!to) {
		lost = bpf_map_lookup_elem(&nat64_lost, &which);
		if (lost)
			++*lost;
		return 0;
	}
	*to = *s;
	to->word = word;
	to->slot = what;
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Update state and expiry of a session for a packet. */
static __always_inline void nat64_refresh(const struct nat64_flow *f, struct nat64_session *s,
					__u64 word)
{
	struct nat64_stateful *c = nat64_config(f->translator);
	__u32 timer, expires, at;
	struct nat64_slot *slot;
	__u64 seen, fresh;
	__u8 next, flags;

	if (!c)
		return;
	for (int i = 0; i < NAT64_RETRIES; i++) {
		if (nat64_packed_state(word) == NAT64_DEAD)
			return;
		next = nat64_next(f, nat64_packed_state(word), &timer);
		expires = nat64_packed_expires(word);
		flags = nat64_packed_flags(word);
		if (next == nat64_packed_state(word) && !(flags & NAT64_SESSION_REMOTE) &&
		    (timer >= NAT64_TIMERS || (__s32)(expires - f->now) >= (__s32)c->timers[timer]))
			return;
		if (timer < NAT64_TIMERS)
			expires = f->now + nat64_lifetime(c, timer);
		fresh = NAT64_PACKED(expires, next, flags & NAT64_SESSION_PEER, word >> 48);
		seen = __sync_val_compare_and_swap(&s->word, word, fresh);
		if (seen == word) {
			if (c->shared &&
			    (flags & NAT64_SESSION_REMOTE || next != nat64_packed_state(word) ||
			     nat64_worth_notifying(c, timer, nat64_packed_expires(word), expires)))
				nat64_announce(s, fresh, NAT64_CHANGED);
			break;
		}
		word = seen;
	}
	if (next != nat64_packed_state(word))
		nat64_fast_clear(s);
	if ((__s32)(expires - nat64_packed_expires(word)) >= 0)
		return;
	/* the expiry is earlier than before: the sweep has to come earlier */
	at = s->slot;
	slot = bpf_map_lookup_elem(&nat64_slots, &at);
	if (slot && (__s32)(slot->due - expires) > 0)
		slot->due = expires;
}

/*
 * The end of sessions and of the bindings that only they referenced. The CPU that sets
 * a word dead by compare-and-swap, and no other, removes the object.
 */

static __always_inline void nat64_subscriber_key(struct nat64_subscriber_key *k,
						 const struct in6_addr *client, __u32 translator,
						 __u32 bits)
{
	for (int i = 0; i < 4; i++) {
		__u32 have = bits > 32U * i ? bits - 32 * i : 0;

		k->prefix.be32[i] = have >= 32 ? client->be32[i] :
				    have == 0  ? 0 :
						 client->be32[i] & bpf_htonl(~0U << (32 - have));
	}
	k->translator = translator;
}

static __always_inline struct nat64_end *nat64_end(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nat64_ends, &zero);
}

/* the node of f */
static __always_inline struct nat64_end *nat64_end_of(const struct nat64_flow *f)
{
	struct nat64_end *e = nat64_end();

	if (!e)
		return NULL;
	e->client = f->client;
	e->port = f->port;
	e->protocol = f->protocol;
	e->translator = f->translator;
	return e;
}

/* by: 1 for a session, 1ULL << 32 for a binding */
__noinline int nat64_subscriber_less(struct nat64_end *e, __u64 by)
{
	struct nat64_stateful *c;
	struct nat64_subscriber *u;
	__u64 left;

	if (!e)
		return 0;
	c = nat64_config(e->translator);
	if (!c)
		return 0;
	nat64_subscriber_key(&e->who, &e->client, e->translator, c->subscriber_bits);
	u = bpf_map_lookup_elem(&nat64_subscribers, &e->who);
	if (!u)
		return 0;
	left = __sync_fetch_and_sub(&u->word, by) - by;
	if (!left && __sync_val_compare_and_swap(&u->word, 0, NAT64_SUBSCRIBER_DEAD) == 0)
		bpf_map_delete_elem(&nat64_subscribers, &e->who);
	return 0;
}

/* Drop one session's reference; the last one removes the binding. */
__noinline int nat64_binding_release(struct nat64_end *e)
{
	struct nat64_stateful *c;
	struct nat64_usage *usage;
	struct nat64_binding *b;
	__u64 left;

	if (!e)
		return 0;
	nat64_bib6_key(&e->from, &e->client, e->port, e->protocol, e->translator);
	b = bpf_map_lookup_elem(&nat64_bib6, &e->from);
	if (!b)
		return 0;
	left = __sync_fetch_and_sub(&b->word, 1) - 1;
	if ((__u32)left ||
	    __sync_val_compare_and_swap(&b->word, left, left | NAT64_BINDING_DEAD) != left)
		return 0;
	c = nat64_config(e->translator);
	if (c && c->events)
		nat64_event_binding(b, NAT64_BINDING_ENDED, nat64_now());
	e->back.pool = b->pool;
	e->back.port = b->pool_port;
	e->back.protocol = e->protocol;
	e->back.pad = 0;
	bpf_map_delete_elem(&nat64_bib6, &e->from);
	bpf_map_delete_elem(&nat64_bib4, &e->back);
	nat64_subscriber_less(e, 1ULL << 32);
	usage = nat64_usage(e->translator, e->protocol);
	if (usage)
		usage->bindings_ended++;
	return 0;
}

/* key: of a session */
static __always_inline void nat64_peer_less(struct nat64_end *e, const struct nat64_session_key *key)
{
	__u64 *n;

	e->peer = *key;
	e->peer.remote_port = 0;
	n = bpf_map_lookup_elem(&nat64_peers, &e->peer);
	if (n && __sync_fetch_and_sub(n, 1) == 1 &&
	    __sync_val_compare_and_swap(n, 0, 1ULL << 63) == 0)
		bpf_map_delete_elem(&nat64_peers, &e->peer);
}

static __always_inline void nat64_slot_free(__u32 *at)
{
	struct nat64_slot *slot = bpf_map_lookup_elem(&nat64_slots, at);
	__u32 zero = 0;
	struct nat64_sweep_state *all = bpf_map_lookup_elem(&nat64_sweep_states, &zero);

	if (slot)
		slot->used = 0;
	if (!bpf_map_push_elem(&nat64_slots_free, at, 0) && all)
		__sync_fetch_and_add(&all->free, 1);
}

/* Returns 1 if this call ended the session; word is the state that it had. */
__noinline int nat64_session_end(const struct nat64_session_key *key, struct nat64_session *s,
				 __u64 word)
{
	struct nat64_end *e = nat64_end();
	struct nat64_stateful *c;
	struct nat64_usage *usage;

	if (!key || !s || !e)
		return 0;
	if (nat64_packed_state(word) == NAT64_DEAD ||
	    __sync_val_compare_and_swap(&s->word, word,
					NAT64_PACKED(nat64_packed_expires(word), NAT64_DEAD,
						   nat64_packed_flags(word), word >> 48)) != word)
		return 0;
	nat64_fast_clear(s);
	c = nat64_config(s->translator);
	/* the memory may be another session's as soon as it is deleted */
	e->client = s->client;
	e->port = s->port;
	e->protocol = s->protocol;
	e->translator = s->translator;
	e->slot = s->slot;
	c = nat64_config(e->translator);
	if (c && c->shared && !(nat64_packed_flags(word) & NAT64_SESSION_REMOTE))
		nat64_announce(s, word, NAT64_ENDED);
	bpf_map_delete_elem(&nat64_sessions, key);
	nat64_slot_free(&e->slot);
	if (nat64_packed_flags(word) & NAT64_SESSION_PEER)
		nat64_peer_less(e, key);
	nat64_binding_release(e);
	nat64_subscriber_less(e, 1);
	usage = nat64_usage(e->translator, e->protocol);
	if (usage)
		usage->sessions_ended++;
	return 1;
}
