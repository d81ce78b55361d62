/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Configuration of a bridge's ports, and the addresses learnt there. The router itself
 * is a port too: the bridge's own device.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "outcome.h"

/* go: datapath/bridgetable */
enum bridge_flag {
	BRIDGE_MEMBER = 1,    /* takes part in the bridge: every port, the router only if asked */
	BRIDGE_TAGS = 2,      /* the kernel's bridge is not VLAN-aware: the programs separate the VLANs */
	BRIDGE_ISOLATED = 4,  /* exchanges nothing with other isolated ports */
	BRIDGE_LOCKED = 8,    /* no source addresses but the listed ones */
	BRIDGE_NO_DHCP = 16,  /* no DHCP server is there */
	BRIDGE_NO_RA = 32,    /* no router is there */
	BRIDGE_SUPPRESS = 64, /* the bridge answers ARP and neighbour discovery there */
};

/* also the precedence: of two ports that use one address the higher role keeps it */
/* go: state.BridgeRole BRIDGE_=Bridge */
enum bridge_role {
	BRIDGE_GUEST = 1,
	BRIDGE_UPLINK = 2,
	BRIDGE_INFRASTRUCTURE = 3,
	BRIDGE_HOST = 4, /* the router itself */
};

/* the kinds of destination that have a limit; BRIDGE_CAST_KNOWN has none */
enum bridge_cast { BRIDGE_BROADCAST, BRIDGE_MULTICAST, BRIDGE_UNKNOWN, BRIDGE_CASTS, BRIDGE_CAST_KNOWN };

struct bridge_port {
	__u32 bridge;   /* index of the bridge's device */
	__u32 flags;    /* enum bridge_flag */
	__u32 role;     /* enum bridge_role */
	__u32 max_macs; /* 0: no limit */
	__u32 limits[BRIDGE_CASTS]; /* frames in a window, see bridge_stations.h; 0: no limit */
	__u16 pvid;     /* the VLAN of frames without a tag; 0: there are none */
	__u16 pad;
	__u64 vlans[64]; /* a bit for each VLAN whose frames carry a tag */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* device index */
	__type(value, struct bridge_port);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} bridge_ports SEC(".maps");

/* a source address, where it was seen last */
struct bridge_station_key {
	__u32 bridge;
	__u8 mac[ETH_ALEN];
	__u16 pad;
};
_Static_assert(sizeof(struct bridge_station_key) == 12, "key without holes");

struct bridge_station {
	__u32 port;
	__u32 fixed; /* from weft.toml: it stays at this port */
	__u64 seen;  /* bpf_ktime_get_ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct bridge_station_key);
	__type(value, struct bridge_station);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} bridge_stations SEC(".maps");

/* go: state BRIDGE_SLOTS=BridgeMACsMax */
#define BRIDGE_SLOTS 64

/* what a port has used up */
struct bridge_usage {
	__u64 full_until;           /* no place for a new address before then */
	__u64 slots[BRIDGE_SLOTS];  /* its addresses, if their number is limited; 0: free */
	__u64 windows[BRIDGE_CASTS];
	__u64 frames[BRIDGE_CASTS]; /* in that window */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* device index */
	__type(value, struct bridge_usage);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} bridge_usages SEC(".maps");

struct bridge_drop_key {
	__u32 port;
	__u32 outcome;
};
_Static_assert(sizeof(struct bridge_drop_key) == 8, "key without holes");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__type(key, struct bridge_drop_key);
	__type(value, __u64);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} bridge_drops SEC(".maps");

/* drops are counted for each port; the device's own counters count what passes */
static __always_inline void bridge_count(__u32 port, enum outcome outcome)
{
	struct bridge_drop_key key = { .port = port, .outcome = outcome };
	__u64 one = 1, *n;

	if (!outcome_is_drop(outcome))
		return;
	n = bpf_map_lookup_elem(&bridge_drops, &key);
	if (n)
		*n += 1;
	else
		bpf_map_update_elem(&bridge_drops, &key, &one, 0);
}
