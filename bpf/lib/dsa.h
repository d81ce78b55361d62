/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Tags of switches (Linux: DSA). A switch behind one Ethernet device, the conduit,
 * puts a tag into each frame with the port that the frame came by; a tag in a frame to
 * the switch selects the port that it leaves by. The formats are those of Linux's
 * net/dsa/tag_mtk.c, tag_qca.c and tag_gswip.c; the loader selects one.
 *
 *            from the switch                     to the switch
 *   mtk      behind the addresses, 4 bytes: 0,   kind of VLAN tag, bit of the port,
 *            port (bits 2-0), 2 bytes            TCI of that tag, which it replaces
 *   qca      behind the addresses, 2 bytes:      version 2 (15-14), from the CPU (7),
 *            version 2 (15-14), type (10-6),     bit of the port (6-0)
 *            port (2-0)
 *   gswip    before the addresses, 8 bytes:      4 bytes: 2, 0, map is present and valid
 *            port in the last (6-4)              (7-6), bit of the port (6-1) and 1
 *
 * In a struct link such a tag is first: its protocol is ETH_P_XDSA, its id the port.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "cursor.h"
#include "link.h"

/* go: state.SwitchFormat DSA_=Switch */
enum dsa_format {
	DSA_NONE,
	DSA_MTK,
	DSA_QCA,
	DSA_GSWIP,
};

/* enum dsa_format */
const volatile __u32 dsa_format = DSA_NONE;

#define DSA_PORTS 8

#define MTK_UNTAGGED 0
#define MTK_8100 1
#define MTK_88A8 2
#define MTK_PORTS 0x3f
#define QCA_VERSION 0x8000
#define QCA_VERSION_MASK 0xc000
#define QCA_TYPE_MASK 0x07c0
#define QCA_FROM_CPU 0x0080
#define QCA_PORTS 0x007f
#define GSWIP_FROM_CPU 2
#define GSWIP_MAP 0xc0
#define GSWIP_PORTS 0x7e
#define GSWIP_DESTINATION 1

struct gswip_rx {
	__u8 rest[7];
	__u8 port;
};

struct gswip_tx {
	__u8 source, destination, flags, ports;
};

static __always_inline bool link_is_dsa(const struct link *link)
{
	return dsa_format && link->tags[0].proto == bpf_htons(ETH_P_XDSA);
}

/*
 * The link header and tag of a frame from the switch, which starts at the cursor, and
 * the port: NULL if it has no such tag. *proto: the ethertype behind the tag.
 */
static __always_inline struct ethhdr *dsa_pull(struct cursor *cur, __u32 *port, __be16 *proto)
{
	struct gswip_rx *gswip;
	struct ethhdr *eth;
	__be16 *next;
	__u16 tag;

	if (dsa_format == DSA_GSWIP) {
		gswip = PULL(cur, struct gswip_rx);
		eth = PULL(cur, struct ethhdr);
		if (!gswip || !eth)
			return NULL;
		*port = gswip->port >> 4 & 7;
		*proto = eth->h_proto;
		return eth;
	}
	eth = PULL(cur, struct ethhdr);
	if (!eth)
		return NULL;
	tag = bpf_ntohs(eth->h_proto);
	if (dsa_format == DSA_MTK) {
		/* with a VLAN tag in it, or trapped by the switch: for the kernel */
		if (tag >> 8 || !PULL(cur, __be16))
			return NULL;
	} else if ((tag & QCA_VERSION_MASK) != QCA_VERSION || tag & QCA_TYPE_MASK) {
		return NULL; /* among them an answer to the driver */
	}
	next = PULL(cur, __be16);
	if (!next)
		return NULL;
	*port = tag & 7;
	*proto = *next;
	return eth;
}

/* the port of a bitmap with one port; false if it has none or several */
static __always_inline bool dsa_port(__u32 map, __u32 *port)
{
	for (__u32 i = 0; i < DSA_PORTS; i++) {
		if (map == 1U << i) {
			*port = i;
			return true;
		}
	}
	return false;
}

/*
 * The same for a frame towards the switch, as the stack made it: addresses and tags,
 * also a VLAN tag that is merged with the switch's. false: not a frame that weft
 * handles.
 */
static __always_inline bool dsa_pull_sent(struct cursor *cur, struct link *link, __be16 *proto)
{
	struct gswip_tx *gswip = NULL;
	struct vlan_tag *vlan = &link->tags[1];
	struct ethhdr *eth;
	__u32 port = 0;
	__be16 *next;
	__u16 tag;

	if (dsa_format == DSA_GSWIP) {
		gswip = PULL(cur, struct gswip_tx);
		if (!gswip || gswip->source != GSWIP_FROM_CPU || gswip->flags != GSWIP_MAP ||
		    !dsa_port((gswip->ports & GSWIP_PORTS) >> 1, &port))
			return false;
	}
	eth = PULL(cur, struct ethhdr);
	if (!eth)
		return false;
	__builtin_memcpy(link->dst, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(link->src, eth->h_source, ETH_ALEN);
	link->tags[0].proto = bpf_htons(ETH_P_XDSA);
	*proto = eth->h_proto;
	if (dsa_format != DSA_GSWIP) {
		tag = bpf_ntohs(eth->h_proto);
		next = PULL(cur, __be16);
		if (!next)
			return false;
		if (dsa_format == DSA_MTK) {
			if (tag >> 8 > MTK_88A8 || !dsa_port(tag & MTK_PORTS, &port))
				return false;
			if (tag >> 8 != MTK_UNTAGGED) {
				vlan->proto = tag >> 8 == MTK_8100 ? bpf_htons(ETH_P_8021Q) :
								     bpf_htons(ETH_P_8021AD);
				vlan->id = *next & bpf_htons(0xfff);
			}
			next = PULL(cur, __be16);
			if (!next)
				return false;
		} else if ((tag & QCA_VERSION_MASK) != QCA_VERSION || !(tag & QCA_FROM_CPU) ||
			   !dsa_port(tag & QCA_PORTS, &port)) {
			return false;
		}
		*proto = *next;
	}
	link->tags[0].id = bpf_htons(port);
	return true;
}

/* bytes of a link header with everything in the frame; session: of PPPoE, or 0 */
static __always_inline __u32 link_len(const struct link *link, __be16 session)
{
	__u32 len = ETH_HLEN + (session ? sizeof(struct pppoehdr) : 0), vlans = link_tags(link);

	if (link_is_dsa(link)) {
		vlans--;
		len += dsa_format == DSA_QCA ? 2 : 4;
		if (dsa_format == DSA_MTK)
			vlans = 0; /* it is merged with the switch's */
	}
	return len + 4 * vlans;
}

#define LINK_MAX (4 + ETH_HLEN + 4 + 8)

/* write the switch's tag behind the addresses; returns a pointer to the next byte */
static __always_inline __be16 *dsa_put(__be16 *at, const struct link *link)
{
	__u32 port = bpf_ntohs(link->tags[0].id) & (DSA_PORTS - 1);
	const struct vlan_tag *vlan = &link->tags[1];
	__u32 kind = !vlan->proto			     ? MTK_UNTAGGED :
		     vlan->proto == bpf_htons(ETH_P_8021Q) ? MTK_8100 :
							     MTK_88A8;

	if (dsa_format == DSA_QCA) {
		at[0] = bpf_htons(QCA_VERSION | QCA_FROM_CPU | (1U << port & QCA_PORTS));
		return at + 1;
	}
	if (dsa_format == DSA_MTK) {
		at[0] = bpf_htons(kind << 8 | (1U << port & MTK_PORTS));
		at[1] = vlan->proto ? vlan->id : 0;
		return at + 2;
	}
	return at;
}

/*
 * Write a link header of link_len() bytes at the cursor; proto and len are the IP
 * packet's behind it. false: it does not fit, and nothing was written.
 */
static __always_inline bool link_put(struct cursor cur, const struct link *link, __be16 session,
				     __be16 proto, __u32 len)
{
	const struct vlan_tag *first = &link->tags[0], *second = &link->tags[1];
	const bool dsa = link_is_dsa(link); /* once: the verifier assumes that it may change */
	__be16 *at = cur.pos;

	/* a frame with an IP header is longer than that */
	if (cur.pos + LINK_MAX > cur.end)
		return false;
	if (dsa && dsa_format == DSA_GSWIP) {
		__u32 port = bpf_ntohs(first->id) & (DSA_PORTS - 1);

		*(struct gswip_tx *)at = (struct gswip_tx){
			.source = GSWIP_FROM_CPU, .flags = GSWIP_MAP,
			.ports = (2U << port & GSWIP_PORTS) | GSWIP_DESTINATION,
		};
		at += 2;
	}
	__builtin_memcpy(at, link, 2 * ETH_ALEN);
	at += ETH_ALEN;
	if (dsa) {
		at = dsa_put(at, link);
	} else if (first->proto) {
		at[0] = first->proto;
		at[1] = first->id;
		at += 2;
	}
	if (second->proto && !(dsa && dsa_format == DSA_MTK)) {
		at[0] = second->proto;
		at[1] = second->id;
		at += 2;
	}
	if (session) {
		*at++ = bpf_htons(ETH_P_PPP_SES);
		*(struct pppoehdr *)at = link_session(session, proto, len);
	} else {
		*at = proto;
	}
	return true;
}
