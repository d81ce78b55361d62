/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Decapsulation of subscribers' data: L2TPv2 over UDP (RFC 2661 section 3.1) and PPP
 * (RFC 1661, 1662) with IPv4 or IPv6.
 *
 *   no tunnel of this router      -> like any other packet
 *   control messages              -> likewise: the daemon has the socket
 *   PPP's control, link scope     -> the daemon, unchanged
 *   not from the tunnel's peer,
 *   inconsistent headers, spoofed -> dropped
 *   the rest                      -> OUTCOME_NONE; *from describes the inner packet
 *
 * The UDP checksum is not verified: a router does not verify transport checksums of
 * packets that it forwards, and the inner packet has its own.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "addresses.h"
#include "classify.h"
#include "checksum.h"
#include "cursor.h"
#include "hook.h"
#include "interface.h"
#include "l2tp_capture.h"
#include "l2tp_maps.h"
#include "l2tp_owner.h"
#include "link.h"
#include "options.h"
#include "outcome.h"

/* of the first 16 bits, host order */
#define L2TP_CONTROL 0x8000
#define L2TP_LENGTH 0x4000
#define L2TP_NUMBERS 0x0800
#define L2TP_OFFSET 0x0200
#define L2TP_PRIORITY 0x0100
#define L2TP_VERSION 0x000f

#define L2TP_OFFSET_MAX 31

/* link header, IPv6, UDP, L2TP with all it may have, PPP, IPv6, TCP */
#define L2TP_BYTES (ETH_HLEN + 8 + 40 + 8 + 14 + L2TP_OFFSET_MAX + 4 + 40 + 20)

/*
 * The bytes that are read of nearly every packet: UDP, L2TP without optional fields,
 * PPP, IPv4, TCP. At TC they are pulled into the linear area if they are not there.
 * Payload that is pulled with them costs its receiver: GRO cannot merge it with the
 * data before.
 */
#define L2TP_MOST_BYTES (8 + 6 + 4 + 20 + 20)

/* where a packet is while it is unwrapped */
struct l2tp_walk {
	struct cursor cur;
	__u32 left;  /* bytes behind the headers parsed so far */
	__u32 strip; /* bytes of the headers parsed so far */
	struct in6_addr local_addr, peer; /* of the outer packet; IPv4 in the first word */
	struct l2tp_up *session;
	__u32 id;
	__be16 here_port, peer_port;
	__u8 family;
	__u16 pseudo; /* sum of the pseudo-header of a SYN inside */
};

/* Make more bytes readable. Pointers into the packet are invalid afterwards. */
static __always_inline void l2tp_more(hook_ctx *ctx, const struct packet_info *from, struct l2tp_walk *w, __u32 more)
{
	__u32 at = (from->l3 & 31) + (w->strip & CLASSIFY_STRIP);

	if (HOOK_PLAIN)
		return; /* all is there */
	w->cur = hook_cursor(ctx, at + more);
	w->cur.pos += at;
}

/* Parse IP and UDP. False: not for weft to decapsulate. */
static __always_inline bool l2tp_outer(hook_ctx *ctx, const struct packet_info *from, struct l2tp_walk *w)
{
	struct udphdr *udp;

	if (from->proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = PULL(&w->cur, struct iphdr);

		if (!ip || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    ip->frag_off & bpf_htons(IP_MF | IP_OFFSET) || csum_ipv4_header(ip))
			return false;
		w->family = AF_INET;
		w->local_addr.be32[0] = ip->daddr;
		w->peer.be32[0] = ip->saddr;
		w->left = bpf_ntohs(ip->tot_len);
		w->strip = sizeof(*ip);
	} else if (from->proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = PULL(&w->cur, struct ipv6hdr);

		if (!ip || ip->nexthdr != IPPROTO_UDP)
			return false;
		w->family = AF_INET6;
		w->local_addr = ip->daddr;
		w->peer = ip->saddr;
		w->left = bpf_ntohs(ip->payload_len) + sizeof(*ip);
		w->strip = sizeof(*ip);
	} else {
		return false;
	}
	udp = PULL(&w->cur, struct udphdr);
	if (!udp || from->l3 + w->left > hook_len(ctx) ||
	    w->left - w->strip < bpf_ntohs(udp->len) || bpf_ntohs(udp->len) < sizeof(*udp))
		return false;
	w->here_port = udp->dest;
	w->peer_port = udp->source;
	w->left = bpf_ntohs(udp->len) - sizeof(*udp);
	w->strip += sizeof(*udp);
	return true;
}

/* Read two bytes of a header. False: the packet is too short. */
static __always_inline bool l2tp_next(struct l2tp_walk *w, __u32 *value)
{
	__be16 *field = PULL(&w->cur, __be16);

	if (!field || w->left < sizeof(*field))
		return false;
	*value = bpf_ntohs(*field);
	w->left -= sizeof(*field);
	w->strip += sizeof(*field);
	return true;
}

/* bytes of the L2TP header behind its first two, which are the flags */
static __always_inline __u32 l2tp_behind(__u32 flags)
{
	__u32 bytes = L2TP_MOST_BYTES - 8 - 2;

	bytes += flags & L2TP_LENGTH ? 2 : 0;
	bytes += flags & L2TP_NUMBERS ? 4 : 0;
	return bytes + (flags & L2TP_OFFSET ? 2 + L2TP_OFFSET_MAX : 0);
}

/*
 * Parse the L2TP header. OUTCOME_NONE with w->session: data of that session.
 * OUTCOME_NONE without: not of this router, or control. Inconsistent headers are
 * judged only after it is certain that the packet came through a tunnel.
 */
static __always_inline enum outcome l2tp_header(hook_ctx *ctx, const struct packet_info *from, struct l2tp_walk *w)
{
	__u32 flags, length = 0, tunnel_id, unused, pad = 0, all = w->left;
	struct l2tp_tunnel *tunnel;
	bool lies;

	if (!l2tp_next(w, &flags) || (flags & (L2TP_CONTROL | L2TP_VERSION)) != 2)
		return OUTCOME_NONE;
	if (flags & (L2TP_LENGTH | L2TP_NUMBERS | L2TP_OFFSET))
		l2tp_more(ctx, from, w, l2tp_behind(flags));
	lies = flags & L2TP_LENGTH && !l2tp_next(w, &length);
	if (lies || !l2tp_next(w, &tunnel_id) || !l2tp_next(w, &w->id))
		return OUTCOME_NONE;
	tunnel = bpf_map_lookup_elem(&l2tp_tunnels, &tunnel_id);
	if (!tunnel || tunnel->family != w->family || tunnel->here_port != w->here_port ||
	    !addr6_same(&tunnel->local_addr, &w->local_addr))
		return OUTCOME_NONE;
	w->session = l2tp_up_at(w->id);
	if (!w->session || w->session->tunnel != tunnel_id) {
		w->session = NULL;
		return PASS_L2TP_UNKNOWN;
	}
	if (tunnel->peer_port != w->peer_port || !addr6_same(&tunnel->peer, &w->peer)) {
		l2tp_drop(w->id, L2TP_DROP_PEER);
		return DROP_L2TP_PEER;
	}
	/* an LNS starts or stops sequence numbers: the LAC follows (RFC 2661 5.4) */
	if (w->session->flags & L2TP_TRUSTED && !(flags & L2TP_NUMBERS) != !(w->session->flags & L2TP_SEQUENCE))
		return PASS_L2TP_CONTROL;
	lies = flags & L2TP_NUMBERS && (!l2tp_next(w, &unused) || !l2tp_next(w, &unused));
	if (!lies && flags & L2TP_OFFSET) {
		lies = !l2tp_next(w, &pad);
		if (!lies && pad > L2TP_OFFSET_MAX)
			return PASS_L2TP_CONTROL; /* no implementation sends that */
		lies = lies || pad > w->left;
	}
	if (flags & L2TP_LENGTH) {
		/* the length field counts from the first byte and may exclude padding */
		lies = lies || length > all || length < all - w->left + pad;
		w->left -= all - length;
	}
	if (lies) {
		l2tp_drop(w->id, L2TP_DROP_INVALID);
		return DROP_L2TP_INVALID;
	}
	w->cur.pos += pad & L2TP_OFFSET_MAX;
	w->left -= pad;
	w->strip += pad;
	return OUTCOME_NONE;
}

/*
 * PPP: the address and control fields may be missing, and the upper byte of the
 * protocol if it is zero (RFC 1661 6.5, 6.6), whatever was negotiated: both forms are
 * unambiguous. Returns the protocol, or 0; *n is the number of bytes it takes.
 */
static __always_inline __u32 l2tp_protocol(struct cursor *cur, __u32 *n)
{
	__u8 *byte = PULL(cur, __u8), *more;
	__u32 protocol;

	*n = 1;
	if (!byte)
		return 0;
	if (*byte == 0xff) {
		more = PULL(cur, __u8);
		if (!more || *more != 3)
			return 0;
		byte = PULL(cur, __u8);
		if (!byte)
			return 0;
		*n += 2;
	}
	protocol = *byte;
	if (!(protocol & 1)) {
		more = PULL(cur, __u8);
		if (!more)
			return 0;
		protocol = protocol << 8 | *more;
		*n += 1;
	}
	return protocol;
}

/* The ethertype of the inner packet, or 0. */
static __always_inline __be16 l2tp_ppp(struct l2tp_walk *w)
{
	__u32 n, protocol = l2tp_protocol(&w->cur, &n);

	if (n > w->left)
		return 0;
	w->left -= n;
	w->strip += n;
	return protocol == 0x21 ? bpf_htons(ETH_P_IP) : protocol == 0x57 ? bpf_htons(ETH_P_IPV6) : 0;
}

static __always_inline enum outcome l2tp_refuse(struct l2tp_walk *w, enum l2tp_drop why)
{
	l2tp_drop(w->id, why);
	return why == L2TP_DROP_SPOOFED ? DROP_SPOOFED :
	       why == L2TP_DROP_WALLED_GARDEN ? DROP_WALLED_GARDEN : DROP_L2TP_INVALID;
}

/* whether the walled garden lets a packet pass to (downstream: from) this address */
static __always_inline bool l2tp_let(__u8 flags, __u8 lns, const struct in6_addr *far)
{
	if (flags & L2TP_BLOCKED)
		return false;
	return !(flags & L2TP_WALLED_GARDEN) || l2tp_in_walled_garden(lns, far);
}

/* offset of the options of a TCP SYN, behind that many bytes; 0: it is not a SYN */
static __always_inline __u32 l2tp_syn(struct cursor cur, __u8 protocol, __u32 before)
{
	struct tcphdr *tcp = protocol == IPPROTO_TCP ? PULL(&cur, struct tcphdr) : NULL;

	return tcp && tcp->flags & TCP_SYN ? before : 0;
}

static __always_inline enum outcome l2tp_inner4(struct l2tp_walk *w, __u32 table, __u32 *total, __u32 *syn)
{
	struct iphdr *ip = PULL(&w->cur, struct iphdr);
	struct in6_addr far;

	if (!ip || ip->version != 4 || ip->ihl < 5 || (*total = bpf_ntohs(ip->tot_len)) > w->left ||
	    *total < ip->ihl * 4)
		return l2tp_refuse(w, L2TP_DROP_INVALID);
	if (!(w->session->flags & L2TP_TRUSTED) && !l2tp_owns4(w->id, w->session, table, ip->saddr))
		return l2tp_refuse(w, L2TP_DROP_SPOOFED);
	if (addr4_link_scope(ip->daddr))
		return PASS_L2TP_CONTROL;
	far = l2tp_mapped(ip->daddr);
	if (!l2tp_let(w->session->flags, w->session->lns, &far))
		return l2tp_refuse(w, L2TP_DROP_WALLED_GARDEN);
	if (ip->ihl == 5 && !(ip->frag_off & bpf_htons(IP_OFFSET)))
		*syn = l2tp_syn(w->cur, ip->protocol, sizeof(*ip));
	w->pseudo = csum_fold16(csum_reduce((__u64)ip->saddr + ip->daddr + bpf_htons(*total - sizeof(*ip)) +
					    bpf_htons(IPPROTO_TCP)));
	return OUTCOME_NONE;
}

static __always_inline enum outcome l2tp_inner6(hook_ctx *ctx, const struct packet_info *from, struct l2tp_walk *w,
						__u32 table, __u32 *total, __u32 *syn)
{
	struct ipv6hdr *ip;

	l2tp_more(ctx, from, w, sizeof(*ip) + sizeof(struct tcphdr));
	ip = PULL(&w->cur, struct ipv6hdr);
	if (!ip || (ip->ver_tc_flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) ||
	    (*total = bpf_ntohs(ip->payload_len) + sizeof(*ip)) > w->left)
		return l2tp_refuse(w, L2TP_DROP_INVALID);
	if (addr6_link_scope(&ip->saddr) || addr6_link_scope(&ip->daddr) || addr6_illegal(&ip->saddr))
		return PASS_L2TP_CONTROL;
	if (!(w->session->flags & L2TP_TRUSTED) && !l2tp_owns6(w->id, w->session, table, &ip->saddr))
		return l2tp_refuse(w, L2TP_DROP_SPOOFED);
	if (!l2tp_let(w->session->flags, w->session->lns, &ip->daddr))
		return l2tp_refuse(w, L2TP_DROP_WALLED_GARDEN);
	*syn = l2tp_syn(w->cur, ip->nexthdr, sizeof(*ip));
	w->pseudo = csum_fold16(csum_reduce(csum_addr6(&ip->saddr) + csum_addr6(&ip->daddr) +
					    bpf_htons(*total - sizeof(*ip)) + bpf_htons(IPPROTO_TCP)));
	return OUTCOME_NONE;
}

/* the largest MSS of a SYN, in IPv4; 0: any. Only the downstream entry has it. */
static __always_inline __u32 l2tp_mss(__u32 id)
{
	struct l2tp_down *s = l2tp_down_at(id);

	return s ? s->mss : 0;
}

/*
 * Parse a packet that is addressed to the interface it came by. With OUTCOME_NONE and
 * from->session it belongs to that session, and *from describes the inner packet,
 * which is well formed and allowed; its MSS is clamped, which is the only write here.
 * If from->onward is set too, the packet is a PPP frame that is switched into another
 * tunnel (l2tp_switch.h), whatever it carries.
 */
__noinline int l2tp_receive(hook_ctx *ctx, struct packet_info *from)
{
	struct l2tp_walk w = {};
	struct l2tp_lns *lns;
	__u32 total = 0, syn = 0, key, mss;
	enum outcome outcome;
	__be16 proto;

	if (!from)
		return PASS_NOT_IP;
	w.cur = hook_cursor(ctx, (from->l3 & 31) + L2TP_MOST_BYTES +
				 (from->proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)));
	w.cur.pos += from->l3 & 31;
	if (!l2tp_outer(ctx, from, &w))
		return OUTCOME_NONE;
	outcome = l2tp_header(ctx, from, &w);
	if (outcome != OUTCOME_NONE || !w.session)
		return outcome;
	if (w.session->flags & L2TP_SWITCH) {
		from->switched = true;
		from->strip = w.strip;
		from->session = w.id;
		from->bytes = w.left;
		return OUTCOME_NONE;
	}
	key = w.session->lns;
	lns = bpf_map_lookup_elem(&l2tp_lnses, &key);
	proto = l2tp_ppp(&w);
	if (!proto || !lns || !lns->ifindex)
		return PASS_L2TP_CONTROL;
	outcome = proto == bpf_htons(ETH_P_IP) ? l2tp_inner4(&w, lns->table, &total, &syn) :
						  l2tp_inner6(ctx, from, &w, lns->table, &total, &syn);
	if (outcome != OUTCOME_NONE)
		return outcome;
	/* it may still be left to TC: there would be two copies */
	if (HOOK_FIRST && w.session->flags & L2TP_CAPTURE)
		return PASS_TO_TC;
	if (w.session->flags & L2TP_CAPTURE)
		l2tp_capture(ctx, w.id, (from->l3 & 31) + (w.strip & CLASSIFY_STRIP), total, L2TP_CAPTURED_UP);
	mss = syn ? l2tp_mss(w.id) : 0;
	if (mss &&
	    tcp_clamp_mss_inside(ctx, (from->l3 & 31) + (w.strip & CLASSIFY_STRIP) + syn,
				 proto == bpf_htons(ETH_P_IP) ? mss : mss - 20, w.pseudo) < 0)
		return DROP_KERNEL;
	from->proto = proto;
	from->strip = w.strip;
	from->session = w.id;
	from->bytes = total;
	from->table = lns->table;
	from->flags = lns->flags & L2TP_LNS_ROUTED ? INTERFACE_ROUTED : 0;
	return OUTCOME_NONE;
}

/*
 * Decapsulate a packet into a frame for the LNS's device, and return that device's
 * index; 0: it failed. Used by the hook that can hand the frame to that device.
 */
static __noinline __attribute__((unused)) __u32 l2tp_unwrap(hook_ctx *ctx, const struct packet_info *from)
{
	struct l2tp_up *s = l2tp_up_at(from->session);
	struct l2tp_lns *lns;
	struct link link = {};
	__u32 key;

	if (!s)
		return 0;
	key = s->lns;
	lns = bpf_map_lookup_elem(&l2tp_lnses, &key);
	if (!lns)
		return 0;
	__builtin_memcpy(link.dst, lns->mac, ETH_ALEN);
	if (hook_strip(ctx, from->strip & CLASSIFY_STRIP, from->proto) ||
	    hook_set_l2(ctx, from->tags, &link, from->proto))
		return 0;
	return lns->ifindex;
}
