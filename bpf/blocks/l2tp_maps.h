/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Subscribers: tunnels (RFC 2661), the PPP sessions in them, and each session's
 * counters.
 *
 * The ids that weft assigns to its tunnels and sessions are array indexes: no search.
 * So a session's id is unique over all tunnels. With tens of thousands of sessions the
 * cost of a packet is the memory that only its session uses: half a cache line in each
 * direction, with the fields that every packet reads and the counters. The entries of
 * a direction are adjacent, so that those of 30,000 sessions take less than a
 * megabyte.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: datapath/subscribertable */
enum l2tp_lns_flag {
	L2TP_LNS_ROUTED = 1, /* packets from subscribers are routed by weft's own tables */
};

/* an [lns.NAME] or an [l2tp_client.NAME] */
struct l2tp_lns {
	__u32 ifindex; /* of its device; 0: there is none */
	__u8 mac[6];   /* of that */
	__u16 table;   /* of weft's own routing */
	__u32 flags;
	char name[16];
};
_Static_assert(sizeof(struct l2tp_lns) == 32, "no holes");

/* go: state L2TP_LNSES=LNSesMax */
#define L2TP_LNSES 64

struct l2tp_tunnel {
	struct in6_addr local_addr, peer; /* IPv4 in the first word */
	__be16 here_port, peer_port;
	__be16 remote; /* the peer's id */
	__u8 family;   /* AF_INET, AF_INET6; 0: there is none */
	__u8 pad;
};
_Static_assert(sizeof(struct l2tp_tunnel) == 40, "no holes");

/* go: datapath/subscribertable */
enum l2tp_session_flag {
	L2TP_KNOWN = 1,
	L2TP_WALLED_GARDEN = 2,      /* only to and from the garden's prefixes */
	L2TP_BLOCKED = 4,     /* no data at all */
	L2TP_TRUSTED = 8,     /* any source */
	L2TP_SEQUENCE = 16,   /* data carries sequence numbers */
	L2TP_NO_ADDRESS = 32, /* PPP without address and control field */
	L2TP_SHORT_TYPE = 64, /* PPP with protocol numbers of one byte */
	L2TP_CAPTURE = 128,   /* copies of its packets go to l2tp_captures */
	/* in the upstream entry, where the two before have no meaning */
	L2TP_SWITCH = 64,     /* frames are switched into another session unchanged */
};

/* the counters of a direction */
struct l2tp_flow {
	__u64 packets, bytes;
};

/* fields of a direction that not every packet needs */
struct l2tp_clock {
	__u64 due;  /* when all that has passed would have passed at the rate */
	__u64 seen; /* the last packet, to the second: ns of the monotonic clock, coarse */
};

/*
 * The daemon writes the configuration in 64-bit words, the one with the flags last,
 * and does not write the counters. The programs own `second`: the lower bits of the
 * time at which the clock's `seen` was written; an update of it may be lost.
 */
struct l2tp_down {
	struct l2tp_flow flow;
	__u32 rate; /* in 1000 bit/s; 0: no limit */
	__u16 tunnel; /* our id of it */
	__u16 second;
	__u8 flags;
	__u8 lns;
	__be16 remote; /* the peer's id */
	__u16 mtu;     /* of what is sent to it */
	__u16 mss;     /* of TCP, both ways; 0: any */
};
_Static_assert(sizeof(struct l2tp_down) == 32, "half a cache line");

struct l2tp_up {
	struct l2tp_flow flow;
	__u32 rate;
	__u16 tunnel;
	__u16 second;
	__u8 flags;
	__u8 lns;
	__u8 bits6[2]; /* of net6; 0: none */
	__be32 ip4;    /* 0: none; with L2TP_SWITCH the other session, host order */
};
_Static_assert(sizeof(struct l2tp_up) == 32, "half a cache line");

struct l2tp_down_rest {
	struct in6_addr ip6; /* not read by programs */
	struct l2tp_clock clock;
};
_Static_assert(sizeof(struct l2tp_down_rest) == 32, "half a cache line");

struct l2tp_up_rest {
	__u64 net6[2]; /* upper half of prefixes no longer than 64, host order */
	struct l2tp_clock clock;
};
_Static_assert(sizeof(struct l2tp_up_rest) == 32, "half a cache line");

/* sessions with neighbouring ids: a page of each kind */
#define L2TP_GROUP 128
struct l2tp_group {
	struct l2tp_down down[L2TP_GROUP];
	struct l2tp_up up[L2TP_GROUP];
	struct l2tp_down_rest down_rest[L2TP_GROUP];
	struct l2tp_up_rest up_rest[L2TP_GROUP];
};
_Static_assert(sizeof(struct l2tp_group) == 4 * 4096, "four pages");

/* go: state.SubscriberDrop L2TP_DROP=SubscriberDrop names */
enum l2tp_drop {
	L2TP_DROP_SPOOFED,   /* a source that is not the subscriber's */
	L2TP_DROP_UPSTREAM_RATE,   /* more than it may send */
	L2TP_DROP_DOWNSTREAM_RATE, /* more than it may receive */
	L2TP_DROP_WALLED_GARDEN,    /* outside of the walled garden, or blocked */
	L2TP_DROP_PEER,      /* from another address than the tunnel's peer */
	L2TP_DROP_INVALID,   /* headers that lie */
	L2TP_DROPS,          /* how many reasons there are */
};

/* fields that packets rarely need */
struct l2tp_state {
	__u64 drops[L2TP_DROPS];
	__u32 sequence; /* of the next data packet to the subscriber */
	__u32 uncaptured; /* packets that l2tp_captures had no room for */
	__u32 pad[2];
};
_Static_assert(sizeof(struct l2tp_state) == 64, "one cache line");

/* go: datapath/subscribertable */
enum l2tp_captured_flag {
	L2TP_CAPTURED_UP = 1,  /* from the subscriber */
	L2TP_CAPTURED_PPP = 2, /* a frame of PPP, not the IP packet in one */
};

/* a packet of a session, see l2tp_capture.h */
#define L2TP_CAPTURED_MOST 1536
struct l2tp_captured {
	__u64 at; /* ns of the monotonic clock */
	__u32 session;
	__u32 bytes; /* of the packet */
	__u32 kept;  /* that are here */
	__u32 flags; /* enum l2tp_captured_flag */
	__u8 packet[L2TP_CAPTURED_MOST];
};
_Static_assert(sizeof(struct l2tp_captured) == 24 + L2TP_CAPTURED_MOST, "no holes");

/* owners of addresses and prefixes, by route table */
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

/*
 * Pools are dense: 16 neighbours (addresses, or prefixes of one length, that differ in
 * their last four bits) share a cache line, which holds their common part and the
 * session of each: one access, one cache line. A line is complete for its neighbours;
 * the hash tables of owners have the others. A line is in one of two places, see
 * l2tp_owner.h.
 */
/* go: datapath/subscribertable */
#define L2TP_NEIGHBOURS 16

struct l2tp_line {
	__u64 net; /* what the neighbours have in common, as a number */
	__u32 of;  /* l2tp_line_of(); 0: unused */
	__u32 pad;
	__u16 sessions[L2TP_NEIGHBOURS]; /* 0: no owner */
	__u64 pad2[2];
};
_Static_assert(sizeof(struct l2tp_line) == 64, "one cache line");

/* The lengths of prefixes that there are, the longest first; 255 ends them. */
#define L2TP_LENGTHS 16
struct l2tp_lengths {
	__u8 bits4[L2TP_LENGTHS];
	__u8 bits6[L2TP_LENGTHS];
};

/* where subscribers in the walled garden may go; IPv4 as ::ffff:a.b.c.d */
struct l2tp_walled_garden_key {
	__u32 prefixlen; /* 32 for the access + that of the prefix */
	__be32 lns;
	struct in6_addr addr;
};
_Static_assert(sizeof(struct l2tp_walled_garden_key) == 24, "key without holes");

/* the tables' sizes are chosen when programs are loaded */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_lns);
	__uint(max_entries, L2TP_LNSES);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_lnses SEC(".maps");

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
	__type(key, __u32); /* id / L2TP_GROUP */
	__type(value, struct l2tp_group);
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
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct l2tp_line);
	__uint(max_entries, 2);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_lines SEC(".maps");

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
	__type(key, struct l2tp_walled_garden_key);
	__type(value, __u32);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_walled_gardens SEC(".maps");

/* struct l2tp_captured; room for some 300 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} l2tp_captures SEC(".maps");

static __always_inline struct l2tp_group *l2tp_group_of(__u32 id)
{
	__u32 at = id / L2TP_GROUP;

	return bpf_map_lookup_elem(&l2tp_sessions, &at);
}

/* otherwise the compiler adds to a pointer before the NULL check */
#define L2TP_BEHIND_CHECK(x) asm volatile("" : "+r"(x))

/* each direction reads its own entry only */
static __always_inline struct l2tp_up *l2tp_up_at(__u32 id)
{
	struct l2tp_group *g = l2tp_group_of(id);
	struct l2tp_up *s;

	if (!g)
		return NULL;
	L2TP_BEHIND_CHECK(id);
	s = &g->up[id % L2TP_GROUP];
	return s->flags & L2TP_KNOWN ? s : NULL;
}

static __always_inline struct l2tp_down *l2tp_down_at(__u32 id)
{
	struct l2tp_group *g = l2tp_group_of(id);
	struct l2tp_down *s;

	if (!g)
		return NULL;
	L2TP_BEHIND_CHECK(id);
	s = &g->down[id % L2TP_GROUP];
	return s->flags & L2TP_KNOWN ? s : NULL;
}

/* the rest of a line's session stands as far behind it in either direction */
#define L2TP_REST (2 * L2TP_GROUP * 32)
_Static_assert(__builtin_offsetof(struct l2tp_group, down_rest) == L2TP_REST, "of down");
_Static_assert(__builtin_offsetof(struct l2tp_group, up_rest) ==
	       __builtin_offsetof(struct l2tp_group, up) + L2TP_REST, "of up");

static __always_inline struct l2tp_up_rest *l2tp_up_rest(const struct l2tp_up *s)
{
	return (void *)s + L2TP_REST;
}

static __always_inline struct l2tp_down_rest *l2tp_down_rest(const struct l2tp_down *s)
{
	return (void *)s + L2TP_REST;
}

static __always_inline void l2tp_drop(__u32 session, enum l2tp_drop why)
{
	struct l2tp_state *state = bpf_map_lookup_elem(&l2tp_states, &session);

	if (state)
		__sync_fetch_and_add(&state->drops[why], 1);
}
