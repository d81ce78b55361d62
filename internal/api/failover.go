package api

import "weft/internal/feature/failover"

// Failover is what `weft show failover` shows.
type Failover struct {
	failover.Status
	Stream Stream `json:"stream"`
}

// Stream is this router's own.
type Stream struct {
	Open     bool   `json:"open"`
	Error    string `json:"error,omitempty"`
	Clients  int    `json:"clients"` // connected to the server here
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Limit    int64  `json:"limit_bytes"`
	Refused  uint64 `json:"refused_connections"`
}
