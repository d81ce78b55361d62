/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The parts of Linux's user interface (stable ABI) that weft's programs use:
 * program contexts, protocol headers, constants. Network byte order is in the
 * types: __be16, __be32.
 */
typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* map types and update flags (linux/bpf.h) */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
};
#define BPF_F_NO_PREALLOC 1U
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_NOEXIST 1ULL
#define BPF_RB_NO_WAKEUP 1ULL

/* a timer inside a map's value (linux/bpf.h); the kernel fills it */
struct bpf_timer {
	__u64 __opaque[2];
} __attribute__((aligned(8)));
#define CLOCK_MONOTONIC 1

/* flags of helpers */
#define BPF_F_RECOMPUTE_CSUM 1ULL
#define BPF_F_PSEUDO_HDR 0x10ULL
#define BPF_F_MARK_MANGLED_0 0x20ULL
#define BPF_F_MARK_ENFORCE 0x40ULL
#define BPF_F_INGRESS 1ULL
#define BPF_MTU_CHK_SEGS 1ULL
#define BPF_ADJ_ROOM_NET 0
#define BPF_ADJ_ROOM_MAC 1
#define BPF_F_ADJ_ROOM_FIXED_GSO 1ULL
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 (1ULL << 1)
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 (1ULL << 2)
#define BPF_F_ADJ_ROOM_ENCAP_L4_GRE (1ULL << 3)
#define BPF_F_ADJ_ROOM_ENCAP_L4_UDP (1ULL << 4)
#define BPF_F_ADJ_ROOM_NO_CSUM_RESET (1ULL << 5)
#define BPF_F_ADJ_ROOM_ENCAP_L2_ETH (1ULL << 6)
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV4 (1ULL << 7)
#define BPF_F_ADJ_ROOM_DECAP_L3_IPV6 (1ULL << 8)
#define BPF_F_ADJ_ROOM_ENCAP_L2(len) (((__u64)(len) & 0xff) << 56)
#define BPF_ADJ_ROOM_MAC 1
#define BPF_FIB_LOOKUP_OUTPUT 2U
#define BPF_FIB_LOOKUP_SKIP_NEIGH 4U

enum {
	BPF_FIB_LKUP_RET_SUCCESS = 0,
	BPF_FIB_LKUP_RET_BLACKHOLE = 1,
	BPF_FIB_LKUP_RET_UNREACHABLE = 2,
	BPF_FIB_LKUP_RET_PROHIBIT = 3,
	BPF_FIB_LKUP_RET_NOT_FWDED = 4,
	BPF_FIB_LKUP_RET_NO_NEIGH = 7,
	BPF_FIB_LKUP_RET_FRAG_NEEDED = 8,
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { TCX_NEXT = -1, TCX_PASS = 0, TCX_DROP = 2, TCX_REDIRECT = 7 };
enum { PACKET_HOST = 0, PACKET_OTHERHOST = 3 };

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk;
	__u32 gso_size;
	__u8 tstamp_type;
	__u32 : 24;
	__u64 hwtstamp;
};

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	__u16 tot_len; /* in: length of the packet; out: MTU */
	__u32 ifindex;
	union {
		__u8 tos;
		__be32 flowinfo;
		__u32 rt_metric;
	};
	union {
		__be32 ipv4_src;
		__be32 ipv6_src[4];
	};
	union {
		__be32 ipv4_dst;
		__be32 ipv6_dst[4];
	};
	union {
		struct {
			__be16 h_vlan_proto;
			__be16 h_vlan_TCI;
		};
		__u32 tbid;
	};
	__u8 smac[6];
	__u8 dmac[6];
};
_Static_assert(sizeof(struct bpf_fib_lookup) == 64, "ABI");

struct bpf_redir_neigh {
	__u32 nh_family;
	union {
		__be32 ipv4_nh;
		__be32 ipv6_nh[4];
	};
};

#define AF_INET 2
#define AF_INET6 10

#define ETH_HLEN 14
#define ETH_ALEN 6
#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define ETH_P_IPV6 0x86DD
#define ETH_P_TEB 0x6558 /* Ethernet frames inside (RFC 1701) */
#define ETH_P_802_3_MIN 0x0600 /* below it is a length, not a type */
#define ETH_P_PAUSE 0x8808
#define ETH_P_SLOW 0x8809
#define ETH_P_PAE 0x888E
#define ETH_P_LLDP 0x88CC
#define ETH_P_CFM 0x8902
#define ETH_P_QINQ1 0x9100
#define ETH_P_QINQ2 0x9200
#define ETH_P_PPP_SES 0x8864
#define ETH_P_XDSA 0x00F8 /* frames with a switch's tag; on no wire (linux/if_ether.h) */

struct ethhdr {
	__u8 h_dest[ETH_ALEN];
	__u8 h_source[ETH_ALEN];
	__be16 h_proto;
} __attribute__((packed));

/* ARP for IPv4 over Ethernet, RFC 826 */
struct arp_ipv4 {
	__be16 ar_hrd;
	__be16 ar_pro;
	__u8 ar_hln;
	__u8 ar_pln;
	__be16 ar_op;
	__u8 ar_sha[ETH_ALEN];
	__be32 ar_sip;
	__u8 ar_tha[ETH_ALEN];
	__be32 ar_tip;
} __attribute__((packed));
#define ARPHRD_ETHER 1
#define ARPOP_REQUEST 1
#define ARPOP_REPLY 2

struct iphdr {
	__u8 ihl : 4, version : 4; /* little endian */
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 saddr;
	__be32 daddr;
};
#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1FFF

struct in6_addr {
	union {
		__u8 u8[16];
		__be16 be16[8];
		__be32 be32[4];
	};
};

struct ipv6hdr {
	__be32 ver_tc_flow; /* version 4 bits, traffic class 8, flow label 20 */
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 doff; /* header length in the upper 4 bits, in 32-bit words */
	__u8 flags;
	__be16 window;
	__sum16 check;
	__be16 urg_ptr;
};
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_URG 0x20

struct udphdr {
	__be16 source;
	__be16 dest;
	__be16 len;
	__sum16 check;
};

/* PPPoE session stage, RFC 2516 4 and 6; behind it the protocol of PPP */
struct pppoehdr {
	__u8 type; /* version 1, type 1 */
	__u8 code;
	__be16 session;
	__be16 length; /* of what follows, the protocol included */
	__be16 protocol;
};
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

/* ICMP of both families: the part that an echo has */
struct icmphdr {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be16 id;
	__be16 sequence;
};

/* neighbour solicitation and advertisement, RFC 4861 4.3, 4.4 */
struct nd_msg {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 flags;
	struct in6_addr target;
	__u8 opt_type; /* one link-layer address option, 8 bytes */
	__u8 opt_len;
	__u8 opt_lladdr[ETH_ALEN];
} __attribute__((packed));

enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_ICMP = 1,
	IPPROTO_IGMP = 2,
	IPPROTO_IPIP = 4,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_DCCP = 33,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_GRE = 47,
	IPPROTO_ESP = 50,
	IPPROTO_AH = 51,
	IPPROTO_ICMPV6 = 58,
	IPPROTO_NONE = 59,
	IPPROTO_DSTOPTS = 60,
	IPPROTO_L2TP = 115,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
};

enum {
	ICMP_ECHOREPLY = 0,
	ICMP_DEST_UNREACH = 3,
	ICMP_ECHO = 8,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETERPROB = 12,
	ICMP_FRAG_NEEDED = 4, /* code of ICMP_DEST_UNREACH */
	ICMPV6_PKT_TOOBIG = 2,
	ICMPV6_ERROR_MAX = 127, /* types up to here are errors, RFC 4443 2.1 */
	ICMPV6_ECHO_REQUEST = 128,
	ICMPV6_ECHO_REPLY = 129,
	ICMPV6_NS = 135,
	ICMPV6_NA = 136,
};
