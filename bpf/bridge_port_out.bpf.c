// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of each port of a [bridge]: filters the frames that the kernel's bridge
 * or the router sends there.
 */
#include "tc.h"
#include "bridge.h"
#include "counters.h"

SEC("tcx/egress")
int bridge_port_out(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex;
	struct bridge_port *port = bpf_map_lookup_elem(&bridge_ports, &ifindex);
	enum outcome outcome = port ? bridge_egress(ctx, ifindex, port) : DROP_PORT_UNKNOWN;

	count(BRIDGE_PORT_OUT, outcome);
	bridge_count(ifindex, outcome);
	return outcome_is_drop(outcome) ? TCX_DROP : TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
