/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Finds the interface of a frame that came from a switch (dsa.h): classify.h for
 * conduits. Only flows are looked up for such frames. The kernel gets frames whose tag
 * is unknown.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "cursor.h"
#include "dsa.h"
#include "hook.h"
#include "interface.h"
#include "link.h"
#include "outcome.h"

/* OUTCOME_NONE: *a is filled; l3 includes the switch's tag and a VLAN tag behind it */
static __always_inline enum outcome conduit_classify(hook_ctx *ctx, __u32 ifindex, struct packet_info *a)
{
	struct cursor cur = hook_cursor(ctx, CLASSIFY_BYTES + sizeof(struct gswip_rx));
	struct lower_key key = { .ifindex = ifindex };
	struct interface *at;
	void *start = cur.pos;
	struct ethhdr *eth;
	__u32 upper, port = 0;

	*a = (struct packet_info){ .interface = ifindex };
	if (hook_tag(ctx).proto)
		return PASS_NOT_FOR_US;
	eth = dsa_pull(&cur, &port, &a->proto);
	if (!eth)
		return PASS_NOT_FOR_US;
	key.tags[0].proto = bpf_htons(ETH_P_XDSA);
	key.tags[0].id = bpf_htons(port);
	classify_tag(&cur, &a->proto, &key.tags[1]);
	if (key.tags[1].proto && !key.tags[1].id && link_is_vlan(a->proto) && !(interface_unused & INTERFACE_GUARDED))
		return DROP_BAD_HEADER; /* as in classify.h */
	upper = classify_lower(&key, 0);
	at = upper ? interface_find(upper) : NULL;
	if (!at)
		return PASS_NOT_FOR_US;
	a->interface = upper;
	a->flags = at->flags & (INTERFACE_GUARDED | INTERFACE_OFFLOADED);
	a->above = true;
	a->l3 = cur.pos - start;
	a->ours = link_same_mac(eth->h_dest, at->mac);
	a->taken = a->ours || classify_taken(eth->h_dest);
	return OUTCOME_NONE;
}
