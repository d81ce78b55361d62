/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What precedes the transport header and is left behind: IPv6 extension
 * headers (RFC 7915 5.1) and IPv4 options (4.1). Rare, so these are functions
 * of their own that read by copy. Also the checksum that IPv4 let UDP leave out.
 */
#include "checksum.h"
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

static __noinline __u64 ipv6_walk(hook_ctx *ctx, __u32 protocol, __u32 payload)
{
	struct {
		__u8 next, len, type, segments_left;
	} ext;
	__u32 off = 0;

	for (int i = 0; i < IPV6_EXTENSIONS_MAX; i++) {
		if (!ipv6_is_extension(protocol))
			return WALK(OUTCOME_NONE, off, protocol);
		if (off + 8 > payload ||
		    hook_load(ctx, ETH_HLEN + sizeof(struct ipv6hdr) + off, &ext, sizeof(ext)))
			return WALK(DROP_TRUNCATED, 0, 0);
		if (protocol == IPPROTO_FRAGMENT)
			return WALK(SLOW_FRAGMENT, 0, 0);
		if (protocol == IPPROTO_ROUTING && ext.segments_left)
			return WALK(SLOW_ERROR_DUE, 0, 0);
		off += (ext.len + 1) * 8;
		if (off > payload)
			return WALK(DROP_TRUNCATED, 0, 0);
		protocol = ext.next;
	}
	if (!ipv6_is_extension(protocol))
		return WALK(OUTCOME_NONE, off, protocol);
	return WALK(DROP_EXTENSION_HEADERS, 0, 0);
}

/* header_len: 24..60. Checksum, then the options one by one (RFC 791 3.1). */
static __noinline enum outcome ipv4_walk(hook_ctx *ctx, __u32 header_len)
{
	__u32 words[15] = {};
	__u8 *header = (__u8 *)words;
	__u64 acc = 0;
	__u32 at = sizeof(struct iphdr);

	if (header_len < 24 || header_len > sizeof(words))
		return DROP_BAD_HEADER;
	if (hook_load(ctx, ETH_HLEN, words, header_len))
		return DROP_TRUNCATED;
	for (int i = 0; i < 15; i++)
		acc += words[i];
	if (csum_fold16(csum_reduce(acc)) != 0xffff)
		return DROP_IPV4_CHECKSUM;
	for (int i = 0; i < 40 && at < header_len; i++) {
		__u32 type = header[at & 63], len, pointer;

		if (at >= sizeof(words) - 2 || type == 0) {
			/* end of options, or no room left for one with a length */
			if (type > 1)
				return DROP_BAD_HEADER;
			if (type == 0)
				return OUTCOME_NONE;
		}
		if (type == 1) {
			at++;
			continue;
		}
		len = header[(at + 1) & 63];
		pointer = header[(at + 2) & 63];
		if (len < 2 || at + len > header_len)
			return DROP_BAD_HEADER;
		/* loose 131, strict 137: used up once the pointer is past the end */
		if ((type == 131 || type == 137) && pointer <= len)
			return DROP_SOURCE_ROUTE;
		at += len;
	}
	return OUTCOME_NONE;
}

#define UDP_CHUNK 256
#define UDP_CHUNKS_MAX 40 /* 10,240 bytes: beyond every MTU that is in use */

/*
 * One's complement sum over the UDP datagram at off, unfolded; the field
 * itself is zero. Returns -1 if it is too long.
 */
static __noinline __s64 udp_sum(hook_ctx *ctx, __u32 off, __u32 len)
{
	__u32 chunk[UDP_CHUNK / 4];
	__u64 acc = 0;

	for (int i = 0; i < UDP_CHUNKS_MAX && len; i++) {
		__u32 n = len < UDP_CHUNK ? len : UDP_CHUNK;

		if (n < UDP_CHUNK)
			__builtin_memset(chunk, 0, sizeof(chunk));
		if (n == 0 || n > UDP_CHUNK || hook_load(ctx, off, chunk, n))
			return -1;
		for (int w = 0; w < UDP_CHUNK / 4; w++)
			acc += chunk[w];
		off += n;
		len -= n;
	}
	return len ? -1 : (__s64)csum_reduce(acc);
}
