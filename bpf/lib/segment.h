/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* The size on the wire of the segments of a GSO packet. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "cursor.h"
#include "hook.h"

/*
 * IP bytes per packet on the wire: total, or the size of a GSO packet's segments. If
 * its protocol is neither TCP nor UDP, the result is too large for any link.
 */
static __always_inline __u32 segment_wire_len(hook_ctx *ctx, __u32 total, __u32 header,
					      __u8 protocol, struct cursor l4)
{
	__u32 segment = hook_segment(ctx);
	struct tcphdr *tcp;

	if (segment && protocol == IPPROTO_TCP) {
		tcp = PULL(&l4, struct tcphdr);
		return tcp ? header + (tcp->doff >> 4 << 2) + segment : total;
	}
	if (segment && protocol == IPPROTO_UDP)
		return header + sizeof(struct udphdr) + segment;
	return total;
}
