/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Stateful NAT64 (RFC 6146): which binding and session a packet belongs to.
 *
 *   nat64_outbound   IPv6 to IPv4: fills the pool's address and port
 *   nat64_inbound    IPv4 to IPv6: fills the client's
 *
 * The common case is one look-up and, at most every 16 seconds, one write. What
 * makes and ends state stands in the parts
 * nat64_state_open.h, _bind.h and _end.h; _share.h tells other routers. The same state machine stands in
 * internal/translate/session, the reference in Go.
 */
#include "addresses.h"
#include "nat64_state_flow.h"
#include "outcome.h"
#include <bpf/bpf_endian.h>

/*
 * A session is touched when it has less than its timer left, and then gets a
 * 16th more, 16 s at most: so it is seldom written to, and never ends early.
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
#define nat64_word_expires(w) ((__u32)(w))
#define nat64_word_state(w) ((__u8)((w) >> NAT64_WORD_STATE))
#define nat64_word_flags(w) ((__u8)((w) >> NAT64_WORD_FLAGS))
#define NAT64_WORD(expires, state, flags, generation)             \
	((__u64)(generation) << NAT64_WORD_GENERATION |           \
	 (__u64)(__u8)(flags) << NAT64_WORD_FLAGS |               \
	 (__u64)(__u8)(state) << NAT64_WORD_STATE | (__u32)(expires))

static __always_inline bool nat64_expired(__u64 word, __u32 now)
{
	return (__s32)(nat64_word_expires(word) - now) <= 0;
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

#include "nat64_state_events.h"

#include "nat64_state_fast.h"

#include "nat64_state_share.h"

/* A packet of a session: its state and time move on. */
static __always_inline void nat64_touch(const struct nat64_flow *f, struct nat64_session *s,
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
		if (nat64_word_state(word) == NAT64_DEAD)
			return;
		next = nat64_next(f, nat64_word_state(word), &timer);
		expires = nat64_word_expires(word);
		flags = nat64_word_flags(word);
		if (next == nat64_word_state(word) && !(flags & NAT64_SESSION_REMOTE) &&
		    (timer >= NAT64_TIMERS || (__s32)(expires - f->now) >= (__s32)c->timers[timer]))
			return;
		if (timer < NAT64_TIMERS)
			expires = f->now + nat64_lifetime(c, timer);
		fresh = NAT64_WORD(expires, next, flags & NAT64_SESSION_PEER, word >> 48);
		seen = __sync_val_compare_and_swap(&s->word, word, fresh);
		if (seen == word) {
			if (c->shared &&
			    (flags & NAT64_SESSION_REMOTE || next != nat64_word_state(word) ||
			     nat64_worth_telling(c, timer, nat64_word_expires(word), expires)))
				nat64_announce(s, fresh, NAT64_CHANGED);
			break;
		}
		word = seen;
	}
	if (next != nat64_word_state(word))
		nat64_fast_clear(s);
	if ((__s32)(expires - nat64_word_expires(word)) >= 0)
		return;
	/* less time than it had: the sweep has to come earlier */
	at = s->slot;
	slot = bpf_map_lookup_elem(&nat64_slots, &at);
	if (slot && (__s32)(slot->due - expires) > 0)
		slot->due = expires;
}

#include "nat64_state_end.h"

#include "nat64_state_bind.h"

#include "nat64_state_open.h"

/*
 * No session: nat64_open_outbound or nat64_open_inbound has to be asked. Not
 * from here, because the stack of all calls together is bounded.
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
	if (nat64_word_state(word) == NAT64_DEAD || s->port != f->port ||
	    !addr6_same(&s->client, &f->client))
		return DROP_SESSION_RACE;
	if (nat64_expired(word, f->now)) {
		nat64_session_end(&f->key, s, word);
		return NAT64_UNKNOWN;
	}
	nat64_touch(f, s, word);
	nat64_fast_fill(f, s);
	return OUTCOME_NONE;
}

/*
 * IPv4 to IPv6. Given: pool, pool_port, remote, remote_port, protocol,
 * tcp_flags, translator. remote6 is set if the session is known, else it must
 * have been.
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
	if (nat64_expired(word, f->now) && nat64_word_state(word) != NAT64_DEAD) {
		nat64_session_end(&f->key, s, word);
		return NAT64_UNKNOWN;
	}
	f->client = s->client;
	f->remote6 = s->remote6;
	f->port = s->port;
	/* what was read belongs together, and to this packet */
	if (nat64_word_state(word) == NAT64_DEAD || s->remote != f->remote ||
	    s->pool_port != f->pool_port || (nat64_read(s->word) ^ word) >> 48)
		return DROP_SESSION_RACE;
	nat64_touch(f, s, word);
	return OUTCOME_NONE;
}
