/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Pseudowires: Ethernet frames in L2TPv3 over UDP or over IP (RFC 3931, RFC 4719) or
 * in GRE (RFC 2784, RFC 2890). A pseudowire is a veth pair: one end is the interface
 * that users see; at the other, hidden end frames are encapsulated
 * (pseudowire_encap.bpf.c) and delivered after decapsulation (pseudowire.h). The
 * hidden end's index identifies it.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: state.PseudowireKind PSEUDOWIRE_=Pseudowire */
enum pseudowire_kind {
	PSEUDOWIRE_L2TP_UDP = 1, /* L2TPv3 over UDP */
	PSEUDOWIRE_L2TP_IP,      /* L2TPv3 over IP, protocol 115 */
	PSEUDOWIRE_GRE,
	PSEUDOWIRE_GRE_KEY,
	/* no pseudowire, but a sign that there are some: L2TP over UDP at this port, others between these hosts */
	PSEUDOWIRE_SOME = 16,
	/* what this end sends: its ports, and the other end's session or key; for ICMP errors */
	PSEUDOWIRE_SENT = 32,
};

/* go: datapath/pseudowiretable PSEUDOWIRE_=pseudowire */
enum pseudowire_flag {
	PSEUDOWIRE_COUNTER = 1,  /* four bytes before the frame: QEMU's and UML's counter, or the L2-specific sublayer */
	PSEUDOWIRE_PINNED = 2,   /* these four bytes are zero */
	PSEUDOWIRE_SEQUENCE = 4, /* the four bytes have the S bit, and are checked (RFC 3931 4.6); GRE: the S bit of RFC 2890 */
	PSEUDOWIRE_CHECKSUM = 8, /* of GRE, or of UDP over IPv6 */
	PSEUDOWIRE_INHERIT = 16, /* the frame's TOS or traffic class is copied to the outer header */
	PSEUDOWIRE_NO_DF = 32,   /* routers on the path may fragment packets (IPv4) */
	PSEUDOWIRE_ANSWER = 64,  /* the sender of a packet that is too large gets an ICMP error */
	PSEUDOWIRE_INHERIT_TTL = 128,
	PSEUDOWIRE_XDP = 256, /* the hidden end can be the target of an XDP redirect */
	PSEUDOWIRE_BYPASS = 512, /* bypass: routed packets may skip the visible end */
	PSEUDOWIRE_SEGMENTS = 1024, /* GSO packets are passed whole */
};

/*
 * The key that identifies a pseudowire's packet. IPv4 addresses are ::ffff:a.b.c.d. A
 * second entry with no remote end names the pseudowire of a session, for packets from
 * the wrong remote end, and a third one (PSEUDOWIRE_SENT) what the pseudowire sends.
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
	__u32 sequence; /* the number that is expected next */
	__u32 stale;    /* how many consecutive packets were behind it */
	__u32 bypass; /* index of the visible end, if what comes out may be routed past it; else 0 */
	__u64 received;    /* when a number was last accepted, ns */
};

#define PSEUDOWIRES 16384

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct pseudowire_key);
	__type(value, struct pseudowire_rx);
	__uint(max_entries, 4 * PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_rxs SEC(".maps");

/* the two hosts of a pseudowire; many share one */
struct pseudowire_endpoints {
	struct in6_addr local, remote;
};

/* go: datapath/pseudowiretable PSEUDOWIRE_=pseudowire */
enum pseudowire_path_flag {
	PSEUDOWIRE_RESOLVED = 1, /* the link addresses are known */
	PSEUDOWIRE_PATH_XDP = 2,  /* the device can be the target of an XDP redirect */
};

/* the path to the other host */
struct pseudowire_path {
	__u32 ifindex;
	__u32 mtu;      /* of the device, IP bytes */
	__u32 path_mtu; /* reported by a router on the path; 0: none */
	__u32 flags;
	__u64 learnt;   /* when it was reported, CLOCK_MONOTONIC */
	__u8 dst[ETH_ALEN], src[ETH_ALEN];
	__u32 pad;
	struct in6_addr gateway; /* IPv4 in the first word; the remote host if there is none */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct pseudowire_endpoints);
	__type(value, struct pseudowire_path);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_paths SEC(".maps");

/* IPv6, UDP, L2TP with a cookie of 8 and a counter */
#define PSEUDOWIRE_OUTER 72

struct pseudowire_tx {
	struct pseudowire_endpoints endpoints;
	__u32 kind;
	__u32 flags;
	__u32 outer_len;
	__u32 mtu;      /* set by the operator, bytes of IP in the frame; 0: what the path allows */
	__u32 sequence; /* of the next packet */
	__u8 ttl, tos;
	__u8 family;    /* of the addresses */
	__u8 pad[5];
	__u32 peer;     /* index of the visible end */
	__u64 answered; /* when the last ICMP error was sent, ns */
	__be32 rx_id;   /* what the other end sends as session or key: for readers of the map */
	__u32 seqoff;   /* offset in outer of the counter; 0: there is none */
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

/* the hidden ends of pseudowires with the bypass, by the visible ones */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, PSEUDOWIRES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pseudowire_bypasses SEC(".maps");

/* faults, counted for each pseudowire; users see these names in lower case */
/* go: datapath/pseudowiretable PSEUDOWIRE_FAULT=pseudowireFault names */
enum pseudowire_fault {
	PSEUDOWIRE_FAULT_SOURCE,
	PSEUDOWIRE_FAULT_COOKIE,
	PSEUDOWIRE_FAULT_HEADER,
	PSEUDOWIRE_FAULT_TRUNCATED,
	PSEUDOWIRE_FAULT_SEQUENCE,
	PSEUDOWIRE_FAULT_CHECKSUM,
	PSEUDOWIRE_FAULT_ECN,
	PSEUDOWIRE_FAULT_TOO_BIG,
	PSEUDOWIRE_FAULT_NO_PATH,
	PSEUDOWIRE_FAULT_KERNEL,
	PSEUDOWIRE_FAULT_ANSWERED, /* too large, and its sender got an ICMP error */
	PSEUDOWIRE_FAULT_REASSEMBLED,   /* not a fault: it came in fragments and was accepted */
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

/* packets on the wire for a frame of len bytes; segments of a GSO packet approximately */
static __always_inline __u64 pseudowire_packets(__u32 len, __u32 segment)
{
	return segment ? (len + segment - 1) / segment : 1;
}
