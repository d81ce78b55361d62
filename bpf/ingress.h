/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What both ingress programs say of routes and pseudowires: a route may lead
 * into one, and what comes out of one may be routed at once.
 */
#include "arrive.h"
#include "interface.h"
#include "pseudowire.h"
#include "pseudowire_send.h"
#include "route.h"

/* Route a frame or a packet in a tunnel by weft's own tables, into a pseudowire at once. */
static __always_inline enum outcome routed(hook_ctx *ctx, struct arrival *from, int *verdict)
{
	enum outcome outcome = route(ctx, from, verdict);

	if (outcome == FORWARD_ROUTED && !(interface_unused & INTERFACE_PSEUDOWIRES) && from->wire)
		outcome = pseudowire_send(ctx, from->wire, verdict);
	return outcome;
}

/*
 * What came out of a pseudowire whose interface it may go past: routed, if that
 * is all that there is to be done with it there. Else it goes to the interface:
 * *verdict says so already.
 */
static __always_inline enum outcome beyond(hook_ctx *ctx, struct arrival *from, int *verdict)
{
	__u32 visible = from->interface;
	struct interface *at = interface_find(visible);
	enum outcome outcome;

	if (!at || at->translators || at->flags & (INTERFACE_SUBSCRIBERS | INTERFACE_GUARDED | INTERFACE_OFFLOADED | INTERFACE_PSEUDOWIRES) ||
	    arrive(ctx, visible, at, from) != OUTCOME_NONE || from->above || !from->ours ||
	    !(from->flags & INTERFACE_ROUTED))
		return FORWARD_WIRE_IN;
	outcome = routed(ctx, from, verdict);
	if (outcome == FORWARD_ROUTED || outcome == FORWARD_WIRE_OUT)
		return FORWARD_WIRE_ROUTED;
	return outcome_is_drop(outcome) ? outcome : FORWARD_WIRE_IN;
}
