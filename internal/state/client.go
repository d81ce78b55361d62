package state

import (
	"net/netip"
	"slices"
	"time"
)

// L2TPClient is what a client has got from its L2TP server.
type L2TPClient struct {
	Up        bool           `json:"up"`
	IPv4      netip.Addr     `json:"ipv4,omitzero"`
	Gateway   netip.Addr     `json:"gateway,omitzero"`
	LinkLocal netip.Addr     `json:"link_local,omitzero"`
	Addresses []netip.Prefix `json:"addresses,omitempty"` // IPv6, by advertisement or DHCPv6
	Delegated netip.Prefix   `json:"delegated,omitzero"`
	Preferred time.Time      `json:"delegated_preferred,omitzero"` // until when Delegated is
	Valid     time.Time      `json:"delegated_valid,omitzero"`
	Router    bool           `json:"router,omitempty"` // the server is a default router for IPv6
	DNS       []netip.Addr   `json:"dns,omitempty"`
	MTU       int            `json:"mtu,omitempty"`
}

// Equal reports whether nothing has changed.
func (l L2TPClient) Equal(o L2TPClient) bool {
	return l.Up == o.Up && l.IPv4 == o.IPv4 && l.Gateway == o.Gateway && l.LinkLocal == o.LinkLocal && slices.Equal(l.Addresses, o.Addresses) &&
		l.Delegated == o.Delegated && l.Preferred.Equal(o.Preferred) && l.Valid.Equal(o.Valid) && l.Router == o.Router && slices.Equal(l.DNS, o.DNS) && l.MTU == o.MTU
}
