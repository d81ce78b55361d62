// Package translate turns IPv4 packets into IPv6 packets and back: the IP/ICMP
// translation algorithm (RFC 7915) with the addresses of RFC 6052 and RFC
// 7757, ICMP errors and their extensions included (RFC 4884, RFC 6791). It is
// the slow path of the router, and the reference that the eBPF programs are
// compared with byte for byte. It is pure: no clock, no state, no I/O.
//
// # Order of the checks
//
// The first check that fails decides the outcome. [Config.Translate6]:
//
//  1. fewer than 40 bytes: drop-truncated; version not 6: drop-bad-header;
//     payload length beyond the packet: drop-truncated. Bytes after it are
//     link padding and are cut off.
//  2. destination ff00::/8 or fe80::/10: pass-link-scope
//  3. destination without IPv4 address ([Table.To4]), or an IPv6 node:
//     pass-not-translated
//  4. source ::, ::1, ff00::/8 or fe80::/10, or IPv4 destination in 0/8,
//     127/8, 224/4, 240/4: drop-illegal-address
//  5. source without IPv4 address, or no IPv6 node: drop-source-unmapped, but ICMPv6 errors get
//     a source (RFC 6791); its IPv4 address illegal as in 4:
//     drop-illegal-address
//  6. DecrementTTL and hop limit 0 or 1: drop-hop-limit
//  7. extension headers, one after the other: authentication header, or ICMPv4
//     or IGMP as next header: drop-protocol; any header after a fragment
//     header, or a ninth one: drop-extension-headers; cut off:
//     drop-truncated; routing header with segments left: drop-source-route
//  8. fragment offset + payload > 65535: drop-bad-header
//  9. payload, unless it is a later fragment. TCP < 20, UDP < 8, ICMPv6 < 8
//     bytes: drop-truncated. UDP length < 8 or, if not fragmented, more than
//     the payload: drop-bad-header. ICMPv6 in any true fragment, later ones
//     too: drop-icmp-fragment. ICMPv6 other than echo and the errors of RFC
//     7915 section 5.2: drop-icmp-type. Quoted packets: as above.
//  10. result > MTU4 and IPv6 packet > 1280: drop-too-big; result > MTU4
//     otherwise: fragmented
//
// [Config.Translate4]:
//
//  1. fewer than 20 bytes: drop-truncated; version not 4, header length < 20
//     or total length < header length: drop-bad-header; total length beyond
//     the packet: drop-truncated. Bytes after it are cut off.
//  2. destination 224/4, 255.255.255.255 or 169.254/16: pass-link-scope
//  3. destination in no mapping of IPv6 nodes and not in Translatable:
//     pass-not-translated
//  4. header checksum wrong: drop-ipv4-checksum
//  5. options up to "end": length < 2 or beyond the header: drop-bad-header;
//     loose or strict source route with pointer <= length: drop-source-route
//  6. destination 0/8, 127/8, 224/4, 240/4, or such a source unless the packet
//     is an ICMPv4 error: drop-illegal-address; destination without IPv6
//     address: drop-destination-unmapped; source without: drop-source-unmapped
//  7. DecrementTTL and TTL 0 or 1: drop-hop-limit
//  8. protocol 0, 2, 43, 44, 51, 58, 60: drop-protocol
//  9. fragment offset + payload > 65535: drop-bad-header
//  10. payload as in 9 above with ICMPv4 for ICMPv6; UDP without checksum,
//     fragmented or not to be computed: drop-udp-zero-checksum
//  11. result (with fragment header if there is one) > MTU6 and DF:
//     drop-too-big; > LowestIPv6MTU or MTU6 without DF: fragmented
//
// # What else the programs must share
//
//   - TCP and UDP checksums are adjusted, never recomputed, so a wrong one
//     stays wrong. UDP zero stays zero from IPv6 to IPv4; a result of zero is
//     sent as 0xffff. An ICMP checksum of zero is sent as 0xffff.
//   - From IPv6: DF is clear up to 1260 bytes and in fragments, else set. The
//     identification comes from the generator, with DF too (RFC 7915 section
//     5.1), or from the fragment header. TOS is the traffic class or zero.
//   - From IPv4: flow label zero, no fragment header unless fragmented.
//   - If source and destination both have mappings of IPv6 nodes and there is
//     a prefix, Translate4 makes the source with the prefix (RFC 7757 section
//     4.2.1).
//   - With GlobalOnly an address made of 64:ff9b::/96 and an IPv4 address that
//     is not global counts as illegal (RFC 6052 section 3.1).
//   - The MSS of a SYN becomes min(MSS, MaxMSS), or without that min(MSS,
//     MTU4-40, MTU6-60), both ways.
package translate
