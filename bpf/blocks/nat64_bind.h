/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Bindings: which pool address and port stands for a node's transport address.
 * The port is claimed by the one insertion into nat64_bib4 that succeeds.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "hash.h"
#include "nat64_session.h"
#include "nat64_state_maps.h"
#include "outcome.h"

#define NAT64_TRIES 512       /* random ports that are tried */
#define NAT64_PICKY_TRIES 256 /* of these, the first that accept only ports of the same parity and range */
#define NAT64_BLOCK_TRIES 4096 /* in a fixed block all ports are tried, up to this number */
#define NAT64_TRIES_AN_ADDRESS 64
#define NAT64_PRIVILEGED 1024

/* the pool that contains the address with this index; *index becomes the index in that pool */
static __always_inline const struct nat64_pool *nat64_pool(const struct nat64_stateful *c,
							   __u32 *index)
{
	for (int i = 0; i < NAT64_POOLS_MAX; i++) {
		if (*index < c->pool[i].count)
			return &c->pool[i];
		*index -= c->pool[i].count;
	}
	return NULL;
}

/*
 * The ports that a client's may become: the same range, below 1024 or above
 * (RFC 4787 REQ-3 b). A low one may become a high one when those are gone.
 */
static __always_inline void nat64_range(const struct nat64_flow *f, const struct nat64_stateful *c,
					const struct nat64_pool *pool, bool picky, __u32 *low,
					__u32 *count)
{
	__u32 first = pool->low, last = pool->high;

	if (c->block) {
		*low = first + f->search.block;
		*count = c->block;
		return;
	}
	if (f->protocol != IPPROTO_ICMP && first < NAT64_PRIVILEGED &&
	    last >= NAT64_PRIVILEGED) {
		if (bpf_ntohs(f->port) < NAT64_PRIVILEGED)
			last = picky ? NAT64_PRIVILEGED - 1 : last;
		else
			first = NAT64_PRIVILEGED;
	}
	*low = first;
	*count = last - first + 1;
}

static __always_inline void nat64_owner(struct nat64_flow *f)
{
	f->owner.client = f->client;
	f->owner.port = f->port;
	f->owner.translator = f->translator;
	f->owner.pad = 0;
}

/* one candidate; 1 ends the search */
static long nat64_try(__u32 i, struct nat64_flow **searching)
{
	struct nat64_flow *f = *searching;
	struct nat64_search *s = &f->search;
	struct nat64_stateful *c = nat64_config(f->translator);
	__u32 index = s->address, low, count, port;
	bool picky = i < NAT64_PICKY_TRIES && !(c && c->block);
	const struct nat64_pool *pool;
	long failed;

	if (!c)
		return 1;
	/* the subscriber's own address first, then its neighbours */
	if (!c->block && c->addresses)
		index = (index + i / NAT64_TRIES_AN_ADDRESS) % c->addresses;
	pool = nat64_pool(c, &index);
	if (!pool)
		return 1;
	nat64_range(f, c, pool, picky, &low, &count);
	if (!count || (c->block && i >= count))
		return 1;
	port = low + (s->start + i * (count <= NAT64_PICKY_TRIES ? 1 : s->step)) % count;
	/* RFC 4787 REQ-4: keep the parity if such a port is free */
	if (f->protocol == IPPROTO_UDP && picky && (port ^ bpf_ntohs(f->port)) & 1 &&
	    (port ^ 1) >= low && (port ^ 1) < low + count)
		port ^= 1;
	f->to.pool = bpf_htonl(pool->base + index);
	f->to.port = bpf_htons(port);
	if (c->has_statics && bpf_map_lookup_elem(&nat64_statics4, &f->to))
		return 0;
	failed = bpf_map_update_elem(&nat64_bib4, &f->to, &f->owner, BPF_NOEXIST);
	if (!failed) {
		f->pool = f->to.pool;
		f->pool_port = f->to.port;
		s->outcome = OUTCOME_NONE;
		return 1;
	}
	if (failed != -17) { /* EEXIST is a port in use; all else a full table */
		s->outcome = DROP_TABLE_FULL;
		return 1;
	}
	return 0;
}

/*
 * Deterministic port blocks (RFC 7422): the subscriber's number in the prefix
 * of all subscribers gives its address and block.
 */
static __always_inline bool nat64_fixed_block(struct nat64_flow *f, const struct nat64_stateful *c)
{
	const struct in6_addr *a = &f->client;
	struct nat64_search *s = &f->search;
	__u64 number, high = addr6_high(a), base = addr6_high(&c->subscribers);
	__u32 bits = c->subscribers_bits, width = c->subscriber_bits - bits, blocks;
	const struct nat64_pool *pool;

	/* the config has both lengths within the upper half, 32 bits apart at most */
	if (!bits || bits > 63 || width > 32 || c->subscriber_bits > 64 ||
	    (high ^ base) >> (64 - bits))
		return false;
	number = (high << bits) >> bits;
	number >>= (64 - c->subscriber_bits) & 63;
	s->address = 0;
	for (int i = 0; i < NAT64_POOLS_MAX; i++) {
		pool = &c->pool[i];
		blocks = pool->count ? ((__u32)pool->high - pool->low + 1) / c->block : 0;
		if (number < (__u64)blocks * pool->count) {
			s->address += (__u32)number / blocks;
			s->block = (__u32)number % blocks * c->block;
			return true;
		}
		number -= (__u64)blocks * pool->count;
		s->address += pool->count;
	}
	return false;
}

/* Claim a port for f->client. Pairs addresses: RFC 4787 REQ-2. */
__noinline int nat64_claim(struct nat64_flow *f)
{
	struct nat64_subscriber_key *who;
	struct nat64_search *s;
	struct nat64_stateful *c;
	__u64 hash;

	if (!f)
		return DROP_KERNEL;
	c = nat64_config(f->translator);
	if (!c || !c->addresses)
		return DROP_POOL_EXHAUSTED;
	s = &f->search;
	s->outcome = DROP_POOL_EXHAUSTED;
	f->to.protocol = f->protocol;
	f->to.pad = 0;
	nat64_owner(f);
	s->block = 0;
	/* RFC 6056; small enough for adding tries without wrapping */
	s->start = bpf_get_prandom_u32() >> 1;
	s->step = (bpf_get_prandom_u32() >> 12) | 1;
	who = &f->subscriber.self;
	nat64_subscriber_key(who, &f->client, f->translator, c->subscriber_bits);
	hash = hash_mix(c->secret ^ addr6_high(&who->prefix));
	hash = hash_mix(hash ^ addr6_low(&who->prefix));
	s->address = (__u32)(hash >> 32) % c->addresses;
	if (c->block && !nat64_fixed_block(f, c))
		return DROP_POOL_EXHAUSTED;
	bpf_loop(c->block ? NAT64_BLOCK_TRIES : NAT64_TRIES, nat64_try, &f, 0);
	return s->outcome;
}

/* Static bindings of weft.toml, and those bound by another router, are not allocated. */
static __always_inline int nat64_claim_static(struct nat64_flow *f)
{
	struct nat64_bib4_key back = { .pool = f->pool, .port = f->pool_port, .protocol = f->protocol };
	long failed;

	nat64_owner(f);
	failed = bpf_map_update_elem(&nat64_bib4, &back, &f->owner, BPF_NOEXIST);
	return !failed ? OUTCOME_NONE : failed == -17 ? DROP_SESSION_RACE : DROP_TABLE_FULL;
}

/* Take a reference to b, which was found for f->client's port, for one more session. */
static __always_inline int nat64_hold(struct nat64_flow *f, struct nat64_binding *b)
{
	__u64 word = nat64_read(b->word), seen = 0;

	for (int i = 0; i < NAT64_RETRIES; i++) {
		if (word & NAT64_BINDING_DEAD)
			return DROP_SESSION_RACE;
		seen = __sync_val_compare_and_swap(&b->word, word, word + 1);
		if (seen == word)
			break;
		word = seen;
	}
	if (seen != word)
		return DROP_SESSION_RACE;
	/* it is held now; is it still the one that was looked up? */
	if (b->port != f->port || b->protocol != f->protocol || !addr6_same(&b->client, &f->client)) {
		__sync_fetch_and_sub(&b->word, 1);
		return DROP_SESSION_RACE;
	}
	f->pool = b->pool;
	f->pool_port = b->pool_port;
	return OUTCOME_NONE;
}

/*
 * Take a reference to the binding of f->client's port for one more session.
 * OUTCOME_NONE, or DROP_NO_BINDING if there is none.
 */
__noinline int nat64_binding_hold(struct nat64_flow *f)
{
	struct nat64_binding *b;

	if (!f)
		return DROP_KERNEL;
	nat64_bib6_key(&f->from, &f->client, f->port, f->protocol, f->translator);
	b = bpf_map_lookup_elem(&nat64_bib6, &f->from);
	return b ? nat64_hold(f, b) : DROP_NO_BINDING;
}

/* one more binding or session (by, as for nat64_subscriber_less) */
__noinline int nat64_subscriber_more(struct nat64_flow *f, __u64 by)
{
	struct nat64_subscriber *u, *fresh;
	struct nat64_stateful *c;
	__u64 word;

	if (!f)
		return DROP_KERNEL;
	c = nat64_config(f->translator);
	if (!c)
		return DROP_KERNEL;
	fresh = &f->subscriber;
	fresh->word = by;
	fresh->refused = 0;
	__builtin_memset(fresh->packets, 0, sizeof(fresh->packets));
	__builtin_memset(fresh->bytes, 0, sizeof(fresh->bytes));
	nat64_subscriber_key(&fresh->self, &f->client, f->translator, c->subscriber_bits);
	u = bpf_map_lookup_elem(&nat64_subscribers, &fresh->self);
	if (!u) {
		if (!bpf_map_update_elem(&nat64_subscribers, &fresh->self, fresh, BPF_NOEXIST))
			return OUTCOME_NONE;
		u = bpf_map_lookup_elem(&nat64_subscribers, &fresh->self);
		if (!u)
			return DROP_TABLE_FULL;
	}
	word = __sync_fetch_and_add(&u->word, by) + by;
	if (word & NAT64_SUBSCRIBER_DEAD || !addr6_same(&u->self.prefix, &fresh->self.prefix)) {
		__sync_fetch_and_sub(&u->word, by);
		return DROP_SESSION_RACE;
	}
	if ((by == 1 && c->sessions_max && (__u32)word > c->sessions_max) ||
	    (by != 1 && c->ports_max && (__u32)(word >> 32) > c->ports_max)) {
		__sync_fetch_and_sub(&u->word, by);
		__sync_fetch_and_add(&u->refused, 1);
		return DROP_SUBSCRIBER_LIMIT;
	}
	return OUTCOME_NONE;
}

/* Make the binding of f->client's port, with one session's reference. */
__noinline int nat64_binding_make(struct nat64_flow *f)
{
	struct nat64_bib4_key back = {}, *fixed = NULL;
	struct nat64_stateful *c;
	struct nat64_binding *b;
	struct nat64_usage *usage;
	int outcome;
	long failed;

	if (!f)
		return DROP_KERNEL;
	b = &f->binding;
	c = nat64_config(f->translator);
	outcome = nat64_subscriber_more(f, 1ULL << 32);
	if (outcome)
		return outcome;
	nat64_bib6_key(&f->from, &f->client, f->port, f->protocol, f->translator);
	if (c && c->has_statics)
		fixed = bpf_map_lookup_elem(&nat64_statics6, &f->from);
	if (fixed) {
		f->pool = fixed->pool;
		f->pool_port = fixed->port;
		outcome = nat64_claim_static(f);
	} else if (f->import) {
		outcome = nat64_claim_static(f);
	} else {
		outcome = nat64_claim(f);
	}
	if (outcome)
		goto no_port;
	b->word = (__u64)(bpf_get_prandom_u32() & 0x7fffffff) << 32 | 1;
	b->client = f->client;
	b->pool = f->pool;
	b->pool_port = f->pool_port;
	b->port = f->port;
	b->made = f->import ? f->made : f->now;
	b->protocol = f->protocol;
	b->translator = f->translator;
	b->flags = fixed ? NAT64_BINDING_STATIC : 0;
	b->pad = 0;
	failed = bpf_map_update_elem(&nat64_bib6, &f->from, b, BPF_NOEXIST);
	if (!failed) {
		usage = nat64_usage(f->translator, f->protocol);
		if (usage)
			usage->bindings_made++;
		if (c && c->events)
			nat64_event_binding(b, NAT64_BINDING_MADE, f->now);
		return OUTCOME_NONE;
	}
	back.pool = f->pool;
	back.port = f->pool_port;
	back.protocol = f->protocol;
	bpf_map_delete_elem(&nat64_bib4, &back);
	outcome = failed == -17 ? nat64_binding_hold(f) : DROP_TABLE_FULL;
no_port:
	nat64_subscriber_less(nat64_end_of(f), 1ULL << 32);
	return outcome;
}
