// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of the lowest devices that offloaded flows may leave by: sees which
 * flows the ruleset lets through, and how their frames look. It changes nothing.
 */
#include "tc.h"
#include "flow_observe.h"

SEC("tcx/egress")
int flow_egress(struct __sk_buff *ctx)
{
	flow_observe(ctx);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
