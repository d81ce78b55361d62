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

static __always_inline struct flow_line *flow_line_at(__u32 at)
{
	return bpf_map_lookup_elem(&flow_lines, &at);
}

/* The flow of a key, if that is what the line has. */
static __always_inline struct flow4 *flow_line_has(struct flow_line *line, const struct flow_key4 *key,
						   __u32 word)
{
	__u64 differs;

	differs = *(volatile __u32 *)&line->interface ^ word;
	differs |= *(volatile __u32 *)&line->saddr ^ key->saddr;
	differs |= *(volatile __u32 *)&line->daddr ^ key->daddr;
	differs |= *(volatile __u32 *)&line->ports ^ *(__u32 *)&key->ports;
	if (differs)
		return NULL;
	/* processors that read ahead wait for the key where the address hangs on it */
	asm volatile("" : "+r"(differs));
	return (void *)line + differs;
}

static __always_inline struct flow4 *flow4_find(const struct flow_key4 *key)
{
	__u32 word = key->interface | key->protocol << FLOW_LINE_PROTOCOL, at;
	__u64 hash = flow_line_hash(key);
	struct flow_line *first, *line;
	struct flow4 *found;

	if (key->interface >> FLOW_LINE_PROTOCOL)
		return bpf_map_lookup_elem(&flows4, key);
	at = (__u32)hash & flow_lines_mask;
	first = flow_line_at(at);
	if (!first)
		return NULL;
	found = flow_line_has(first, key, word);
	if (found)
		return found;
	line = flow_line_at(at ^ 1);
	found = line ? flow_line_has(line, key, word) : NULL;
	if (found || !first->flow.flow.away)
		return found;
	at = (__u32)(hash >> 32) & flow_lines_mask;
	for (int i = 0; i < 2; i++) {
		line = flow_line_at(at ^ i);
		found = line ? flow_line_has(line, key, word) : NULL;
		if (found)
			return found;
	}
	return bpf_map_lookup_elem(&flows4, key);
}

/* the same where it is not asked for each packet */
static __noinline struct flow4 *flow4_find_seldom(const struct flow_key4 *key)
{
	return flow4_find(key);
}
