/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The tables of stateless translation (RFC 7915), filled by the nat64 feature.
 * Addresses are in wire order; base4 and the suffix bits of a rule are in host
 * order, because they are shifted.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: state NAT64_TRANSLATORS=TranslatorsMax */
#define NAT64_TRANSLATORS 64

/* go: state.RuleKind NAT64_=Rule */
enum nat64_kind {
	NAT64_PREFIX = 1, /* IPv4 hosts as IPv6 sees them: RFC 6052 prefix */
	NAT64_NODE = 2,   /* IPv6 nodes that carry an IPv4-translatable address */
	NAT64_MAPPING = 3, /* explicit mapping (RFC 7757) of IPv6 nodes */
	NAT64_MAPPING4 = 4, /* explicit mapping of IPv4 nodes */
	NAT64_REFUSED = 5, /* not global: not under the well-known prefix (RFC 6052 3.1) */
	NAT64_POOL = 6, /* IPv4 addresses that IPv6 nodes share (RFC 6146) */
};

/* the position of an IPv4 suffix in an IPv6 address */
struct nat64_suffix {
	__u8 from;    /* bit of the IPv6 address at which it starts */
	__u8 bits;    /* its length, 0..32 */
	__u8 u_octet; /* 1: bits 64..71 are passed over (RFC 6052 2.2) */
	__u8 kind;    /* enum nat64_kind */
};

struct nat64_key6 {
	__u32 prefixlen;
	struct in6_addr addr;
};
_Static_assert(sizeof(struct nat64_key6) == 20, "key without holes");

struct nat64_rule6 {
	__u32 translator;
	__u32 base4; /* host order, suffix bits zero */
	struct nat64_suffix suffix;
};

struct nat64_key4 {
	__u32 prefixlen;
	__be32 addr;
};
_Static_assert(sizeof(struct nat64_key4) == 8, "key without holes");

struct nat64_rule4 {
	__u32 translator;
	struct in6_addr base6;
	struct nat64_suffix suffix;
};

/* go: datapath/nat64table */
enum nat64_flag {
	NAT64_HAS_PREFIX = 1,
	NAT64_COMPUTE_UDP = 2, /* compute UDP checksums that IPv4 left out (RFC 7915 4.5) */
	NAT64_COPY_TOS = 4,    /* copy traffic class and TOS, else zero */
	NAT64_STATEFUL = 8,    /* binds ports and keeps sessions (RFC 6146) */
	NAT64_COUNTS = 16,     /* counts packets and bytes of each subscriber */
};

struct nat64_translator {
	__u32 ifindex; /* of the device that stands for the translator */
	__u8 mac[ETH_ALEN];
	__u16 max_mss;    /* TCP MSS is clamped to it; 0: not clamped */
	__u32 lowest_mtu; /* IPv6 packets up to here need no permission to be whole (RFC 7915 4) */
	__u32 smallest_mtu; /* of its interfaces: for packets up to this size the egress MTU is not looked up */
	__u32 flags;
	struct nat64_rule4 prefix; /* how other IPv4 addresses look in IPv6 */
	char name[16];             /* NAME of [nat64.NAME]; ids stay with their names */
};

struct nat64_volume {
	__u64 packets;
	__u64 bytes; /* of IP packets as they leave */
};

enum nat64_direction { NAT64_6TO4, NAT64_4TO6 };

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct nat64_key6);
	__type(value, struct nat64_rule6);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_rules6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct nat64_key4);
	__type(value, struct nat64_rule4);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_rules4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_translator);
	__uint(max_entries, NAT64_TRANSLATORS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_translators SEC(".maps");

/* index: 2 * translator + enum nat64_direction */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct nat64_volume);
	__uint(max_entries, 2 * NAT64_TRANSLATORS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nat64_traffic SEC(".maps");

/* send everything to the slow path: set by weft trace --via slow */
const volatile bool nat64_force_slow = false;
