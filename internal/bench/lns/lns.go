// Package lns is `weft bench lns`: weft as the server of subscribers' tunnels
// beside l2tpns.
package lns

import (
	"net/netip"

	"weft/internal/bench/rig"
)

var (
	left = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::2/64"), netip.MustParsePrefix("203.0.113.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("203.0.113.1/24")},
	}
	right = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::2/64"), netip.MustParsePrefix("198.51.100.2/24")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("2001:db8:2::1/64"), netip.MustParsePrefix("198.51.100.1/24")},
	}
	pool = netip.MustParsePrefix("10.64.0.0/16")
)
