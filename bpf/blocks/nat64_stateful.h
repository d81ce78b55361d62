/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* Where nat64.h and nat64_state.h meet: a parsed packet asks for its state. */

static __always_inline struct nat64_flow *nat64_flow(const struct nat64 *x, __u8 protocol)
{
	__u32 zero = 0;
	struct nat64_flow *f = bpf_map_lookup_elem(&nat64_flows, &zero);

	if (!f)
		return NULL;
	f->protocol = protocol;
	f->tcp_flags = x->opens;
	f->translator = x->translator;
	f->adopt = 0;
	return f;
}

/* RFC 6146 translates no other transports */
static __always_inline bool nat64_has_ports(const struct nat64 *x)
{
	return x->is_icmp || x->is_udp ||
	       x->check_off == __builtin_offsetof(struct tcphdr, check);
}

/* where the port lies that this direction changes; ICMP: the identifier */
static __always_inline void nat64_replace(struct nat64 *x, __u8 off, __be16 from, __be16 to)
{
	x->port_off = x->is_icmp ? __builtin_offsetof(struct icmphdr, id) : off;
	x->old_port = from;
	x->new_port = to;
}

/*
 * A refused packet's sender is due an ICMPv6 error, address unreachable (RFC
 * 6146 3.5.1.1), which the slow path sends. One packet a tick is let up: a
 * flood of them must not fill the way that others take.
 */
static __always_inline enum outcome nat64_refuse(enum outcome why, struct nat64_flow *f)
{
	__u32 zero = 0, last, now = f->now;
	struct nat64_subscriber *u;
	struct nat64_sweep_state *all = bpf_map_lookup_elem(&nat64_sweep_states, &zero);

	if (!all || nat64_no_errors)
		return why;
	last = *(volatile __u32 *)&all->refused;
	if (last == now || __sync_val_compare_and_swap(&all->refused, last, now) != last)
		return why;
	/* the slow path asks once more, and counts it */
	u = why == DROP_SUBSCRIBER_LIMIT ?
		    bpf_map_lookup_elem(&nat64_subscribers, &f->subscriber.self) :
		    NULL;
	if (u)
		__sync_fetch_and_sub(&u->refused, 1);
	return SLOW_ERROR_DUE;
}

static __always_inline enum outcome nat64_stateful6(struct nat64 *x)
{
	struct nat64_flow *f;
	enum outcome outcome;

	if (!nat64_has_ports(x))
		return SLOW_ERROR_DUE;
	f = nat64_flow(x, x->protocol);
	if (!f)
		return DROP_KERNEL;
	f->outbound = 1;
	f->client = x->saddr6;
	f->remote6 = x->daddr6;
	f->remote = x->daddr4;
	f->port = x->source_port;
	f->remote_port = x->dest_port;
	outcome = nat64_outbound(f);
	if (outcome == NAT64_UNKNOWN)
		outcome = nat64_open_outbound(f);
	if (outcome == DROP_POOL_EXHAUSTED || outcome == DROP_TABLE_FULL ||
	    outcome == DROP_SUBSCRIBER_LIMIT)
		return nat64_refuse(outcome, f);
	if (outcome != OUTCOME_NONE)
		return outcome;
	x->saddr4 = f->pool;
	nat64_replace(x, __builtin_offsetof(struct tcphdr, source), f->port, f->pool_port);
	return OUTCOME_NONE;
}

static __always_inline enum outcome nat64_stateful4(struct nat64 *x)
{
	struct nat64_flow *f;
	enum outcome outcome;

	if (!nat64_has_ports(x))
		return DROP_PROTOCOL;
	f = nat64_flow(x, x->is_icmp ? IPPROTO_ICMP : x->protocol);
	if (!f)
		return DROP_KERNEL;
	f->outbound = 0;
	f->pool = x->daddr4;
	f->remote = x->saddr4;
	f->pool_port = x->dest_port;
	f->remote_port = x->source_port;
	outcome = nat64_inbound(f);
	if (outcome == NAT64_UNKNOWN)
		outcome = nat64_open_inbound(f);
	if (outcome != OUTCOME_NONE)
		return outcome;
	x->saddr6 = f->remote6;
	x->daddr6 = f->client;
	nat64_replace(x, __builtin_offsetof(struct tcphdr, dest), f->pool_port, f->port);
	return OUTCOME_NONE;
}

/* One packet more of a subscriber: direction is enum nat64_direction. */
__noinline int nat64_account(const struct in6_addr *client, __u32 translator, __u32 direction,
			     __u32 bytes)
{
	struct nat64_subscriber_key who;
	struct nat64_subscriber *u;
	struct nat64_stateful *c;

	if (!client)
		return 0;
	c = nat64_config(translator);
	if (!c)
		return 0;
	nat64_subscriber_key(&who, client, translator, c->subscriber_bits);
	u = bpf_map_lookup_elem(&nat64_subscribers, &who);
	if (!u)
		return 0;
	direction &= 1;
	__sync_fetch_and_add(&u->packets[direction], 1);
	__sync_fetch_and_add(&u->bytes[direction], bytes);
	return 0;
}
