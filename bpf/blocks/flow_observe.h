/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Observes packets that leave by a device after the stack, the ruleset and NAT. A flow
 * whose packets are seen here is accepted by the ruleset, and the frame shows its
 * egress device and link header. When enough packets of a flow have passed, weft gets
 * an event.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "classify.h"
#include "cursor.h"
#include "dsa.h"
#include "flow_early_drop_egress.h"
#include "flow_maps.h"
#include "flow_parse.h"
#include "flow_session.h"
#include "hook.h"
#include "interface.h"
#include "link.h"

/* a flow as it leaves: addresses and ports after NAT; IPv4 as ::ffff:a.b.c.d */
struct flow_passed_key {
	__u32 interface; /* by which it came */
	struct flow_ports ports;
	__u32 protocol;
	struct in6_addr saddr;
	struct in6_addr daddr;
};
_Static_assert(sizeof(struct flow_passed_key) == 44, "no padding");

struct flow_passed {
	__u32 generation;
	__u32 packets;
};

/* a flow that may be worth offloading */
struct flow_event {
	struct flow_passed_key flow;
	__u32 generation;
	__u32 ifindex; /* by which it leaves */
	struct link link;
	__be16 session;
	__u16 pad;
};
_Static_assert(sizeof(struct flow_event) == 76, "no padding");
const struct flow_event *flow_event_type __attribute__((unused)); /* no map has it: for who reads them */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct flow_passed_key);
	__type(value, struct flow_passed);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_passes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_events SEC(".maps");

/* the link header of a frame that leaves, and where the network header starts */
static __always_inline bool flow_header(hook_ctx *ctx, struct flow_event *e, __be16 *proto,
					struct cursor *cur)
{
	__u32 out = hook_device(ctx);
	struct interface *by = dsa_format ? interface_find(out) : NULL;
	struct vlan_tag outside = hook_tag(ctx);
	struct ethhdr *eth = NULL;
	struct pppoehdr *ppp;

	if (by && by->flags & INTERFACE_CONDUIT) {
		if (outside.proto || !dsa_pull_sent(cur, &e->link, proto))
			return false;
		if (!e->link.tags[1].proto)
			classify_tag(cur, proto, &e->link.tags[1]);
	} else {
		eth = PULL(cur, struct ethhdr);
		if (!eth)
			return false;
		__builtin_memcpy(e->link.dst, eth->h_dest, ETH_ALEN);
		__builtin_memcpy(e->link.src, eth->h_source, ETH_ALEN);
		*proto = eth->h_proto;
		if (outside.proto) {
			e->link.tags[0] = outside;
			classify_tag(cur, proto, &e->link.tags[1]);
		} else if (classify_tag(cur, proto, &e->link.tags[0])) {
			classify_tag(cur, proto, &e->link.tags[1]);
		}
	}
	if (link_is_vlan(*proto))
		return false;
	if (*proto != bpf_htons(ETH_P_PPP_SES))
		return true;
	ppp = PULL(cur, struct pppoehdr);
	if (!ppp || ppp->type != 0x11 || ppp->code)
		return false;
	e->session = ppp->session;
	if (ppp->protocol == bpf_htons(PPP_IP))
		*proto = bpf_htons(ETH_P_IP);
	else if (ppp->protocol == bpf_htons(PPP_IPV6))
		*proto = bpf_htons(ETH_P_IPV6);
	else
		return false;
	return true;
}

/* count one more packet; true: send an event now */
static __always_inline bool flow_worth(const struct flow_passed_key *key,
				       const struct flow_control *control)
{
	struct flow_passed first = { .generation = control->generation, .packets = 1 }, *was;
	__u32 n = 1;

	was = bpf_map_lookup_elem(&flow_passes, key);
	if (!was || was->generation != first.generation)
		bpf_map_update_elem(&flow_passes, key, &first, 0);
	else
		n = ++was->packets;
	if (n < control->minimum || n % control->minimum)
		return false;
	/* sent again, at growing intervals: the connection may not have been ready */
	n /= control->minimum;
	return n <= 8 || !(n & (n - 1));
}

static __always_inline void flow_observe(hook_ctx *ctx)
{
	__u32 ingress = hook_ingress(ctx);
	struct flow_control *control;
	struct interface *at;
	struct flow_event e;
	struct flow_packet p;
	struct cursor cur;
	__be16 proto;
	bool offered, unknown;
	void *frame;
	__u32 l3;

	/* most packets take this branch: return before any look-up */
	if (hook_is_ours(ctx))
		return;
	at = interface_find(ingress);
	control = flow_control();
	offered = at && at->flags & INTERFACE_OFFLOADED && control && control->minimum;
	unknown = !ingress && control && control->minimum; /* this host's own, or of a PPPoE session */
	if (!control || (!offered && !unknown && !control->refuse))
		return;
	__builtin_memset(&e, 0, sizeof(e));
	__builtin_memset(&p, 0, sizeof(p));
	cur = hook_cursor(ctx, CLASSIFY_BYTES + sizeof(struct pppoehdr) + sizeof(struct gswip_tx));
	frame = cur.pos;
	if (!flow_header(ctx, &e, &proto, &cur) || (unknown && !e.session && !control->refuse))
		return;
	l3 = cur.pos - frame;
	if (control->refuse)
		flow_egress_lookup(ctx, l3);
	cur = classify_packet(ctx, l3, proto);
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = flow_parse4(ctx, cur, -1, &p);

		if (!ip)
			return;
		e.flow.saddr.be32[2] = e.flow.daddr.be32[2] = bpf_htonl(0xffff);
		e.flow.saddr.be32[3] = ip->saddr;
		e.flow.daddr.be32[3] = ip->daddr;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = flow_parse6(ctx, cur, -1, &p);

		if (!ip)
			return;
		e.flow.saddr = ip->saddr;
		e.flow.daddr = ip->daddr;
	} else {
		return;
	}
	if (unknown && e.session) {
		ingress = flow_entered_by(&e.flow.saddr, &e.flow.daddr, p.ports, p.protocol);
		offered = ingress;
	}
	if (!offered || p.flags & (TCP_SYN | TCP_FIN | TCP_RST))
		return;
	e.flow.interface = ingress;
	e.flow.ports = p.ports;
	e.flow.protocol = p.protocol;
	if (!flow_worth(&e.flow, control))
		return;
	e.generation = control->generation;
	e.ifindex = hook_device(ctx);
	bpf_ringbuf_output(&flow_events, &e, sizeof(e), 0);
}
