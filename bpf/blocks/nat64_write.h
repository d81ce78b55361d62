/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* The second half of nat64.h: writing what the parse decided. */

static __always_inline void nat64_count(struct nat64 *x, enum nat64_direction direction,
					__u32 bytes)
{
	__u32 key = 2 * x->translator + direction;
	struct nat64_volume *v = bpf_map_lookup_elem(&nat64_traffic, &key);

	if (v) {
		v->packets++;
		v->bytes += bytes;
	}
	if (x->via->flags & NAT64_COUNTS)
		nat64_account(direction == NAT64_6TO4 ? &x->saddr6 : &x->daddr6, x->translator,
			      direction, bytes);
}

/* What follows the new IP header: type, checksum, MSS. l4: its offset. */
static __always_inline enum outcome nat64_write_l4(hook_ctx *ctx, struct nat64 *x, const __u32 l4)
{
	if (x->is_icmp && hook_store(ctx, l4, &x->icmp_type, 1))
		return DROP_KERNEL;
	if (x->new_port != x->old_port &&
	    hook_replace_port(ctx, l4 + (x->port_off & 7), l4 + (x->check_off & 31), x->old_port,
			      x->new_port,
			      x->is_udp ? ZERO_STAYS : x->is_icmp ? ZERO_NEVER : ZERO_PLAIN))
		return DROP_KERNEL;
	if (x->check_off == __builtin_offsetof(struct tcphdr, check)) {
		if (hook_l4_checksum(ctx, l4 + __builtin_offsetof(struct tcphdr, check), x->diff, ZERO_PLAIN))
			return DROP_KERNEL;
	} else if (x->is_udp) {
		if (hook_l4_checksum(ctx, l4 + __builtin_offsetof(struct udphdr, check), x->diff, ZERO_STAYS))
			return DROP_KERNEL;
	} else if (x->is_icmp) {
		if (hook_l4_checksum(ctx, l4 + __builtin_offsetof(struct icmphdr, checksum), x->diff,
				     ZERO_NEVER))
			return DROP_KERNEL;
	}
	if (x->is_syn && x->via->max_mss && tcp_clamp_mss(ctx, l4, x->via->max_mss) < 0)
		return DROP_KERNEL;
	return OUTCOME_NONE;
}

/*
 * IPv6 -> IPv4. ttl is the field's new value: as it came where the stack
 * routes afterwards and counts it down itself. Frame bytes behind the packet
 * (padding of a short frame) are cut.
 */
static __always_inline enum outcome nat64_write4(hook_ctx *ctx, struct nat64 *x, __u8 ttl)
{
	const __u32 l4 = ETH_HLEN + sizeof(struct iphdr);
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = x->tos,
		.tot_len = bpf_htons(sizeof(ip) + x->payload),
		/* RFC 7915 5.1: small packets may be fragmented further on */
		.id = bpf_get_prandom_u32(),
		.frag_off = x->wire_len <= 1260 ? 0 : bpf_htons(IP_DF),
		.ttl = ttl,
		.protocol = x->protocol,
		.saddr = x->saddr4,
		.daddr = x->daddr4,
	};
	__u64 gone = csum_addr6_gone(&x->saddr6) + csum_addr6_gone(&x->daddr6);

	ip.check = csum_ipv4_header(&ip);
	if (x->is_icmp) /* ICMPv4 has no pseudo-header */
		x->diff = csum_reduce(gone + x->diff + (__u32)~bpf_htonl(x->payload) +
				      (__u32)~bpf_htonl(IPPROTO_ICMPV6));
	else
		x->diff = csum_reduce(gone + ip.saddr + ip.daddr);
	if (hook_len(ctx) > ETH_HLEN + x->old_len + x->payload &&
	    hook_trim(ctx, ETH_HLEN + x->old_len + x->payload))
		return DROP_KERNEL;
	if (hook_swap_l3(ctx, x->old_len, &ip, sizeof(ip), bpf_htons(ETH_P_IP)))
		return DROP_KERNEL;
	nat64_count(x, NAT64_6TO4, sizeof(ip) + x->payload);
	return nat64_write_l4(ctx, x, l4);
}

/* IPv4 -> IPv6, likewise. */
static __always_inline enum outcome nat64_write6(hook_ctx *ctx, struct nat64 *x, __u8 ttl)
{
	const __u32 l4 = ETH_HLEN + sizeof(struct ipv6hdr);
	struct ipv6hdr ip = {
		.ver_tc_flow = bpf_htonl(6U << 28 | (__u32)x->tos << 20),
		.payload_len = bpf_htons(x->payload),
		.nexthdr = x->protocol,
		.hop_limit = ttl,
		.saddr = x->saddr6,
		.daddr = x->daddr6,
	};
	__u64 come = csum_addr6(&x->saddr6) + csum_addr6(&x->daddr6);
	__u16 udp_check = 0;
	__s64 sum;

	if (x->is_icmp)
		x->diff = csum_reduce(come + x->diff + bpf_htonl(x->payload) +
				      bpf_htonl(IPPROTO_ICMPV6));
	else
		x->diff = csum_reduce(come + (__u32)~x->saddr4 + (__u32)~x->daddr4);
	if (hook_len(ctx) > ETH_HLEN + x->old_len + x->payload &&
	    hook_trim(ctx, ETH_HLEN + x->old_len + x->payload))
		return DROP_KERNEL;
	if (x->compute_udp) {
		struct udphdr udp;

		if (hook_load(ctx, ETH_HLEN + x->old_len, &udp, sizeof(udp)))
			return DROP_KERNEL;
		sum = udp_sum(ctx, ETH_HLEN + x->old_len, bpf_ntohs(udp.len));
		if (sum < 0)
			return DROP_KERNEL;
		udp_check = ~csum_fold16(csum_reduce(come + sum + udp.len + bpf_htons(IPPROTO_UDP) +
						     (__u16)~x->old_port + x->new_port));
		if (!udp_check)
			udp_check = 0xffff;
	}
	if (hook_swap_l3(ctx, x->old_len, &ip, sizeof(ip), bpf_htons(ETH_P_IPV6)))
		return DROP_KERNEL;
	nat64_count(x, NAT64_4TO6, sizeof(ip) + x->payload);
	if (x->compute_udp) {
		if (x->new_port != x->old_port &&
		    hook_store(ctx, l4 + __builtin_offsetof(struct udphdr, dest), &x->new_port, 2))
			return DROP_KERNEL;
		return hook_store(ctx, l4 + __builtin_offsetof(struct udphdr, check), &udp_check, 2) ?
			       DROP_KERNEL :
			       OUTCOME_NONE;
	}
	return nat64_write_l4(ctx, x, l4);
}
