// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Looks up many addresses in weft's tables, in the kernel's routing table and in LPM
 * tries, for weft bench fib. Each program goes through all addresses once and stores
 * the time it took; with keep set also every answer.
 */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "fib.h"

#define ADDRESSES (1U << 20)

const volatile __u32 last4 = FIB_MIN_WORDS4 - FIB_SLACK; /* see fib.h */
const volatile __u32 last6 = FIB_MIN_WORDS6 - FIB_SLACK;
const volatile __u32 count = ADDRESSES;   /* how many to look up */
const volatile __u32 device = 1;          /* for bpf_fib_lookup: arriving there */
const volatile bool keep = false;

struct addresses4 { __u32 at[ADDRESSES]; };              /* host byte order */
struct addresses6 { struct fib_addr6 at[ADDRESSES]; };
struct answers { __u32 at[ADDRESSES]; };
struct words4 { __u32 at[FIB_MIN_WORDS4]; };             /* more when loaded */
struct words6 { __u32 at[FIB_MIN_WORDS6]; };
struct key4 { __u32 bits; __be32 addr; };
struct key6 { __u32 bits; __be32 addr[4]; };

#define BPF_F_MMAPABLE (1U << 10)
#define MAPPED(name, type_of_value)                   \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);     \
		__type(key, __u32);                   \
		__type(value, type_of_value);         \
		__uint(max_entries, 1);               \
		__uint(map_flags, BPF_F_MMAPABLE);    \
	} name SEC(".maps")
#define LPM(name, keytype)                            \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);  \
		__type(key, keytype);                 \
		__type(value, __u32);                 \
		__uint(max_entries, 1U << 21);        \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
	} name SEC(".maps")

MAPPED(fib4, struct words4);
MAPPED(fib6, struct words6);
MAPPED(to4, struct addresses4);
MAPPED(to6, struct addresses6);
MAPPED(kept, struct answers);
LPM(lpm4, struct key4);
LPM(lpm6, struct key6);

__u64 took; /* ns, of the last run */
__u64 sum;  /* of its answers, so that the compiler can omit none */

struct run {
	struct xdp_md *ctx;
	__u64 sum;
};

static __always_inline void note(struct run *run, __u32 i, __u32 answer)
{
	__u32 zero = 0;

	run->sum += answer;
	if (keep) {
		struct answers *answers = bpf_map_lookup_elem(&kept, &zero);
		if (answers)
			answers->at[i & (ADDRESSES - 1)] = answer;
	}
}

static __always_inline int timed(struct xdp_md *ctx, void *each)
{
	struct run run = { .ctx = ctx };
	__u64 start = bpf_ktime_get_ns();

	bpf_loop(count, each, &run, 0);
	took = bpf_ktime_get_ns() - start;
	sum = run.sum;
	return XDP_PASS;
}

static __always_inline __u32 addr4(__u32 i)
{
	__u32 zero = 0;
	struct addresses4 *to = bpf_map_lookup_elem(&to4, &zero);

	return to ? to->at[i & (ADDRESSES - 1)] : 0;
}

static __always_inline struct fib_addr6 addr6(__u32 i)
{
	__u32 zero = 0;
	struct addresses6 *to = bpf_map_lookup_elem(&to6, &zero);
	struct fib_addr6 none = {};

	return to ? to->at[i & (ADDRESSES - 1)] : none;
}

static long each_empty4(__u32 i, struct run *run)
{
	note(run, i, addr4(i));
	return 0;
}

static long each_empty6(__u32 i, struct run *run)
{
	struct fib_addr6 addr = addr6(i);

	note(run, i, addr.hi ^ addr.lo);
	return 0;
}

static long each_weft4(__u32 i, struct run *run)
{
	__u32 zero = 0;
	struct words4 *words = bpf_map_lookup_elem(&fib4, &zero);

	if (words)
		note(run, i, fib_lookup4(words->at, last4, addr4(i)));
	return 0;
}

static long each_weft6(__u32 i, struct run *run)
{
	__u32 zero = 0;
	struct words6 *words = bpf_map_lookup_elem(&fib6, &zero);

	if (words)
		note(run, i, fib_lookup6(words->at, last6, addr6(i)));
	return 0;
}

/* The next hop's number is the end of its address. */
static long each_kernel4(__u32 i, struct run *run)
{
	struct bpf_fib_lookup fib = {
		.family = AF_INET, .ifindex = device, .ipv4_dst = bpf_htonl(addr4(i)),
	};
	long found = bpf_fib_lookup(run->ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_SKIP_NEIGH);

	note(run, i, found ? 0 : bpf_ntohl(fib.ipv4_dst) & 0xffff);
	return 0;
}

static long each_kernel6(__u32 i, struct run *run)
{
	struct fib_addr6 addr = addr6(i);
	struct bpf_fib_lookup fib = { .family = AF_INET6, .ifindex = device };
	__u64 wire[2] = { bpf_cpu_to_be64(addr.hi), bpf_cpu_to_be64(addr.lo) };
	long found;

	__builtin_memcpy(fib.ipv6_dst, wire, sizeof(wire));
	found = bpf_fib_lookup(run->ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_SKIP_NEIGH);
	__builtin_memcpy(wire, fib.ipv6_dst, sizeof(wire));
	note(run, i, found ? 0 : bpf_be64_to_cpu(wire[1]) & 0xffff);
	return 0;
}

static long each_trie4(__u32 i, struct run *run)
{
	struct key4 key = { 32, bpf_htonl(addr4(i)) };
	__u32 *value = bpf_map_lookup_elem(&lpm4, &key);

	note(run, i, value ? *value : 0);
	return 0;
}

static long each_trie6(__u32 i, struct run *run)
{
	struct fib_addr6 addr = addr6(i);
	struct key6 key = { 128, {
		bpf_htonl(addr.hi >> 32), bpf_htonl(addr.hi),
		bpf_htonl(addr.lo >> 32), bpf_htonl(addr.lo),
	} };
	__u32 *value = bpf_map_lookup_elem(&lpm6, &key);

	note(run, i, value ? *value : 0);
	return 0;
}

#define PROGRAM(name)                                                   \
	SEC("xdp") int name(struct xdp_md *ctx) { return timed(ctx, each_##name); }

PROGRAM(empty4)
PROGRAM(empty6)
PROGRAM(weft4)
PROGRAM(weft6)
PROGRAM(kernel4)
PROGRAM(kernel6)
PROGRAM(trie4)
PROGRAM(trie6)

char _license[] SEC("license") = "Dual BSD/GPL";
