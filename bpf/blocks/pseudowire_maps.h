/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What pseudowires are: Ethernet frames in L2TPv3 over UDP or over IP (RFC 3931,
 * RFC 4719) or in GRE (RFC 2784, RFC 2890). A pseudowire is a veth pair: one
 * end is the interface that people see, the other, hidden, is where frames are
 * packed up (pseudowire_encap.bpf.c) and put when unpacked (pseudowire.h). The
 * hidden end's index is its number.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: state.WireKind PSEUDOWIRE_=Wire */
enum pseudowire_kind {
	PSEUDOWIRE_L2TP_UDP = 1, /* L2TPv3 over UDP */
	PSEUDOWIRE_L2TP_IP,      /* L2TPv3 over IP, protocol 115 */
	PSEUDOWIRE_GRE,
	PSEUDOWIRE_GRE_KEY,
	/* no wire, but that there are some: of L2TP over UDP at a port, of the others between two hosts */
	PSEUDOWIRE_SOME = 16,
};

/* go: datapath/pseudowiretable PSEUDOWIRE_=wire */
enum pseudowire_flag {
	PSEUDOWIRE_COUNTER = 1,  /* four bytes before the frame: QEMU's and UML's counter, or the L2-specific sublayer */
	PSEUDOWIRE_PINNED = 2,   /* which stay zero */
	PSEUDOWIRE_SEQUENCE = 4, /* with the S bit, and looked at (RFC 3931 4.6); GRE: the S bit of RFC 2890 */
	PSEUDOWIRE_CHECKSUM = 8, /* of GRE, or of UDP over IPv6 */
	PSEUDOWIRE_INHERIT = 16, /* the frame's TOS or traffic class is taken over */
	PSEUDOWIRE_NO_DF = 32,   /* routers under way may cut packets (IPv4) */
	PSEUDOWIRE_ANSWER = 64,  /* whoever sends too large a packet is told */
	PSEUDOWIRE_INHERIT_TTL = 128,
	PSEUDOWIRE_XDP = 256, /* the hidden end can be the target of an XDP redirect */
	PSEUDOWIRE_SHORTCUT = 512, /* routed packets may go past the visible end */
	PSEUDOWIRE_SEGMENTS = 1024, /* super-packets go through whole */
};

/*
 * By what a packet is recognised. IPv4 addresses stand as ::ffff:a.b.c.d. A
 * second entry with no remote end says which wire the session is when the
 * remote end is wrong.
 */
struct pseudowire_key {
	struct in6_addr local, remote;
	__be32 id; /* session, or GRE key */
	__be16 local_port, remote_port;
	__u8 kind;
	__u8 pad[3];
};
_Static_assert(sizeof(struct pseudowire_key) == 44, "key without holes");

struct pseudowire_rx {
	__u32 ifindex; /* of the hidden end */
	__u32 flags;
	__u8 cookie[8];
	__u32 cookie_len;
	__u32 sequence; /* that is expected next */
	__u32 stale;    /* how many came behind it in a row */
	__u32 shortcut; /* index of the visible end, if what comes out may be routed past it; else 0 */
	__u64 heard;    /* when a number was taken last, ns */
};

#define PSEUDOWIRES 16384

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct pseudowire_key);
	__type(value, struct pseudowire_rx);
	__uint(max_entries, 3 * PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_rxs SEC(".maps");

/* the two hosts of a pseudowire; many share one */
struct pseudowire_pair {
	struct in6_addr local, remote;
};

/* go: datapath/pseudowiretable PSEUDOWIRE_=wire */
enum pseudowire_way_flag {
	PSEUDOWIRE_RESOLVED = 1, /* the link addresses are known */
	PSEUDOWIRE_WAY_XDP = 2,  /* the device can be the target of an XDP redirect */
};

/* how packets get to the other host */
struct pseudowire_way {
	__u32 ifindex;
	__u32 mtu;      /* of the device, IP bytes */
	__u32 path_mtu; /* that a router under way has told of; 0: none did */
	__u32 flags;
	__u64 learnt;   /* when it was told, CLOCK_MONOTONIC */
	__u8 dst[ETH_ALEN], src[ETH_ALEN];
	__u32 pad;
	struct in6_addr gateway; /* IPv4 in the first word; the remote host if there is none */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct pseudowire_pair);
	__type(value, struct pseudowire_way);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_ways SEC(".maps");

/* IPv6, UDP, L2TP with a cookie of 8 and a counter */
#define PSEUDOWIRE_OUTER 72

struct pseudowire_tx {
	struct pseudowire_pair pair;
	__u32 kind;
	__u32 flags;
	__u32 outer_len;
	__u32 mtu;      /* set by the operator, bytes of IP in the frame; 0: what the way allows */
	__u32 sequence; /* of the next packet */
	__u8 ttl, tos;
	__u8 family;    /* of the addresses */
	__u8 pad[5];
	__u32 peer;     /* index of the visible end */
	__u64 answered; /* when a sender was told last, ns */
	__be32 rx_id;   /* what the other end sends as session or key: for who reads the map */
	__u32 seqoff;   /* where in outer the counter stands; 0: there is none */
	__u8 outer[PSEUDOWIRE_OUTER]; /* IP header and what follows, with no lengths, checksums and numbers */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct pseudowire_tx);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_txs SEC(".maps");

/* the hidden ends of pseudowires with the shortcut, by the visible ones */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_shortcuts SEC(".maps");

/* what can go wrong, by pseudowire; names reach users as they stand here, in lower case */
/* go: datapath/pseudowiretable PSEUDOWIRE_FAULT=wireFault names */
enum pseudowire_fault {
	PSEUDOWIRE_FAULT_SOURCE,
	PSEUDOWIRE_FAULT_COOKIE,
	PSEUDOWIRE_FAULT_HEADER,
	PSEUDOWIRE_FAULT_TRUNCATED,
	PSEUDOWIRE_FAULT_SEQUENCE,
	PSEUDOWIRE_FAULT_CHECKSUM,
	PSEUDOWIRE_FAULT_ECN,
	PSEUDOWIRE_FAULT_TOO_BIG,
	PSEUDOWIRE_FAULT_NO_WAY,
	PSEUDOWIRE_FAULT_KERNEL,
	PSEUDOWIRE_FAULT_ANSWERED, /* too large, and its sender was told */
	PSEUDOWIRE_FAULT_JOINED,   /* none: it came in pieces, and was taken */
	PSEUDOWIRE_FAULTS = 12,
};

struct pseudowire_stats {
	__u64 rx_packets, rx_bytes; /* as on the wire: segments; bytes of frames */
	__u64 tx_packets, tx_bytes;
	__u64 faults[PSEUDOWIRE_FAULTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, __u32);
	__type(value, struct pseudowire_stats);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_counts SEC(".maps");

static __always_inline void pseudowire_fault(__u32 ifindex, enum pseudowire_fault fault)
{
	struct pseudowire_stats *s = bpf_map_lookup_elem(&pseudowire_counts, &ifindex);

	if (s)
		s->faults[fault]++;
}

/* packets on the wire that a frame of len bytes is, a super-packet's segments counted about */
static __always_inline __u64 pseudowire_packets(__u32 len, __u32 segment)
{
	return segment ? (len + segment - 1) / segment : 1;
}
