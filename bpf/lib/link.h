/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * The link header of a frame: Ethernet, and up to two VLAN tags (IEEE 802.1Q,
 * the outer one of two also 802.1ad).
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct vlan_tag {
	__be16 proto; /* ETH_P_8021Q or ETH_P_8021AD; 0: no tag */
	__be16 id;    /* without the priority bits */
};

/* the link header of a frame as on the wire, without the ethertype */
struct link {
	__u8 dst[ETH_ALEN];
	__u8 src[ETH_ALEN];
	struct vlan_tag tags[2]; /* outermost first */
};
_Static_assert(sizeof(struct link) == 20, "no padding");

static __always_inline bool link_is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

static __always_inline __u32 link_tags(const struct link *link)
{
	return !link->tags[0].proto ? 0 : !link->tags[1].proto ? 1 : 2;
}

static __always_inline bool link_same_mac(const __u8 *a, const __u8 *b)
{
	return *(__u16 *)a == *(__u16 *)b && *(__u16 *)(a + 2) == *(__u16 *)(b + 2) &&
	       *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

/* the header of a PPPoE session before an IP packet of that many bytes */
static __always_inline struct pppoehdr link_session(__be16 session, __be16 proto, __u32 len)
{
	return (struct pppoehdr){
		.type = 0x11,
		.session = session,
		.length = bpf_htons(len + sizeof(__be16)),
		.protocol = proto == bpf_htons(ETH_P_IP) ? bpf_htons(PPP_IP) : bpf_htons(PPP_IPV6),
	};
}
