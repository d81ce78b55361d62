/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Next hops: the last step of every packet, for all blocks. A route, a session or a
 * translation holds the number of a next hop; many may share one.
 *
 * A next hop is one 64-bit word: its kind, and an index whose meaning depends on the
 * kind. It is written by one atomic store into the mapped array, so that a gateway's
 * change, failure or return is one write for all users of the next hop. The entry that
 * the word refers to is never changed in place: a new one is written, the word is set,
 * and the old one is reused after a grace period.
 *
 * To add a kind of tunnel, add a kind here, and its handling in nexthop_find() and
 * nexthop_send().
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "hook.h"
#include "link.h"
#include "outcome.h"

/* go: state.NexthopKind NEXTHOP_=Nexthop names */
enum nexthop_kind {
	NEXTHOP_STACK,       /* not known here, or its neighbour is not resolved: the kernel forwards */
	NEXTHOP_NEIGHBOUR,   /* an Ethernet neighbour: index into neighbours */
	NEXTHOP_GROUP,       /* one of several by flow: index into nexthop_groups */
	NEXTHOP_LOCAL,       /* the router itself */
	NEXTHOP_BLACKHOLE,   /* dropped silently */
	NEXTHOP_UNREACHABLE, /* the kernel answers with an ICMP error; also for prohibit */
	NEXTHOP_SESSION,     /* subscribers: the destination selects the session (blocks/l2tp.h); index of the device */
};

struct nexthop {
	__u32 index;
	enum nexthop_kind kind;
};

/* go: datapath/fibtable */
enum neighbour_flag {
	NEIGHBOUR_XDP = 1, /* the device can be the target of an XDP redirect */
	NEIGHBOUR_WIRE = 2, /* the device is a pseudowire's, with the bypass */
};

/* egress device and link header of frames to a neighbour */
struct neighbour {
	__u32 ifindex; /* the device that sends: below a VLAN, or a bridge's port */
	__u32 mtu;     /* of the device that the route names, IP bytes */
	struct link link;
	__u32 flags;
};

_Static_assert(sizeof(struct nexthop) == 8, "one atomic store");
_Static_assert(sizeof(struct neighbour) == 32, "half a cache line");

#define NEXTHOPS 65536
#define NEXTHOP_MEMBERS 65536

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct nexthop);
	__uint(max_entries, NEXTHOPS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nexthops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct neighbour);
	__uint(max_entries, NEXTHOPS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} neighbours SEC(".maps");

/*
 * A group: its size is at the index, followed by that many numbers of next hops. A
 * next hop of twice the weight is listed twice. Members are not groups.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, NEXTHOP_MEMBERS);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nexthop_groups SEC(".maps");

/* index and kind are read in one access, as they are written in one */
static __always_inline struct nexthop nexthop_read(__u32 number)
{
	struct nexthop none = { .kind = NEXTHOP_STACK }, out;
	volatile __u64 *slot = bpf_map_lookup_elem(&nexthops, &number);
	__u64 word;

	if (!slot)
		return none;
	word = *slot;
	out.index = (__u32)word;
	out.kind = (enum nexthop_kind)(word >> 32);
	return out;
}

/* The member of a group for a flow's hash: bucket by the upper bits. */
static __always_inline struct nexthop nexthop_member(struct nexthop group, __u32 hash)
{
	struct nexthop none = { .kind = NEXTHOP_STACK };
	__u32 at = group.index, *size = bpf_map_lookup_elem(&nexthop_groups, &at), *number;

	if (!size)
		return none;
	at += 1 + (__u32)((__u64)hash * *size >> 32);
	number = bpf_map_lookup_elem(&nexthop_groups, &at);
	return number ? nexthop_read(*number) : none;
}

/*
 * Resolve a next hop that is no group. wire_len: IP bytes per packet on the wire.
 * OUTCOME_NONE: *to is the neighbour, and the packet fits.
 */
static __always_inline enum outcome nexthop_find(struct nexthop hop, __u32 wire_len,
						 struct neighbour **to)
{
	switch (hop.kind) {
	case NEXTHOP_NEIGHBOUR:
		break;
	case NEXTHOP_LOCAL:
		return PASS_LOCAL;
	case NEXTHOP_BLACKHOLE:
		return DROP_BLACKHOLE;
	case NEXTHOP_UNREACHABLE:
		return PASS_UNREACHABLE;
	case NEXTHOP_SESSION:
		return PASS_SUBSCRIBER;
	default:
		return PASS_NO_NEIGHBOUR;
	}
	*to = bpf_map_lookup_elem(&neighbours, &hop.index);
	if (!*to || !(*to)->ifindex)
		return PASS_NO_NEIGHBOUR;
	if (wire_len > (*to)->mtu)
		return PASS_TOO_BIG;
	if (HOOK_SENDS_RAW && !((*to)->flags & NEIGHBOUR_XDP))
		return PASS_TO_TC;
	return OUTCOME_NONE;
}

/*
 * Write the link header of the neighbour; tags is the number of VLAN tags that the
 * frame has now. Offsets and pointers into the frame are invalid afterwards.
 * OUTCOME_NONE, or an error.
 */
static __always_inline enum outcome nexthop_frame(hook_ctx *ctx, __u32 tags, __be16 proto,
						  const struct neighbour *to)
{
	if (!hook_set_l2(ctx, tags, &to->link, proto))
		return OUTCOME_NONE;
	return HOOK_FAILED;
}

/* Send the frame, which has its link header already. Returns the hook's verdict. */
static __always_inline int nexthop_send(const struct neighbour *to)
{
	return bpf_redirect(to->ifindex, 0);
}
