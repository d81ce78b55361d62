/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * A short way for packets from inside: with a million sessions every look-up
 * in a hash table waits for memory twice, and a packet from inside needs two
 * tables, one after the other. Here it waits once, for the set that its
 * addresses and ports lead to.
 *
 * An entry is a copy, and never decides anything. It is valid up to the tick at
 * which a packet would touch the session; until then packets that leave the
 * state as it is change nothing, and the entry says what they become. Whoever
 * changes a session's state or ends it clears its entry. Entries are written
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
	void *piece;

	piece = bpf_map_lookup_elem(&nat64_fast_sets, &at);
	if (!piece)
		return NULL;
	chunk = bpf_map_lookup_elem(piece, &zero);
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

static __always_inline struct nat64_fast_words *nat64_fast_way(struct nat64_fast_set *set, __u32 i)
{
	return (struct nat64_fast_words *)&set->way[i];
}

/*
 * Fills the pool's side of f, if there is an entry for it. Which way it is in
 * nobody can guess, so it is chosen by masks: a wrong guess would have to wait
 * for the memory before anything else of the packet is begun.
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
		struct nat64_fast_words *l = nat64_fast_way(set, i);
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

/* Forget the entry of a session, whose state has changed or which is over. */
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
		struct nat64_fast_words *l = nat64_fast_way(set, i);

		if (!nat64_fast_differs(l, &k, nat64_once(l->pool)))
			nat64_fast_empty(l);
	}
	return 0;
}

/*
 * The way for an entry: where it is already (and nowhere else), or one that is
 * empty or has had its time, or the one that its hash says.
 */
static __always_inline __u32 nat64_fast_place(struct nat64_fast_set *set,
					      const struct nat64_fast_words *k, __u64 hash, __u32 now)
{
	__u32 at = hash >> 62;
	bool own = false;

	for (int i = 0; i < NAT64_FAST_WAYS; i++) {
		struct nat64_fast_words *l = nat64_fast_way(set, i);
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

/* A packet of f, for which there was no entry, found or made its session s. */
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
	state = nat64_word_state(word);
	/* the first packet here of another router's session must be told of */
	if (!c || nat64_word_flags(word) & NAT64_SESSION_REMOTE)
		return 0;
	if (!nat64_fast_may(f) || (state != NAT64_ACTIVE && state != NAT64_ESTABLISHED &&
				   state != NAT64_V4_FIN && state != NAT64_V6_FIN))
		return 0;
	timer = f->protocol == IPPROTO_UDP ? NAT64_TIMER_UDP : NAT64_TIMER_EST;
	until = nat64_word_expires(word) - c->timers[timer];
	if ((__s32)(until - f->now) <= 0)
		return 0;
	set = nat64_fast_set(f->hash);
	if (!set)
		return 0;
	at = nat64_fast_place(set, &f->line, f->hash, f->now);
	if (at >= NAT64_FAST_WAYS)
		at = 0;
	l = nat64_fast_way(set, at);
	pool = f->line.pool | (__u64)f->pool_port << 32 | f->pool;
	nat64_once(l->until) = 0;
	nat64_once(l->client[0]) = f->line.client[0];
	nat64_once(l->client[1]) = f->line.client[1];
	nat64_once(l->ends) = f->line.ends;
	nat64_once(l->pool) = pool;
	/* with a full barrier: whoever changes the state after this sees the entry */
	__sync_lock_test_and_set(&l->until,
				 (__u64)nat64_fast_check(f->hash, pool, until) << 32 | until);
	if ((nat64_read(s->word) ^ word) >> 32)
		nat64_once(l->until) = 0;
	return 0;
}
