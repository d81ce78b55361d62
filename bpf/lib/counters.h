/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Every packet that a program decides on is counted once by that program,
 * under its outcome. One per-CPU array for all programs:
 * index = program * OUTCOME_COUNT + outcome.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "outcome.h"

/* the attached programs; names reach users as they stand here, in lower case */
/* go: datapath functions */
enum program {
	INGRESS_XDP,
	INGRESS_TC,
	TRANSLATOR_EGRESS,
	TRANSLATOR_INGRESS,
	PSEUDOWIRE_ENCAP,
	LNS_EGRESS,
	BRIDGE_PORT_IN,
	BRIDGE_PORT_OUT,
	BRIDGE_HOST_IN,
	BRIDGE_HOST_OUT,
	FLOW_EGRESS,
	FLOW_SESSION_EGRESS,
	EARLY_DROP_EGRESS,
	PROGRAM_COUNT,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, PROGRAM_COUNT * OUTCOME_COUNT);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} counters SEC(".maps");

static __always_inline void count(enum program program, enum outcome outcome)
{
	__u32 key = program * OUTCOME_COUNT + outcome;
	__u64 *n = bpf_map_lookup_elem(&counters, &key);
	if (n)
		*n += 1;
}
