/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Stateless translation between IPv6 and IPv4 (RFC 7915), both directions.
 *
 *   nat64_parse6 / nat64_parse4   parse the packet, decide, fill struct nat64;
 *                                 write nothing
 *   nat64_write4 / nat64_write6   write the translated packet
 *
 * Between the two a program may still decide otherwise. The parse returns OUTCOME_NONE
 * when the packet can be translated here. internal/translate, the reference in Go, has
 * the same order of checks.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "nat64_maps.h"
#include "nat64_rules.h"
#include "nat64_session.h"
#include "nat64_state.h"
#include "nat64_state_maps.h"
#include "nat64_walk.h"
#include "options.h"
#include "outcome.h"
#include "sum.h"

#define NAT64_ERROR4_MAX 1260 /* with 20 bytes more it is a full ICMPv6 error */

struct nat64 {
	__u64 allowed; /* set by the caller: translators that serve where it came from */
	const struct nat64_translator *via;
	__u32 translator;
	struct in6_addr saddr6, daddr6;
	__be32 saddr4, daddr4;
	__u32 diff;      /* of the transport checksum: new minus old */
	__u32 wire_len;  /* IP length after translation, per packet on the wire */
	__u16 old_len;   /* IP header that goes, with options or extension headers */
	__u16 payload;   /* bytes behind it */
	__u16 check_off; /* of the transport checksum in its header; 0: none */
	__u8 protocol;   /* after translation */
	__u8 tos;
	__u8 ttl;       /* as it came */
	__u8 icmp_type; /* after translation */
	__u8 opens;     /* TCP: its flags; ICMP: 1 for a request */
	__u8 port_off;  /* of the port or identifier that new_port replaces, in its header */
	__be16 source_port, dest_port; /* ICMP: both the identifier */
	__be16 old_port, new_port;     /* the same: nothing to replace */
	bool is_icmp;
	bool is_udp;
	bool is_syn;
	bool compute_udp;
	bool source_route; /* IPv4: among the options, used up or not */
};

/* A parsed packet asks for its state. */

static __always_inline struct nat64_flow *nat64_flow(const struct nat64 *x, __u8 protocol)
{
	__u32 zero = 0;
	struct nat64_flow *f = bpf_map_lookup_elem(&nat64_flows, &zero);

	if (!f)
		return NULL;
	f->protocol = protocol;
	f->tcp_flags = x->opens;
	f->translator = x->translator;
	f->import = 0;
	return f;
}

/* RFC 6146 translates no other transports */
static __always_inline bool nat64_has_ports(const struct nat64 *x)
{
	return x->is_icmp || x->is_udp ||
	       x->check_off == __builtin_offsetof(struct tcphdr, check);
}

/* where the port lies that this direction changes; ICMP: the identifier */
static __always_inline void nat64_replace(struct nat64 *x, __u8 off, __be16 from, __be16 to)
{
	x->port_off = x->is_icmp ? __builtin_offsetof(struct icmphdr, id) : off;
	x->old_port = from;
	x->new_port = to;
}

/*
 * The sender of a refused packet gets an ICMPv6 error, address unreachable (RFC 6146
 * 3.5.1.1), which the slow path sends. One packet a tick is handed up: a flood of
 * refused packets must not crowd out others in the slow path.
 */
static __always_inline enum outcome nat64_refuse(enum outcome why, struct nat64_flow *f)
{
	__u32 zero = 0, last, now = f->now;
	struct nat64_subscriber *u;
	struct nat64_sweep_state *all = bpf_map_lookup_elem(&nat64_sweep_states, &zero);

	if (!all || nat64_no_errors)
		return why;
	last = *(volatile __u32 *)&all->refused;
	if (last == now || __sync_val_compare_and_swap(&all->refused, last, now) != last)
		return why;
	/* the slow path looks it up again, and counts it */
	u = why == DROP_SUBSCRIBER_LIMIT ?
		    bpf_map_lookup_elem(&nat64_subscribers, &f->subscriber.self) :
		    NULL;
	if (u)
		__sync_fetch_and_sub(&u->refused, 1);
	return SLOW_ERROR_DUE;
}

static __always_inline enum outcome nat64_stateful6(struct nat64 *x)
{
	struct nat64_flow *f;
	enum outcome outcome;

	if (!nat64_has_ports(x))
		return SLOW_ERROR_DUE;
	f = nat64_flow(x, x->protocol);
	if (!f)
		return DROP_KERNEL;
	f->outbound = 1;
	f->client = x->saddr6;
	f->remote6 = x->daddr6;
	f->remote = x->daddr4;
	f->port = x->source_port;
	f->remote_port = x->dest_port;
	outcome = nat64_outbound(f);
	if (outcome == NAT64_UNKNOWN)
		outcome = nat64_open_outbound(f);
	if (outcome == DROP_POOL_EXHAUSTED || outcome == DROP_TABLE_FULL ||
	    outcome == DROP_SUBSCRIBER_LIMIT)
		return nat64_refuse(outcome, f);
	if (outcome != OUTCOME_NONE)
		return outcome;
	x->saddr4 = f->pool;
	nat64_replace(x, __builtin_offsetof(struct tcphdr, source), f->port, f->pool_port);
	return OUTCOME_NONE;
}

static __always_inline enum outcome nat64_stateful4(struct nat64 *x)
{
	struct nat64_flow *f;
	enum outcome outcome;

	if (!nat64_has_ports(x))
		return DROP_PROTOCOL;
	f = nat64_flow(x, x->is_icmp ? IPPROTO_ICMP : x->protocol);
	if (!f)
		return DROP_KERNEL;
	f->outbound = 0;
	f->pool = x->daddr4;
	f->remote = x->saddr4;
	f->pool_port = x->dest_port;
	f->remote_port = x->source_port;
	outcome = nat64_inbound(f);
	if (outcome == NAT64_UNKNOWN)
		outcome = nat64_open_inbound(f);
	if (outcome != OUTCOME_NONE)
		return outcome;
	x->saddr6 = f->remote6;
	x->daddr6 = f->client;
	nat64_replace(x, __builtin_offsetof(struct tcphdr, dest), f->pool_port, f->port);
	return OUTCOME_NONE;
}

/* Count one packet of a subscriber; direction is enum nat64_direction. */
__noinline int nat64_account(const struct in6_addr *client, __u32 translator, __u32 direction,
			     __u32 bytes)
{
	struct nat64_subscriber_key who;
	struct nat64_subscriber *u;
	struct nat64_stateful *c;

	if (!client)
		return 0;
	c = nat64_config(translator);
	if (!c)
		return 0;
	nat64_subscriber_key(&who, client, translator, c->subscriber_bits);
	u = bpf_map_lookup_elem(&nat64_subscribers, &who);
	if (!u)
		return 0;
	direction &= 1;
	__sync_fetch_and_add(&u->packets[direction], 1);
	__sync_fetch_and_add(&u->bytes[direction], bytes);
	return 0;
}

/*
 * Parse the transport header at off: checksum offset, ports, and the translated type
 * of ICMP. from6: the packet is IPv6.
 */
static __always_inline enum outcome nat64_parse_l4(hook_ctx *ctx, struct nat64 *x, __u32 off,
						   const bool from6)
{
	struct cursor cur = hook_cursor(ctx, off + sizeof(struct tcphdr));
	__u32 segment = hook_segment(ctx), l4_len = 0;
	struct tcphdr *tcp;
	struct udphdr *udp;
	struct icmphdr *icmp;

	cur.pos += off;
	switch (x->protocol) {
	case IPPROTO_TCP:
		tcp = PULL(&cur, struct tcphdr);
		if (x->payload < sizeof(*tcp) || !tcp)
			return DROP_TRUNCATED;
		x->check_off = __builtin_offsetof(struct tcphdr, check);
		x->is_syn = tcp->flags & TCP_SYN;
		x->opens = tcp->flags;
		x->source_port = tcp->source;
		x->dest_port = tcp->dest;
		l4_len = tcp->doff >> 4 << 2;
		break;
	case IPPROTO_UDP:
		udp = PULL(&cur, struct udphdr);
		if (x->payload < sizeof(*udp) || !udp)
			return DROP_TRUNCATED;
		if (!segment && (bpf_ntohs(udp->len) < sizeof(*udp) ||
				 bpf_ntohs(udp->len) > x->payload))
			return DROP_BAD_HEADER;
		x->check_off = __builtin_offsetof(struct udphdr, check);
		x->is_udp = true;
		x->source_port = udp->source;
		x->dest_port = udp->dest;
		x->compute_udp = !from6 && !udp->check;
		l4_len = sizeof(*udp);
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		/* the other family's ICMP is not translated (RFC 7915 4.2, 5.2) */
		if (x->protocol != (from6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP))
			return SLOW_ERROR_DUE;
		icmp = PULL(&cur, struct icmphdr);
		if (x->payload < sizeof(*icmp) || !icmp)
			return DROP_TRUNCATED;
		x->check_off = __builtin_offsetof(struct icmphdr, checksum);
		x->is_icmp = true;
		x->protocol = from6 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		if (from6 && icmp->type <= ICMPV6_ERROR_MAX)
			return SLOW_ICMP_ERROR;
		if (!from6 && (icmp->type == ICMP_DEST_UNREACH || icmp->type == ICMP_TIME_EXCEEDED ||
			       icmp->type == ICMP_PARAMETERPROB))
			return SLOW_ICMP_ERROR;
		if (icmp->type == (from6 ? ICMPV6_ECHO_REQUEST : ICMP_ECHO))
			x->icmp_type = from6 ? ICMP_ECHO : ICMPV6_ECHO_REQUEST;
		else if (icmp->type == (from6 ? ICMPV6_ECHO_REPLY : ICMP_ECHOREPLY))
			x->icmp_type = from6 ? ICMP_ECHOREPLY : ICMPV6_ECHO_REPLY;
		else
			return DROP_ICMP_TYPE;
		x->opens = icmp->type == ICMPV6_ECHO_REQUEST || icmp->type == ICMP_ECHO;
		x->source_port = x->dest_port = icmp->id;
		/* the type is a word's first byte; the rest of the word stays */
		x->diff = csum_reduce((__u64)(__u16)~icmp->type + x->icmp_type);
		break;
	case IPPROTO_HOPOPTS: /* IPv6 extension headers are not IPv4 protocols */
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_DSTOPTS:
	case IPPROTO_AH:
		return SLOW_ERROR_DUE;
	case IPPROTO_IGMP: /* silently from IPv4, RFC 7915 4.2 */
		return from6 ? SLOW_ERROR_DUE : DROP_PROTOCOL;
	}
	x->wire_len = (from6 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)) +
		      (segment ? l4_len + segment : x->payload);
	return OUTCOME_NONE;
}

/* Translate the addresses of an IPv6 packet. The destination selects the translator. */
static __always_inline enum outcome nat64_addresses6(struct nat64 *x)
{
	struct nat64_rule6 *to, *from;

	if (addr6_link_scope(&x->daddr6))
		return PASS_LINK_SCOPE;
	to = nat64_rule6(&x->daddr6);
	/* an IPv6 node is reached as it is, without translation */
	if (!to || to->suffix.kind == NAT64_NODE || to->suffix.kind == NAT64_MAPPING ||
	    nat64_u_octet_set(&x->daddr6, to))
		return PASS_NOT_TRANSLATED;
	x->translator = to->translator;
	x->via = nat64_translator(to->translator);
	if (!x->via)
		return PASS_NOT_TRANSLATED;
	if (!(x->allowed >> (x->translator & 63) & 1))
		return DROP_INTERFACE;
	x->daddr4 = nat64_to4(&x->daddr6, to);
	if (addr6_illegal(&x->saddr6) || addr6_link_scope(&x->saddr6) ||
	    addr4_illegal(x->daddr4) || to->suffix.kind == NAT64_REFUSED)
		return DROP_ILLEGAL_ADDRESS;
	if (x->via->flags & NAT64_STATEFUL)
		return OUTCOME_NONE; /* the binding gives the source: nat64_stateful6 */
	from = nat64_rule6(&x->saddr6);
	if (!from || (from->suffix.kind != NAT64_NODE && from->suffix.kind != NAT64_MAPPING) ||
	    from->translator != to->translator || nat64_u_octet_set(&x->saddr6, from))
		return DROP_SOURCE_UNMAPPED;
	x->saddr4 = nat64_to4(&x->saddr6, from);
	if (addr4_illegal(x->saddr4))
		return DROP_ILLEGAL_ADDRESS;
	return OUTCOME_NONE;
}

static __always_inline enum outcome nat64_parse6(hook_ctx *ctx, struct nat64 *x)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct tcphdr));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct ipv6hdr *ip = PULL(&cur, struct ipv6hdr);
	enum outcome source, l4;
	__u64 walked;

	if (!eth || !ip)
		return DROP_TRUNCATED;
	if (bpf_ntohl(ip->ver_tc_flow) >> 28 != 6)
		return DROP_BAD_HEADER;
	x->payload = bpf_ntohs(ip->payload_len);
	if (ETH_HLEN + sizeof(*ip) + x->payload > hook_len(ctx))
		return DROP_TRUNCATED;
	x->saddr6 = ip->saddr;
	x->daddr6 = ip->daddr;
	x->old_len = sizeof(*ip);
	x->protocol = ip->nexthdr;
	x->ttl = ip->hop_limit;
	x->tos = bpf_ntohl(ip->ver_tc_flow) >> 20;

	source = nat64_addresses6(x);
	if (source != OUTCOME_NONE && source != DROP_SOURCE_UNMAPPED)
		return source;
	if (nat64_force_slow)
		return SLOW_FORCED;
	if (!(x->via->flags & NAT64_COPY_TOS))
		x->tos = 0;
	if (ipv6_is_extension(x->protocol)) {
		walked = ipv6_walk(ctx, x->protocol, x->payload);
		if (walk_outcome(walked) != OUTCOME_NONE)
			return source == DROP_SOURCE_UNMAPPED ? SLOW_ERROR_DUE : walk_outcome(walked);
		x->protocol = walk_protocol(walked);
		x->old_len += walk_len(walked);
		x->payload -= walk_len(walked);
	}
	l4 = nat64_parse_l4(ctx, x, ETH_HLEN + (x->old_len & 0x3fff), true);
	/* an ICMP error may come from a router that has no mapping (RFC 6791) */
	if (l4 == SLOW_ICMP_ERROR)
		return l4;
	if (l4 == OUTCOME_NONE && x->via->flags & NAT64_STATEFUL)
		return nat64_stateful6(x);
	return source == DROP_SOURCE_UNMAPPED ? SLOW_ERROR_DUE : l4;
}

/* An IPv4 sender without a translation gets an ICMP error (RFC 7915 4.4). */
static __always_inline enum outcome nat64_notify(enum outcome source)
{
	return source == DROP_SOURCE_UNMAPPED ? SLOW_ERROR_DUE : source;
}

/* The destination of an IPv4 packet selects the translator. */
static __always_inline enum outcome nat64_destination4(struct nat64 *x, struct nat64_rule4 **rule)
{
	struct nat64_rule4 *to = nat64_rule4(x->daddr4);

	if (addr4_link_scope(x->daddr4))
		return PASS_LINK_SCOPE;
	if (!to || (to->suffix.kind != NAT64_NODE && to->suffix.kind != NAT64_MAPPING &&
		    to->suffix.kind != NAT64_POOL))
		return PASS_NOT_TRANSLATED;
	x->translator = to->translator;
	x->via = nat64_translator(to->translator);
	if (!x->via)
		return PASS_NOT_TRANSLATED;
	if (!(x->allowed >> (x->translator & 63) & 1))
		return DROP_INTERFACE;
	nat64_to6(&x->daddr6, x->daddr4, to);
	*rule = to;
	return OUTCOME_NONE;
}

static __always_inline enum outcome nat64_source4(struct nat64 *x, const struct nat64_rule4 *to)
{
	struct nat64_rule4 *from;

	if (addr4_illegal(x->saddr4) || addr4_link_scope(x->saddr4))
		return DROP_ILLEGAL_ADDRESS;
	if (x->via->flags & NAT64_STATEFUL)
		return OUTCOME_NONE; /* the session gives both addresses: nat64_stateful4 */
	from = nat64_rule4(x->saddr4);
	if (from && from->translator != to->translator)
		from = NULL;
	/*
	 * If both ends have mappings of IPv6 nodes the packet is being
	 * hairpinned, and its answer must come back here (RFC 7757 4.2.1).
	 */
	if (from && (from->suffix.kind == NAT64_MAPPING4 ||
		     (from->suffix.kind == NAT64_MAPPING && to->suffix.kind == NAT64_NODE)))
		nat64_to6(&x->saddr6, x->saddr4, from);
	else if (from && from->suffix.kind == NAT64_REFUSED)
		return DROP_ILLEGAL_ADDRESS;
	else if (x->via->flags & NAT64_HAS_PREFIX)
		nat64_to6(&x->saddr6, x->saddr4, &x->via->prefix);
	else if (from && from->suffix.kind == NAT64_MAPPING)
		nat64_to6(&x->saddr6, x->saddr4, from);
	else
		return DROP_SOURCE_UNMAPPED;
	return OUTCOME_NONE;
}

static __always_inline enum outcome nat64_parse4(hook_ctx *ctx, struct nat64 *x)
{
	struct cursor cur = hook_cursor(ctx, ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr));
	struct ethhdr *eth = PULL(&cur, struct ethhdr);
	struct iphdr *ip = PULL(&cur, struct iphdr);
	enum outcome outcome, source;
	struct nat64_rule4 *to = NULL;
	__u32 walked;
	bool checksum_ok;
	__be16 frag_off;
	__u32 total;

	if (!eth || !ip)
		return DROP_TRUNCATED;
	total = bpf_ntohs(ip->tot_len);
	x->old_len = ip->ihl * 4;
	if (ip->version != 4 || x->old_len < sizeof(*ip) || total < x->old_len)
		return DROP_BAD_HEADER;
	if (ETH_HLEN + total > hook_len(ctx))
		return DROP_TRUNCATED;
	x->payload = total - x->old_len;
	x->saddr4 = ip->saddr;
	x->daddr4 = ip->daddr;
	x->protocol = ip->protocol;
	x->ttl = ip->ttl;
	x->tos = ip->tos;
	frag_off = ip->frag_off;
	/* one's complement zero over a whole header, RFC 1071 */
	checksum_ok = x->old_len != sizeof(*ip) || !csum_ipv4_header(ip);
	outcome = nat64_destination4(x, &to);
	if (outcome != OUTCOME_NONE || !to)
		return outcome;
	if (!checksum_ok)
		return DROP_IPV4_CHECKSUM;
	if (x->old_len != sizeof(*ip)) {
		walked = ipv4_walk(ctx, x->old_len);
		x->source_route = walked & IPV4_SOURCE_ROUTE;
		outcome = walked & ~IPV4_SOURCE_ROUTE;
	}
	if (outcome == DROP_SOURCE_ROUTE)
		return SLOW_ERROR_DUE;
	if (outcome != OUTCOME_NONE)
		return outcome;
	/* the source of an ICMP error need not have a translation */
	source = nat64_source4(x, to);
	if (source != OUTCOME_NONE && x->protocol != IPPROTO_ICMP)
		return nat64_notify(source);
	if (nat64_force_slow)
		return SLOW_FORCED;
	if (frag_off & bpf_htons(IP_MF | IP_OFFSET))
		return SLOW_FRAGMENT;
	if (!(x->via->flags & NAT64_COPY_TOS))
		x->tos = 0;
	outcome = nat64_parse_l4(ctx, x, ETH_HLEN + (x->old_len & 0x3f), false);
	if (source != OUTCOME_NONE && outcome != SLOW_ICMP_ERROR)
		return nat64_notify(source);
	if (outcome != OUTCOME_NONE)
		return outcome;
	if (!(frag_off & bpf_htons(IP_DF)) && x->wire_len > x->via->lowest_mtu)
		return SLOW_FRAG_NEEDED;
	if (x->compute_udp && !(x->via->flags & NAT64_COMPUTE_UDP))
		return SLOW_ERROR_DUE;
	if (x->compute_udp && (hook_segment(ctx) || x->payload > UDP_CHUNK * UDP_CHUNKS_MAX))
		return SLOW_UDP_CHECKSUM;
	return x->via->flags & NAT64_STATEFUL ? nat64_stateful4(x) : OUTCOME_NONE;
}

/*
 * Whether the IPv4 stack, which comes next, will drop a packet that RFC 7915
 * translates or answers; outcome is nat64_parse4()'s. The stack drops source routes,
 * even used-up ones (4.1), illegal source addresses, even of ICMP errors (4.1), and
 * packets larger than the MTU of the route to the translator, even ICMP errors that
 * will be truncated to 1280 bytes (4.2).
 */
static __always_inline bool nat64_stack_drops(const struct nat64 *x, enum outcome outcome)
{
	if (!x->via || (outcome != OUTCOME_NONE && !outcome_is_slow(outcome)))
		return false;
	if (x->source_route)
		return true;
	return (outcome == SLOW_ICMP_ERROR || (outcome == SLOW_FORCED && x->protocol == IPPROTO_ICMP)) &&
	       (x->old_len + x->payload > NAT64_ERROR4_MAX || addr4_illegal(x->saddr4));
}

/* Writing what the parse decided. */

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

/* Rewrite what follows the new IP header: type, checksum, MSS. l4: its offset. */
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
 * IPv6 -> IPv4. ttl is the field's new value: unchanged where the stack routes
 * afterwards and decrements it itself. Bytes behind the packet (padding of a short
 * frame) are cut.
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
