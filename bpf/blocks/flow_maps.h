/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The tables of offloaded flows. A flow is one direction of a connection, keyed as it
 * arrives. internal/feature/offload writes it after it has seen the packets pass the
 * ruleset and leave; it knows the connection from the kernel's connection tracking.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "link.h"

/* Ports as the packet has them. ICMP echo: the identifier, then the type. */
struct flow_ports {
	__be16 source;
	__be16 dest;
};

struct flow_key4 {
	__u32 interface; /* to which the frame belongs */
	__be32 saddr;
	__be32 daddr;
	struct flow_ports ports;
	__u32 protocol;
};

struct flow_key6 {
	__u32 interface;
	struct flow_ports ports;
	__u32 protocol;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

_Static_assert(sizeof(struct flow_key4) == 20, "no padding");
_Static_assert(sizeof(struct flow_key6) == 44, "no padding");

/* what becomes of a flow's packets, and what became of them */
/* go: datapath/flowtable */
enum flow_closed {
	FLOW_OPEN,
	FLOW_ENDED,   /* one of its packets ended the connection, or began another */
	FLOW_PENDING, /* written, and not used before connection tracking is liberal about it */
};

struct flow {
	__u32 generation; /* of the control, in which its packets were seen to pass */
	__u32 hop;        /* index into flow_hops */
	__u32 diff;       /* new addresses minus old, as checksums count */
	struct flow_ports ports;
	__u8 closed;  /* enum flow_closed */
	__u8 protocol; /* of the key, in a line */
	__u16 pad;
	__u32 seen;   /* when the last packet came, in ticks */
	__u64 packets;
	__u64 bytes; /* of IP packets */
};

struct flow4 {
	struct flow flow;
	__be32 saddr;
	__be32 daddr;
};

struct flow6 {
	struct flow flow;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

/* go: datapath/flowtable */
enum flow_hop_flag {
	FLOW_HOP_XDP = 1, /* the device can be the target of an XDP redirect */
};

/* How frames leave. An entry is never changed: it is withdrawn, and then its flows do not pass. */
struct flow_hop {
	__u32 ifindex;   /* the lowest device; 0: withdrawn */
	__u32 interface; /* to which packets back belong */
	__u32 mtu;       /* IP bytes */
	__u32 flags;
	struct link link; /* as seen on frames that the stack sent */
	__be16 session;   /* of PPPoE; 0: none */
	__u16 pad;
};
_Static_assert(sizeof(struct flow_hop) == 40, "no padding");

/* a flow with its key: see flow_lines.h */
struct flow_line4 {
	struct flow4 flow;
	__u32 interface; /* 0: nothing is here */
	__be32 saddr;
	__be32 daddr;
	struct flow_ports ports;
};
_Static_assert(sizeof(struct flow_line4) == 64, "a line of the cache");

struct flow_line6 {
	struct flow6 flow;
	__u32 interface;
	struct flow_ports ports;
	struct in6_addr saddr;
	struct in6_addr daddr;
	__u8 pad[16];
};
_Static_assert(sizeof(struct flow_line6) == 128, "two lines of the cache, beside each other");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_line4);
	__uint(max_entries, 1); /* chosen when it is made, as for all that grow with the flows */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_lines4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_line6);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_lines6 SEC(".maps");

#define FLOW_PLACES 8

/* where flows are among the lines of their family */
struct flow_bucket {
	__u16 low[FLOW_PLACES]; /* of the line's number */
	__u8 high[FLOW_PLACES]; /* and what is above */
	__u64 tags; /* a byte a place, the first is the lowest, of which seven bits count; and FLOW_TAGS_AWAY */
};
_Static_assert(sizeof(struct flow_bucket) == 32, "half a line of the cache");

/* as many buckets for IPv6 behind those for IPv4 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_bucket);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_index SEC(".maps");

/* go: datapath/flowtable FLOW_HOPS=FlowHops */
#define FLOW_HOPS 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_hop);
	__uint(max_entries, FLOW_HOPS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_hops SEC(".maps");

/*
 * The state that all flows depend on. The generation is incremented when the ruleset,
 * a route or a rule has changed: that returns all flows of older generations to the
 * stack at once. Flows may be used until the lease expires. weft renews it while it
 * runs: without weft, no process receives connection-tracking events about ended
 * connections.
 */
struct flow_control {
	__u32 generation;
	__u32 minimum; /* packets before a flow is offered */
	__u64 lease;   /* nanoseconds, CLOCK_MONOTONIC */
	__u32 refuse;  /* generation of the valid refusals (flow_early_drop.h); 0: none is valid */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct flow_control);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_controls SEC(".maps");

/* PPPoE sessions that are interfaces here */
struct flow_session_key {
	__u32 interface; /* to which the frame around belongs */
	__be16 session;
	__u8 peer[ETH_ALEN];
};
_Static_assert(sizeof(struct flow_session_key) == 12, "no padding");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct flow_session_key);
	__type(value, __u32); /* interface index */
	__uint(max_entries, 64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_sessions SEC(".maps");

/* a tick is 2^26 ns, 67 ms */
static __always_inline __u32 flow_tick(__u64 now)
{
	return now >> 26;
}

static __always_inline struct flow_control *flow_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&flow_controls, &zero);
}
