/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Finds the session that owns an address: one look-up for each prefix length in use (a
 * handful: /32; /128, /64, /56), the longest first, in the line of the prefix or else
 * in a hash table. The same look-up routes packets to subscribers and checks their
 * sources.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "hash.h"
#include "l2tp_maps.h"

#define L2TP_NO_LENGTH 255

static __always_inline const struct l2tp_lengths *l2tp_lengths(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&l2tp_owner_lengths, &zero);
}

#define L2TP_NO_LINE 0xffffffff

/* half as many lines as there are, less one; chosen when programs are loaded */
const volatile __u32 l2tp_lines_mask = 0;

static __always_inline __u32 l2tp_line_of(__u32 table, __u32 bits, __u32 family)
{
	return table | bits << 16 | family << 24;
}

static __always_inline const struct l2tp_line *l2tp_line_at(__u32 at, __u64 net, __u32 of)
{
	const struct l2tp_line *line = bpf_map_lookup_elem(&l2tp_lines, &at);

	return line && line->net == net && line->of == of ? line : NULL;
}

/*
 * The session in the line of a prefix's neighbours, or 0 if it has no owner.
 * L2TP_NO_LINE: there is no line. place: the prefix as a number, counted in prefixes
 * of that length.
 *
 * A line is in the first half of the table, where those of a pool are adjacent, or, if
 * another line is there, at a hashed place in the second half (places() in
 * internal/datapath/subscribertable/subscriber_lines.go).
 */
__noinline __u32 l2tp_in_line(__u64 place, __u32 table, __u32 bits, __u32 family)
{
	__u32 of = l2tp_line_of(table, bits, family), mask = l2tp_lines_mask;
	__u64 net = place / L2TP_NEIGHBOURS, salt = of * HASH_GOLDEN;
	const struct l2tp_line *line;

	line = l2tp_line_at((net + (((net >> 12) + salt) * HASH_SPREAD >> 40)) & mask, net, of);
	if (!line)
		line = l2tp_line_at(((net + salt) * HASH_SPREAD >> 40 & mask) + mask + 1, net, of);
	return line ? line->sessions[place & (L2TP_NEIGHBOURS - 1)] : L2TP_NO_LINE;
}

/* functions of their own: the verifier sees their loops once */
__noinline __u32 l2tp_owner4(__u32 table, __be32 addr)
{
	const struct l2tp_lengths *lengths = l2tp_lengths();
	struct l2tp_addr4 key = { .table = table };
	__u32 *session, found = L2TP_NO_LINE;

	if (!lengths)
		return 0;
	if (lengths->bits4[0] == 32) /* the longest */
		found = l2tp_in_line(bpf_ntohl(addr), table, 32, AF_INET);
	if (found != L2TP_NO_LINE && found)
		return found;
	for (int i = 0; i < L2TP_LENGTHS; i++) {
		__u32 bits = lengths->bits4[i];

		if (bits > 32)
			break;
		key.bits = bits;
		key.addr = bits ? addr & bpf_htonl(~0U << ((32 - bits) & 31)) : 0;
		session = bpf_map_lookup_elem(&l2tp_owners4, &key);
		if (session)
			return *session;
	}
	return 0;
}

static __always_inline __u64 l2tp_upper(__u64 word, __u32 bits)
{
	return bits ? word & (~0ULL << ((64 - bits) & 63)) : 0;
}

__noinline __u32 l2tp_owner6(__u32 table, __u64 high, __u64 low)
{
	const struct l2tp_lengths *lengths = l2tp_lengths();
	struct l2tp_addr6 key = { .table = table };
	__u32 *session, found;

	if (!lengths)
		return 0;
	for (int i = 0; i < L2TP_LENGTHS; i++) {
		__u32 bits = lengths->bits6[i];
		__u64 a, b;

		if (bits > 128)
			break;
		if (bits >= 8 && bits <= 64) {
			found = l2tp_in_line(high >> ((64 - bits) & 63), table, bits, AF_INET6);
			if (!found)
				continue;
			if (found != L2TP_NO_LINE)
				return found;
		}
		a = l2tp_upper(high, bits < 64 ? bits : 64);
		b = bits > 64 ? l2tp_upper(low, bits - 64) : 0;
		key.bits = bits;
		key.addr.be32[0] = bpf_htonl(a >> 32);
		key.addr.be32[1] = bpf_htonl((__u32)a);
		key.addr.be32[2] = bpf_htonl(b >> 32);
		key.addr.be32[3] = bpf_htonl((__u32)b);
		session = bpf_map_lookup_elem(&l2tp_owners6, &key);
		if (session)
			return *session;
	}
	return 0;
}

/* whether a source address belongs to the session: its own entry is checked first */
static __always_inline bool l2tp_owns4(__u32 id, const struct l2tp_up *s, __u32 table, __be32 addr)
{
	return (s->ip4 && addr == s->ip4) || l2tp_owner4(table, addr) == id;
}

static __always_inline bool l2tp_owns6(__u32 id, const struct l2tp_up *s, __u32 table,
				       const struct in6_addr *addr)
{
	const struct l2tp_up_rest *rest = l2tp_up_rest(s);
	__u64 high = addr6_high(addr);

	for (int i = 0; i < 2; i++)
		if (s->bits6[i] && !((high ^ rest->net6[i]) >> ((64 - s->bits6[i]) & 63)))
			return true;
	return l2tp_owner6(table, high, addr6_low(addr)) == id;
}

static __always_inline bool l2tp_in_walled_garden(__u32 lns, const struct in6_addr *addr)
{
	struct l2tp_walled_garden_key key = {
		.prefixlen = 160,
		.lns = bpf_htonl(lns),
		.addr = *addr,
	};
	return bpf_map_lookup_elem(&l2tp_walled_gardens, &key) != NULL;
}

static __always_inline struct in6_addr l2tp_mapped(__be32 addr)
{
	struct in6_addr mapped = {};

	mapped.be16[5] = 0xffff;
	mapped.be32[3] = addr;
	return mapped;
}
