/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Drops packets with a DSCP for local use (pool 2, xxxx11: RFC 2474 section 6), and
 * counts them by interface and DSCP. All other packets go on to the next block.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "cursor.h"
#include "hook.h"
#include "outcome.h"

/* go: datapath/dscptable */
#define DSCP_BITS 6 /* of a key: the DSCP, below the index of the interface */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 4096);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} dscp_drops SEC(".maps");

/* a function of its own: the verifier looks at it once, and its stack is its own */
__noinline int dscp(hook_ctx *ctx, const struct packet_info *from)
{
	__u64 key, first = 1, *packets;
	struct cursor cur;
	__be16 *start;
	__u32 class;

	if (!from)
		return OUTCOME_NONE;
	cur = hook_cursor(ctx, from->l3 + sizeof(*start));
	cur.pos += from->l3 & 31; /* at most 22; the verifier has to see it */
	start = PULL(&cur, __be16);
	if (!start)
		return OUTCOME_NONE;
	if (from->proto == bpf_htons(ETH_P_IP))
		class = bpf_ntohs(*start) & 0xff;
	else if (from->proto == bpf_htons(ETH_P_IPV6))
		class = bpf_ntohs(*start) >> 4 & 0xff;
	else
		return OUTCOME_NONE;
	class >>= 2; /* without ECN */
	if ((class & 3) != 3)
		return OUTCOME_NONE;
	key = (__u64)from->interface << DSCP_BITS | class;
	packets = bpf_map_lookup_elem(&dscp_drops, &key);
	if (packets)
		*packets += 1;
	else
		bpf_map_update_elem(&dscp_drops, &key, &first, BPF_NOEXIST);
	return DROP_DSCP;
}
