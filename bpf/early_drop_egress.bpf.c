// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of every device that is not in [offload], while refused flows are dropped
 * early: a packet that leaves to a refused sender by such a device cancels the early
 * drop, so that its answers pass. It changes no packet.
 */
#include "tc.h"
#include "flow_early_drop_egress.h"

SEC("tcx/egress")
int early_drop_egress(struct __sk_buff *ctx)
{
	struct flow_control *control = flow_control();

	if (!control || !control->refuse)
		return TCX_NEXT;
	/* behind an Ethernet header, or, where the device has none, at once */
	flow_egress_lookup(ctx, ETH_HLEN);
	flow_egress_lookup(ctx, 0);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
