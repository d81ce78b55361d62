/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Drop what the ruleset has refused: see flow_early_drop.h. It is asked for packets
 * that are of no flow, and so have been looked at already.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "flow_maps.h"
#include "flow_early_drop.h"
#include "outcome.h"

#define FLOW_TCP_ACK 0x10

/* whether TCP with such flags begins a connection */
static __always_inline bool flow_begins(__u8 flags)
{
	return (flags & (TCP_FIN | TCP_SYN | TCP_RST | FLOW_TCP_ACK)) == TCP_SYN;
}

/* whether the flow of t is refused where it arrives */
static __always_inline enum outcome flow_early_dropped(const struct flow_tuple *t, __u32 interface,
						 const struct flow_control *control, __u64 now)
{
	struct flow_early_drop *early_drop = bpf_map_lookup_elem(&flow_early_drops, t);

	if (!early_drop || early_drop->interface != interface || early_drop->generation != control->generation ||
	    early_drop->epoch != control->refuse || now > early_drop->until || now > control->lease)
		return OUTCOME_NONE;
	return DROP_EARLY;
}
