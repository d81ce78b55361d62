// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of a [bridge]'s own device: filters the frames that the bridge hands to
 * the router. All are dropped unless weft.toml makes the router a member of the
 * bridge.
 */
#include "tc.h"
#include "bridge.h"
#include "counters.h"

SEC("tcx/ingress")
int bridge_host_in(struct __sk_buff *ctx)
{
	__u32 ifindex = ctx->ifindex;
	struct bridge_port *port = bpf_map_lookup_elem(&bridge_ports, &ifindex);
	enum outcome outcome = port ? bridge_egress(ctx, ifindex, port) : DROP_PORT_UNKNOWN;

	count(BRIDGE_HOST_IN, outcome);
	bridge_count(ifindex, outcome);
	return outcome_is_drop(outcome) ? TCX_DROP : TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
