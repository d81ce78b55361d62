/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Configuration of the interfaces that weft.toml names, by interface index. Packets of
 * an interface that is not here pass unchanged.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* go: state.Roles INTERFACE_=Role names */
enum interface_flag {
	INTERFACE_BYPASS = 1, /* translated packets may leave past the stack */
	INTERFACE_XDP_OUT = 2,  /* can be the target of an XDP redirect */
	INTERFACE_ROUTED = 4,   /* packets for the router are routed by weft's own tables */
	INTERFACE_BRIDGE_PORT = 8, /* frames without a tag belong to the bridge (classify.h) */
	INTERFACE_PSEUDOWIRES = 16, /* packets of pseudowires arrive here (pseudowire.h) */
	INTERFACE_SUBSCRIBERS = 32,    /* subscribers' tunnels arrive here */
	INTERFACE_GUARDED = 64, /* filtered at ingress first (guard.h) */
	INTERFACE_OFFLOADED = 128, /* established flows are forwarded past the stack */
	INTERFACE_CONDUIT = 256, /* each frame has a switch's tag (conduit.h) */
	INTERFACE_TRANSLATED = 512, /* translators serve it; flags of an interface do not have it, but interface_unused may */
};

/*
 * Roles that no interface has. The verifier skips the code for them, whose
 * verification would take most of a program's load time.
 */
const volatile __u32 interface_unused = 0;

/* Whether flags have that flag; false at load time if no interface has it. */
static __always_inline bool interface_is(__u32 flags, __u32 that)
{
	return flags & that & ~interface_unused;
}

struct interface {
	__u64 translators; /* bit per translator that serves it */
	__u32 flags;
	__u8 mac[ETH_ALEN];
	__u16 table; /* in which it is routed */
	__u32 ifindex; /* its own */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct interface);
	__uint(max_entries, 1024);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} interfaces SEC(".maps");

/*
 * A copy without a hash look-up, indexed by the low bits of the interface index. The
 * entry may be another interface's, or empty; then the hash table is used.
 */
/* go: datapath/ingresstable */
#define INTERFACES_NEAR 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct interface);
	__uint(max_entries, INTERFACES_NEAR);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} interfaces_near SEC(".maps");

static __always_inline struct interface *interface_find(__u32 ifindex)
{
	__u32 slot = ifindex & (INTERFACES_NEAR - 1);
	struct interface *near = bpf_map_lookup_elem(&interfaces_near, &slot);

	if (near && near->ifindex == ifindex)
		return near;
	return bpf_map_lookup_elem(&interfaces, &ifindex);
}

/* No translator serves it: packets that it routes need no look-up among translated addresses. */
static __always_inline bool interface_only_routes(const struct interface *in)
{
	return interface_unused & INTERFACE_TRANSLATED ||
	       (!in->translators && in->flags & INTERFACE_ROUTED);
}

/* Those whose code is left out of programs where no interface has them. */
/* go: state.Roles INTERFACE_=Role */
#define INTERFACE_OPTIONAL (INTERFACE_TRANSLATED | INTERFACE_ROUTED | INTERFACE_PSEUDOWIRES | INTERFACE_SUBSCRIBERS | INTERFACE_GUARDED | INTERFACE_OFFLOADED)
