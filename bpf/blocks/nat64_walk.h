/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Walks the headers that are removed before the transport header: IPv6 extension
 * headers (RFC 7915 5.1) and IPv4 options (4.1). They are rare, so these are separate
 * functions that read by copy.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "hook.h"
#include "options.h"
#include "outcome.h"

#define IPV6_EXTENSIONS_MAX 8 /* more in one packet are an attack or a mistake */

/* result of a walk: outcome, bytes passed, protocol found */
#define WALK(outcome, len, protocol) \
	((__u64)(outcome) << 32 | (__u64)(len) << 8 | (__u8)(protocol))
#define walk_outcome(w) ((enum outcome)((w) >> 32))
#define walk_len(w) ((__u16)((w) >> 8))
#define walk_protocol(w) ((__u8)(w))

static __always_inline bool ipv6_is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_DSTOPTS;
}

__noinline __u64 ipv6_walk(hook_ctx *ctx, __u32 protocol, __u32 payload)
{
	struct {
		__u8 next, len, type, segments_left;
	} ext;
	__u32 off = 0;

	protocol &= 0xff;
	payload &= 0xffff;
	for (int i = 0; i < IPV6_EXTENSIONS_MAX; i++) {
		if (!ipv6_is_extension(protocol))
			return WALK(OUTCOME_NONE, off, protocol);
		if (off + 8 > payload ||
		    hook_load(ctx, ETH_HLEN + sizeof(struct ipv6hdr) + off, &ext, sizeof(ext)))
			return WALK(DROP_TRUNCATED, 0, 0);
		if (protocol == IPPROTO_FRAGMENT)
			return WALK(SLOW_FRAGMENT, 0, 0);
		off += (ext.len + 1) * 8;
		if (off > payload)
			return WALK(DROP_TRUNCATED, 0, 0);
		if (protocol == IPPROTO_ROUTING && ext.segments_left)
			return WALK(SLOW_ERROR_DUE, 0, 0);
		protocol = ext.next;
	}
	if (!ipv6_is_extension(protocol))
		return WALK(OUTCOME_NONE, off, protocol);
	return WALK(SLOW_ERROR_DUE, 0, 0);
}

/* one option of IPv4; 1 ends the walk */
static long ipv4_option(__u32 i, struct options *o)
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
	if (o->at + 1 >= o->end || len < 2 || o->at + len > o->end) {
		o->outcome = DROP_BAD_HEADER;
		return 1;
	}
	/* loose 131, strict 137: used up once the pointer is past the end */
	if (kind == 131 || kind == 137) {
		o->source_route = true;
		if (len < 3)
			o->outcome = DROP_BAD_HEADER;
		else if (option_byte(o, o->at + 2) <= len)
			o->outcome = DROP_SOURCE_ROUTE;
		if (o->outcome != OUTCOME_NONE)
			return 1;
	}
	o->at += len;
	return 0;
}

#define IPV4_SOURCE_ROUTE 0x10000

/*
 * header_len: 24..60. Checksum, then the options one by one (RFC 791 3.1).
 * Returns an outcome, and IPV4_SOURCE_ROUTE where there was one.
 */
__noinline int ipv4_walk(hook_ctx *ctx, __u32 header_len)
{
	struct options o = { .at = sizeof(struct iphdr), .end = header_len };
	__u64 acc = 0;

	if (header_len < 24 || header_len > 60)
		return DROP_BAD_HEADER;
	if (hook_load_some(ctx, ETH_HLEN, o.bytes, header_len, sizeof(o.bytes)))
		return DROP_TRUNCATED;
	for (int i = 0; i < 15; i++)
		acc += o.bytes[i];
	if (csum_fold16(csum_reduce(acc)) != 0xffff)
		return DROP_IPV4_CHECKSUM;
	bpf_loop(40, ipv4_option, &o, 0);
	return o.outcome | (o.source_route ? IPV4_SOURCE_ROUTE : 0);
}
