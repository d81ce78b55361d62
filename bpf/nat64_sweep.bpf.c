// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Ends expired sessions. It is attached nowhere: weft runs it once with BPF_PROG_RUN,
 * and from then on a timer in a pinned map runs it every 17 ms, with or without a
 * daemon. Each run looks at one 256th of the slots that have been used, so that all
 * are visited within 4.3 s. Packets do not depend on it: they check the expiry
 * themselves.
 *
 * The packet's mark is the request (enum sweep_mark).
 */
#include "tc.h"
#include "addresses.h"
#include "nat64.h"

/* go: datapath/nat64table */
enum sweep_mark {
	SWEEP_START, /* start the timer */
	SWEEP_ALL,   /* look at all slots now */
	SWEEP_STOP,  /* stop the timer */
	SWEEP_KEYS,  /* end the sessions whose keys follow the Ethernet header */
};

#define SWEEP_PERIOD (1ULL << 24) /* ns */
#define SWEEP_PARTS 256
#define SWEEP_MOST (1U << 22) /* slots in one go; bpf_loop takes 2^23 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_sweep_timer);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_sweep_timers SEC(".maps");

struct sweep {
	__u32 now;
	__u32 from;
	__u32 high;
	__u32 ended;
};

static long sweep_slot(__u32 i, struct sweep *s)
{
	struct nat64_session_key key;
	struct nat64_session *session;
	struct nat64_slot *slot;
	__u32 at = s->from + i;
	__u64 word;

	if (at >= s->high)
		at -= s->high;
	slot = bpf_map_lookup_elem(&nat64_slots, &at);
	if (!slot)
		return 1;
	if (!slot->used || (__s32)(slot->due - s->now) > 0)
		return 0;
	key = slot->key;
	session = bpf_map_lookup_elem(&nat64_sessions, &key);
	if (!session || session->slot != at)
		return 0; /* being made or ended just now */
	word = nat64_read(session->word);
	if (!nat64_expired(word, s->now)) {
		slot->due = nat64_packed_expires(word);
		/* its lifetime may have been shortened meanwhile */
		word = nat64_read(session->word);
		if ((__s32)(slot->due - nat64_packed_expires(word)) > 0)
			slot->due = nat64_packed_expires(word);
		return 0;
	}
	s->ended += nat64_session_end(&key, session, word);
	return 0;
}

static __always_inline void sweep(bool all)
{
	__u32 zero = 0, most, cursor;
	struct nat64_sweep_state *state = bpf_map_lookup_elem(&nat64_sweep_states, &zero);
	struct sweep s = { .now = nat64_now() };

	if (!state)
		return;
	s.high = state->high;
	if (!s.high)
		return;
	cursor = state->cursor;
	s.from = all || cursor >= s.high ? 0 : cursor;
	most = all ? s.high : s.high / SWEEP_PARTS + 1;
	if (most > SWEEP_MOST)
		most = SWEEP_MOST;
	if (most > s.high)
		most = s.high;
	bpf_loop(most, sweep_slot, &s, 0);
	state->cursor = s.from + most;
	state->swept += s.ended;
}

static int sweep_again(void *map, __u32 *key, struct nat64_sweep_timer *t)
{
	sweep(false);
	bpf_timer_start(&t->timer, SWEEP_PERIOD, 0);
	return 0;
}

/* go: datapath/nat64table */
#define SWEEP_KEYS_MOST 64 /* in one packet */

/* weft flush */
static __always_inline int sweep_keys(struct __sk_buff *ctx)
{
	struct nat64_session_key key;
	struct nat64_session *session;

	for (__u32 i = 0; i < SWEEP_KEYS_MOST; i++) {
		if (bpf_skb_load_bytes(ctx, ETH_HLEN + i * sizeof(key), &key, sizeof(key)))
			break;
		session = bpf_map_lookup_elem(&nat64_sessions, &key);
		if (session)
			nat64_session_end(&key, session, nat64_read(session->word));
	}
	return TCX_PASS;
}

SEC("tcx/ingress")
int nat64_sweep(struct __sk_buff *ctx)
{
	struct nat64_sweep_timer *t;
	__u32 zero = 0;

	if (ctx->mark == SWEEP_ALL) {
		sweep(true);
		return TCX_PASS;
	}
	if (ctx->mark == SWEEP_KEYS)
		return sweep_keys(ctx);
	t = bpf_map_lookup_elem(&nat64_sweep_timers, &zero);
	if (!t)
		return TCX_DROP;
	if (ctx->mark == SWEEP_STOP) {
		bpf_timer_cancel(&t->timer);
		return TCX_PASS;
	}
	/* fails if it is there already: then it gets this build's function */
	bpf_timer_init(&t->timer, &nat64_sweep_timers, CLOCK_MONOTONIC);
	if (bpf_timer_set_callback(&t->timer, sweep_again))
		return TCX_DROP;
	return bpf_timer_start(&t->timer, SWEEP_PERIOD, 0) ? TCX_DROP : TCX_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
