/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Finds the interface that a frame belongs to. On most devices that is the device
 * itself. A frame with VLAN tags belongs to the VLAN sub-interface; one without, on a
 * bridge port, belongs to the bridge. Nothing is written here.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"
#include "hook.h"
#include "interface.h"
#include "link.h"
#include "outcome.h"

/* the ingress device of a frame, and its tags: none on a bridge's port */
struct lower_key {
	__u32 ifindex;
	struct vlan_tag tags[2];
};
_Static_assert(sizeof(struct lower_key) == 12, "key without holes");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct lower_key);
	__type(value, __u32); /* index of the sub-interface or bridge */
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lowers SEC(".maps");

/* packet metadata; small, since it is on the stack below all other frames */
struct packet_info {
	__u32 interface; /* the one to which the frame belongs */
	__u32 flags;  /* of that, enum interface_flag */
	__u16 table;  /* of that */
	__be16 proto; /* of the network header */
	__u8 l3;      /* where that starts */
	__u8 tags;    /* number of VLAN tags, one outside the packet included */
	bool deep;    /* it has more tags than these, a priority tag among them */
	bool above;   /* the interface is not the device that the frame came in by */
	bool ours;    /* it is addressed to that interface */
	bool taken;   /* the stack accepts it: ours, to a group, or to a virtual router here */
	/* an encapsulated packet: proto, table and flags are those of the inner packet */
	__u8 strip;    /* bytes of encapsulation between l3 and the packet inside */
	bool switched;   /* it is switched into another tunnel; proto is the outer packet's */
	__u16 session; /* ingress session; 0: none */
	__u32 bytes;   /* of the packet inside */
	__u32 wire;    /* once it is routed: the pseudowire interface that may be bypassed; 0: none */
};

/* the largest encapsulation of a packet, as a mask */
#define CLASSIFY_STRIP 127

/* bytes that determine the interface of a frame: two tags */
#define CLASSIFY_BYTES (ETH_HLEN + 8)

struct vlan_rest {
	__be16 tci;
	__be16 next;
};

static __always_inline bool classify_tag(struct cursor *cur, __be16 *proto, struct vlan_tag *tag)
{
	struct vlan_rest *rest;

	if (!link_is_vlan(*proto))
		return false;
	rest = PULL(cur, struct vlan_rest);
	if (!rest)
		return false;
	tag->proto = *proto;
	tag->id = rest->tci & bpf_htons(0xfff);
	*proto = rest->next;
	return true;
}

/*
 * Find the interface of a frame by its tags. Linux removes a priority tag (802.1Q 5.1,
 * VID 0) that has no interface, at any position: *key is set to the remaining tags.
 * Returns 0 if there is no interface.
 */
static __always_inline __u32 classify_lower(struct lower_key *key, __u32 self)
{
	__u32 *upper = bpf_map_lookup_elem(&lowers, key);

	if (upper)
		return *upper;
	if (!key->tags[0].proto || (key->tags[0].id && (key->tags[1].id || !key->tags[1].proto)))
		return 0;
	if (key->tags[1].proto && !key->tags[1].id)
		key->tags[1] = (struct vlan_tag){};
	if (!key->tags[0].id) {
		key->tags[0] = key->tags[1];
		key->tags[1] = (struct vlan_tag){};
	}
	upper = bpf_map_lookup_elem(&lowers, key);
	if (upper)
		return *upper;
	return key->tags[0].proto ? 0 : self;
}

/*
 * Whether the stack accepts a frame that is not addressed to the interface: frames to
 * groups, and to virtual routers (RFC 9568 7.3), whose devices are on this interface.
 */
static __always_inline bool classify_taken(const __u8 *mac)
{
	return mac[0] & 1 || (!mac[0] && !mac[1] && mac[2] == 0x5e && !mac[3] && (mac[4] == 1 || mac[4] == 2));
}

static __always_inline struct interface *classify_above(hook_ctx *ctx, __u32 ifindex,
						      struct cursor cur, struct packet_info *a)
{
	struct lower_key key = { .ifindex = ifindex };
	struct vlan_tag outside = hook_tag(ctx);
	__u32 upper;

	if (outside.proto) {
		key.tags[0] = outside;
		a->tags = 1;
	} else if (classify_tag(&cur, &a->proto, &key.tags[0])) {
		a->tags = 1;
		a->l3 += sizeof(struct vlan_rest);
	}
	if (a->tags && classify_tag(&cur, &a->proto, &key.tags[1])) {
		a->tags = 2;
		a->l3 += sizeof(struct vlan_rest);
	}
	a->above = true;
	a->deep = a->tags == 2 && link_is_vlan(a->proto) && (!key.tags[0].id || !key.tags[1].id);
	upper = classify_lower(&key, ifindex);
	if (!upper)
		return NULL;
	a->interface = upper;
	return interface_find(upper);
}

/*
 * A cursor at the packet that begins at l3 (less than 64) of a frame, with its IP and
 * transport headers, if it has them, in reach. No more is pulled in: bytes that are
 * not linear would be copied, and with them headers that the sender of the packet may
 * share.
 */
static __always_inline struct cursor classify_packet(hook_ctx *ctx, __u32 l3, __be16 proto)
{
	const bool ipv4 = proto == bpf_htons(ETH_P_IP);
	__u32 want = l3 + (ipv4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	struct cursor cur = hook_cursor(ctx, want);
	__u8 *protocol;

	l3 &= 63; /* the verifier has to see it */
	if (!HOOK_PLAIN) {
		protocol = cur.pos + l3 + (ipv4 ? __builtin_offsetof(struct iphdr, protocol) :
						  __builtin_offsetof(struct ipv6hdr, nexthdr));
		want += sizeof(struct udphdr);
		if ((void *)(protocol + 1) <= cur.end && *protocol == IPPROTO_TCP)
			want += sizeof(struct tcphdr) - sizeof(struct udphdr);
		cur = hook_cursor(ctx, want);
	}
	cur.pos += l3;
	return cur;
}

/* at: the device that the frame came in by. OUTCOME_NONE: *a is filled. */
static __always_inline enum outcome classify(hook_ctx *ctx, __u32 ifindex, const struct interface *at,
					   struct packet_info *a)
{
	struct cursor cur = hook_cursor(ctx, CLASSIFY_BYTES);
	struct ethhdr *eth = PULL(&cur, struct ethhdr);

	*a = (struct packet_info){ .interface = ifindex, .l3 = ETH_HLEN };
	if (!eth)
		return PASS_NOT_IP;
	a->proto = eth->h_proto;
	if (hook_tag(ctx).proto || link_is_vlan(a->proto) || at->flags & INTERFACE_BRIDGE_PORT) {
		at = classify_above(ctx, ifindex, cur, a);
		/* more priority tags than are followed here; Linux removes all of them */
		if (a->deep && !(interface_unused & INTERFACE_GUARDED))
			return DROP_BAD_HEADER;
		if (!at)
			return PASS_NOT_FOR_US;
	}
	a->table = at->table;
	a->flags = at->flags;
	a->ours = link_same_mac(eth->h_dest, at->mac);
	a->taken = a->ours || classify_taken(eth->h_dest);
	return OUTCOME_NONE;
}
