/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Checksums over whole packets: of GRE, and of UDP over IPv6. No packet that has one
 * is larger than 10 kB, since none is a GSO packet.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "hook.h"

/*
 * Programs that call blocks have little stack left: buffers are in a map. The CPU runs
 * nothing else that uses them meanwhile.
 */
struct pseudowire_bytes {
	__u8 bytes[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct pseudowire_bytes);
	__uint(max_entries, 2);
} pseudowire_scratch SEC(".maps");

static __always_inline void *pseudowire_room(__u32 which)
{
	return bpf_map_lookup_elem(&pseudowire_scratch, &which);
}

#define PSEUDOWIRE_PART 128
#define PSEUDOWIRE_PARTS 80

/* in a map, too, so that the verifier does not follow the numbers */
struct pseudowire_part {
	__u32 from, to; /* remaining range */
	__u32 sum;
	__u32 failed;
	__u32 bytes[PSEUDOWIRE_PART / 4];
};
_Static_assert(sizeof(struct pseudowire_part) <= sizeof(struct pseudowire_bytes), "it has room");

/* sum one part of the packet; 1 ends the loop */
static long pseudowire_part(__u32 i, hook_ctx **ctx)
{
	struct pseudowire_part *p = pseudowire_room(1);
	__u32 n;

	if (!p || p->from >= p->to)
		return 1;
	n = p->to - p->from;
	if (n > PSEUDOWIRE_PART)
		n = PSEUDOWIRE_PART;
	else
		__builtin_memset(p->bytes, 0, sizeof(p->bytes));
	if (hook_load_some(*ctx, p->from, p->bytes, n, PSEUDOWIRE_PART)) {
		p->failed = 1;
		return 1;
	}
	p->sum = bpf_csum_diff(NULL, 0, p->bytes, sizeof(p->bytes), p->sum);
	p->from += n;
	return 0;
}

/*
 * sum of the bytes from `from` to `to`, added to sum; 0xffff if a checksum in the
 * range is right, 0 if it cannot be computed
 */
static __noinline __u32 pseudowire_sum(hook_ctx *ctx, __u32 from, __u32 to, __u32 sum)
{
	struct pseudowire_part *p = pseudowire_room(1);

	if (!p)
		return 0;
	p->from = from;
	p->to = to;
	p->sum = sum;
	p->failed = 0;
	bpf_loop(PSEUDOWIRE_PARTS, pseudowire_part, &ctx, 0);
	return p->failed || p->from < p->to ? 0 : csum_fold16(p->sum);
}
