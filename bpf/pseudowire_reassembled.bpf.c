// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reassembled packets of pseudowires. The kernel has reassembled the fragments, and
 * the daemon reads the packets from raw sockets. It gives them to this program by
 * BPF_PROG_RUN, behind an empty link header and with the ingress device set, and gets
 * the inner frame back, with the index of the hidden end that it leaves by in mark. So
 * they are checked and counted as in ingress_tc, and their rate is limited. It is
 * attached nowhere.
 *
 * Returns the outcome.
 */
#include "tc.h"
#include "counters.h"
#include "interface.h"
#include "pseudowire.h"
#include "slow.h"

static __always_inline enum outcome joined(struct __sk_buff *ctx, const struct interface *at)
{
	struct pseudowire_packet *p = pseudowire_room(0);
	struct pseudowire_rx *rx;
	struct pseudowire_tx *tx;
	__u32 upper, hidden, mtu = 0;
	enum outcome outcome;
	int verdict;

	if (!p)
		return DROP_KERNEL;
	if (bpf_skb_store_bytes(ctx, 0, at->mac, ETH_ALEN, 0))
		return DROP_KERNEL;
	if (!slow_allowed(SLOW_FRAGMENT))
		return DROP_SLOW_LIMIT;
	outcome = pseudowire(ctx, at, &upper, &verdict);
	if (outcome != FORWARD_PSEUDOWIRE_DECAP)
		return outcome;
	rx = bpf_map_lookup_elem(&pseudowire_rxs, &p->key);
	if (!rx)
		return DROP_KERNEL; /* removed meanwhile */
	hidden = rx->ifindex;
	tx = bpf_map_lookup_elem(&pseudowire_txs, &hidden);
	/* the interface would drop it silently; four bytes may be a VLAN tag */
	if (tx && bpf_check_mtu(ctx, tx->peer, &mtu, -4, 0) > 0) {
		pseudowire_fault(hidden, PSEUDOWIRE_FAULT_TOO_BIG);
		return DROP_PSEUDOWIRE_TOO_BIG;
	}
	pseudowire_fault(hidden, PSEUDOWIRE_FAULT_REASSEMBLED);
	ctx->mark = hidden;
	return outcome;
}

SEC("tcx/ingress")
int pseudowire_reassembled(struct __sk_buff *ctx)
{
	struct interface *at = interface_find(ctx->ifindex);
	enum outcome outcome;

	if (!at || !(at->flags & INTERFACE_PSEUDOWIRES))
		return OUTCOME_NONE;
	outcome = joined(ctx, at);
	if (outcome != OUTCOME_NONE)
		count(INGRESS_TC, outcome);
	return outcome;
}

char _license[] SEC("license") = "Dual BSD/GPL";
