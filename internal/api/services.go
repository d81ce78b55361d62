package api

import (
	"weft/internal/dnsio"
	"weft/internal/feature/dns64"
)

// DNS64 is what `weft show dns64` shows.
type DNS64 struct {
	Listen     []string               `json:"listen"`
	Cached     int                    `json:"cached"`
	Forwarders []dnsio.ForwarderState `json:"forwarders"`
	Counters   []dns64.Counter        `json:"counters"`
}
