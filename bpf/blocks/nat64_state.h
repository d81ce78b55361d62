/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Stateful NAT64 (RFC 6146): finds the binding and session of a packet.
 *
 *   nat64_outbound   IPv6 to IPv4: fills the pool's address and port
 *   nat64_inbound    IPv4 to IPv6: fills the client's
 *
 * In the common case this takes one look-up and, at most every 16 seconds, one write
 * (nat64_session.h). The code below makes sessions and handles packets that have none;
 * nat64_bind.h makes bindings.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "nat64_bind.h"
#include "nat64_maps.h"
#include "nat64_rules.h"
#include "nat64_session.h"
#include "nat64_state_maps.h"
#include "outcome.h"

/* New sessions, and packets that may cross without one (RFC 6146 3.5). */

static __always_inline int nat64_slot_take(__u32 *at)
{
	__u32 zero = 0;
	struct nat64_sweep_state *all = bpf_map_lookup_elem(&nat64_sweep_states, &zero);

	if (!all)
		return DROP_KERNEL;
	/* popping takes the stack's lock: not while there are none */
	if (*(volatile __s32 *)&all->free > 0 && !bpf_map_pop_elem(&nat64_slots_free, at)) {
		__sync_fetch_and_add(&all->free, -1);
		return OUTCOME_NONE;
	}
	/* read first, so that the counter does not grow while the table is full */
	*at = *(volatile __u32 *)&all->high;
	if (bpf_map_lookup_elem(&nat64_slots, at)) {
		*at = __sync_fetch_and_add(&all->high, 1);
		if (bpf_map_lookup_elem(&nat64_slots, at))
			return OUTCOME_NONE;
	}
	/* other CPUs may be releasing some at this moment */
	if (bpf_map_pop_elem(&nat64_slots_free, at))
		return DROP_TABLE_FULL;
	__sync_fetch_and_add(&all->free, -1);
	return OUTCOME_NONE;
}

/* One more session with this remote address; false if it could not be counted. */
static __always_inline bool nat64_peer_more(const struct nat64_session_key *of)
{
	struct nat64_end *e = nat64_end();
	__u64 one = 1, *n;

	if (!e)
		return false;
	e->peer = *of;
	e->peer.remote_port = 0;
	n = bpf_map_lookup_elem(&nat64_peers, &e->peer);
	if (n && !(__sync_fetch_and_add(n, 1) >> 63))
		return true;
	return !n && !bpf_map_update_elem(&nat64_peers, &e->peer, &one, BPF_NOEXIST);
}

/* The caller holds a reference to the binding; f describes the session. */
__noinline int nat64_session_make(struct nat64_flow *f, __u32 state, __u32 timer)
{
	struct nat64_stateful *c;
	struct nat64_session *s;
	struct nat64_usage *usage;
	struct nat64_end *e;
	struct nat64_slot *slot;
	__u32 expires, flags = 0;
	long failed;
	int outcome;

	if (!f)
		return DROP_KERNEL;
	s = &f->session;
	c = nat64_config(f->translator);
	if (!c || timer >= NAT64_TIMERS)
		return DROP_KERNEL;
	outcome = nat64_slot_take(&s->slot);
	if (outcome)
		return outcome;
	expires = f->now + (f->import ? f->left : nat64_lifetime(c, timer));
	if (f->import)
		flags = f->import_flags & ~NAT64_SESSION_PEER;
	nat64_session_key(&f->key, f);
	if (c->filtering == NAT64_FILTER_ADDRESS && nat64_peer_more(&f->key))
		flags |= NAT64_SESSION_PEER;
	s->word = NAT64_PACKED(expires, state, flags, bpf_get_prandom_u32() & 0xffff);
	s->client = f->client;
	s->remote6 = f->remote6;
	s->pool = f->pool;
	s->remote = f->remote;
	s->port = f->port;
	s->pool_port = f->pool_port;
	s->remote_port = f->remote_port;
	s->protocol = f->protocol;
	s->translator = f->translator;
	s->made = f->import ? f->made : f->now;
	failed = bpf_map_update_elem(&nat64_sessions, &f->key, s, BPF_NOEXIST);
	if (failed) {
		nat64_slot_free(&s->slot);
		e = nat64_end();
		if (e && flags & NAT64_SESSION_PEER)
			nat64_peer_less(e, &f->key);
		return failed == -17 ? DROP_SESSION_RACE : DROP_TABLE_FULL;
	}
	slot = bpf_map_lookup_elem(&nat64_slots, &s->slot);
	if (slot) {
		slot->key = f->key;
		slot->due = expires;
		slot->used = 1;
	}
	usage = nat64_usage(f->translator, f->protocol);
	if (usage)
		usage->sessions_made++;
	if (c->shared && !f->import)
		nat64_announce(s, s->word, NAT64_CHANGED);
	return OUTCOME_NONE;
}

/* Does this packet open a session? TCP: a SYN. ICMP: a request. */
static __always_inline bool nat64_opens(const struct nat64_flow *f)
{
	return f->protocol == IPPROTO_TCP  ? (f->tcp_flags & (TCP_SYN | TCP_RST)) == TCP_SYN :
	       f->protocol == IPPROTO_ICMP ? f->tcp_flags == 1 :
					     true;
}

/* A session with a binding, new or old. may_bind: make one if there is none. */
static __always_inline int nat64_open(struct nat64_flow *f, bool may_bind)
{
	__u32 state = NAT64_ACTIVE, timer = NAT64_TIMER_UDP;
	__be16 pool_port;
	__be32 pool;
	int outcome;

	if (!f)
		return DROP_KERNEL;
	outcome = nat64_subscriber_more(f, 1);
	if (outcome) {
		if (f->bound == NAT64_BOUND_HELD)
			nat64_binding_release(nat64_end_of(f));
		return outcome;
	}
	pool = f->pool;
	pool_port = f->pool_port;
	if (f->bound == NAT64_BOUND_UNKNOWN)
		outcome = nat64_binding_hold(f);
	else if (f->bound == NAT64_BOUND_NOT)
		outcome = DROP_NO_BINDING;
	if (outcome == DROP_NO_BINDING && may_bind)
		outcome = nat64_binding_make(f);
	if (outcome)
		goto no_binding;
	/* its node may have had another port before weft.toml assigned this one */
	outcome = DROP_NO_BINDING;
	if (!f->outbound && (f->pool != pool || f->pool_port != pool_port))
		goto no_session;
	if (f->protocol == IPPROTO_ICMP) {
		timer = NAT64_TIMER_ICMP;
		f->remote_port = f->pool_port;
	} else if (f->protocol == IPPROTO_TCP) {
		/* RFC 5382 REQ-5: four minutes to open */
		timer = NAT64_TIMER_TRANS;
		state = f->outbound ? NAT64_V6_INIT : NAT64_V4_INIT;
	}
	outcome = nat64_session_make(f, state, timer);
	if (!outcome) {
		if (f->outbound)
			nat64_fast_fill(f, &f->session);
		return OUTCOME_NONE;
	}
no_session:
	nat64_binding_release(nat64_end_of(f));
no_binding:
	nat64_subscriber_less(nat64_end_of(f), 1);
	return outcome;
}

/* whether a is an IPv4 address embedded in the translator's prefix */
static __always_inline bool nat64_under_prefix(const struct in6_addr *a, __u32 translator)
{
	struct nat64_rule6 *rule = nat64_rule6(a);

	return rule && rule->translator == translator &&
	       (rule->suffix.kind == NAT64_PREFIX || rule->suffix.kind == NAT64_REFUSED);
}

__noinline int nat64_open_outbound(struct nat64_flow *f)
{
	struct nat64_binding *b;

	if (!f)
		return DROP_KERNEL;
	/* it has a binding, so all this was asked when that was made */
	if (f->bound == NAT64_BOUND_HELD)
		return nat64_open(f, 1);
	/* a node that sends from the prefix would loop (RFC 6146 3.5) */
	if (nat64_under_prefix(&f->client, f->translator))
		return DROP_ILLEGAL_ADDRESS;
	if (nat64_opens(f))
		return nat64_open(f, 1);
	/* RFC 6146 3.5.2.2, CLOSED: with a binding the packet crosses, and opens nothing */
	nat64_bib6_key(&f->from, &f->client, f->port, f->protocol, f->translator);
	b = bpf_map_lookup_elem(&nat64_bib6, &f->from);
	if (!b)
		return DROP_NO_BINDING;
	f->pool = b->pool;
	f->pool_port = b->pool_port;
	return b->port == f->port && addr6_same(&b->client, &f->client) ? OUTCOME_NONE :
									    DROP_SESSION_RACE;
}

__noinline int nat64_open_inbound(struct nat64_flow *f)
{
	struct nat64_bib4_key to = {};
	struct nat64_stateful *c;
	struct nat64_owner *b;
	struct nat64_translator *via;
	struct nat64_bib6_key *fixed;
	struct nat64_rule4 *from;

	if (!f)
		return DROP_KERNEL;
	to.pool = f->pool;
	to.port = f->pool_port;
	to.protocol = f->protocol;
	b = bpf_map_lookup_elem(&nat64_bib4, &to);
	c = nat64_config(f->translator);
	if (!c)
		return DROP_KERNEL;
	fixed = c->has_statics ? bpf_map_lookup_elem(&nat64_statics4, &to) : NULL;
	if (b) {
		f->client = b->client;
		f->port = b->port;
	} else if (fixed) {
		f->client = fixed->client;
		f->port = fixed->port;
	} else {
		return DROP_NO_BINDING;
	}
	/* RFC 6052 3.1: not under the well-known prefix */
	from = nat64_rule4(f->remote);
	if (from && from->translator == f->translator && from->suffix.kind == NAT64_REFUSED)
		return DROP_ILLEGAL_ADDRESS;
	via = nat64_translator(f->translator);
	if (!via)
		return DROP_KERNEL;
	nat64_to6(&f->remote6, f->remote, &via->prefix);
	/* a static binding is there to be reached: nothing filters it */
	if (!fixed && c->filtering != NAT64_FILTER_NONE) {
		nat64_session_key(&f->key, f);
		f->key.remote_port = 0;
		if (c->filtering == NAT64_FILTER_PORT || !bpf_map_lookup_elem(&nat64_peers, &f->key))
			return f->protocol == IPPROTO_TCP && nat64_opens(f) ? SLOW_SYN :
									       DROP_FILTERED;
	}
	if (nat64_opens(f))
		return nat64_open(f, fixed != NULL);
	return b ? OUTCOME_NONE : DROP_NO_BINDING;
}

/*
 * No session: the caller has to call nat64_open_outbound or nat64_open_inbound. Not
 * from here, because the stack of all nested calls is limited.
 */
#define NAT64_UNKNOWN OUTCOME_COUNT

/* The binding is at hand: nat64_open_outbound need not look for it again. */
static __always_inline int nat64_hold_early(struct nat64_flow *f, struct nat64_binding *b)
{
	int outcome = nat64_hold(f, b);

	if (outcome)
		return outcome;
	f->bound = NAT64_BOUND_HELD;
	return NAT64_UNKNOWN;
}

/*
 * IPv6 to IPv4. Given: client, port, remote, remote6, remote_port, protocol,
 * tcp_flags, translator.
 */
__noinline int nat64_outbound(struct nat64_flow *f)
{
	struct nat64_session *s;
	struct nat64_binding *b;
	__u64 word;

	if (!f)
		return DROP_KERNEL;
	f->now = nat64_now();
	f->bound = NAT64_BOUND_UNKNOWN;
	if (nat64_fast_may(f) && nat64_fast_find(f))
		return OUTCOME_NONE;
	nat64_bib6_key(&f->from, &f->client, f->port, f->protocol, f->translator);
	b = bpf_map_lookup_elem(&nat64_bib6, &f->from);
	if (!b) {
		f->bound = NAT64_BOUND_NOT;
		return NAT64_UNKNOWN;
	}
	f->pool = b->pool;
	f->pool_port = b->pool_port;
	if (f->protocol == IPPROTO_ICMP)
		f->remote_port = b->pool_port;
	nat64_session_key(&f->key, f);
	s = bpf_map_lookup_elem(&nat64_sessions, &f->key);
	if (!s)
		return nat64_opens(f) ? nat64_hold_early(f, b) : NAT64_UNKNOWN;
	word = nat64_read(s->word);
	if (nat64_packed_state(word) == NAT64_DEAD || s->port != f->port ||
	    !addr6_same(&s->client, &f->client))
		return DROP_SESSION_RACE;
	if (nat64_expired(word, f->now)) {
		nat64_session_end(&f->key, s, word);
		return NAT64_UNKNOWN;
	}
	nat64_refresh(f, s, word);
	nat64_fast_fill(f, s);
	return OUTCOME_NONE;
}

/*
 * IPv4 to IPv6. Given: pool, pool_port, remote, remote_port, protocol, tcp_flags,
 * translator. remote6 is set if the session is known; otherwise the caller must set
 * it.
 */
__noinline int nat64_inbound(struct nat64_flow *f)
{
	struct nat64_session *s;
	__u64 word;

	if (!f)
		return DROP_KERNEL;
	f->now = nat64_now();
	f->bound = NAT64_BOUND_UNKNOWN;
	nat64_session_key(&f->key, f);
	s = bpf_map_lookup_elem(&nat64_sessions, &f->key);
	if (!s)
		return NAT64_UNKNOWN;
	word = nat64_read(s->word);
	if (nat64_expired(word, f->now) && nat64_packed_state(word) != NAT64_DEAD) {
		nat64_session_end(&f->key, s, word);
		return NAT64_UNKNOWN;
	}
	f->client = s->client;
	f->remote6 = s->remote6;
	f->port = s->port;
	/* the fields that were read are consistent, and belong to this packet */
	if (nat64_packed_state(word) == NAT64_DEAD || s->remote != f->remote ||
	    s->pool_port != f->pool_port || (nat64_read(s->word) ^ word) >> 48)
		return DROP_SESSION_RACE;
	nat64_refresh(f, s, word);
	return OUTCOME_NONE;
}
