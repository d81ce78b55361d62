/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * A short way for packets from inside: with a million sessions every look-up
 * in a hash table waits for memory twice, and a packet from inside needs two
 * tables, one after the other. Here it waits once: two lines of the set that
 * its addresses and ports lead to.
 *
 * A line is a copy, and never decides anything. It is valid up to the tick at
 * which a packet would touch the session; until then packets that leave the
 * state as it is change nothing, and the line says what they become. Whoever
 * changes a session's state or ends it clears its line. Lines are written
 * without a lock; what was half written does not pass the check.
 */
#include "hash.h"

/* TCP and UDP alone, and nothing that moves a connection on */
static __always_inline bool nat64_fast_may(const struct nat64_flow *f)
{
	return f->protocol == IPPROTO_UDP ||
	       (f->protocol == IPPROTO_TCP && !(f->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)));
}

static __always_inline __u64 nat64_fast_hash(const struct in6_addr *client, __be16 port,
					     __be32 remote, __be16 remote_port, __u8 protocol,
					     __u8 translator)
{
	__u64 h = addr6_high(client) * 0x9e3779b97f4a7c15ULL ^ addr6_low(client);

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93ULL;
	h ^= (__u64)remote << 32 | (__u32)port << 16 | remote_port;
	return hash_mix(h ^ (__u64)protocol << 8 ^ translator);
}

static __always_inline __u64 nat64_fast_check(__u64 hash, __be32 pool, __be16 pool_port,
					      __u32 until)
{
	return hash_mix(hash ^ ((__u64)pool << 32 | until) ^ (__u64)pool_port << 17) | 1;
}

static __always_inline struct nat64_fast_set *nat64_fast_set(__u64 hash)
{
	__u32 at = (__u32)hash & nat64_fast_mask;

	return bpf_map_lookup_elem(&nat64_fast_sets, &at);
}

#define nat64_once(x) (*(volatile typeof(x) *)&(x))

static __always_inline bool nat64_fast_is(struct nat64_fast *l, const struct in6_addr *client,
					  __be16 port, __be32 remote, __be16 remote_port,
					  __u8 protocol, __u8 translator)
{
	return nat64_same6(&l->client, client) && l->port == port && l->remote == remote &&
	       l->remote_port == remote_port && l->protocol == protocol &&
	       l->translator == translator;
}

/* Fills the pool's side of f, if there is a line for it. */
static __always_inline bool nat64_fast_find(struct nat64_flow *f)
{
	__u64 hash = nat64_fast_hash(&f->client, f->port, f->remote, f->remote_port, f->protocol,
				     f->translator);
	struct nat64_fast_set *set = nat64_fast_set(hash);

	if (!set)
		return false;
	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast *l = &set->way[i];
		__u64 check = nat64_once(l->check);
		__be32 pool = nat64_once(l->pool);
		__be16 pool_port = nat64_once(l->pool_port);
		__u32 until = nat64_once(l->until);

		if (check != nat64_fast_check(hash, pool, pool_port, until) ||
		    (__s32)(until - f->now) < 0 ||
		    !nat64_fast_is(l, &f->client, f->port, f->remote, f->remote_port,
				   f->protocol, f->translator))
			continue;
		f->pool = pool;
		f->pool_port = pool_port;
		return true;
	}
	return false;
}

static __always_inline void nat64_fast_clear(const struct nat64_session *s)
{
	__u64 hash;
	struct nat64_fast_set *set;

	if (s->protocol != IPPROTO_UDP && s->protocol != IPPROTO_TCP)
		return;
	hash = nat64_fast_hash(&s->client, s->port, s->remote, s->remote_port, s->protocol,
			       s->translator);
	set = nat64_fast_set(hash);
	if (!set)
		return;
	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast *l = &set->way[i];

		if (nat64_fast_is(l, &s->client, s->port, s->remote, s->remote_port, s->protocol,
				  s->translator))
			nat64_once(l->check) = 0;
	}
}

/* A packet of f found or made its session s, whose word is word. */
static __always_inline void nat64_fast_fill(struct nat64_flow *f, struct nat64_session *s,
					    const struct nat64_stateful *c)
{
	__u64 word = nat64_read(s->word), hash;
	__u8 state = nat64_word_state(word);
	struct nat64_fast_set *set;
	struct nat64_fast *l;
	__u32 timer, until;

	/* the first packet here of another router's session must be told of */
	if (nat64_word_flags(word) & NAT64_SESSION_REMOTE)
		return;
	if (!nat64_fast_may(f) || (state != NAT64_ACTIVE && state != NAT64_ESTABLISHED &&
				   state != NAT64_V4_FIN && state != NAT64_V6_FIN))
		return;
	timer = f->protocol == IPPROTO_UDP ? NAT64_TIMER_UDP : NAT64_TIMER_EST;
	until = nat64_word_expires(word) - c->timers[timer];
	if ((__s32)(until - f->now) <= 0)
		return;
	hash = nat64_fast_hash(&f->client, f->port, f->remote, f->remote_port, f->protocol,
			       f->translator);
	set = nat64_fast_set(hash);
	if (!set)
		return;
	l = &set->way[0];
	if (nat64_once(l->check) && (__s32)(l->until - f->now) >= 0 &&
	    (!nat64_once(set->way[1].check) || hash >> 63))
		l = &set->way[1];
	nat64_once(l->check) = 0;
	l->client = f->client;
	l->remote = f->remote;
	l->port = f->port;
	l->remote_port = f->remote_port;
	l->protocol = f->protocol;
	l->translator = f->translator;
	l->pool_port = f->pool_port;
	l->pool = f->pool;
	l->until = until;
	/* with a full barrier: whoever changes the state after this sees the line */
	__sync_lock_test_and_set(&l->check,
				 nat64_fast_check(hash, f->pool, f->pool_port, until));
	if ((nat64_read(s->word) ^ word) >> 32)
		nat64_once(l->check) = 0;
}
