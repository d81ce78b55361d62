// Package probe makes traffic and verifies it: echo requests, TCP transfers
// under SHA-256, UDP exchanges, path MTU discovery, and captures. The lab runs
// it as `weft probe` inside its nodes, so that a scenario needs no tool that
// is not in the binary. Every result is one JSON object.
package probe

import (
	"net/netip"
	"time"
)

// Echo is the result of Ping.
type Echo struct {
	Sent     int           `json:"sent"`
	Received int           `json:"received"`
	HopLimit int           `json:"hop_limit"` // of the last reply, as it arrived; 0 = none
	Min      time.Duration `json:"min_ns"`    // round trips; zero without replies
	Mean     time.Duration `json:"mean_ns"`
	Max      time.Duration `json:"max_ns"`
	Problem  string        `json:"problem,omitempty"` // last error on the way, in words
}

// Ports are the ports that Serve listens on, the same on every address.
type Ports struct {
	TCP uint16 `json:"tcp"`
	UDP uint16 `json:"udp"`
}

// Direction says who sends in a transfer.
type Direction string

const (
	Download Direction = "download" // the server sends
	Upload   Direction = "upload"   // the client sends
)

// Transfer is the result of Fetch and Push.
type Transfer struct {
	Direction Direction     `json:"direction"`
	Bytes     int64         `json:"bytes"`
	SHA256    string        `json:"sha256"` // of what arrived
	Same      bool          `json:"same"`   // what arrived is what was sent
	Elapsed   time.Duration `json:"elapsed_ns"`
	Silence   time.Duration `json:"silence_ns"` // the longest time in which nothing came, or nothing more could be sent
	PathMTU   int           `json:"path_mtu"`   // bytes, as the client's TCP knows it at the end
	MSS       int           `json:"mss"`        // bytes per segment the client may send
}

// BitsPerSecond is the rate of the payload.
func (t Transfer) BitsPerSecond() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Bytes) * 8 / t.Elapsed.Seconds()
}

// Datagrams is the result of Exchange.
type Datagrams struct {
	Sizes   []int  `json:"sizes"` // payload bytes of each datagram sent
	Intact  int    `json:"intact"`
	Again   int    `json:"again,omitempty"` // how many had to be sent again
	Problem string `json:"problem,omitempty"`
}

// PathMTU is the result of DiscoverMTU.
type PathMTU struct {
	First     int    `json:"first"`     // bytes: the MTU of the first link
	Learnt    int    `json:"learnt"`    // bytes: what the path turned out to take
	Confirmed bool   `json:"confirmed"` // a packet of just that size was echoed intact
	Problem   string `json:"problem,omitempty"`
}

// Frame is one frame that Capture saw.
type Frame struct {
	Device      string     `json:"device"`
	Outgoing    bool       `json:"outgoing"` // sent by this node, otherwise received
	Source      string     `json:"source"`   // MAC
	Destination string     `json:"destination"`
	Kind        string     `json:"kind"` // arp, nd, icmp, icmpv6, tcp, udp, other
	From        netip.Addr `json:"from"`
	To          netip.Addr `json:"to"`
	HopLimit    int        `json:"hop_limit,omitempty"`
	Length      int        `json:"length"` // bytes, with the Ethernet header
	Words       string     `json:"words"`  // who has 192.0.2.1, echo request ...
}
