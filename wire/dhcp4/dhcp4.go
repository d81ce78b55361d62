// Package dhcp4 is DHCPv4 (RFC 2131, RFC 2132) as plain values: what server, client and
// relay agent read of each other's messages, and what they write. The cost of reading is
// at most linear in the length of the message.
package dhcp4

import (
	"fmt"
	"net/netip"
)

// Ports (RFC 2131 section 4.1).
const (
	ServerPort = 67
	ClientPort = 68
)

// Op says whether a message is a client's or a server's.
type Op uint8

const (
	BootRequest Op = 1 // BOOTREQUEST
	BootReply   Op = 2 // BOOTREPLY
)

// Type is the kind of a message (RFC 2132 section 9.6).
type Type uint8

const (
	Discover Type = 1
	Offer    Type = 2
	Request  Type = 3
	Decline  Type = 4
	Ack      Type = 5
	Nak      Type = 6
	Release  Type = 7
	Inform   Type = 8
)

func (t Type) String() string {
	names := [...]string{
		Discover: "DHCPDISCOVER", Offer: "DHCPOFFER", Request: "DHCPREQUEST", Decline: "DHCPDECLINE",
		Ack: "DHCPACK", Nak: "DHCPNAK", Release: "DHCPRELEASE", Inform: "DHCPINFORM",
	}
	if int(t) < len(names) && names[t] != "" {
		return names[t]
	}
	return fmt.Sprintf("message of type %d", uint8(t))
}

// Codes of options that engines read or write themselves.
const (
	OptionPad           = 0
	OptionMask          = 1
	OptionRouter        = 3
	OptionDNS           = 6
	OptionHostName      = 12
	OptionDomain        = 15
	OptionMTU           = 26
	OptionBroadcast     = 28
	OptionStaticRoutes  = 33
	OptionNTP           = 42
	OptionVendor        = 43
	OptionAddress       = 50 // requested
	OptionLeaseTime     = 51
	OptionOverload      = 52
	OptionType          = 53
	OptionServerID      = 54
	OptionRequested     = 55 // parameter request list
	OptionMessage       = 56
	OptionMaxSize       = 57
	OptionRenewal       = 58 // T1
	OptionRebinding     = 59 // T2
	OptionVendorClass   = 60
	OptionClientID      = 61
	OptionBootServer    = 66
	OptionBootFile      = 67
	OptionUserClass     = 77  // RFC 3004
	OptionRapidCommit   = 80  // RFC 4039
	OptionFQDN          = 81  // RFC 4702
	OptionRelayAgent    = 82  // RFC 3046
	OptionArchitecture  = 93  // RFC 4578
	OptionIPv6Only      = 108 // RFC 8925
	OptionPortal        = 114 // RFC 8910
	OptionSearch        = 119 // RFC 3397
	OptionRoutes        = 121 // RFC 3442
	OptionSixRD         = 212 // RFC 5969
	OptionPrivateRoutes = 249 // the same as 121, of clients that are older than it
	OptionEnd           = 255
)

// Infinite is a lease time without an end (RFC 2131 section 3.3).
const Infinite = 0xffffffff

// hardwareMost is the longest hardware address (chaddr).
const hardwareMost = 16

// Ethernet is the hardware type of Ethernet.
const Ethernet = 1

// Message is one between client, relay agent and server. An address that is not there
// is the zero Addr.
type Message struct {
	Op           Op
	HardwareType uint8
	Hardware     string // the client's hardware address, its bytes (chaddr)
	Hops         uint8
	Transaction  uint32
	Seconds      uint16     // since the client began
	Broadcast    bool       // the client cannot receive unicast yet
	Client       netip.Addr // ciaddr: the client has it, and answers ARP
	Your         netip.Addr // yiaddr: given to the client
	NextServer   netip.Addr // siaddr
	Relay        netip.Addr // giaddr
	ServerName   string     // sname, where it holds no options
	File         string     // the boot file, likewise
	Options      Options
}

// HardwareText is a hardware address as people write it.
func HardwareText(hardware string) string {
	text := make([]byte, 0, 3*len(hardware))
	for i := range len(hardware) {
		if i > 0 {
			text = append(text, ':')
		}
		text = fmt.Appendf(text, "%02x", hardware[i])
	}
	return string(text)
}

// Type returns the kind of the message; 0: it is one of BOOTP.
func (m *Message) Type() Type {
	if d := m.Options.Get(OptionType); len(d) == 1 {
		return Type(d[0])
	}
	return 0
}
