// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of the lowest devices by which offloaded flows may leave. It observes
 * which flows the ruleset accepts, and their link headers. It changes no packet.
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
