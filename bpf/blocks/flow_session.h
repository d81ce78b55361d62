/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * A PPP device clears a packet's ingress interface (skb_scrub_packet in the kernel's
 * ppp_start_xmit), so the device below cannot know it. So packets are also seen at the
 * PPP device, and the ingress interface is stored by flow until the packet leaves
 * below.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "cursor.h"
#include "flow_maps.h"
#include "flow_parse.h"
#include "flow_early_drop.h"
#include "hook.h"
#include "interface.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_tuple);
	__type(value, __u32); /* interface */
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_entered SEC(".maps");

/* A packet without a link header that enters a session. */
static __always_inline void flow_enter(hook_ctx *ctx)
{
	__u32 ingress = hook_ingress(ctx), *known;
	struct cursor cur = classify_packet(ctx, 0, ctx->protocol);
	struct interface *at = interface_find(ingress);
	struct flow_control *control = flow_control();
	struct flow_packet p = {};
	struct flow_tuple t = {};

	if (!at || !(at->flags & INTERFACE_OFFLOADED) || !control || !control->minimum)
		return;
	if (ctx->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = flow_parse4(ctx, cur, -1, &p);

		if (!ip)
			return;
		flow_tuple4(&t, ip);
	} else if (ctx->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = flow_parse6(ctx, cur, -1, &p);

		if (!ip)
			return;
		t.saddr = ip->saddr;
		t.daddr = ip->daddr;
	} else {
		return;
	}
	t.ports = p.ports;
	t.protocol = p.protocol;
	known = bpf_map_lookup_elem(&flow_entered, &t);
	if (!known || *known != ingress)
		bpf_map_update_elem(&flow_entered, &t, &ingress, 0);
}

/* The ingress interface of a packet in a session; 0: the router itself sent it. */
static __always_inline __u32 flow_entered_by(const struct in6_addr *saddr, const struct in6_addr *daddr,
					     struct flow_ports ports, __u32 protocol)
{
	struct flow_tuple t = { .ports = ports, .protocol = protocol };
	__u32 *known;

	t.saddr = *saddr;
	t.daddr = *daddr;
	known = bpf_map_lookup_elem(&flow_entered, &t);
	return known ? *known : 0;
}
