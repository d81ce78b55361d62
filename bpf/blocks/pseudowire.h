/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Decapsulates packets of pseudowires. They are identified by addresses, ports and
 * session or key, checked against the pseudowire's configuration, decapsulated, and
 * delivered to its interface through the hidden end. Invalid packets are dropped and
 * counted by reason. Packets of no pseudowire continue unchanged, and so do IP
 * options, control messages (RFC 3931 3.2) and fragments; fragments between the ends
 * of a pseudowire are counted.
 *
 * ICMP errors about packets that were too large for a router on the path lower the
 * path MTU (RFC 1191, RFC 8201), and continue to the kernel.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "hook.h"
#include "interface.h"
#include "outcome.h"
#include "pseudowire_maps.h"
#include "pseudowire_parse.h"
#include "pseudowire_sum.h"

#define PSEUDOWIRE_RESYNC 16
#define PSEUDOWIRE_SILENCE 1000000000ULL /* ns */
#define TUNNEL_L2TP_SEQUENCED 0x40000000

/* the outcome for a session that no pseudowire has with this remote end */
static __always_inline enum outcome pseudowire_unknown_peer(struct pseudowire_packet *p)
{
	struct in6_addr remote = p->key.remote;
	__be16 port = p->key.remote_port;
	struct pseudowire_rx *rx;

	__builtin_memset(&p->key.remote, 0, sizeof(p->key.remote));
	p->key.remote_port = 0;
	rx = bpf_map_lookup_elem(&pseudowire_rxs, &p->key);
	if (rx && p->protocol == IPPROTO_UDP) {
		pseudowire_fault(rx->ifindex, PSEUDOWIRE_FAULT_SOURCE);
		return DROP_PSEUDOWIRE_SOURCE;
	}
	/* over IP, another program may have a tunnel to that host */
	p->key.remote = remote;
	p->key.remote_port = port;
	return pseudowire_some(p) ? DROP_PSEUDOWIRE_UNKNOWN : OUTCOME_NONE;
}

/*
 * Whether a sequence number is behind the expected one (RFC 3931 4.6.1, RFC 2890 2.2);
 * bits is its width. Half of all numbers are ahead. After PSEUDOWIRE_SILENCE, or
 * PSEUDOWIRE_RESYNC numbers in a row that are behind, the peer is taken to have
 * restarted its numbers: reordering on a path lasts only milliseconds.
 */
static __always_inline bool pseudowire_behind(struct pseudowire_rx *rx, __u32 number, const __u32 bits)
{
	__u32 ahead = (number - rx->sequence) << (32 - bits);
	__u64 now = bpf_ktime_get_coarse_ns();

	if (ahead & 0x80000000 && now - rx->received < PSEUDOWIRE_SILENCE && ++rx->stale < PSEUDOWIRE_RESYNC)
		return true;
	rx->sequence = number + 1;
	rx->stale = 0;
	rx->received = now;
	return false;
}

/*
 * A sender on this machine (another namespace, a virtual machine) may leave checksums
 * to a device that the packet never passed. Then GRE's checksum is zero, or the
 * checksum of the inner TCP or UDP covers the pseudo-header only, and GRE's is right
 * only after the inner one is complete. Such a packet was never on a cable.
 */
static __always_inline bool pseudowire_unfinished(hook_ctx *ctx, const struct pseudowire_packet *p)
{
	__u32 at = p->l4 + (p->fixed & 31) + (p->flags & TUNNEL_GRE_SEQ ? 4 : 0), l4, sum, len;
	__be16 proto = 0, field = 0;
	__u8 protocol;

	if (HOOK_PLAIN)
		return false;
	if (!((__be16 *)p->header)[2])
		return true;
	if (hook_load(ctx, at + 12, &proto, sizeof(proto)))
		return false;
	at += ETH_HLEN;
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (hook_load(ctx, at, &ip, sizeof(ip)))
			return false;
		l4 = ip.ihl << 2;
		len = bpf_ntohs(ip.tot_len) - l4;
		sum = csum_reduce((__u64)ip.saddr + ip.daddr + bpf_htonl(ip.protocol) + bpf_htonl(len));
		protocol = ip.protocol;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (hook_load(ctx, at, &ip, sizeof(ip)))
			return false;
		l4 = sizeof(ip);
		sum = csum_reduce(csum_addr6(&ip.saddr) + csum_addr6(&ip.daddr) + bpf_htonl(ip.nexthdr) +
				  bpf_htonl(bpf_ntohs(ip.payload_len)));
		protocol = ip.nexthdr;
	} else {
		return false;
	}
	l4 += protocol == IPPROTO_TCP ? 16 : 6;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return false;
	return !hook_load(ctx, at + l4, &field, sizeof(field)) && field == csum_fold16(sum);
}

/* check the optional fields of the pseudowire: flags, cookie, sequence number. p->tunnel is set. */
static __always_inline enum pseudowire_fault pseudowire_parts(hook_ctx *ctx, struct pseudowire_packet *p,
							      struct pseudowire_rx *rx)
{
	__u32 at = p->fixed & 31, number;
	bool gre = p->protocol == IPPROTO_GRE;

	p->tunnel = at;
	if (gre) {
		__be16 want = (rx->flags & PSEUDOWIRE_CHECKSUM ? TUNNEL_GRE_CSUM : 0) |
			      (rx->flags & PSEUDOWIRE_SEQUENCE ? TUNNEL_GRE_SEQ : 0) |
			      (p->key.kind == PSEUDOWIRE_GRE_KEY ? TUNNEL_GRE_KEY : 0);

		if (p->flags != want)
			return PSEUDOWIRE_FAULT_HEADER;
		if (want & TUNNEL_GRE_CSUM && !hook_segment(ctx) &&
		    pseudowire_sum(ctx, p->l4, p->end, 0) != 0xffff && !pseudowire_unfinished(ctx, p))
			return PSEUDOWIRE_FAULT_CHECKSUM;
	} else if (rx->cookie_len) {
		__u64 cookie = 0;

		if (at == 16)
			__builtin_memcpy(&cookie, p->header + 16, 8);
		else
			__builtin_memcpy(&cookie, p->header + 4, 8);
		if (rx->cookie_len == 4)
			cookie = (__u32)cookie;
		if (cookie != *(__u64 *)rx->cookie)
			return PSEUDOWIRE_FAULT_COOKIE;
		p->tunnel += rx->cookie_len & 15;
	}
	if (!(rx->flags & (gre ? PSEUDOWIRE_SEQUENCE : PSEUDOWIRE_COUNTER)))
		return PSEUDOWIRE_FAULTS;
	at = p->tunnel;
	p->tunnel += 4;
	if (!(rx->flags & PSEUDOWIRE_SEQUENCE))
		return PSEUDOWIRE_FAULTS;
	/* an incomplete packet does not advance the sequence number */
	if (at > PSEUDOWIRE_HEADER - 4 || p->l4 + p->tunnel + ETH_HLEN > p->end ||
	    hook_load(ctx, p->l4 + at, &number, sizeof(number)))
		return PSEUDOWIRE_FAULT_TRUNCATED;
	number = bpf_ntohl(number);
	if (gre ? pseudowire_behind(rx, number, 32) :
		  number & TUNNEL_L2TP_SEQUENCED && pseudowire_behind(rx, number & 0xffffff, 24))
		return PSEUDOWIRE_FAULT_SEQUENCE;
	return PSEUDOWIRE_FAULTS;
}

/*
 * RFC 6040 4.2: propagate congestion marks of the outer header to the frame. off:
 * offset of the inner IP header.
 */
static __always_inline enum pseudowire_fault pseudowire_ecn(hook_ctx *ctx, __u32 off, __be16 proto)
{
	__be16 old, new;
	__sum16 check;

	if (proto == bpf_htons(ETH_P_IP)) {
		if (hook_load(ctx, off, &old, sizeof(old)) || hook_load(ctx, off + 10, &check, sizeof(check)))
			return PSEUDOWIRE_FAULT_TRUNCATED;
		new = old | bpf_htons(3);
		if (!(old & bpf_htons(3)))
			return PSEUDOWIRE_FAULT_ECN;
		check = csum_update(check, csum_reduce((__u64)(__u16)~old + new));
		if (old != new && (hook_store(ctx, off, &new, sizeof(new)) ||
				   hook_store(ctx, off + 10, &check, sizeof(check))))
			return PSEUDOWIRE_FAULT_KERNEL;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		if (hook_load(ctx, off, &old, sizeof(old)))
			return PSEUDOWIRE_FAULT_TRUNCATED;
		new = old | bpf_htons(0x30);
		if (!(old & bpf_htons(0x30)))
			return PSEUDOWIRE_FAULT_ECN;
		if (old != new && hook_store(ctx, off, &new, sizeof(new)))
			return PSEUDOWIRE_FAULT_KERNEL;
	}
	return PSEUDOWIRE_FAULTS;
}

static __always_inline enum outcome pseudowire_drop(const struct pseudowire_rx *rx, enum pseudowire_fault fault)
{
	pseudowire_fault(rx->ifindex, fault);
	switch (fault) {
	case PSEUDOWIRE_FAULT_COOKIE:
		return DROP_PSEUDOWIRE_COOKIE;
	case PSEUDOWIRE_FAULT_HEADER:
		return DROP_PSEUDOWIRE_HEADER;
	case PSEUDOWIRE_FAULT_TRUNCATED:
		return DROP_PSEUDOWIRE_TRUNCATED;
	case PSEUDOWIRE_FAULT_SEQUENCE:
		return DROP_PSEUDOWIRE_SEQUENCE;
	case PSEUDOWIRE_FAULT_CHECKSUM:
		return DROP_PSEUDOWIRE_CHECKSUM;
	case PSEUDOWIRE_FAULT_ECN:
		return DROP_PSEUDOWIRE_ECN;
	default:
		return DROP_KERNEL;
	}
}

/* whether the quoted packet behind p->l4 has the ports and the session or key of a pseudowire */
static __always_inline bool pseudowire_quotes_own(hook_ctx *ctx, struct pseudowire_packet *p)
{
	__be16 port;

	p->end = hook_len(ctx);
	p->key.id = 0;
	if (pseudowire_l4(ctx, p) != OUTCOME_NONE)
		return false;
	port = p->key.local_port;
	p->key.local_port = p->key.remote_port;
	p->key.remote_port = port;
	p->key.kind |= PSEUDOWIRE_SENT;
	return bpf_map_lookup_elem(&pseudowire_rxs, &p->key);
}

/*
 * RFC 1191 section 4, RFC 8201 section 4: a router on the path reports its MTU. The
 * packet that the error quotes must be one that a pseudowire sends: its addresses
 * alone are easy to guess. OUTCOME_NONE, or PASS_PSEUDOWIRE_ICMP if it is not.
 */
static __always_inline enum outcome pseudowire_learn(hook_ctx *ctx, struct pseudowire_packet *p)
{
	struct pseudowire_endpoints endpoints = {};
	struct pseudowire_path *path;
	__u32 mtu, least;
	struct {
		__u8 type, code;
		__sum16 check;
		__be32 mtu;
	} icmp;

	if (hook_load(ctx, p->l4, &icmp, sizeof(icmp)))
		return OUTCOME_NONE;
	if (p->protocol == IPPROTO_ICMP) {
		struct iphdr ip;

		if (icmp.type != ICMP_DEST_UNREACH || icmp.code != ICMP_FRAG_NEEDED ||
		    hook_load(ctx, p->l4 + sizeof(icmp), &ip, sizeof(ip)) || ip.ihl != 5 ||
		    (ip.protocol != IPPROTO_UDP && ip.protocol != IPPROTO_L2TP && ip.protocol != IPPROTO_GRE))
			return OUTCOME_NONE;
		pseudowire_map4(&endpoints.local, ip.saddr);
		pseudowire_map4(&endpoints.remote, ip.daddr);
		p->protocol = ip.protocol;
		p->l4 += sizeof(icmp) + sizeof(ip);
		mtu = bpf_ntohl(icmp.mtu) & 0xffff;
		least = 552; /* as the kernel's net.ipv4.route.min_pmtu */
	} else {
		struct ipv6hdr ip;

		if (icmp.type != ICMPV6_PKT_TOOBIG || hook_load(ctx, p->l4 + sizeof(icmp), &ip, sizeof(ip)) ||
		    (ip.nexthdr != IPPROTO_UDP && ip.nexthdr != IPPROTO_L2TP && ip.nexthdr != IPPROTO_GRE))
			return OUTCOME_NONE;
		endpoints.local = ip.saddr;
		endpoints.remote = ip.daddr;
		p->protocol = ip.nexthdr;
		p->l4 += sizeof(icmp) + sizeof(ip);
		mtu = bpf_ntohl(icmp.mtu);
		least = 1280;
	}
	path = bpf_map_lookup_elem(&pseudowire_paths, &endpoints);
	if (!path)
		return OUTCOME_NONE;
	p->key.local = endpoints.local;
	p->key.remote = endpoints.remote;
	if (!pseudowire_quotes_own(ctx, p))
		return PASS_PSEUDOWIRE_ICMP;
	if (mtu < least)
		mtu = least;
	if (mtu < path->mtu && (!path->path_mtu || mtu <= path->path_mtu)) {
		path->path_mtu = mtu;
		path->learnt = bpf_ktime_get_ns();
	}
	return OUTCOME_NONE;
}

/*
 * at: the device that the frame came in by. OUTCOME_NONE: not of a pseudowire, and
 * nothing was written; the same with PASS_PSEUDOWIRE_FRAGMENT and PASS_PSEUDOWIRE_ICMP, and
 * other blocks may handle it. *verdict is set with FORWARD_PSEUDOWIRE_DECAP. *upper is set to the interface on which
 * the inner frame may be routed at once, if it may.
 */
__noinline int pseudowire(hook_ctx *ctx, const struct interface *at, __u32 *upper, int *verdict)
{
	struct pseudowire_packet *p = pseudowire_room(0);
	struct pseudowire_stats *stats;
	enum pseudowire_fault fault;
	struct pseudowire_rx *rx;
	struct ethhdr inside;
	enum outcome outcome;
	__u32 ifindex, bypass, len, end;

	if (!at || !upper || !verdict || !p)
		return OUTCOME_NONE;
	*upper = 0;
	__builtin_memset(p, 0, sizeof(*p));
	if (!pseudowire_ip(ctx, at, p))
		return OUTCOME_NONE;
	if (p->protocol == IPPROTO_ICMP || p->protocol == IPPROTO_ICMPV6)
		return pseudowire_learn(ctx, p);
	if (p->protocol == IPPROTO_FRAGMENT)
		return pseudowire_between(p) ? PASS_PSEUDOWIRE_FRAGMENT : OUTCOME_NONE;
	outcome = pseudowire_l4(ctx, p);
	if (outcome == PASS_NOT_FOR_US)
		return OUTCOME_NONE;
	if (outcome != OUTCOME_NONE)
		return outcome;
	rx = bpf_map_lookup_elem(&pseudowire_rxs, &p->key);
	if (!rx)
		return pseudowire_unknown_peer(p);
	if (HOOK_SENDS_RAW && !(rx->flags & PSEUDOWIRE_XDP))
		return PASS_TO_TC;
	ifindex = rx->ifindex;
	bypass = rx->bypass;
	end = p->end;
	if (end > hook_len(ctx))
		return pseudowire_drop(rx, PSEUDOWIRE_FAULT_TRUNCATED);
	if (p->protocol == IPPROTO_UDP && !hook_segment(ctx)) {
		len = bpf_ntohs(((struct udphdr *)p->header)->len);
		if (p->l4 + len > end)
			return pseudowire_drop(rx, PSEUDOWIRE_FAULT_TRUNCATED);
		end = p->l4 + len;
		p->end = end;
	}
	fault = pseudowire_parts(ctx, p, rx);
	if (fault != PSEUDOWIRE_FAULTS)
		return pseudowire_drop(rx, fault);
	if (p->l4 + p->tunnel + ETH_HLEN > end || hook_load(ctx, p->l4 + p->tunnel, &inside, sizeof(inside)))
		return pseudowire_drop(rx, PSEUDOWIRE_FAULT_TRUNCATED);
	if (p->ecn == 3) {
		fault = pseudowire_ecn(ctx, p->l4 + p->tunnel + ETH_HLEN, inside.h_proto);
		if (fault != PSEUDOWIRE_FAULTS)
			return pseudowire_drop(rx, fault);
	}
	if (!hook_segment(ctx) && hook_len(ctx) > end && hook_trim(ctx, end))
		return pseudowire_drop(rx, PSEUDOWIRE_FAULT_KERNEL);
	len = hook_len(ctx) - p->l4 - p->tunnel;
	if (hook_unpack(ctx, p->l4 + p->tunnel, &inside))
		return pseudowire_drop(rx, PSEUDOWIRE_FAULT_KERNEL);
	stats = bpf_map_lookup_elem(&pseudowire_counts, &ifindex);
	if (stats) {
		stats->rx_packets += pseudowire_packets(len, hook_segment(ctx));
		stats->rx_bytes += len;
	}
	*upper = bypass;
	*verdict = bpf_redirect(ifindex, 0);
	return FORWARD_PSEUDOWIRE_DECAP;
}
