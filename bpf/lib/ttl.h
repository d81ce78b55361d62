/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* The changes that a router makes to a packet that it forwards. */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"
#include "hook.h"
#include "outcome.h"

/* Decrement TTL or hop limit; nothing else of the packet changes. */
static __always_inline enum outcome ttl_decrement(hook_ctx *ctx, struct cursor cur, __be16 proto)
{
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&cur, struct iphdr);
		__u32 sum;

		if (!ip)
			return DROP_KERNEL;
		/* RFC 1624: the TTL is the upper half of its word */
		sum = (__u32)ip->check + bpf_htons(0x0100);
		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	} else {
		struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);

		if (!ip)
			return DROP_KERNEL;
		ip->hop_limit--;
		hook_summed(ctx, ~(__u32)bpf_htons(1));
	}
	return OUTCOME_NONE;
}
