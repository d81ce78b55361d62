/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Decides whether this router imports sessions that another router has advertised
 * (session synchronisation).
 *
 * A record is a session, with other meanings of some fields: the expiry in its word is
 * the number of ticks left; made is its age in ticks; slot is the request (enum
 * adopt_want), and afterwards the result (enum adopt_result).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "nat64_bind.h"
#include "nat64_session.h"
#include "nat64_state.h"
#include "nat64_state_maps.h"
#include "outcome.h"

/* go: datapath/nat64table */
#define ADOPT_MOST 256 /* sessions that one run takes */

#define ADOPT_SINCE 15 /* ticks, a second: a remote expiry later by more than this means that another router has seen a packet since */

/* what a record asks for */
/* go: state.AdoptWant */
enum adopt_want {
	ADOPT_PUT = 1,  /* the sender has this session */
	ADOPT_LEND = 2, /* the sender received it from a third router, or from this one */
	ADOPT_END = 3,  /* it is over */
	ADOPT_MARK = 4, /* as ADOPT_LEND, but not to be made if it is not there */
};

/* what became of it */
/* go: state.AdoptResult */
enum adopt_result {
	ADOPT_MADE,
	ADOPT_RENEWED,
	ADOPT_ENDED,
	ADOPT_KEPT,     /* this router's state is newer, or there was nothing to do */
	ADOPT_CONFLICT, /* the port stands for another node here */
	ADOPT_REFUSED,  /* no room, or the translator is not shared */
	ADOPT_AGAIN,    /* disturbed by another CPU */
	ADOPT_RESULTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_session);
	__uint(max_entries, ADOPT_MOST);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_adoptions SEC(".maps");

static __always_inline __u32 adopt_timer(__u8 protocol, __u8 state)
{
	if (protocol == IPPROTO_UDP)
		return NAT64_TIMER_UDP;
	if (protocol == IPPROTO_ICMP)
		return NAT64_TIMER_ICMP;
	return state == NAT64_ESTABLISHED || state == NAT64_V4_FIN || state == NAT64_V6_FIN ?
		       NAT64_TIMER_EST :
		       NAT64_TIMER_TRANS;
}

/* The session exists here already: compare its state with the record's. */
__noinline int adopt_known(struct nat64_flow *f, struct nat64_session *s, struct nat64_session *r)
{
	struct nat64_stateful *c;
	struct nat64_slot *slot;
	__u64 word, fresh;
	__u32 at, left, expires;
	__u8 flags;

	if (!f || !s || !r)
		return ADOPT_REFUSED;
	word = nat64_read(s->word);
	flags = nat64_word_flags(word);
	if (s->port != r->port || !addr6_same(&s->client, &r->client))
		return r->slot == ADOPT_END ? ADOPT_KEPT : ADOPT_CONFLICT;
	if (nat64_word_state(word) == NAT64_DEAD)
		return ADOPT_AGAIN;
	if (r->slot == ADOPT_END) {
		/* packets of it have arrived here meanwhile: it is this router's */
		if (!(flags & NAT64_SESSION_REMOTE))
			return ADOPT_KEPT;
		return nat64_session_end(&f->key, s, word) ? ADOPT_ENDED : ADOPT_AGAIN;
	}
	c = nat64_config(r->translator);
	if (!c)
		return ADOPT_REFUSED;
	left = nat64_word_expires(r->word);
	expires = nat64_word_expires(word);
	if (r->slot != ADOPT_PUT) {
		if (!(flags & NAT64_SESSION_REMOTE) ||
		    (flags ^ nat64_word_flags(r->word)) & NAT64_SESSION_OWNER)
			return ADOPT_KEPT;
		fresh = NAT64_WORD(expires, nat64_word_state(word),
				   (flags & NAT64_SESSION_PEER) | nat64_word_flags(r->word), word >> 48);
		if (__sync_val_compare_and_swap(&s->word, word, fresh) != word)
			return ADOPT_AGAIN;
		nat64_fast_clear(s);
		return ADOPT_KEPT;
	}
	/* our own, unless the other has seen packets since */
	if (!(flags & NAT64_SESSION_REMOTE) && (__s32)(f->now + left - expires) <= ADOPT_SINCE)
		return ADOPT_KEPT;
	expires = f->now + left +
		  nat64_slack(c, adopt_timer(r->protocol, nat64_word_state(r->word)));
	fresh = NAT64_WORD(expires, nat64_word_state(r->word),
			   (flags & NAT64_SESSION_PEER) | nat64_word_flags(r->word), word >> 48);
	if (__sync_val_compare_and_swap(&s->word, word, fresh) != word)
		return ADOPT_AGAIN;
	nat64_fast_clear(s);
	at = s->slot;
	slot = bpf_map_lookup_elem(&nat64_slots, &at);
	if (slot && (__s32)(slot->due - expires) > 0)
		slot->due = expires;
	return ADOPT_RENEWED;
}

static __always_inline int adopt_result(int outcome)
{
	return outcome == OUTCOME_NONE	     ? ADOPT_MADE :
	       outcome == DROP_SESSION_RACE ? ADOPT_AGAIN :
					      ADOPT_REFUSED;
}

/* The port is bound to another node, or the node has another port. */
static __always_inline bool adopt_conflicts(struct nat64_flow *f)
{
	struct nat64_binding *b;
	struct nat64_owner *o;

	nat64_bib6_key(&f->from, &f->client, f->port, f->protocol, f->translator);
	b = bpf_map_lookup_elem(&nat64_bib6, &f->from);
	if (b)
		return b->pool != f->pool || b->pool_port != f->pool_port;
	f->to.pool = f->pool;
	f->to.port = f->pool_port;
	f->to.protocol = f->protocol;
	f->to.pad = 0;
	o = bpf_map_lookup_elem(&nat64_bib4, &f->to);
	return o && (o->port != f->port || !addr6_same(&o->client, &f->client));
}

__noinline int adopt_new(struct nat64_flow *f, struct nat64_session *r)
{
	__u32 timer, left;
	struct nat64_stateful *c;
	int outcome;
	__u8 state;

	if (!f || !r)
		return ADOPT_REFUSED;
	c = nat64_config(r->translator);
	left = nat64_word_expires(r->word);
	if (!c || !left)
		return c ? ADOPT_KEPT : ADOPT_REFUSED;
	if (adopt_conflicts(f))
		return ADOPT_CONFLICT;
	state = nat64_word_state(r->word);
	timer = adopt_timer(r->protocol, state);
	f->adopt = 1;
	f->adopt_flags = nat64_word_flags(r->word);
	f->left = left + nat64_slack(c, timer);
	f->made = f->now - r->made;
	outcome = nat64_subscriber_more(f, 1);
	if (outcome)
		return adopt_result(outcome);
	outcome = nat64_binding_hold(f);
	if (outcome == DROP_NO_BINDING)
		outcome = nat64_binding_make(f);
	if (outcome)
		goto no_binding;
	/* weft.toml may have given the node another port meanwhile */
	outcome = DROP_SESSION_RACE;
	if (f->pool == r->pool && f->pool_port == r->pool_port)
		outcome = nat64_session_make(f, state, timer);
	if (!outcome)
		return ADOPT_MADE;
	nat64_binding_release(nat64_end_of(f));
no_binding:
	nat64_subscriber_less(nat64_end_of(f), 1);
	return adopt_result(outcome);
}

static __always_inline int adopt(struct nat64_session *r)
{
	__u32 zero = 0;
	struct nat64_flow *f = bpf_map_lookup_elem(&nat64_flows, &zero);
	struct nat64_stateful *c = nat64_config(r->translator);
	struct nat64_session *s;

	if (!f || !c || !c->shared)
		return ADOPT_REFUSED;
	f->client = r->client;
	f->remote6 = r->remote6;
	f->pool = r->pool;
	f->remote = r->remote;
	f->port = r->port;
	f->pool_port = r->pool_port;
	f->remote_port = r->remote_port;
	f->protocol = r->protocol;
	f->translator = r->translator;
	f->outbound = 1;
	f->now = nat64_now();
	nat64_session_key(&f->key, f);
	s = bpf_map_lookup_elem(&nat64_sessions, &f->key);
	if (s)
		return adopt_known(f, s, r);
	return r->slot == ADOPT_END || r->slot == ADOPT_MARK ? ADOPT_KEPT : adopt_new(f, r);
}

static long adopt_one(__u32 i, void *unused)
{
	struct nat64_session *r = bpf_map_lookup_elem(&nat64_adoptions, &i);

	if (!r)
		return 1;
	r->slot = adopt(r);
	return 0;
}
