/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Reading from a packet, by the hook_load of whichever hook it is at: hook/tc.h
 * and xdp.h end with this.
 */

/*
 * hook_load of a length that is not known beforehand, at least 1, at most `most`.
 * Both bounds are comparisons of their own: compilers make one of the two, and
 * the verifiers of older kernels (6.12) do not see that it bounds the length.
 */
static __always_inline long hook_load_some(hook_ctx *ctx, __u32 off, void *to, __u32 len,
					   const __u32 most)
{
	asm volatile("" : "+r"(len));
	if (len < 1)
		return -1;
	asm volatile("" : "+r"(len));
	if (len > most)
		return -1;
	asm volatile("" : "+r"(len));
	return hook_load(ctx, off, to, len);
}
