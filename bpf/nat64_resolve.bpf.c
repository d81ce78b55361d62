// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The slow path's way to bindings and sessions: it gives this program, by
 * BPF_PROG_RUN, a packet that stands for the one it has (whole, with the same
 * addresses, ports and flags), and gets it back translated. So that state is
 * made, counted and moved on in one place. It is attached nowhere.
 *
 * Returns the outcome; OUTCOME_NONE if the packet was translated.
 */
#include "tc.h"
#include "counters.h"
#include "interface.h"
#include "nat64.h"

SEC("tcx/ingress")
int nat64_resolve(struct __sk_buff *ctx)
{
	struct nat64 x = { .allowed = ~0ULL };
	enum outcome outcome;

	if (ctx->protocol == bpf_htons(ETH_P_IPV6)) {
		outcome = nat64_parse6(ctx, &x);
		return outcome ? outcome : nat64_write4(ctx, &x, x.ttl);
	}
	if (ctx->protocol == bpf_htons(ETH_P_IP)) {
		outcome = nat64_parse4(ctx, &x);
		return outcome ? outcome : nat64_write6(ctx, &x, x.ttl);
	}
	return PASS_NOT_IP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
