package translate

import "net/netip"

// Global reports whether an IPv4 address may stand under the well-known prefix:
// it must not if it is private or special (RFC 6052 section 3.1).
func Global(v4 netip.Addr) bool { return global4(v4) }
