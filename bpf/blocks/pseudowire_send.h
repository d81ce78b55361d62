/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The bypass into a pseudowire: a frame that weft's own tables have routed to its
 * interface is encapsulated at once, past the interface. Frames that need more go over
 * the interface to its hidden end: those that are too large and need an ICMP error,
 * those with tags, those whose path is not resolved, and GSO packets that must be
 * segmented.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "hook.h"
#include "outcome.h"
#include "pseudowire_maps.h"
#include "pseudowire_pack.h"
#include "pseudowire_sum.h"

/*
 * visible: index of the interface that the frame has its link header for.
 * FORWARD_PSEUDOWIRE_ENCAP: it leaves at once, and *verdict is set. FORWARD_ROUTED: nothing
 * was changed.
 */
__noinline int pseudowire_send(hook_ctx *ctx, __u32 visible, int *verdict)
{
	struct outside *out = pseudowire_room(0);
	__u32 *hidden, ifindex, len, frame, segment;
	struct pseudowire_path *path;
	struct pseudowire_tx *tx;
	struct inside in = {};

	hidden = bpf_map_lookup_elem(&pseudowire_bypasses, &visible);
	if (!verdict || !out || !hidden)
		return FORWARD_ROUTED;
	ifindex = *hidden;
	tx = bpf_map_lookup_elem(&pseudowire_txs, &ifindex);
	if (!tx)
		return FORWARD_ROUTED;
	path = bpf_map_lookup_elem(&pseudowire_paths, &tx->endpoints);
	if (!path || !path->ifindex || !(path->flags & PSEUDOWIRE_RESOLVED) ||
	    path->ifindex == 1 || /* loopback: see pseudowire_encap.bpf.c */
	    (HOOK_SENDS_RAW && !(path->flags & PSEUDOWIRE_PATH_XDP)) || hook_tag(ctx).proto)
		return FORWARD_ROUTED;
	segment = hook_segment(ctx);
	if (segment && !(tx->flags & PSEUDOWIRE_SEGMENTS))
		return FORWARD_ROUTED;
	inside_ip(ctx, &in);
	frame = hook_len(ctx);
	len = tx->outer_len;
	if ((in.proto != bpf_htons(ETH_P_IP) && in.proto != bpf_htons(ETH_P_IPV6)) ||
	    in.l3 > room_for(tx, path, 0) || frame + len > 65535)
		return FORWARD_ROUTED;
	outside_fill(out, tx, path, &in, frame);
	asm volatile("" : "+r"(len)); /* the verifier has to see the bounds */
	if (len > PSEUDOWIRE_OUTER)
		return FORWARD_ROUTED;
	asm volatile("" : "+r"(len));
	if (len < 24)
		return FORWARD_ROUTED;
	asm volatile("" : "+r"(len));
	if (tx->seqoff && !(tx->flags & PSEUDOWIRE_PINNED)) {
		__u32 at = tx->seqoff;

		if (at > PSEUDOWIRE_OUTER - sizeof(__be32))
			return FORWARD_ROUTED;
		*(__be32 *)(out->bytes + (at & 127)) = outside_number(tx);
	}
	__builtin_memcpy(out->bytes + len, &in.eth, sizeof(in.eth));
	/*
	 * GSO packets of other tunnels: the kernel supports one level of encapsulation,
	 * and refuses before it writes
	 */
	if (hook_pack(ctx, len, ETH_HLEN, tx->family == AF_INET, pseudowire_tunnel(tx)))
		return FORWARD_ROUTED;
	if (hook_set_outer(ctx, &out->eth, ETH_HLEN + len))
		return DROP_KERNEL;
	pseudowire_sent(ifindex, frame, segment);
	*verdict = bpf_redirect(path->ifindex, 0);
	return FORWARD_PSEUDOWIRE_ENCAP;
}
