/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What other routers must know to go on with this one's sessions (failover).
 * The daemon reads it out of a ring; what finds no room there is counted, and
 * the daemon lists everything anew.
 */

/*
 * Packets put a session's end off all the time: others are told about four
 * times in its life, and add a quarter to it.
 */
static __always_inline __u32 nat64_slack(const struct nat64_stateful *c, __u32 timer)
{
	return timer < NAT64_TIMERS ? c->timers[timer] / 4 : 0;
}

static __always_inline bool nat64_worth_telling(const struct nat64_stateful *c, __u32 timer,
						__u32 before, __u32 expires)
{
	__u32 part = nat64_slack(c, timer);

	return part && before / part != expires / part;
}

/* word: of s. Nobody is woken: the daemon looks when it is time. */
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
