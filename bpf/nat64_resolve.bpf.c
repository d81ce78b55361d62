// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The slow path's access to bindings and sessions. By BPF_PROG_RUN it gives this
 * program a whole packet with the same addresses, ports and flags as the one it has,
 * and gets it back translated. So state is created, counted and updated in one place.
 * It is attached nowhere.
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
