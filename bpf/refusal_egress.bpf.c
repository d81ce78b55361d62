// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of every other device, while flows that the ruleset has refused are
 * dropped early: who talks to a sender by a way that is none of [offload] gets
 * its answers, too. It changes nothing.
 */
#include "tc.h"
#include "flow_leaves.h"

SEC("tcx/egress")
int refusal_egress(struct __sk_buff *ctx)
{
	struct flow_control *control = flow_control();

	if (!control || !control->refuse)
		return TCX_NEXT;
	/* behind an Ethernet header, or, where the device has none, at once */
	flow_leaves(ctx, ETH_HLEN);
	flow_leaves(ctx, 0);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
