/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Flows of IPv4 by their keys. With a million of them each packet has to wait for
 * memory; here it does so once: all that is known of a flow is one line of the
 * cache, at the place that its key's hash says. Two such places are neighbours,
 * and there are two pairs of them. What finds none of the four free is in a hash
 * table, flows4. A line that is the first place of flows which are not in its
 * pair says so, so that who is in no table is looked for in one pair.
 *
 * Only user space puts flows in and takes them out (internal/datapath/flow_lines.go,
 * which finds places in the same way). It writes the word with the interface last,
 * and clears it first; and a line that was freed is used again only when every
 * program that may have seen it has ended.
 */
#include "flow_maps.h"
#include "hash.h"

/* how many there are, less one: a power of two */
const volatile __u32 flow_lines_mask = 0;

#define FLOW_LINE_PROTOCOL 24 /* where in its word that begins: larger interfaces have no lines */

static __always_inline __u64 flow_line_hash(const struct flow_key4 *key)
{
	__u64 h = (__u64)key->saddr << 32 | key->daddr;

	h ^= (__u64)(*(__u32 *)&key->ports) * 0x9e3779b97f4a7c15ULL;
	return hash_mix(h ^ ((__u64)key->protocol << 32 | key->interface) * 0xd6e8feb86659fd93ULL);
}

/* the pair that a line belongs to */
static __always_inline struct flow_pair *flow_pair_of(__u32 line)
{
	__u32 at = line >> 1;

	return bpf_map_lookup_elem(&flow_lines, &at);
}

/* zero if the line has the flow of a key */
static __always_inline __u64 flow_line_differs(const struct flow_line *line, const struct flow_key4 *key,
					       __u32 word)
{
	__u64 differs;

	differs = *(volatile __u32 *)&line->interface ^ word;
	differs |= *(volatile __u32 *)&line->saddr ^ key->saddr;
	differs |= *(volatile __u32 *)&line->daddr ^ key->daddr;
	differs |= *(volatile __u32 *)&line->ports ^ *(__u32 *)&key->ports;
	return differs;
}

/*
 * The flow of a key, if one of a pair's lines has it. Both are asked at once, and
 * which it is is computed: with many flows a branch would be foreseen wrongly for
 * every third of them, and be found out when the first line has come from memory.
 */
static __always_inline struct flow4 *flow_pair_has(struct flow_pair *pair, const struct flow_key4 *key,
						   __u32 word)
{
	__u64 differs = flow_line_differs(&pair->line[0], key, word);
	__u64 second = -differs;

	asm volatile("" : "+r"(second)); /* else the compiler finds a branch in it */
	second = (second | differs) >> 63;
	differs = flow_line_differs(&pair->line[1], key, word) & -second;
	if (differs)
		return NULL;
	/* processors that read ahead wait for the key where the address hangs on it */
	asm volatile("" : "+r"(differs));
	return (void *)pair + second * sizeof(struct flow_line) + differs;
}

static __always_inline struct flow4 *flow4_find(const struct flow_key4 *key)
{
	__u32 word = key->interface | key->protocol << FLOW_LINE_PROTOCOL, at;
	__u64 hash = flow_line_hash(key);
	struct flow_pair *pair;
	struct flow4 *found;

	if (key->interface >> FLOW_LINE_PROTOCOL)
		return bpf_map_lookup_elem(&flows4, key);
	at = (__u32)hash & flow_lines_mask;
	pair = flow_pair_of(at);
	if (!pair)
		return NULL;
	found = flow_pair_has(pair, key, word);
	if (found || !pair->line[at & 1].flow.flow.away)
		return found;
	at = (__u32)(hash >> 32) & flow_lines_mask;
	pair = flow_pair_of(at);
	found = pair ? flow_pair_has(pair, key, word) : NULL;
	if (found)
		return found;
	return bpf_map_lookup_elem(&flows4, key);
}

/* the same where it is not asked for each packet */
static __noinline struct flow4 *flow4_find_seldom(const struct flow_key4 *key)
{
	return flow4_find(key);
}
