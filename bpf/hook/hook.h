/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Selects the hook: a program includes xdp.h or tc.h first. A header that is read or
 * compiled alone is for TC.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#ifndef HOOK_IS_XDP
#include "tc.h"
#endif

/*
 * hook_load of a variable length, at least 1, at most `most`. Both bounds are separate
 * comparisons: compilers merge them into one, and the verifiers of older kernels
 * (6.12) do not see that it bounds the length.
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
