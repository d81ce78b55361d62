// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Takes over what another router tells of its sessions (failover). It is
 * attached nowhere: weft writes records into nat64_adoptions, runs it by
 * BPF_PROG_RUN with their number as the mark, and reads what became of each.
 * So bindings, slots, limits and counts are made by the code that makes them
 * for packets, and at the same time.
 */
#include "tc.h"
#include "nat64_adopt.h"

SEC("tcx/ingress")
int nat64_adopt(struct __sk_buff *ctx)
{
	return bpf_loop(ctx->mark, adopt_one, NULL, 0) < 0 ? TCX_DROP : TCX_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
