/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Lookup of flows by key. All data of a flow is one cache line, or two adjacent ones
 * for IPv6. Lines are allocated in order: flows that began together are adjacent, so
 * that the flows which are active now are on few pages, and the TLB holds those. The
 * index maps a key to its line: a key has two candidate buckets of eight slots. A slot
 * holds the number of the line in three bytes, and seven bits of the hash: a bucket is
 * compared as one word, and few lines are read in vain. A small index stays in a near
 * cache. A bucket has FLOW_TAGS_AWAY set if it is the first one of flows that are in
 * their second: a key without a flow is searched in one bucket only.
 *
 * Only user space inserts and removes flows (internal/datapath/flowtable/flow_lines.go
 * and flow_index.go, which computes buckets in the same way). It writes the line first
 * and then the index, and a flow that moves to its other bucket is in both meanwhile.
 * A freed line is used again only when all programs that may have seen it have ended.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "flow_maps.h"
#include "hash.h"

/* how many buckets there are of each family */
const volatile __u32 flow_buckets = 1;

#define FLOW_TAGS 0x0101010101010101ULL /* one in each place's byte of flow_bucket.tags */

/* go: datapath/flowtable */
#define FLOW_TAG 0x7f       /* of a place's byte */
#define FLOW_TAGS_AWAY 0x80 /* flows are in their second bucket whose first is this */

/* which of the tables of a family */
enum flow_family { FLOW_IPV4, FLOW_IPV6 };

static __always_inline __u64 flow_key4_hash(const struct flow_key4 *key)
{
	__u64 h = (__u64)key->saddr << 32 | key->daddr;

	h ^= (__u64)(*(__u32 *)&key->ports) * HASH_GOLDEN;
	return hash_mix(h ^ ((__u64)key->protocol << 32 | key->interface) * HASH_SPREAD);
}

static __always_inline __u64 flow_address_hash(__u64 h, const struct in6_addr *a)
{
	for (int i = 0; i < 4; i += 2) {
		h = (h ^ ((__u64)a->be32[i] << 32 | a->be32[i + 1])) * HASH_GOLDEN;
		h ^= h >> 32;
	}
	return h;
}

static __always_inline __u64 flow_key6_hash(const struct flow_key6 *key)
{
	__u64 h = (__u64)(*(__u32 *)&key->ports) << 32 | (key->protocol << 24 ^ key->interface);

	return hash_mix(flow_address_hash(flow_address_hash(h, &key->saddr), &key->daddr));
}

static __always_inline __u64 flow_key_hash(const enum flow_family family, const void *key)
{
	return family == FLOW_IPV4 ? flow_key4_hash(key) : flow_key6_hash(key);
}

/* the bucket that one half of the hash selects */
static __always_inline struct flow_bucket *flow_bucket_of(const enum flow_family family, __u32 half)
{
	__u32 at = (__u64)half * flow_buckets >> 32;

	if (family == FLOW_IPV6)
		at += flow_buckets;
	return bpf_map_lookup_elem(&flow_index, &at);
}

/* the slots of a bucket whose tag is the hash's, as the high bits of their bytes */
static __always_inline __u64 flow_places(__u64 tags, __u64 hash)
{
	__u64 tag = hash & FLOW_TAG ? hash & FLOW_TAG : 1; /* zero: nothing is there */
	__u64 differs = (tags ^ tag * FLOW_TAGS) & FLOW_TAGS * FLOW_TAG;

	return ~(differs + FLOW_TAGS * FLOW_TAG) & FLOW_TAGS * 0x80;
}

static __always_inline struct flow *flow_line4_of(__u32 at, const struct flow_key4 *key)
{
	struct flow_line4 *line = bpf_map_lookup_elem(&flow_lines4, &at);

	if (!line || line->interface != key->interface || line->saddr != key->saddr || line->daddr != key->daddr ||
	    *(__u32 *)&line->ports != *(__u32 *)&key->ports || line->flow.flow.protocol != key->protocol)
		return NULL;
	return &line->flow.flow;
}

static __always_inline struct flow *flow_line6_of(__u32 at, const struct flow_key6 *key)
{
	struct flow_line6 *line = bpf_map_lookup_elem(&flow_lines6, &at);

	if (!line || line->interface != key->interface || *(__u32 *)&line->ports != *(__u32 *)&key->ports ||
	    line->flow.flow.protocol != key->protocol || !addr6_same(&line->saddr, &key->saddr) ||
	    !addr6_same(&line->daddr, &key->daddr))
		return NULL;
	return &line->flow.flow;
}

/* the flow in the lowest of these slots, if it has the key */
static __always_inline struct flow *flow_at(const enum flow_family family, const struct flow_bucket *bucket,
					    __u64 places, const void *key)
{
	/* the number of the byte with the lowest bit: the verifier has to see that it is inside */
	__u32 place = (((places & -places) >> 7) * 0x0001020304050607ULL >> 56) & 7;
	__u32 at = bucket->low[place] | (__u32)bucket->high[place] << 16;

	return family == FLOW_IPV4 ? flow_line4_of(at, key) : flow_line6_of(at, key);
}

/* the flow of a key, if a bucket has it */
static __always_inline struct flow *flow_in(const enum flow_family family, const struct flow_bucket *bucket,
					    __u64 places, const void *key)
{
	struct flow *found;

	for (int i = 0; i < FLOW_PLACES && places; i++) {
		found = flow_at(family, bucket, places, key);
		if (found)
			return found;
		places &= places - 1;
	}
	return NULL;
}

/* searches all slots of both buckets */
static __always_inline struct flow *flow_anywhere(const enum flow_family family, const void *key)
{
	__u64 hash = flow_key_hash(family, key);
	struct flow_bucket *bucket = flow_bucket_of(family, hash >> 32);
	struct flow *found;
	__u64 tags;

	if (!bucket)
		return NULL;
	tags = *(volatile __u64 *)&bucket->tags;
	found = flow_in(family, bucket, flow_places(tags, hash), key);
	if (found || !(tags & FLOW_TAGS_AWAY))
		return found;
	bucket = flow_bucket_of(family, hash);
	return bucket ? flow_in(family, bucket, flow_places(*(volatile __u64 *)&bucket->tags, hash), key) : NULL;
}

/* not what most packets need */
static __noinline struct flow4 *flow4_find_seldom(const struct flow_key4 *key)
{
	return (struct flow4 *)flow_anywhere(FLOW_IPV4, key);
}

static __noinline struct flow6 *flow6_find_seldom(const struct flow_key6 *key)
{
	return (struct flow6 *)flow_anywhere(FLOW_IPV6, key);
}

/* The flow in the first matching slot of the first bucket. *more: it may be elsewhere. */
static __always_inline struct flow *flow_find_soon(const enum flow_family family, const void *key, bool *more)
{
	__u64 hash = flow_key_hash(family, key), tags, places;
	struct flow_bucket *bucket = flow_bucket_of(family, hash >> 32);

	*more = false;
	if (!bucket)
		return NULL;
	tags = *(volatile __u64 *)&bucket->tags;
	places = flow_places(tags, hash);
	*more = places || tags & FLOW_TAGS_AWAY;
	return *more ? flow_at(family, bucket, places, key) : NULL;
}

static __always_inline struct flow4 *flow4_find(const struct flow_key4 *key)
{
	bool more;
	struct flow *found = flow_find_soon(FLOW_IPV4, key, &more);

	return found || !more ? (struct flow4 *)found : flow4_find_seldom(key);
}

static __always_inline struct flow6 *flow6_find(const struct flow_key6 *key)
{
	bool more;
	struct flow *found = flow_find_soon(FLOW_IPV6, key, &more);

	return found || !more ? (struct flow6 *)found : flow6_find_seldom(key);
}
