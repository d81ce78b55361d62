// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP that routes by weft's tables and does nothing else: what weft bench fib
 * holds against the kernel's forwarding, and what the tests of the block run.
 */
#include "xdp.h"
#include "counters.h"
#include "route.h"

SEC("xdp")
int xdp_route(struct xdp_md *ctx)
{
	int verdict = XDP_PASS;
	enum outcome outcome = route(ctx, &verdict);

	count(INGRESS_XDP, outcome);
	return outcome_is_drop(outcome) ? XDP_DROP : verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
