/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * Checks source addresses, and limits how many frames of a kind a port may send.
 *
 * An address stays at its port until it is silent for the bridge's ageing time (IEEE
 * 802.1Q 8.8.3). Only a port of a higher role takes it over before that: a guest that
 * spoofs a gateway's address loses it with the gateway's next frame, and from then on
 * receives none of the gateway's traffic.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "bridge_maps.h"
#include "outcome.h"

#define BRIDGE_SECOND 1000000000ULL
/* go: state */
#define BRIDGE_AGEING (300 * BRIDGE_SECOND) /* ns */

/* limits count frames in windows of 2^27 ns (134 ms) */
/* go: datapath/bridgetable */
#define BRIDGE_WINDOW_SHIFT 27

#define BRIDGE_SLOT_USED (1ULL << 63)

static __always_inline __u64 bridge_slot_of(const __u8 *mac)
{
	return BRIDGE_SLOT_USED | (__u64)mac[0] << 40 | (__u64)mac[1] << 32 | (__u64)mac[2] << 24 |
	       (__u64)mac[3] << 16 | (__u64)mac[4] << 8 | mac[5];
}

/* whether a slot's address has left the port, so that the slot is free */
static __always_inline bool bridge_slot_idle(__u32 bridge, __u32 port, __u64 slot, __u64 now)
{
	struct bridge_station_key key = {
		.bridge = bridge,
		.mac = { slot >> 40, slot >> 32, slot >> 24, slot >> 16, slot >> 8, slot },
	};
	struct bridge_station *at = bpf_map_lookup_elem(&bridge_stations, &key);

	return !at || at->port != port || (!at->fixed && at->seen + BRIDGE_AGEING < now);
}

/* A slot for one more address: rare, and so a function that is verified on its own. */
__noinline int bridge_take_slot(__u32 bridge, __u32 port, __u32 max, __u64 mac)
{
	struct bridge_usage *u = bpf_map_lookup_elem(&bridge_usages, &port);
	__u64 now = bpf_ktime_get_ns(), slot;
	__u32 i;

	if (!u || now < u->full_until)
		return -1;
	for (i = 0; i < BRIDGE_SLOTS; i++) {
		if (i >= max)
			break;
		slot = u->slots[i];
		if (slot != mac && slot && !bridge_slot_idle(bridge, port, slot, now))
			continue;
		/* another CPU may want it too */
		if (__sync_val_compare_and_swap(&u->slots[i], slot, mac) == slot)
			return 0;
	}
	/* a port that tries many addresses does not cause many searches */
	u->full_until = now + BRIDGE_SECOND;
	return -1;
}

static __always_inline bool bridge_yields(const struct bridge_station *at, __u32 role, __u64 now)
{
	struct bridge_port *other;
	__u32 port = at->port;

	if (at->fixed)
		return false;
	if (at->seen + BRIDGE_AGEING < now)
		return true;
	other = bpf_map_lookup_elem(&bridge_ports, &port);
	return !other || other->role < role || (role > BRIDGE_GUEST && other->role == role);
}

/* OUTCOME_NONE: the port may send from mac, and now owns it */
static __always_inline enum outcome bridge_learn(__u32 ifindex, const struct bridge_port *port, const __u8 *mac)
{
	struct bridge_station_key key = { .bridge = port->bridge };
	struct bridge_station *at, now_at = { .port = ifindex, .seen = bpf_ktime_get_ns() };

	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	at = bpf_map_lookup_elem(&bridge_stations, &key);
	if (at && at->port == ifindex) {
		if (port->flags & BRIDGE_LOCKED && !at->fixed)
			return DROP_PORT_SOURCE;
		/* not with every frame: other CPUs read the cache line */
		if (now_at.seen - at->seen > BRIDGE_SECOND)
			at->seen = now_at.seen;
		return OUTCOME_NONE;
	}
	if (at && !bridge_yields(at, port->role, now_at.seen))
		return DROP_PORT_MOVED;
	if (port->flags & BRIDGE_LOCKED)
		return DROP_PORT_SOURCE;
	if (port->max_macs && bridge_take_slot(port->bridge, ifindex, port->max_macs, bridge_slot_of(mac)))
		return DROP_PORT_MAC_LIMIT;
	/* if the table is full, only guests are limited: other ports carry the network */
	if (bpf_map_update_elem(&bridge_stations, &key, &now_at, 0) && port->role == BRIDGE_GUEST)
		return DROP_PORT_MAC_LIMIT;
	return OUTCOME_NONE;
}

static __always_inline enum bridge_cast bridge_cast_of(__u32 bridge, const __u8 *mac)
{
	struct bridge_station_key key = { .bridge = bridge };
	struct bridge_station *at;

	if (mac[0] & 1)
		return (mac[0] & mac[1] & mac[2] & mac[3] & mac[4] & mac[5]) == 0xff ? BRIDGE_BROADCAST :
										      BRIDGE_MULTICAST;
	__builtin_memcpy(key.mac, mac, ETH_ALEN);
	at = bpf_map_lookup_elem(&bridge_stations, &key);
	if (!at || (!at->fixed && at->seen + BRIDGE_AGEING < bpf_ktime_get_ns()))
		return BRIDGE_UNKNOWN;
	return BRIDGE_CAST_KNOWN;
}

static __always_inline bool bridge_limited(const struct bridge_port *port)
{
	return port->limits[BRIDGE_BROADCAST] | port->limits[BRIDGE_MULTICAST] | port->limits[BRIDGE_UNKNOWN];
}

/* OUTCOME_NONE: within the port's limits */
static __always_inline enum outcome bridge_storm(__u32 ifindex, const struct bridge_port *port, const __u8 *mac)
{
	enum bridge_cast cast = bridge_cast_of(port->bridge, mac);
	__u64 window = bpf_ktime_get_ns() >> BRIDGE_WINDOW_SHIFT;
	struct bridge_usage *u;

	if (cast >= BRIDGE_CASTS || !port->limits[cast])
		return OUTCOME_NONE;
	u = bpf_map_lookup_elem(&bridge_usages, &ifindex);
	if (!u)
		return OUTCOME_NONE;
	if (u->windows[cast] != window) {
		u->windows[cast] = window;
		u->frames[cast] = 0;
	}
	if (__sync_fetch_and_add(&u->frames[cast], 1) >= port->limits[cast])
		return DROP_PORT_STORM;
	return OUTCOME_NONE;
}
