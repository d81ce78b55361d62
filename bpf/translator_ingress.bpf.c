// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCX ingress of a translator's device: packets that the slow path writes into it, and
 * packets that the programs redirect to it. IPv4 goes to the stack. IPv6 leaves from
 * here if there is a route, because the IPv6 stack (and its connection tracking) has
 * seen nothing of the flow; otherwise the stack answers for it. A packet that the slow
 * path has normalised for the IPv4 stack is reinjected at the interface where it
 * arrived.
 */
#include "tc.h"
#include "counters.h"
#include "interface.h"
#include "fib_lookup.h"
#include "slow.h"

/* as arriving on the interface that the slow path names in the source address */
static __always_inline int put_back(struct __sk_buff *ctx, const struct ethhdr *eth)
{
	__u32 ifindex = bpf_ntohl(((const struct slow_back *)eth->h_source)->ifindex);
	struct interface *in = interface_find(ifindex);

	if (!in || bpf_skb_store_bytes(ctx, 0, in->mac, ETH_ALEN, 0))
		return TCX_DROP;
	count(TRANSLATOR_INGRESS, PASS_NORMALISED);
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

SEC("tcx/ingress")
int translator_ingress(struct __sk_buff *ctx)
{
	struct cursor cur;
	struct bpf_fib_lookup fib;
	struct ipv6hdr *ip;
	struct ethhdr *eth;
	enum outcome outcome;
	__u32 len;

	cur = hook_cursor(ctx, ETH_HLEN + sizeof(*ip));
	eth = PULL(&cur, struct ethhdr);
	if (eth && ctx->protocol == bpf_htons(ETH_P_IP) && slow_marked(eth->h_source))
		return put_back(ctx, eth);
	if (ctx->protocol != bpf_htons(ETH_P_IPV6))
		return TCX_NEXT;
	ip = PULL(&cur, struct ipv6hdr);
	if (!eth || !ip)
		return TCX_DROP;
	/* a GSO packet was measured when it was translated */
	len = ctx->gso_size ? 0 : bpf_ntohs(ip->payload_len) + sizeof(*ip);
	outcome = egress_route6(ctx, &fib, ctx->ifindex, &ip->saddr, &ip->daddr, len);
	if (outcome == OUTCOME_NONE)
		outcome = FORWARD_INJECTED;
	count(TRANSLATOR_INGRESS, outcome);
	return outcome == FORWARD_INJECTED ? hook_send(ctx, &fib) : TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
