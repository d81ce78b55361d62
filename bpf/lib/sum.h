/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* The sum of all bytes of a packet, if no checksum in it determines that sum. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "hook.h"

#define UDP_CHUNK 64 /* what the stack has room for */
#define UDP_CHUNKS_MAX 161 /* 10,304 bytes: beyond every MTU that is in use */

struct udp_summing {
	hook_ctx *ctx;
	__u32 off, len; /* what is left */
	__u64 acc;
};

/* sum one chunk; 1 ends the walk */
static long udp_sum_fragment(__u32 i, struct udp_summing *s)
{
	__u64 chunk[UDP_CHUNK / 8] = {};
	__u32 n = s->len < UDP_CHUNK ? s->len : UDP_CHUNK;

	if (hook_load_some(s->ctx, s->off, chunk, n, UDP_CHUNK))
		return 1;
	/* 64-bit words, with end-around carry */
	for (int w = 0; w < UDP_CHUNK / 8; w++) {
		s->acc += chunk[w];
		s->acc += s->acc < chunk[w];
	}
	s->off += n;
	s->len -= n;
	return !s->len;
}

/*
 * One's complement sum of len bytes at off (for instance of a UDP datagram whose
 * checksum field is zero), unfolded. Returns -1 if there are too many.
 */
__noinline __s64 udp_sum(hook_ctx *ctx, __u32 off, __u32 len)
{
	struct udp_summing s = { .ctx = ctx, .off = off, .len = len & 0xffff };

	bpf_loop(UDP_CHUNKS_MAX, udp_sum_fragment, &s, 0);
	return s.len ? -1 : (__s64)csum_reduce(s.acc);
}
