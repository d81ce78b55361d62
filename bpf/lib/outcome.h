/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once
/*
 * What happened to a packet. The one list of its kind: the programs count by it,
 * `make generate` turns it into Go (internal/state/constants_gen.go), and
 * `weft show counters|drops`, `weft trace` and the metrics use those names.
 *
 * The first word is the verdict: FORWARD (weft forwarded or answered the packet),
 * SLOW (weft gave it to the slow path in Go), PASS (weft left it to the kernel),
 * DROP. Each line carries the sentence that users read.
 * New entries go at the end of their group; numbers are not an interface.
 */
#include "kernel.h"

/* go: state.Outcome words */
enum outcome {
	OUTCOME_NONE, /* nothing was decided */

	FORWARD_6TO4,              /* weft translated the packet to IPv4 and gave it to the kernel's stack */
	FORWARD_4TO6,              /* the stack routed the packet, then weft translated it to IPv6 */
	FORWARD_6TO4_BYPASS,       /* weft translated the packet to IPv4 and sent it out, past the stack */
	FORWARD_4TO6_BYPASS,       /* weft translated the packet to IPv6 and sent it out, past the stack */
	FORWARD_ARP_REPLY,         /* weft answered an ARP request for a translated address */
	FORWARD_ND_REPLY,          /* weft answered a neighbour solicitation for a translated address */
	FORWARD_INJECTED,          /* the slow path made the packet, and the programs sent it out */
	FORWARD_ROUTED,            /* weft routed the packet by its own FIB and sent it out, past the stack */
	FORWARD_PSEUDOWIRE_ENCAP,  /* weft encapsulated the frame and sent it to the other end of its pseudowire */
	FORWARD_PSEUDOWIRE_DECAP,  /* weft decapsulated the frame and delivered it to the pseudowire's interface */
	FORWARD_PSEUDOWIRE_TOO_BIG, /* the packet exceeds the pseudowire's MTU; weft answered its sender with an ICMP error */
	FORWARD_FROM_SUBSCRIBER,   /* weft decapsulated the subscriber's packet and sent it out, past the stack */
	FORWARD_TO_SUBSCRIBER,     /* weft encapsulated the packet into the subscriber's tunnel */
	FORWARD_DECAPSULATED,      /* weft decapsulated the subscriber's packet and gave it to the stack */
	FORWARD_FLOW,              /* the packet belongs to an offloaded flow; weft sent it out, past the stack */
	FORWARD_PSEUDOWIRE_ROUTED, /* weft decapsulated the frame, routed the packet by its own FIB and sent it out, past the pseudowire's interface */
	FORWARD_SWITCHED,          /* tunnel switching: weft forwarded the frame from one L2TP tunnel into another */

	SLOW_FRAGMENT,             /* the packet is a fragment */
	SLOW_ICMP_ERROR,           /* the packet is an ICMP error; the packet that it quotes must be translated too */
	SLOW_FRAG_NEEDED,          /* the packet exceeds the MTU after translation and may be fragmented */
	SLOW_ERROR_DUE,            /* the packet cannot be translated; the slow path answers its sender with an ICMP error */
	SLOW_FORCED,               /* weft trace --via slow sent the packet to the slow path */
	SLOW_TOO_BIG,              /* the packet exceeds the MTU of the outgoing link and must not be fragmented; the slow path answers its sender with an ICMP error */
	SLOW_UDP_CHECKSUM,         /* the UDP datagram has no checksum and is too long for the programs to compute one */
	SLOW_BEFORE_STACK,         /* the IPv4 stack would drop the packet; the slow path normalises and reinjects it, or translates it */
	SLOW_SYN,                  /* the packet is an inbound TCP SYN without a binding or session that accepts it (RFC 6146 3.5.2.2) */
	SLOW_SUBSCRIBER,           /* the packet is for a subscriber, and the programs cannot encapsulate it (too large, GSO packet) */

	PASS_NOT_IP,               /* the frame carries neither IPv4 nor IPv6 */
	PASS_NOT_TRANSLATED,       /* no translator serves the destination */
	PASS_LINK_SCOPE,           /* the destination is multicast, link-local or broadcast */
	PASS_NOT_FOR_US,           /* the frame's destination is another station */
	PASS_NO_NEIGHBOUR,         /* weft did not bypass the stack: the next hop's link address is not resolved */
	PASS_NO_ROUTE,             /* weft did not bypass the stack: it has no route that it may use */
	PASS_TOO_BIG,              /* weft did not bypass the stack: the packet exceeds the MTU of the outgoing link */
	PASS_TTL,                  /* weft did not bypass the stack: the TTL or hop limit expires here */
	PASS_SLOW,                 /* the XDP program left the packet to the TC programs, which can hand it to the slow path */
	PASS_TO_STACK,             /* weft translated the packet and left it to the stack, which answers it */
	PASS_OPTIONS,              /* the packet has IPv4 options or an unusual header; the stack handles it */
	PASS_LOCAL,                /* the packet's route leads to the router itself */
	PASS_UNREACHABLE,          /* the packet's route is unreachable or prohibit; the stack answers with an ICMP error */
	PASS_NORMALISED,           /* weft normalised the packet for the IPv4 stack and reinjected it at ingress */
	PASS_TO_TC,                /* the XDP program left the packet to the TC program: the outgoing device accepts no XDP frames */
	PASS_L2TP_CONTROL,         /* the daemon handles the packet from the tunnel: PPP control, link scope, an unusual header */
	PASS_L2TP_UNKNOWN,         /* the programs do not know the packet's L2TP session */
	PASS_SUBSCRIBER,           /* the packet is for a subscriber; weft left it to the device of the subscriber's [lns.NAME] */
	PASS_BRIDGED,              /* the bridge port's rules accept the frame */
	PASS_FLOW_ENDING,          /* the offloaded flow ends or starts again (FIN, RST, SYN); connection tracking handles the packet */
	PASS_FLOW_STALE,           /* rules, routes or neighbours changed after the flow was offloaded; the stack decides again */
	PASS_PSEUDOWIRE_ICMP,      /* the ICMP error quotes a packet between the ends of a pseudowire, with the ports, session or key of none: the path MTU stays */
	PASS_PSEUDOWIRE_FRAGMENT,  /* the packet is a fragment between the ends of a pseudowire; the kernel reassembles it for weft run */

	DROP_TRUNCATED,            /* the packet is shorter than its headers say */
	DROP_BAD_HEADER,           /* a header field has a value that is not allowed */
	DROP_IPV4_CHECKSUM,        /* the IPv4 header checksum is wrong */
	DROP_SOURCE_UNMAPPED,      /* the source address has no translation */
	DROP_DESTINATION_UNMAPPED, /* the destination address has no translation */
	DROP_ILLEGAL_ADDRESS,      /* an address must not be translated (RFC 6052, RFC 7915) */
	DROP_SOURCE_ROUTE,         /* the packet has a source route that is not used up */
	DROP_UDP_ZERO_CHECKSUM,    /* the UDP datagram over IPv4 has no checksum, and computing one is turned off */
	DROP_ICMP_TYPE,            /* RFC 7915 does not translate the ICMP type */
	DROP_PROTOCOL,             /* the protocol cannot be translated (IGMP, authentication header) */
	DROP_EXTENSION_HEADERS,    /* the packet has more IPv6 extension headers than weft follows */
	DROP_TOO_BIG,              /* the packet exceeds the MTU after translation and must not be fragmented */
	DROP_HOP_LIMIT,            /* the TTL or hop limit expired */
	DROP_INTERFACE,            /* the translator does not serve the ingress interface */
	DROP_HAIRPIN,              /* the translated packet would return to its ingress interface */
	DROP_KERNEL,               /* a kernel helper failed (no memory, packet shape) */
	DROP_ICMP_FRAGMENT,        /* the packet is a fragment of an ICMP message, whose checksum covers the whole message (RFC 7915) */
	DROP_BLACKHOLE,            /* the packet's route is a blackhole route */
	DROP_SLOW_LIMIT,           /* the packet exceeds the rate limit of the slow path */
	DROP_NO_BINDING,           /* no binding or session has the destination's transport address (RFC 6146) */
	DROP_FILTERED,             /* a binding exists, but its node has sent nothing to this remote address (RFC 6146 3.5) */
	DROP_POOL_EXHAUSTED,       /* the pool has no free port for a new binding */
	DROP_TABLE_FULL,           /* the table of bindings or sessions is full */
	DROP_SUBSCRIBER_LIMIT,     /* the subscriber has reached its limit of ports or sessions */
	DROP_REASSEMBLY,           /* the fragments overlap, are too many or are incomplete (RFC 6146 3.4) */
	DROP_SESSION_RACE,         /* another CPU created or removed the same binding at the same moment */
	DROP_PSEUDOWIRE_UNKNOWN,   /* no pseudowire has this session id or key, and the interface accepts pseudowires only */
	DROP_PSEUDOWIRE_SOURCE,    /* the source address or port is not that of the pseudowire's other end */
	DROP_PSEUDOWIRE_COOKIE,    /* the packet does not have the pseudowire's cookie (RFC 3931 4.1) */
	DROP_PSEUDOWIRE_HEADER,    /* the header has a version, flags or fields that the pseudowire does not use */
	DROP_PSEUDOWIRE_TRUNCATED, /* the packet for the pseudowire is shorter than its headers say, or than a frame */
	DROP_PSEUDOWIRE_SEQUENCE,  /* the pseudowire's sequence number is older than one that was received (RFC 3931 4.6.1, RFC 2890 2.2) */
	DROP_PSEUDOWIRE_CHECKSUM,  /* the pseudowire's GRE checksum is wrong (RFC 2784 2.1) */
	DROP_PSEUDOWIRE_ECN,       /* the outer packet is CE-marked, but the inner packet is not ECN-capable (RFC 6040 4.2) */
	DROP_PSEUDOWIRE_TOO_BIG,   /* the frame exceeds the pseudowire's MTU */
	DROP_PSEUDOWIRE_NO_PATH,   /* no path leads to the other end of the pseudowire */
	DROP_L2TP_INVALID,         /* the L2TP or PPP headers contradict the packet (RFC 2661 3.1) */
	DROP_L2TP_PEER,            /* the source address is not that of the L2TP tunnel's peer */
	DROP_SPOOFED,              /* the source address is not assigned to the subscriber */
	DROP_UPSTREAM_RATE,        /* the packet exceeds the subscriber's upstream rate */
	DROP_DOWNSTREAM_RATE,      /* the packet exceeds the subscriber's downstream rate */
	DROP_WALLED_GARDEN,        /* the destination is outside of the walled garden, or the subscriber is blocked */
	DROP_NO_SUBSCRIBER,        /* no subscriber session has the destination address */
	DROP_BLOCKED,              /* the block list has the source address */
	DROP_BOGON,                /* the source address is a bogon on this interface */
	DROP_REVERSE_PATH,         /* the route to the source does not lead to the ingress interface (RFC 3704) */
	DROP_SYN_RATE,             /* the TCP SYN exceeds the guard's rate limit */
	DROP_ICMP_RATE,            /* the ICMP message exceeds the guard's rate limit */
	DROP_GUARD_FRAGMENT,       /* fragmentation splits or hides the TCP header, or headers are cut off (RFC 1858, RFC 7112) */
	DROP_PORT_HOST,            /* the frame is from or to the router itself, which does not use this bridge */
	DROP_PORT_ISOLATED,        /* both bridge ports are isolated from each other */
	DROP_PORT_VLAN,            /* the bridge port is not a member of the VLAN, or the tags are not allowed */
	DROP_PORT_MANAGEMENT,      /* the frame is of a link-local protocol: STP, LLDP, pause (IEEE 802.1Q 8.6.3) */
	DROP_PORT_SOURCE,          /* the bridge port may not use the source address */
	DROP_PORT_MOVED,           /* the source address belongs to another port of the bridge */
	DROP_PORT_MAC_LIMIT,       /* the bridge port has reached its limit of source addresses */
	DROP_PORT_STORM,           /* the bridge port exceeds its rate of broadcast, multicast or unknown unicast frames */
	DROP_PORT_DHCP,            /* DHCP guard: the bridge port may not send messages of a DHCP server (RFC 7610) */
	DROP_PORT_RA,              /* RA guard: the bridge port may not send router advertisements or redirects (RFC 6105) */
	DROP_PORT_ARP,             /* the sender in the ARP message is not the sender of the frame */
	DROP_PORT_UNKNOWN,         /* the device is no longer a port of a bridge */
	DROP_PORT_HEADERS,         /* the bridge port's guards cannot follow the headers to their end (RFC 7113, RFC 7610) */
	DROP_EARLY,                /* the ruleset has just dropped or rejected this flow; weft repeats its verdict before the stack (early_drop) */
	DROP_GUARD_HEADERS,        /* the packet has more IPv6 extension headers than the guard follows to limit SYNs or ICMP */

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
