/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Early drop: packets that the ruleset has refused are dropped before the stack sees
 * them. weft learns a refusal from the ruleset's own verdict on a packet that belonged
 * to no connection (internal/feature/offload). Only such packets are dropped: of TCP,
 * those that would begin a connection.
 *
 * A packet in the opposite direction may change the ruleset's verdict on a flow: see
 * flow_egress_lookup.h.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flow_maps.h"

/* a flow, whatever interface it comes by; IPv4 as ::ffff:a.b.c.d */
struct flow_tuple {
	struct flow_ports ports;
	__u32 protocol;
	struct in6_addr saddr;
	struct in6_addr daddr;
};
_Static_assert(sizeof(struct flow_tuple) == 40, "no padding");

struct flow_early_drop {
	__u32 interface;  /* to which the frames belong */
	__u32 generation; /* of flow_control: the ruleset that refused it */
	__u32 epoch;      /* of flow_control: the state of links */
	__u32 pad;
	__u64 until; /* nanoseconds, CLOCK_MONOTONIC */
};
_Static_assert(sizeof(struct flow_early_drop) == 24, "no padding");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_tuple);
	__type(value, struct flow_early_drop);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_early_drops SEC(".maps");

static __always_inline void flow_tuple4(struct flow_tuple *t, const struct iphdr *ip)
{
	t->saddr.be32[2] = t->daddr.be32[2] = bpf_htonl(0xffff);
	t->saddr.be32[3] = ip->saddr;
	t->daddr.be32[3] = ip->daddr;
}

/* all of it; k is copied, for it may lie where t does */
static __always_inline void flow_tuple_of4(struct flow_tuple *t, struct flow_key4 k)
{
	*t = (struct flow_tuple){ .ports = k.ports, .protocol = k.protocol };
	t->saddr.be32[2] = t->daddr.be32[2] = bpf_htonl(0xffff);
	t->saddr.be32[3] = k.saddr;
	t->daddr.be32[3] = k.daddr;
}
