// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of an LNS's or L2TP client's device, to which the stack routes packets
 * for its subscribers.
 *
 *   for a subscriber -> encapsulated and sent to the tunnel's peer
 *   too large for the session or for the path to its peer, or a GSO packet whose
 *           segments need a sequence number or a checksum of their own -> passed to
 *           the device, from which the daemon reads
 *   for no subscriber -> dropped
 */
#include "tc.h"
#include "classify.h"
#include "counters.h"
#include "interface.h"
#include "l2tp.h"
#include "l2tp_send.h"

SEC("tcx/egress")
int lns_egress(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex;
	struct interface *at = interface_find(ifindex);
	struct packet_info from = { .l3 = ETH_HLEN, .proto = ctx->protocol, .table = at ? at->table : 0 };
	enum outcome outcome;
	int verdict = TCX_NEXT;

	outcome = l2tp_send(ctx, &from, &verdict, false);
	if (outcome > SLOW_SUBSCRIBER && !outcome_is_drop(outcome) && outcome != PASS_LINK_SCOPE)
		outcome = SLOW_SUBSCRIBER;
	count(LNS_EGRESS, outcome);
	return outcome_is_drop(outcome) ? TCX_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
