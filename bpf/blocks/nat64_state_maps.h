/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The tables of stateful translation (RFC 6146 3.1): bindings (BIB), sessions, and
 * their configuration. All CPUs share them. decisions/0030 explains the layout.
 * Addresses and ports are in network byte order unless a comment says host order. A
 * time is in ticks of 2^26 ns (67 ms) of the monotonic clock, 32 bits, and is compared
 * by signed difference.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: datapath */
#define NAT64_TICK_SHIFT 26
/* go: state NAT64_POOLS_MAX=PoolsMax */
#define NAT64_POOLS_MAX 8

#define NAT64_STATEFUL_MAX 64 /* as many as there are translators */

/* one transport address of an IPv6 node; the port is the identifier for ICMP */
struct nat64_bib6_key {
	struct in6_addr client;
	__be16 port;
	__u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP */
	__u8 translator;
	__u32 pad;
};
_Static_assert(sizeof(struct nat64_bib6_key) == 24, "key without holes");

/*
 * word: bit 63 is set by the CPU that removes it; 62..32 distinguish uses of the
 * memory; 31..0 count the sessions. A reference to a session keeps its binding.
 */
/* go: datapath/nat64table */
#define NAT64_BINDING_DEAD (1ULL << 63)
struct nat64_binding {
	__u64 word;
	struct in6_addr client; /* a copy of the key: freed memory is reused at once */
	__be32 pool;
	__be16 pool_port;
	__be16 port;
	__u32 made;
	__u8 protocol;
	__u8 translator;
	__u8 flags; /* enum nat64_binding_flag */
	__u8 pad;
};
_Static_assert(sizeof(struct nat64_binding) == 40, "layout");

enum nat64_binding_flag { NAT64_BINDING_STATIC = 1 };

struct nat64_bib4_key {
	__be32 pool;
	__be16 port;
	__u8 protocol;
	__u8 pad;
};
_Static_assert(sizeof(struct nat64_bib4_key) == 8, "key without holes");

struct nat64_owner {
	struct in6_addr client;
	__be16 port;
	__u8 translator;
	__u8 pad;
};

/* the IPv4 side of a session: answers find it with one look-up */
struct nat64_session_key {
	__be32 pool;
	__be32 remote;
	__be16 pool_port;
	__be16 remote_port; /* ICMP: the identifier, as pool_port */
	__u8 protocol;
	__u8 pad[3];
};
_Static_assert(sizeof(struct nat64_session_key) == 16, "key without holes");

/*
 * word: 31..0 tick of expiry, 39..32 enum nat64_tcp, 47..40 enum nat64_session_flag,
 * 63..48 distinguish uses of the memory. It is changed by compare-and-swap only.
 */
struct nat64_session {
	__u64 word;
	struct in6_addr client;
	struct in6_addr remote6; /* the remote as the client knows it */
	__be32 pool, remote;
	__be16 port, pool_port, remote_port;
	__u8 protocol, translator;
	__u32 slot;
	__u32 made;
};
_Static_assert(sizeof(struct nat64_session) == 64, "one cache line");

/*
 * The last three are for sessions that another router has advertised (session
 * synchronisation, decisions/0035): a packet that arrives here makes such a session
 * this router's own.
 */
/* go: datapath/nat64table NAT64_SESSION_=session */
enum nat64_session_flag {
	NAT64_SESSION_PEER = 1,   /* counted in nat64_peers */
	NAT64_SESSION_REMOTE = 2, /* another router has it */
	NAT64_SESSION_ROUND = 4,  /* toggles with each dump of that router */
	NAT64_SESSION_OWNER = 0xf8, /* the number of that router */
};

/* go: datapath/nat64table NAT64_SESSION_=session */
#define NAT64_SESSION_OWNER_SHIFT 3

/* numbers of routers that there can be */
/* go: state NAT64_OWNERS=OwnersMax */
#define NAT64_OWNERS ((NAT64_SESSION_OWNER >> NAT64_SESSION_OWNER_SHIFT) + 1)

/* where parts of a session's word are */
/* go: datapath/nat64table */
#define NAT64_PACKED_STATE 32
#define NAT64_PACKED_FLAGS 40
#define NAT64_PACKED_GENERATION 48

/* RFC 6146 3.5.2.1. UDP and ICMP have the first state alone. */
/* go: state.SessionState NAT64_=Session */
enum nat64_tcp {
	NAT64_ACTIVE,
	NAT64_V4_INIT,
	NAT64_V6_INIT,
	NAT64_ESTABLISHED,
	NAT64_V4_FIN,
	NAT64_V6_FIN,
	NAT64_BOTH_FIN,
	NAT64_TRANS,
	NAT64_DEAD = 255, /* being removed */
};

/* the sweep's entry for a session, and when it has to look at it */
struct nat64_slot {
	struct nat64_session_key key;
	__u32 due;
	__u32 used;
};

/* RFC 6146 4 */
/* go: datapath/nat64table */
enum nat64_timer {
	NAT64_TIMER_UDP,
	NAT64_TIMER_ICMP,
	NAT64_TIMER_EST,
	NAT64_TIMER_TRANS,
	NAT64_TIMERS,
};

/* go: state.Filtering NAT64_FILTER_=Filter */
enum nat64_filtering {
	NAT64_FILTER_NONE,    /* endpoint-independent */
	NAT64_FILTER_ADDRESS, /* address-dependent */
	NAT64_FILTER_PORT,    /* address- and port-dependent */
};

struct nat64_pool {
	__u32 base;     /* host order */
	__u32 count;    /* addresses */
	__u16 low, high; /* ports, host order, both included */
};

/* how a translator binds; index: translator */
struct nat64_stateful {
	__u32 timers[NAT64_TIMERS]; /* ticks */
	__u32 ports_max;    /* bindings of one subscriber; 0: no limit */
	__u32 sessions_max; /* likewise */
	__u32 addresses;    /* of all pools */
	__u32 block;        /* ports per subscriber where they are fixed (RFC 7422); 0: not */
	struct in6_addr subscribers; /* then: the prefix that they are counted in */
	__u8 subscribers_bits;
	__u8 subscriber_bits; /* prefix length of one subscriber */
	__u8 filtering;       /* enum nat64_filtering */
	__u8 pools;
	__u8 has_statics;
	__u8 events; /* events of bindings that are made and end: the allocation log */
	__u8 shared; /* events for other routers: session synchronisation */
	__u8 pad;
	__u64 secret; /* spreads subscribers over addresses */
	struct nat64_pool pool[NAT64_POOLS_MAX];
};

struct nat64_subscriber_key {
	struct in6_addr prefix;
	__u32 translator;
};
_Static_assert(sizeof(struct nat64_subscriber_key) == 20, "key without holes");

/* word: bit 63 set by the CPU that removes it; 62..32 bindings; 31..0 sessions */
/* go: datapath/nat64table */
#define NAT64_SUBSCRIBER_DEAD (1ULL << 63)
struct nat64_subscriber {
	__u64 word;
	struct nat64_subscriber_key self; /* the key again */
	__u32 refused;
	/* only if the translator counts them; index: enum nat64_direction */
	__u64 packets[2], bytes[2];
};

/* what was made and ended; index: translator * NAT64_PROTOCOLS + enum */
enum nat64_protocol { NAT64_IS_TCP, NAT64_IS_UDP, NAT64_IS_ICMP, NAT64_PROTOCOLS };
struct nat64_usage {
	__u64 bindings_made, bindings_ended;
	__u64 sessions_made, sessions_ended;
};

/* one for all: how far the slots have been used, and where the sweep is */
struct nat64_sweep_state {
	__u32 high;
	__u32 cursor;
	__u64 swept;   /* sessions that the sweep has ended */
	__u32 refused; /* tick at which the last refused packet was let up for an error */
	__s32 free;    /* how many slots wait in nat64_slots_free, about */
};

struct nat64_sweep_timer {
	struct bpf_timer timer;
};

/* Bindings made and ended, for the allocation log (RFC 6888). */
/* go: datapath/nat64table */
enum nat64_event_kind {
	NAT64_BINDING_MADE = 1,
	NAT64_BINDING_ENDED,
};

struct nat64_event {
	__u8 kind; /* enum nat64_event_kind */
	__u8 protocol, translator;
	__u8 flags; /* enum nat64_binding_flag */
	__u32 at;   /* tick */
	struct in6_addr client;
	__be32 pool;
	__be16 pool_port, port;
	__u32 made;
	__u32 pad;
};
_Static_assert(sizeof(struct nat64_event) == 40, "layout");

/* the loader sets max_entries of these by [nat64.NAME] bindings and sessions */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_bib6_key);
	__type(value, struct nat64_binding);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_bib6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_bib4_key);
	__type(value, struct nat64_owner);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_bib4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_session_key);
	__type(value, struct nat64_session);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_slot);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_slots SEC(".maps");

/* slots that were used and are free again */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__type(value, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_slots_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_subscriber_key);
	__type(value, struct nat64_subscriber);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_subscribers SEC(".maps");

/* sessions of a binding with one remote address (key with remote_port 0):
 * only for address-dependent filtering */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_session_key);
	__type(value, __u64);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_peers SEC(".maps");

/* static bindings of weft.toml: a binding is made from an entry when a packet comes */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_bib6_key);
	__type(value, struct nat64_bib4_key);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_statics6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct nat64_bib4_key);
	__type(value, struct nat64_bib6_key);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_statics4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_stateful);
	__uint(max_entries, NAT64_STATEFUL_MAX);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_stateful_configs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_usage);
	__uint(max_entries, NAT64_STATEFUL_MAX * NAT64_PROTOCOLS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_usages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_sweep_state);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_sweep_states SEC(".maps");

/* events; a page where nothing is stateful, the loader makes it larger */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_log_events SEC(".maps");

/*
 * Events for other routers: a session as it was, with the change in the place of its
 * slot. Written only for translators that are shared.
 */
/* go: datapath/nat64table */
enum nat64_change {
	NAT64_CHANGED = 1,
	NAT64_ENDED = 2,
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* the loader sets it */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_changes SEC(".maps");

/* changes, and events for the log, that found no room: one map, for a program may have 64 */
/* go: datapath/nat64table NAT64_= */
#define NAT64_LOST_CHANGES 0
#define NAT64_LOST_EVENTS 1
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 2);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_lost SEC(".maps");

/* the tick that a test sets; read only if nat64_test_clock is set */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_clock SEC(".maps");

const volatile bool nat64_test_clock = false;

/* refused packets are dropped without an error: for tests that count each */
const volatile bool nat64_no_errors = false;

/*
 * The session cache (nat64_session.h): a copy of what packets from inside need of
 * their sessions, in two cache lines.
 */

/*
 * An entry of the session cache: valid for as long as the session need not be
 * refreshed (nat64_session.h). It is read in whole words.
 */
struct nat64_fast {
	struct in6_addr client;
	__be32 remote;
	__be16 port, remote_port;
	__be32 pool;
	__be16 pool_port;
	__u8 protocol, translator; /* zero: empty */
	__u32 until; /* tick up to which it may be used */
	__u32 check; /* over all of it; zero: empty */
};
_Static_assert(sizeof(struct nat64_fast) == 40, "five words");

/* the same in words; that of the pool has its port, protocol and translator too */
struct nat64_fast_words {
	__u64 client[2];
	__u64 ends;
	__u64 pool;
	__u64 until; /* and check */
};
_Static_assert(sizeof(struct nat64_fast_words) == sizeof(struct nat64_fast), "the same");

/* two cache lines side by side, which are waited for together */
#define NAT64_FAST_WAYS 3
struct nat64_fast_set {
	struct nat64_fast way[NAT64_FAST_WAYS];
	__u64 pad;
};
_Static_assert(sizeof(struct nat64_fast_set) == 128, "two cache lines");

/*
 * The sets are in chunks that are small enough for the kernel to allocate them from
 * memory that it maps in huge pages: a table in one piece would be in pages of 4 KiB,
 * and a TLB miss costs nearly as much as the cache miss.
 */
/* go: datapath/nat64table */
#define NAT64_FAST_SETS 251
struct nat64_fast_chunk {
	__u8 bytes[(NAT64_FAST_SETS + 1) * sizeof(struct nat64_fast_set)];
};

struct nat64_fast_fragment {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct nat64_fast_chunk));
	__uint(max_entries, 1);
};

/* a power of two of them */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct nat64_fast_fragment);
} nat64_fast_sets SEC(".maps");

/* number of chunks less one, and the offset of the first cache line in a chunk */
const volatile __u32 nat64_fast_mask = 0;
const volatile __u32 nat64_fast_shift = 0;

/*
 * Scratch space for one packet while its session is found or made, one for each CPU,
 * since the stack has no room for it. Nothing here outlives the packet.
 */

/* a search for a free port */
struct nat64_search {
	__u32 start, step;
	__u32 address; /* index into the pools; fixed with a block */
	__u32 block;   /* first port of the block, from low */
	__u32 outcome;
};

/* what the look-up of an outbound packet has found, for the creation of its session */
enum nat64_bound {
	NAT64_BOUND_UNKNOWN,
	NAT64_BOUND_NOT,  /* there was no binding */
	NAT64_BOUND_HELD, /* there is one, and it is held for the session to come */
};

/*
 * One packet as the state functions see it. Outbound (IPv6 to IPv4) the pool's side is
 * the result, inbound the client's. It is in nat64_flows, one for each CPU.
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
	__u8 import;       /* another router has bound and opened it: made as it says */
	__u8 import_flags; /* enum nat64_session_flag */
	__u8 bound;       /* enum nat64_bound */
	__u32 now;
	__u32 left, made; /* import: ticks until it expires; when it was made */
	__u64 hash;       /* outbound TCP and UDP: what nat64_fast_find() finds it by */
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

/* the owner of a binding or session that is released, and room for keys */
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
