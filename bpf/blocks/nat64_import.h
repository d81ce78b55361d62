/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Decides whether this router imports sessions that another router has advertised
 * (session synchronisation).
 *
 * A record is a session, with other meanings of some fields: the expiry in its word is
 * the number of ticks left; made is its age in ticks; slot is the request (enum
 * import_want), and afterwards the result (enum import_result).
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
#define IMPORT_MOST 256 /* sessions that one run takes */

#define IMPORT_SINCE 15 /* ticks, a second: a remote expiry later by more than this means that another router has seen a packet since */

/* what a record asks for */
/* go: state.ImportWant */
enum import_want {
	IMPORT_PUT = 1,  /* the sender has this session */
	IMPORT_REPLICATE = 2, /* the sender received it from a third router, or from this one */
	IMPORT_END = 3,  /* it is over */
	IMPORT_MARK = 4, /* as IMPORT_REPLICATE, but not to be made if it is not there */
};

/* what became of it */
/* go: state.ImportResult */
enum import_result {
	IMPORT_MADE,
	IMPORT_RENEWED,
	IMPORT_ENDED,
	IMPORT_KEPT,     /* this router's state is newer, or there was nothing to do */
	IMPORT_CONFLICT, /* the port stands for another node here */
	IMPORT_REFUSED,  /* no room, or the translator is not shared */
	IMPORT_AGAIN,    /* disturbed by another CPU */
	IMPORT_RESULTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_session);
	__uint(max_entries, IMPORT_MOST);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_imports SEC(".maps");

static __always_inline __u32 import_timer(__u8 protocol, __u8 state)
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
__noinline int import_known(struct nat64_flow *f, struct nat64_session *s, struct nat64_session *r)
{
	struct nat64_stateful *c;
	struct nat64_slot *slot;
	__u64 word, fresh;
	__u32 at, left, expires;
	__u8 flags;

	if (!f || !s || !r)
		return IMPORT_REFUSED;
	word = nat64_read(s->word);
	flags = nat64_packed_flags(word);
	if (s->port != r->port || !addr6_same(&s->client, &r->client))
		return r->slot == IMPORT_END ? IMPORT_KEPT : IMPORT_CONFLICT;
	if (nat64_packed_state(word) == NAT64_DEAD)
		return IMPORT_AGAIN;
	if (r->slot == IMPORT_END) {
		/* packets of it have arrived here meanwhile: it is this router's */
		if (!(flags & NAT64_SESSION_REMOTE))
			return IMPORT_KEPT;
		return nat64_session_end(&f->key, s, word) ? IMPORT_ENDED : IMPORT_AGAIN;
	}
	c = nat64_config(r->translator);
	if (!c)
		return IMPORT_REFUSED;
	left = nat64_packed_expires(r->word);
	expires = nat64_packed_expires(word);
	if (r->slot != IMPORT_PUT) {
		if (!(flags & NAT64_SESSION_REMOTE) ||
		    (flags ^ nat64_packed_flags(r->word)) & NAT64_SESSION_OWNER)
			return IMPORT_KEPT;
		fresh = NAT64_PACKED(expires, nat64_packed_state(word),
				   (flags & NAT64_SESSION_PEER) | nat64_packed_flags(r->word), word >> 48);
		if (__sync_val_compare_and_swap(&s->word, word, fresh) != word)
			return IMPORT_AGAIN;
		nat64_fast_clear(s);
		return IMPORT_KEPT;
	}
	/* our own, unless the other has seen packets since */
	if (!(flags & NAT64_SESSION_REMOTE) && (__s32)(f->now + left - expires) <= IMPORT_SINCE)
		return IMPORT_KEPT;
	expires = f->now + left +
		  nat64_slack(c, import_timer(r->protocol, nat64_packed_state(r->word)));
	fresh = NAT64_PACKED(expires, nat64_packed_state(r->word),
			   (flags & NAT64_SESSION_PEER) | nat64_packed_flags(r->word), word >> 48);
	if (__sync_val_compare_and_swap(&s->word, word, fresh) != word)
		return IMPORT_AGAIN;
	nat64_fast_clear(s);
	at = s->slot;
	slot = bpf_map_lookup_elem(&nat64_slots, &at);
	if (slot && (__s32)(slot->due - expires) > 0)
		slot->due = expires;
	return IMPORT_RENEWED;
}

static __always_inline int import_result(int outcome)
{
	return outcome == OUTCOME_NONE	     ? IMPORT_MADE :
	       outcome == DROP_SESSION_RACE ? IMPORT_AGAIN :
					      IMPORT_REFUSED;
}

/* The port is bound to another node, or the node has another port. */
static __always_inline bool import_conflicts(struct nat64_flow *f)
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

__noinline int import_new(struct nat64_flow *f, struct nat64_session *r)
{
	__u32 timer, left;
	struct nat64_stateful *c;
	int outcome;
	__u8 state;

	if (!f || !r)
		return IMPORT_REFUSED;
	c = nat64_config(r->translator);
	left = nat64_packed_expires(r->word);
	if (!c || !left)
		return c ? IMPORT_KEPT : IMPORT_REFUSED;
	if (import_conflicts(f))
		return IMPORT_CONFLICT;
	state = nat64_packed_state(r->word);
	timer = import_timer(r->protocol, state);
	f->import = 1;
	f->import_flags = nat64_packed_flags(r->word);
	f->left = left + nat64_slack(c, timer);
	f->made = f->now - r->made;
	outcome = nat64_subscriber_more(f, 1);
	if (outcome)
		return import_result(outcome);
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
		return IMPORT_MADE;
	nat64_binding_release(nat64_end_of(f));
no_binding:
	nat64_subscriber_less(nat64_end_of(f), 1);
	return import_result(outcome);
}

static __always_inline int import(struct nat64_session *r)
{
	__u32 zero = 0;
	struct nat64_flow *f = bpf_map_lookup_elem(&nat64_flows, &zero);
	struct nat64_stateful *c = nat64_config(r->translator);
	struct nat64_session *s;

	if (!f || !c || !c->shared)
		return IMPORT_REFUSED;
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
		return import_known(f, s, r);
	return r->slot == IMPORT_END || r->slot == IMPORT_MARK ? IMPORT_KEPT : import_new(f, r);
}

static long import_one(__u32 i, void *unused)
{
	struct nat64_session *r = bpf_map_lookup_elem(&nat64_imports, &i);

	if (!r)
		return 1;
	r->slot = import(r);
	return 0;
}
