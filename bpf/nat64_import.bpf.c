// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Imports sessions that another router has advertised (session synchronisation). It is
 * attached nowhere: weft writes records into nat64_imports, runs this program by
 * BPF_PROG_RUN with their number as the mark, and reads the result of each. So
 * imported bindings, session slots, limits and counts are made by the same code as
 * those of packets, and concurrently with it.
 */
#include "tc.h"
#include "nat64_import.h"

SEC("tcx/ingress")
int nat64_import(struct __sk_buff *ctx)
{
	return bpf_loop(ctx->mark, import_one, NULL, 0) < 0 ? TCX_DROP : TCX_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
