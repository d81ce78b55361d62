/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Options of IPv4 and TCP headers, and the one that is changed: the MSS of a
 * TCP SYN.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "hook.h"
#include "outcome.h"

/*
 * Options of IPv4 and of TCP have one format: kind, length, data; kind 0 ends the list
 * and kind 1 is padding. bpf_loop steps from one to the next, because the verifier
 * would follow every combination of lengths.
 */
struct options {
	__u32 bytes[16]; /* up to 60 are used */
	__u32 at;
	__u32 end;
	enum outcome outcome; /* of an IPv4 header */
	__u32 mss_at;         /* of a TCP header: where the MSS is, or 0 */
	bool source_route;    /* of an IPv4 header: there is one, used up or not */
};

static __always_inline __u32 option_byte(const struct options *o, __u32 at)
{
	return ((const __u8 *)o->bytes)[at & 63];
}

static long tcp_option(__u32 i, struct options *o)
{
	__u32 kind, len;

	if (o->at >= o->end)
		return 1;
	kind = option_byte(o, o->at);
	if (kind == 0)
		return 1;
	if (kind == 1) {
		o->at++;
		return 0;
	}
	len = option_byte(o, o->at + 1);
	if (o->at + 1 >= o->end || len < 2 || o->at + len > o->end)
		return 1;
	if (kind == 2 && len == 4) {
		o->mss_at = o->at + 2;
		return 1;
	}
	o->at += len;
	return 0;
}

/*
 * The MSS option of the TCP header at off: offset of the value << 16 | MSS, host
 * order; 0 if there is none. A malformed list is left to the endpoints.
 */
__noinline int tcp_find_mss(hook_ctx *ctx, __u32 off)
{
	struct options o = { .at = sizeof(struct tcphdr) };
	__u8 doff;

	if (hook_load(ctx, off + 12, &doff, 1))
		return 0;
	o.end = (doff >> 4) * 4;
	if (o.end <= sizeof(struct tcphdr) || hook_load_some(ctx, off, o.bytes, o.end, sizeof(o.bytes)))
		return 0;
	bpf_loop(40, tcp_option, &o, 0);
	if (!o.mss_at)
		return 0;
	return (o.mss_at & 63) << 16 | option_byte(&o, o.mss_at) << 8 | option_byte(&o, o.mss_at + 1);
}

/* Clamp the MSS option of a SYN whose transport header is at off. */
static __always_inline long tcp_clamp_mss(hook_ctx *ctx, __u32 off, __u32 max_mss)
{
	__u32 found = tcp_find_mss(ctx, off), at = found >> 16 & 63, mss = found & 0xffff;

	if (!at || mss <= max_mss)
		return 0;
	return hook_replace_data(ctx, off + at, off + __builtin_offsetof(struct tcphdr, check),
				 bpf_htons(mss), bpf_htons(max_mss), at & 1);
}

/* The same for a packet that is still encapsulated; pseudo: the sum of its pseudo-header. */
static __always_inline __attribute__((unused)) long tcp_clamp_mss_inside(hook_ctx *ctx, __u32 off, __u32 max_mss,
									  __u16 pseudo)
{
	__u32 found = tcp_find_mss(ctx, off), at = found >> 16 & 63, mss = found & 0xffff;

	if (!at || mss <= max_mss)
		return 0;
	return hook_replace_inner(ctx, off + at, off + __builtin_offsetof(struct tcphdr, check),
				  bpf_htons(mss), bpf_htons(max_mss), at & 1, pseudo);
}
