/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Transport checksums at the TC hook, as a part of tc.h: they may be left to the
 * device (CHECKSUM_PARTIAL), or the device may have summed the packet.
 */
static __always_inline long hook_l4_checksum(hook_ctx *ctx, __u32 off, __u32 diff,
					     const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS  ? BPF_F_MARK_MANGLED_0 :
		      zero == ZERO_NEVER ? BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE :
					   0;

	return bpf_l4_csum_replace(ctx, off, 0, diff, BPF_F_PSEUDO_HDR | flags);
}

/*
 * Replace two bytes at off that the checksum at check_off covers as data: in a
 * packet whose checksum is left to the device it stays as it is.
 */
static __always_inline long hook_replace_port(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS  ? BPF_F_MARK_MANGLED_0 :
		      zero == ZERO_NEVER ? BPF_F_MARK_MANGLED_0 | BPF_F_MARK_ENFORCE :
					   0;

	if (bpf_l4_csum_replace(ctx, check_off, from, to, sizeof(to) | flags))
		return -1;
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/*
 * Replace two bytes of data at off, which may stand at an odd place (then
 * their halves belong to two words of the sum): a checksum that is left to the
 * device does not cover them yet, and stays.
 */
static __always_inline long hook_replace_data(hook_ctx *ctx, __u32 off, __u32 check_off,
					      __be16 from, __be16 to, bool odd)
{
	__be16 was = odd ? bpf_htons(from) : from, is = odd ? bpf_htons(to) : to;

	if (bpf_l4_csum_replace(ctx, check_off, was, is, sizeof(is)))
		return -1;
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/*
 * The same in a packet that is still inside of another. What the kernel knows of
 * checksums may be about the outer one (a sender in user space behind a virtual
 * device leaves that to the device): so the inner checksum itself tells. If it is
 * the pseudo-header's sum alone it is left to the device, and stays.
 */
static __always_inline long hook_replace_inner(hook_ctx *ctx, __u32 off, __u32 check_off,
					       __be16 from, __be16 to, bool odd, __u16 pseudo)
{
	__be16 was = odd ? bpf_htons(from) : from, is = odd ? bpf_htons(to) : to;
	__u16 check;

	if (bpf_skb_load_bytes(ctx, check_off, &check, sizeof(check)))
		return -1;
	if (check != pseudo) {
		/* RFC 1624; the two changes cancel in every sum around them */
		check = ~csum_fold16((__u32)(__u16)~check + (__u16)~was + is);
		if (bpf_skb_store_bytes(ctx, check_off, &check, sizeof(check), 0))
			return -1;
	}
	return bpf_skb_store_bytes(ctx, off, &to, sizeof(to), 0);
}

/* A checksum that is left to the device does not cover it yet, and stays. */
static __always_inline long hook_data_diff(hook_ctx *ctx, __u32 off, __u32 diff)
{
	return bpf_l4_csum_replace(ctx, off, 0, diff, BPF_F_MARK_MANGLED_0);
}

/* The device may have summed the whole packet (CHECKSUM_COMPLETE). */
static __always_inline void hook_summed(hook_ctx *ctx, __u32 diff)
{
	bpf_csum_update(ctx, diff);
}

static __always_inline long hook_data_checksum(hook_ctx *ctx, __u32 off, __be32 from, __be32 to,
					       const enum hook_zero zero)
{
	__u64 flags = zero == ZERO_STAYS ? BPF_F_MARK_MANGLED_0 : 0;

	return bpf_l4_csum_replace(ctx, off, from, to, sizeof(to) | flags);
}
