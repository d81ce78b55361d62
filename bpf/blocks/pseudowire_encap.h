/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Encapsulates the frames that a pseudowire's interface sends, at the TC ingress of
 * its hidden end. They leave by the device that leads to the other end. A GSO packet
 * stays one: the kernel segments it where it must.
 *
 *   too large        -> an ICMP error to the sender, as from a router (RFC 4459 3.1)
 *   ECN              -> copied to the outer header (RFC 6040 4.1)
 *   VLAN tag outside -> pushed into the frame again
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "checksum.h"
#include "counters.h"
#include "hook.h"
#include "link.h"
#include "outcome.h"
#include "pseudowire_answer.h"
#include "pseudowire_maps.h"
#include "pseudowire_pack.h"
#include "pseudowire_sum.h"

#define EALREADY 114
/* of the loopback device, in every namespace (net/core/dev.c) */
#define LOOPBACK_IFINDEX 1

/* pop the outermost VLAN tag into in: it is written into the packet separately */
static __always_inline long encap_tag(hook_ctx *ctx, struct inside *in)
{
	if (!hook_tagged(ctx))
		return 0;
	if (in->tags_len >= sizeof(in->tags) || hook_outer_tag(ctx, in->tags[in->tags_len >> 2 & 1]))
		return -1;
	in->tags_len += 4;
	return hook_pop_tag(ctx);
}

/* make room for the outer headers, and for the frame's own link header */
static __always_inline long encap_room(hook_ctx *ctx, const struct pseudowire_tx *tx,
				      const struct inside *in)
{
	__u32 link = ETH_HLEN + (in->tags_len & 12), outer = tx->outer_len & 127;
	enum hook_tunnel tunnel = pseudowire_tunnel(tx);
	long failed;

	if (in->proto != bpf_htons(ETH_P_IP) && in->proto != bpf_htons(ETH_P_IPV6))
		return hook_open(ctx, outer + link);
	failed = hook_pack(ctx, outer, link, tx->family == AF_INET, tunnel);
	/*
	 * A segment of a GSO packet that came out of a tunnel: the kernel still has it
	 * marked as such. GSO packets of tunnels do not arrive here: the interface has
	 * them segmented.
	 */
	if (failed == -EALREADY && !hook_segment(ctx))
		failed = hook_pack(ctx, outer, link, tx->family == AF_INET, TUNNEL_OTHER);
	return failed;
}

/* of UDP over IPv6 (RFC 8200 8.1), or of GRE (RFC 2784 2.1) */
static __always_inline long encap_checksum(hook_ctx *ctx, const struct pseudowire_tx *tx)
{
	__u32 from = ETH_HLEN + (tx->family == AF_INET ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
	__u32 to = hook_len(ctx), off = from + 4, sum = 0;
	__sum16 check;

	if (tx->kind == PSEUDOWIRE_L2TP_UDP) {
		off = from + 6;
		sum = csum_reduce(csum_addr6(&tx->endpoints.local) + csum_addr6(&tx->endpoints.remote) +
				  bpf_htonl(to - from) + bpf_htonl(IPPROTO_UDP));
	}
	check = ~pseudowire_sum(ctx, from, to, sum);
	if (tx->kind == PSEUDOWIRE_L2TP_UDP && !check)
		check = 0xffff;
	return hook_store(ctx, off, &check, sizeof(check));
}

static __always_inline long encap_pack(hook_ctx *ctx, struct pseudowire_tx *tx,
				 const struct pseudowire_path *path, struct inside *in)
{
	__u32 len = tx->outer_len, inner = hook_len(ctx) + in->tags_len;
	struct outside *out = pseudowire_room(0);

	if (!out)
		return -1;
	outside_fill(out, tx, path, in, inner);
	/* two comparisons: as one, Linux 6.12's verifier does not see that it bounds the length (hook_load_some) */
	asm volatile("" : "+r"(len));
	if (len > PSEUDOWIRE_OUTER)
		return -1;
	asm volatile("" : "+r"(len));
	if (len < 24)
		return -1;
	asm volatile("" : "+r"(len));
	if (tx->seqoff && !(tx->flags & PSEUDOWIRE_PINNED)) {
		__u32 at = tx->seqoff;

		if (at > PSEUDOWIRE_OUTER - sizeof(__be32))
			return -1;
		*(__be32 *)(out->bytes + (at & 127)) = outside_number(tx);
	}
	__builtin_memcpy(out->bytes + len, &in->eth, sizeof(in->eth));
	if (encap_room(ctx, tx, in) || hook_set_outer(ctx, &out->eth, ETH_HLEN + len))
		return -1;
	if (in->tags_len) {
		if (hook_store(ctx, ETH_HLEN + len + 12, in->tags, 4) ||
		    (in->tags_len == 8 && hook_store(ctx, ETH_HLEN + len + 16, in->tags[1], 4)) ||
		    hook_store(ctx, ETH_HLEN + len + 12 + in->tags_len, &in->eth.h_proto, 2))
			return -1;
	}
	if (tx->flags & PSEUDOWIRE_CHECKSUM && encap_checksum(ctx, tx))
		return -1;
	return 0;
}

/* send it: by the neighbour that is known, or by the kernel's neighbour entry */
static __always_inline int encap_egress(hook_ctx *ctx, const struct pseudowire_tx *tx,
				 const struct pseudowire_path *path, const struct inside *in)
{
	struct bpf_redir_neigh to = { .nh_family = tx->family };

	/* loopback drops frames that are not for it; other devices need nothing of the kind */
	if (path->ifindex == LOOPBACK_IFINDEX)
		hook_to_host(ctx);
	if (path->flags & PSEUDOWIRE_RESOLVED)
		return bpf_redirect(path->ifindex, 0);
	/* the kernel takes the inner frame's ethertype for the packet's: it would drop others than IP */
	if (hook_protocol(ctx) != bpf_htons(tx->family == AF_INET ? ETH_P_IP : ETH_P_IPV6))
		return -1;
	__builtin_memcpy(to.ipv6_nh, &path->gateway, sizeof(to.ipv6_nh));
	return bpf_redirect_neigh(path->ifindex, &to, sizeof(to), 0);
}

/* Encapsulate and send, and count it for this program. Returns the verdict. */
static __always_inline int pseudowire_encapsulate(hook_ctx *ctx, const enum program program)
{
	__u32 ifindex = hook_device(ctx), len, segment, room;
	enum pseudowire_fault fault = PSEUDOWIRE_FAULT_KERNEL;
	enum outcome outcome = DROP_KERNEL;
	struct pseudowire_path *path;
	struct pseudowire_tx *tx;
	struct inside in = {};
	int verdict;

	tx = bpf_map_lookup_elem(&pseudowire_txs, &ifindex);
	if (!tx)
		return HOOK_DROP;
	path = bpf_map_lookup_elem(&pseudowire_paths, &tx->endpoints);
	if (!path || !path->ifindex) {
		fault = PSEUDOWIRE_FAULT_NO_PATH;
		outcome = DROP_PSEUDOWIRE_NO_PATH;
		goto dropped;
	}
	if (encap_tag(ctx, &in) || encap_tag(ctx, &in))
		goto dropped;
	inside_ip(ctx, &in);
	room = room_for(tx, path, in.tags_len);
	len = hook_len(ctx) + in.tags_len;
	segment = hook_segment(ctx);
	if (in.l3 > room || len + tx->outer_len > 65535) {
		fault = PSEUDOWIRE_FAULT_TOO_BIG;
		outcome = DROP_PSEUDOWIRE_TOO_BIG;
		if (!(tx->flags & PSEUDOWIRE_ANSWER) || in.tags_len || !answer_allowed(&tx->answered) ||
		    answer_too_big(ctx, in.proto, room))
			goto dropped;
		pseudowire_fault(ifindex, PSEUDOWIRE_FAULT_ANSWERED);
		count(program, FORWARD_PSEUDOWIRE_TOO_BIG);
		return bpf_redirect(ifindex, 0);
	}
	if (encap_pack(ctx, tx, path, &in))
		goto dropped;
	verdict = encap_egress(ctx, tx, path, &in);
	if (verdict < 0) {
		fault = PSEUDOWIRE_FAULT_NO_PATH;
		outcome = DROP_PSEUDOWIRE_NO_PATH;
		goto dropped;
	}
	pseudowire_sent(ifindex, len, segment);
	count(program, FORWARD_PSEUDOWIRE_ENCAP);
	return verdict;
dropped:
	pseudowire_fault(ifindex, fault);
	count(program, outcome);
	return HOOK_DROP;
}
