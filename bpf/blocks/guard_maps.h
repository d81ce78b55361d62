/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/* The tables of the guard (guard.h): what is asked of an interface, rates, lists. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: datapath/guardtable */
enum guard_flag {
	GUARD_BOGONS = 1, /* drop sources that are listed as bogons */
	GUARD_LOOSE = 2,  /* drop sources without any route */
	GUARD_STRICT = 4, /* drop sources whose route leads elsewhere, too */
	GUARD_XDP = 8,    /* ingress_xdp looks, so ingress_tc need not */
};

/* flags of a prefix on the list; none is an exception */
/* go: state.Listed GUARD_LISTED_=Listed */
enum guard_listed {
	GUARD_LISTED_BLOCKED = 1,
	GUARD_LISTED_BOGON = 2,
};

/* go: state */
enum guard_rated {
	GUARD_SYN_SOURCE, /* TCP SYNs, of one source: an IPv4 address or an IPv6 /64 */
	GUARD_SYN_TOTAL,
	GUARD_ICMP_SOURCE,
	GUARD_ICMP_TOTAL,
	GUARD_RATES,
};

struct guard_rate {
	__u64 interval; /* ns from one packet to the next; 0: as many as come */
	__u64 burst;    /* burst tolerance: ns that packets may be early */
	__u32 per_second, packets; /* the same, as configured */
};

struct guard_interface {
	struct guard_rate rates[GUARD_RATES];
	__u64 due[GUARD_RATES]; /* when the next packet is due, of the totals */
	__u64 key;              /* of the hash */
	__u32 flags;
	__u32 pad;
};

/* by the interface to which frames belong */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct guard_interface);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} guard_interfaces SEC(".maps");

#define GUARD_BUCKETS 16384

/* when the next packet of a source is due; SYNs first, then ICMP */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2 * GUARD_BUCKETS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} guard_buckets SEC(".maps");

struct guard_key4 {
	__u32 prefixlen;
	__be32 addr;
};

struct guard_key6 {
	__u32 prefixlen;
	struct in6_addr addr;
};
_Static_assert(sizeof(struct guard_key4) == 8 && sizeof(struct guard_key6) == 20, "keys without holes");

/*
 * The lists. A new one is filled in an unused map and replaces the old one by one
 * store. Without a list there is no look-up.
 */
struct guard_list4_trie {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(key_size, sizeof(struct guard_key4));
	__uint(value_size, sizeof(__u32)); /* bits of enum guard_listed */
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
};

struct guard_list6_trie {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(key_size, sizeof(struct guard_key6));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct guard_list4_trie);
} guard_list4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct guard_list6_trie);
} guard_list6 SEC(".maps");
