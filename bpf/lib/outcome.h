/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What became of a packet. The one list of its kind: the programs count by it,
 * `make generate` turns it into Go (internal/state/constants_gen.go), and
 * `weft show counters|drops`, `weft trace` and the metrics use those names.
 *
 * The first word is the verdict: FORWARD (weft sent it on, or answered it),
 * SLOW (handed to the slow path in Go), PASS (left to the kernel untouched),
 * DROP. Each line carries the sentence that users read.
 * New entries go at the end of their group; numbers are not an interface.
 */
#include "kernel.h"

/* go: state.Outcome words */
enum outcome {
	OUTCOME_NONE, /* nothing was decided */

	FORWARD_6TO4,          /* translated to IPv4 and handed to the stack */
	FORWARD_4TO6,          /* translated to IPv6 after the stack had routed it */
	FORWARD_6TO4_SHORTCUT, /* translated to IPv4 and sent out, past the stack */
	FORWARD_4TO6_SHORTCUT, /* translated to IPv6 and sent out, past the stack */
	FORWARD_ARP_REPLY,     /* answered ARP for a translated address */
	FORWARD_ND_REPLY,      /* answered neighbour discovery for a translated address */
	FORWARD_INJECTED,      /* a packet of the slow path, sent out */
	FORWARD_ROUTED,        /* routed by weft's own tables and sent out, past the stack */
	FORWARD_WIRE_OUT,      /* a frame packed up and sent to the other end of its pseudowire */
	FORWARD_WIRE_IN,       /* a frame unpacked and put onto its pseudowire's interface */
	FORWARD_WIRE_TOO_BIG,  /* too large for the pseudowire: its sender was told */
	FORWARD_FROM_SUBSCRIBER, /* out of a subscriber's tunnel, and sent out past the stack */
	FORWARD_TO_SUBSCRIBER, /* into a subscriber's tunnel */
	FORWARD_DECAPSULATED,  /* out of a subscriber's tunnel, and handed to the stack */
	FORWARD_FLOW,          /* a packet of an established flow, sent out past the stack */
	FORWARD_WIRE_ROUTED,   /* out of a pseudowire, routed by weft's own tables and sent out, past its interface */
	FORWARD_ONWARD,        /* a frame of a subscriber of another server, out of one tunnel and into another */

	SLOW_FRAGMENT,     /* a fragment */
	SLOW_ICMP_ERROR,   /* an ICMP error, whose inner packet is translated too */
	SLOW_FRAG_NEEDED,  /* too large for the other side and may be fragmented */
	SLOW_ERROR_DUE,    /* cannot be translated, the sender gets an ICMP error */
	SLOW_FORCED,       /* sent to the slow path by request (weft trace --via slow) */
	SLOW_TOO_BIG,      /* too large for the way out and must not be fragmented; the sender is told */
	SLOW_UDP_CHECKSUM, /* UDP without checksum, too long for the programs to compute one */
	SLOW_BEFORE_STACK, /* the IPv4 stack would drop it: made fit and put back, or translated at once */
	SLOW_SYN,          /* a TCP SYN from outside that nothing lets in yet (RFC 6146 3.5.2.2) */
	SLOW_SUBSCRIBER,   /* for a subscriber, and too large or too odd for the programs to put into its tunnel */

	PASS_NOT_IP,        /* neither IPv4 nor IPv6 */
	PASS_NOT_TRANSLATED,/* the destination belongs to no translator */
	PASS_LINK_SCOPE,    /* multicast, link-local or broadcast */
	PASS_NOT_FOR_US,    /* the frame is addressed to another station */
	PASS_NO_NEIGHBOUR,  /* not sent past the stack: link address not known yet */
	PASS_NO_ROUTE,      /* not sent past the stack: no route that weft may use */
	PASS_TOO_BIG,       /* not sent past the stack: too large for the outgoing link */
	PASS_TTL,           /* not sent past the stack: TTL or hop limit runs out here */
	PASS_SLOW,          /* left by XDP to the programs that can hand it to the slow path */
	PASS_TO_STACK,      /* translated and left to the stack, which answers for it */
	PASS_OPTIONS,       /* IPv4 options or an odd header, which the stack looks into */
	PASS_LOCAL,         /* a route to the router itself */
	PASS_UNREACHABLE,   /* an unreachable or prohibit route, which the stack answers for */
	PASS_MENDED,        /* made fit for the IPv4 stack and put back as arriving */
	PASS_TO_TC,         /* left by XDP to the program behind it: the way out takes no XDP frames */
	PASS_L2TP_CONTROL,  /* PPP's control, link scope and odd headers out of a tunnel, which the daemon answers */
	PASS_L2TP_UNKNOWN,  /* L2TP of a session that the programs do not know */
	PASS_SUBSCRIBER,    /* towards a subscriber, left to the device of its access */
	PASS_BRIDGED,       /* may enter or leave the bridge by this port */
	PASS_FLOW_ENDING,   /* of an offloaded flow that ends or begins anew (FIN, RST, SYN): connection tracking has it again */
	PASS_FLOW_STALE,    /* of a flow that was offloaded before rules, routes or neighbours changed: the stack decides anew */
	PASS_WIRE_FRAGMENT, /* a piece of a packet between the ends of a pseudowire: the kernel joins them, and weft run takes the whole */

	DROP_TRUNCATED,         /* shorter than its headers say */
	DROP_BAD_HEADER,        /* a header field that no sender may use */
	DROP_IPV4_CHECKSUM,     /* IPv4 header checksum is wrong */
	DROP_SOURCE_UNMAPPED,   /* the source address has no translation */
	DROP_DESTINATION_UNMAPPED, /* the destination address has no translation */
	DROP_ILLEGAL_ADDRESS,   /* an address that must not be translated (RFC 6052, RFC 7915) */
	DROP_SOURCE_ROUTE,      /* a source route that has not been used up */
	DROP_UDP_ZERO_CHECKSUM, /* UDP over IPv4 without checksum, and computing it is off */
	DROP_ICMP_TYPE,         /* an ICMP type that RFC 7915 does not translate */
	DROP_PROTOCOL,          /* a protocol that cannot cross (IGMP, authentication header) */
	DROP_EXTENSION_HEADERS, /* more IPv6 extension headers than are followed */
	DROP_TOO_BIG,           /* too large for the other side and must not be fragmented */
	DROP_HOP_LIMIT,         /* TTL or hop limit ran out */
	DROP_INTERFACE,         /* came from an interface that the translator does not serve */
	DROP_HAIRPIN,           /* would be translated back to where it came from */
	DROP_KERNEL,            /* a kernel helper refused (out of memory, packet shape) */
	DROP_ICMP_FRAGMENT,     /* part of an ICMP message, whose checksum covers all of it (RFC 7915) */
	DROP_BLACKHOLE,         /* a blackhole route */
	DROP_SLOW_LIMIT,        /* more for the slow path than it is given */
	DROP_NO_BINDING,        /* no binding and no session knows this transport address (RFC 6146) */
	DROP_FILTERED,          /* a binding, but its node has sent nothing to this address (RFC 6146 3.5) */
	DROP_POOL_EXHAUSTED,    /* no port of the pool is free for a new binding */
	DROP_TABLE_FULL,        /* the table of bindings or of sessions is full */
	DROP_SUBSCRIBER_LIMIT,  /* the subscriber has as many ports or sessions as it may */
	DROP_REASSEMBLY,        /* fragments that overlap, are too many, or were never all there (RFC 6146 3.4) */
	DROP_SESSION_RACE,      /* another CPU was making or ending the same binding just then */
	DROP_WIRE_UNKNOWN,      /* of a session or key that no pseudowire has, where only pseudowires are */
	DROP_WIRE_SOURCE,       /* for a pseudowire, from an address or port that is not its other end's */
	DROP_WIRE_COOKIE,       /* for a pseudowire, with another cookie (RFC 3931 4.1) */
	DROP_WIRE_HEADER,       /* for a pseudowire, with a version, flags or parts that it does not have */
	DROP_WIRE_TRUNCATED,    /* for a pseudowire, shorter than its headers say or than a frame */
	DROP_WIRE_SEQUENCE,     /* for a pseudowire, behind what came before it (RFC 3931 4.6.1, RFC 2890 2.2) */
	DROP_WIRE_CHECKSUM,     /* for a pseudowire, with a wrong GRE checksum (RFC 2784 2.1) */
	DROP_WIRE_ECN,          /* congestion met under way that the frame cannot tell of (RFC 6040 4.2) */
	DROP_WIRE_TOO_BIG,      /* larger than a pseudowire takes */
	DROP_WIRE_NO_WAY,       /* the other end of the pseudowire cannot be reached now */
	DROP_L2TP_INVALID,      /* L2TP or PPP whose headers lie (RFC 2661 3.1) */
	DROP_L2TP_PEER,         /* L2TP for a tunnel from another address than its peer's */
	DROP_SPOOFED,           /* a source address that is not the subscriber's */
	DROP_RATE_UP,           /* more than the subscriber may send */
	DROP_RATE_DOWN,         /* more than the subscriber may receive */
	DROP_GARDEN,            /* outside of the walled garden, or the subscriber is blocked */
	DROP_NO_SUBSCRIBER,     /* no session has this address */
	DROP_BLOCKED,           /* the source is on the block list */
	DROP_BOGON,             /* a source that nobody may have on this interface */
	DROP_REVERSE_PATH,      /* the way back to the source is not the interface it came in by (RFC 3704) */
	DROP_SYN_RATE,          /* more TCP connections begun than the guard lets in */
	DROP_ICMP_RATE,         /* more ICMP messages than the guard lets in */
	DROP_GUARD_FRAGMENT,    /* a TCP header cut in two by fragments, or headers cut off (RFC 1858, RFC 7112) */
	DROP_PORT_HOST,         /* from or to the router itself, which takes no part in the bridge */
	DROP_PORT_ISOLATED,     /* between bridge ports that are kept apart */
	DROP_PORT_VLAN,         /* a VLAN that the bridge port is not in, or tags that no port takes */
	DROP_PORT_MANAGEMENT,   /* a management frame: STP, LLDP, pause, what bridges keep to one link (IEEE 802.1Q 8.6.3) */
	DROP_PORT_SOURCE,       /* a source address that the bridge port may not use */
	DROP_PORT_MOVED,        /* a source address that belongs to another port of the bridge */
	DROP_PORT_MAC_LIMIT,    /* more source addresses than the bridge port may have */
	DROP_PORT_STORM,        /* more broadcast, multicast or unknown unicast than the bridge port may send */
	DROP_PORT_DHCP,         /* a DHCP server's message from a port without one (RFC 7610) */
	DROP_PORT_RA,           /* a router's advertisement or redirect from a port without one (RFC 6105) */
	DROP_PORT_ARP,          /* ARP that names another sender than the frame does */
	DROP_PORT_UNKNOWN,      /* by a device that is no port of a bridge any more */
	DROP_PORT_HEADERS,      /* headers that the guards of a port cannot follow to the end (RFC 7113, RFC 7610) */
	DROP_REFUSED,           /* of a flow that the ruleset has just refused, by its own verdict */
	DROP_GUARD_HEADERS,     /* more IPv6 extension headers than the guard follows, where it bounds SYNs or ICMP */

	OUTCOME_COUNT, /* how many there are */
};

static inline _Bool outcome_is_slow(enum outcome o)
{
	return o >= SLOW_FRAGMENT && o < PASS_NOT_IP;
}

static inline _Bool outcome_is_pass(enum outcome o)
{
	return o >= PASS_NOT_IP && o < DROP_TRUNCATED;
}

static inline _Bool outcome_is_drop(enum outcome o)
{
	return o >= DROP_TRUNCATED;
}
