/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Subscribers: what feature access knows of tunnels (RFC 2661) and of the PPP
 * sessions in them, and what each session has carried.
 *
 * The ids that weft gives to its tunnels and sessions are the places where
 * they stand: no search. A session's id is unique in all tunnels for that. What
 * is configured and what is counted lie apart, so that CPUs that only read a
 * session share its line, and the two directions do not meet in one line.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum l2tp_access_flag {
	L2TP_ACCESS_ROUTED = 1, /* what subscribers send is routed by weft's own tables */
};

/* an [access.NAME] or an [l2tp_client.NAME] */
struct l2tp_access {
	__u32 ifindex; /* of its device; 0: there is none */
	__u8 mac[6];   /* of that */
	__u16 table;   /* of weft's own routing */
	__u32 flags;
	char name[16];
};
_Static_assert(sizeof(struct l2tp_access) == 32, "no holes");

#define L2TP_ACCESSES 64

struct l2tp_tunnel {
	struct in6_addr here, peer; /* IPv4 in the first word */
	__be16 here_port, peer_port;
	__be16 remote; /* the peer's id */
	__u8 family;   /* AF_INET, AF_INET6; 0: there is none */
	__u8 pad;
};
_Static_assert(sizeof(struct l2tp_tunnel) == 40, "no holes");

enum l2tp_session_flag {
	L2TP_KNOWN = 1,
	L2TP_GARDEN = 2,      /* only to and from the garden's prefixes */
	L2TP_BLOCKED = 4,     /* no data at all */
	L2TP_TRUSTED = 8,     /* any source */
	L2TP_SEQUENCE = 16,   /* data carries sequence numbers */
	L2TP_NO_ADDRESS = 32, /* PPP without address and control field */
	L2TP_SHORT_TYPE = 64, /* PPP with protocol numbers of one byte */
};

struct l2tp_session {
	__u8 flags;
	__u8 access;
	__u8 bits6[2]; /* of net6; 0: none */
	__u16 tunnel;  /* our id of it */
	__be16 remote; /* the peer's id */
	__u16 mtu;     /* of what is sent to it */
	__u16 mss;     /* 0: any */
	__be32 ip4;    /* 0: none */
	__u32 up, down; /* in 1000 bit/s; 0: no limit */
	__u64 net6[2]; /* upper half of prefixes no longer than 64, host order */
	struct in6_addr ip6;
	__u8 pad[8];
};
_Static_assert(sizeof(struct l2tp_session) == 64, "one cache line");

/* a direction of a session, in a cache line of its own */
struct l2tp_flow {
	__u64 packets, bytes;
	__u64 seen; /* ns of the monotonic clock, coarse */
	__u64 due;  /* when all that has passed would have passed at the rate */
	__u64 pad[4];
};

enum l2tp_drop {
	L2TP_DROP_SPOOFED,
	L2TP_DROP_RATE_UP,
	L2TP_DROP_RATE_DOWN,
	L2TP_DROP_GARDEN,
	L2TP_DROP_PEER,
	L2TP_DROP_INVALID,
	L2TP_DROPS,
};

struct l2tp_state {
	struct l2tp_flow up, down;
	__u64 drops[L2TP_DROPS];
	__u32 sequence; /* of the next data packet to the subscriber */
	__u32 pad[3];
};
_Static_assert(sizeof(struct l2tp_state) == 192, "three cache lines");

/* who has an address or a prefix, by route table */
struct l2tp_addr4 {
	__be32 addr; /* masked */
	__u16 table;
	__u16 bits;
};

struct l2tp_addr6 {
	struct in6_addr addr;
	__u16 table;
	__u16 bits;
	__u32 pad;
};
_Static_assert(sizeof(struct l2tp_addr4) == 8, "key without holes");
_Static_assert(sizeof(struct l2tp_addr6) == 24, "key without holes");

/* The lengths of prefixes that there are, the longest first; 255 ends them. */
#define L2TP_LENGTHS 16
struct l2tp_lengths {
	__u8 bits4[L2TP_LENGTHS];
	__u8 bits6[L2TP_LENGTHS];
};

/* where subscribers in the walled garden may go; IPv4 as ::ffff:a.b.c.d */
struct l2tp_garden_key {
	__u32 prefixlen; /* 32 for the access + that of the prefix */
	__be32 access;
	struct in6_addr addr;
};
_Static_assert(sizeof(struct l2tp_garden_key) == 24, "key without holes");

/* the tables' sizes are chosen when programs are loaded */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_access);
	__uint(max_entries, L2TP_ACCESSES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_accesses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_tunnel);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_tunnels SEC(".maps");

/* mapped arrays start at a page: their values at cache lines */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_session);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_state);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct l2tp_addr4);
	__type(value, __u32); /* session */
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_owners4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct l2tp_addr6);
	__type(value, __u32);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_owners6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_lengths);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_owner_lengths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct l2tp_garden_key);
	__type(value, __u32);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_gardens SEC(".maps");

static __always_inline struct l2tp_session *l2tp_session_at(__u32 id)
{
	struct l2tp_session *s = bpf_map_lookup_elem(&l2tp_sessions, &id);

	return s && s->flags & L2TP_KNOWN ? s : NULL;
}

static __always_inline void l2tp_drop(__u32 session, enum l2tp_drop why)
{
	struct l2tp_state *state = bpf_map_lookup_elem(&l2tp_states, &session);

	if (state)
		__sync_fetch_and_add(&state->drops[why], 1);
}
