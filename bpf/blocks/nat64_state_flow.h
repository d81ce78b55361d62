/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What is known of one packet while its session is found or made: room that the
 * stack has not, one for each CPU. Nothing here outlives the packet.
 */
#include "nat64_state_maps.h"

/* a search for a free port */
struct nat64_search {
	__u32 start, step;
	__u32 address; /* index into the pools; fixed with a block */
	__u32 block;   /* first port of the block, from low */
	__u32 outcome;
};

/* what the look-up of an outbound packet has found out for the opening of its session */
enum nat64_bound {
	NAT64_BOUND_UNKNOWN,
	NAT64_BOUND_NOT,  /* there was no binding */
	NAT64_BOUND_HELD, /* there is one, and it is held for the session to come */
};

/*
 * One packet as the state sees it. Outbound (IPv6 to IPv4) the pool's side is
 * the answer, inbound the client's. Lives in nat64_flows, one for each CPU.
 */
struct nat64_flow {
	struct in6_addr client;
	struct in6_addr remote6;
	__be32 pool, remote;
	__be16 port, pool_port, remote_port;
	__u8 protocol;  /* of IPv4 */
	__u8 tcp_flags; /* TCP; for ICMP 1 is a request */
	__u8 translator;
	__u8 outbound;
	__u8 adopt;       /* another router has bound and opened it: made as it says */
	__u8 adopt_flags; /* enum nat64_session_flag */
	__u8 bound;       /* enum nat64_bound */
	__u32 now;
	__u32 left, made; /* adopt: ticks until it expires; when it was made */
	__u64 hash;       /* outbound TCP and UDP: what nat64_state_fast.h finds it by */
	struct nat64_fast_words line;
	/* room for keys and values, which the stack has not */
	struct nat64_bib6_key from;
	struct nat64_session_key key;
	struct nat64_subscriber subscriber;
	struct nat64_search search;
	struct nat64_bib4_key to;
	struct nat64_owner owner;
	struct nat64_binding binding;
	struct nat64_session session;
	struct nat64_slot slot;
};

/* whose binding or session is given back, and room for keys */
struct nat64_end {
	struct in6_addr client;
	__be16 port;
	__u8 protocol, translator;
	__u32 slot;
	struct nat64_bib6_key from;
	struct nat64_bib4_key back;
	struct nat64_subscriber_key who;
	__u32 pad;
	struct nat64_session_key peer;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_end);
	__uint(max_entries, 1);
} nat64_ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_flow);
	__uint(max_entries, 1);
} nat64_flows SEC(".maps");
