// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX egress of PPP devices by which offloaded flows may leave. It records the ingress
 * interface of each packet, which the device below does not know. It changes no
 * packet.
 */
#include "tc.h"
#include "flow_session.h"

SEC("tcx/egress")
int flow_session_egress(struct __sk_buff *ctx)
{
	flow_enter(ctx);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
