/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Filters frames that enter a bridge by a port and frames that leave it. The kernel's
 * bridge forwards; these functions decide which frames it sees and which of them
 * leave.
 *
 *   enter:  complete? -> management? -> VLAN -> guards -> source address -> storm
 *   leave:  from where? -> isolated? -> VLAN
 *
 * If the kernel's bridge is not VLAN-aware (BRIDGE_TAGS), a frame carries its VLAN as
 * a tag inside the bridge. The tag is pushed when the frame enters. When it leaves,
 * the tag is popped, or the frame is dropped if the port is not in that VLAN. Nothing
 * is written before all checks have passed.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "bridge_guard.h"
#include "bridge_maps.h"
#include "bridge_stations.h"
#include "hook.h"
#include "link.h"
#include "outcome.h"

struct bridge_frame {
	__u8 to[ETH_ALEN];
	__u8 from[ETH_ALEN];
	__be16 proto; /* behind the tag */
	__u16 vlan;   /* of the tag; 0 without */
	__u32 l3;
	bool tagged;
	bool odd; /* tags that no port accepts: two, or not 802.1Q's */
};

static __always_inline bool bridge_any_tag(__be16 proto)
{
	return link_is_vlan(proto) || proto == bpf_htons(ETH_P_QINQ1) || proto == bpf_htons(ETH_P_QINQ2);
}

static __always_inline bool bridge_parse(hook_ctx *ctx, struct bridge_frame *f)
{
	struct vlan_tag outside = hook_tag(ctx);
	struct ethhdr eth;
	__be16 tag[2];

	if (hook_load(ctx, 0, &eth, sizeof(eth)))
		return false;
	__builtin_memcpy(f->to, eth.h_dest, ETH_ALEN);
	__builtin_memcpy(f->from, eth.h_source, ETH_ALEN);
	f->proto = eth.h_proto;
	f->l3 = sizeof(eth);
	if (outside.proto) {
		f->tagged = true;
		f->odd = outside.proto != bpf_htons(ETH_P_8021Q);
		f->vlan = bpf_ntohs(outside.id);
	} else if (bridge_any_tag(f->proto)) {
		if (hook_load(ctx, f->l3, tag, sizeof(tag)))
			return false;
		f->tagged = true;
		f->odd = f->proto != bpf_htons(ETH_P_8021Q);
		f->vlan = bpf_ntohs(tag[0]) & 0xfff;
		f->proto = tag[1];
		f->l3 += sizeof(tag);
	}
	f->odd |= f->tagged && bridge_any_tag(f->proto);
	return true;
}

static __always_inline bool bridge_carries(const struct bridge_port *port, __u16 vlan)
{
	return port->vlans[(vlan >> 6) & 63] >> (vlan & 63) & 1;
}

static __always_inline enum outcome bridge_enter(hook_ctx *ctx, __u32 ifindex, const struct bridge_port *port)
{
	struct bridge_frame f = {};
	enum outcome outcome;

	if (!(port->flags & BRIDGE_MEMBER))
		return DROP_PORT_HOST;
	if (!bridge_parse(ctx, &f))
		return DROP_TRUNCATED;
	if (f.from[0] & 1 || !(f.from[0] | f.from[1] | f.from[2] | f.from[3] | f.from[4] | f.from[5]))
		return DROP_PORT_SOURCE;
	if (bridge_management(f.to, f.proto, port->role == BRIDGE_GUEST))
		return DROP_PORT_MANAGEMENT;
	if (f.odd || (f.tagged ? !bridge_carries(port, f.vlan) : !port->pvid))
		return DROP_PORT_VLAN;
	outcome = bridge_guard(ctx, port, f.proto, f.l3, f.from);
	if (outcome != OUTCOME_NONE)
		return outcome;
	outcome = bridge_learn(ifindex, port, f.from);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (bridge_limited(port)) {
		outcome = bridge_storm(ifindex, port, f.to);
		if (outcome != OUTCOME_NONE)
			return outcome;
	}
	if (port->flags & BRIDGE_TAGS && !f.tagged && hook_push_tag(ctx, port->pvid))
		return DROP_KERNEL;
	return PASS_BRIDGED;
}

static __always_inline bool bridge_apart(const struct bridge_port *a, const struct bridge_port *b)
{
	if (a->flags & b->flags & BRIDGE_ISOLATED)
		return true;
	return (a->role == BRIDGE_GUEST && b->role == BRIDGE_INFRASTRUCTURE) ||
	       (a->role == BRIDGE_INFRASTRUCTURE && b->role == BRIDGE_GUEST);
}

/* packets of the bridge itself to a port: answers on behalf of a neighbour (neigh_suppress) */
static __always_inline bool bridge_answer(hook_ctx *ctx, const struct bridge_port *port, const struct bridge_frame *f)
{
	struct arp_ipv4 arp;
	struct ipv6hdr ip;
	__u8 type;

	if (!(port->flags & BRIDGE_SUPPRESS))
		return false;
	if (f->proto == bpf_htons(ETH_P_ARP))
		return !hook_load(ctx, f->l3, &arp, sizeof(arp)) && arp.ar_op == bpf_htons(ARPOP_REPLY);
	if (f->proto != bpf_htons(ETH_P_IPV6) || hook_load(ctx, f->l3, &ip, sizeof(ip)) ||
	    ip.nexthdr != IPPROTO_ICMPV6 || hook_load(ctx, f->l3 + sizeof(ip), &type, sizeof(type)))
		return false;
	return type == ICMPV6_NA;
}

/* may the router, or what it routes, send to this port? */
static __always_inline bool bridge_host_speaks(const struct bridge_port *port)
{
	__u32 bridge = port->bridge;
	struct bridge_port *host = bpf_map_lookup_elem(&bridge_ports, &bridge);

	return host && host->flags & BRIDGE_MEMBER;
}

static __always_inline enum outcome bridge_egress(hook_ctx *ctx, __u32 ifindex, const struct bridge_port *port)
{
	__u32 came_by = hook_ingress(ctx);
	struct bridge_port *source = bpf_map_lookup_elem(&bridge_ports, &came_by);
	struct bridge_frame f = {};

	if (!(port->flags & BRIDGE_MEMBER))
		return DROP_PORT_HOST;
	if (!bridge_parse(ctx, &f))
		return DROP_TRUNCATED;
	/* the router's device cannot tell any more by which port a frame came */
	if (ifindex != port->bridge) {
		bool bridged = source && source->bridge == port->bridge && came_by != port->bridge;

		if (bridged && came_by != ifindex && bridge_apart(source, port))
			return DROP_PORT_ISOLATED;
		if ((!bridged || came_by == ifindex) && !bridge_host_speaks(port) && !bridge_answer(ctx, port, &f))
			return DROP_PORT_HOST;
	}
	if (port->flags & BRIDGE_TAGS && f.tagged && f.vlan == port->pvid && !f.odd)
		return hook_pop_tag(ctx) ? DROP_KERNEL : PASS_BRIDGED;
	if (f.odd || (f.tagged ? !bridge_carries(port, f.vlan) : port->flags & BRIDGE_TAGS || !port->pvid))
		return DROP_PORT_VLAN;
	return PASS_BRIDGED;
}
