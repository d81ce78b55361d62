/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The end of sessions and of the bindings that only they held. Whoever sets a
 * word dead by compare-and-swap takes the thing apart, and nobody else does.
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

/* One session less; the last one takes the binding along. */
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

/* Returns 1 if it was this call that ended the session, whose word was word. */
__noinline int nat64_session_end(const struct nat64_session_key *key, struct nat64_session *s,
				 __u64 word)
{
	struct nat64_end *e = nat64_end();
	struct nat64_stateful *c;
	struct nat64_usage *usage;

	if (!key || !s || !e)
		return 0;
	if (nat64_word_state(word) == NAT64_DEAD ||
	    __sync_val_compare_and_swap(&s->word, word,
					NAT64_WORD(nat64_word_expires(word), NAT64_DEAD,
						   nat64_word_flags(word), word >> 48)) != word)
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
	if (c && c->shared && !(nat64_word_flags(word) & NAT64_SESSION_REMOTE))
		nat64_announce(s, word, NAT64_ENDED);
	bpf_map_delete_elem(&nat64_sessions, key);
	nat64_slot_free(&e->slot);
	if (nat64_word_flags(word) & NAT64_SESSION_PEER)
		nat64_peer_less(e, key);
	nat64_binding_release(e);
	nat64_subscriber_less(e, 1);
	usage = nat64_usage(e->translator, e->protocol);
	if (usage)
		usage->sessions_ended++;
	return 1;
}
