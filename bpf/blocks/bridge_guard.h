/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What a guest port may not send: messages of a DHCP server (RFC 7610 for IPv6),
 * router advertisements (RFC 6105, RFC 7113), bridge protocols, and ARP for another
 * host.
 *
 * IPv6 extension headers are followed to the end. A first fragment must hold all of
 * them (RFC 7112), and an unknown header hides what follows it: both are dropped (RFC
 * 7113 section 3, RFC 7610 section 5). Later fragments pass: without the first one
 * they cannot be reassembled.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "bridge_maps.h"
#include "hook.h"
#include "outcome.h"

#define BRIDGE_DHCP_SERVER 67
#define BRIDGE_DHCP_CLIENT 68
#define BRIDGE_DHCP6_CLIENT 546
#define BRIDGE_ICMP6_RA 134
#define BRIDGE_ICMP6_REDIRECT 137
#define BRIDGE_HEADERS 12 /* headers that are followed; Linux sends three at most */

/* addresses that stay on one link, IEEE 802.1Q tables 8-1 and 10-1; and Cisco's */
static __always_inline bool bridge_reserved_address(const __u8 *mac)
{
	__u32 head = (__u32)mac[0] << 24 | mac[1] << 16 | mac[2] << 8 | mac[3];

	if (head == 0x0180c200)
		return mac[4] == 0 && (mac[5] <= 0x0f || (mac[5] >= 0x20 && mac[5] <= 0x2f));
	/* CDP, VTP, PVST+ */
	return head == 0x01000ccc && mac[4] == 0xcc && (mac[5] == 0xcc || mac[5] == 0xcd);
}

static __always_inline bool bridge_management(const __u8 *to, __be16 proto, bool guest)
{
	if (bridge_reserved_address(to))
		return true;
	switch (bpf_ntohs(proto)) {
	case ETH_P_PAUSE:
	case ETH_P_SLOW:
	case ETH_P_PAE:
	case ETH_P_LLDP:
	case ETH_P_CFM:
		return true;
	}
	/* LLC: spanning tree, and IP in SNAP, which some hosts take */
	return guest && bpf_ntohs(proto) < ETH_P_802_3_MIN;
}

/* Bytes behind the packet's own end are not part of its headers. */
static __always_inline bool bridge_missing(hook_ctx *ctx, __u32 off, __u32 end, void *to, __u32 len)
{
	return off + len > end || hook_load(ctx, off, to, len);
}

static __always_inline enum outcome bridge_guard_udp6(hook_ctx *ctx, __u32 off, __u32 end, __u32 flags)
{
	struct udphdr udp;

	if (bridge_missing(ctx, off, end, &udp, sizeof(udp)))
		return DROP_PORT_HEADERS;
	if (flags & BRIDGE_NO_DHCP && udp.dest == bpf_htons(BRIDGE_DHCP6_CLIENT))
		return DROP_PORT_DHCP;
	return OUTCOME_NONE;
}

static __always_inline enum outcome bridge_guard_icmp6(hook_ctx *ctx, __u32 off, __u32 end, __u32 flags)
{
	struct icmphdr icmp; /* 8 bytes: the shortest message */

	if (bridge_missing(ctx, off, end, &icmp, sizeof(icmp)))
		return DROP_PORT_HEADERS;
	if (flags & BRIDGE_NO_RA && (icmp.type == BRIDGE_ICMP6_RA || icmp.type == BRIDGE_ICMP6_REDIRECT))
		return DROP_PORT_RA;
	return OUTCOME_NONE;
}

/* protocols that are known to be no extension header */
static __always_inline bool bridge_upper_layer(__u8 proto)
{
	switch (proto) {
	case IPPROTO_ICMP:
	case IPPROTO_IGMP:
	case IPPROTO_IPIP:
	case 41: /* IPv6 */
	case 46: /* RSVP */
	case 47: /* GRE */
	case IPPROTO_DCCP:
	case IPPROTO_ESP:
	case IPPROTO_NONE:
	case 88: /* EIGRP */
	case 89: /* OSPF */
	case 97: /* EtherIP */
	case 103: /* PIM */
	case 108: /* IPComp */
	case 112: /* VRRP */
	case 115: /* L2TP */
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
	case 137: /* MPLS in IP */
		return true;
	}
	return false;
}

__noinline int bridge_guard6(hook_ctx *ctx, __u32 l3, __u32 flags)
{
	__u32 off = l3 + sizeof(struct ipv6hdr), end, i;
	struct ipv6hdr ip;
	struct tcphdr tcp;
	__u8 next, h[8];

	if (hook_load(ctx, l3, &ip, sizeof(ip)) || (ip.ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return DROP_PORT_HEADERS;
	/* a GSO packet that is longer than the field allows has zero there */
	end = hook_segment(ctx) ? hook_len(ctx) : off + bpf_ntohs(ip.payload_len);
	next = ip.nexthdr;
	for (i = 0; i < BRIDGE_HEADERS; i++) {
		switch (next) {
		case IPPROTO_UDP:
			return bridge_guard_udp6(ctx, off, end, flags);
		case IPPROTO_ICMPV6:
			return bridge_guard_icmp6(ctx, off, end, flags);
		case IPPROTO_TCP:
			return bridge_missing(ctx, off, end, &tcp, sizeof(tcp)) ? DROP_PORT_HEADERS : OUTCOME_NONE;
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
		case IPPROTO_FRAGMENT:
		case IPPROTO_AH:
		case 135: /* mobility */
		case 139: /* host identity */
		case 140: /* shim6 */
			break;
		default:
			return bridge_upper_layer(next) ? OUTCOME_NONE : DROP_PORT_HEADERS;
		}
		/* the shortest of them has 8 bytes */
		if (bridge_missing(ctx, off, end, h, sizeof(h)))
			return DROP_PORT_HEADERS;
		if (next == IPPROTO_FRAGMENT) {
			if (h[2] || h[3] & 0xf8)
				return OUTCOME_NONE;
			off += sizeof(h);
		} else if (next == IPPROTO_AH) {
			off += ((__u32)h[1] + 2) * 4;
		} else {
			off += ((__u32)h[1] + 1) * 8;
		}
		next = h[0];
	}
	return DROP_PORT_HEADERS;
}

/* IPv4 has no header chain: the ports are in the first 8 bytes of a first fragment */
static __always_inline enum outcome bridge_guard4(hook_ctx *ctx, __u32 l3, __u32 flags)
{
	struct udphdr udp;
	struct iphdr ip;
	__u32 end;

	if (hook_load(ctx, l3, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return DROP_PORT_HEADERS;
	if (ip.protocol != IPPROTO_UDP || ip.frag_off & bpf_htons(IP_OFFSET))
		return OUTCOME_NONE;
	end = hook_segment(ctx) ? hook_len(ctx) : l3 + bpf_ntohs(ip.tot_len);
	if (bridge_missing(ctx, l3 + ip.ihl * 4, end, &udp, sizeof(udp)))
		return DROP_PORT_HEADERS;
	if (flags & BRIDGE_NO_DHCP &&
	    (udp.dest == bpf_htons(BRIDGE_DHCP_CLIENT) || udp.source == bpf_htons(BRIDGE_DHCP_SERVER)))
		return DROP_PORT_DHCP;
	return OUTCOME_NONE;
}

/* the sender's link address in ARP must be the frame's source address (RFC 826) */
static __always_inline enum outcome bridge_guard_arp(hook_ctx *ctx, __u32 l3, const __u8 *from)
{
	struct arp_ipv4 arp;

	if (hook_load(ctx, l3, &arp, sizeof(arp)))
		return DROP_PORT_ARP;
	return __builtin_memcmp(arp.ar_sha, from, ETH_ALEN) ? DROP_PORT_ARP : OUTCOME_NONE;
}

static __always_inline enum outcome bridge_guard(hook_ctx *ctx, const struct bridge_port *port, __be16 proto,
						 __u32 l3, const __u8 *from)
{
	switch (proto) {
	case bpf_htons(ETH_P_IP):
		return port->flags & BRIDGE_NO_DHCP ? bridge_guard4(ctx, l3, port->flags) : OUTCOME_NONE;
	case bpf_htons(ETH_P_IPV6):
		return port->flags & (BRIDGE_NO_DHCP | BRIDGE_NO_RA) ? bridge_guard6(ctx, l3, port->flags) : OUTCOME_NONE;
	case bpf_htons(ETH_P_ARP):
		return port->role == BRIDGE_GUEST ? bridge_guard_arp(ctx, l3, from) : OUTCOME_NONE;
	}
	return OUTCOME_NONE;
}
