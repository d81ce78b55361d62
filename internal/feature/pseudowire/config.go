// Package pseudowire carries Ethernet frames to other hosts, virtual machines
// and sites, in L2TPv3, GRE or VXLAN. A section [pseudowire.NAME] of weft.toml
// is a wire; its end here is an ordinary network interface.
package pseudowire

import (
	"net/netip"

	"weft/internal/config"
	"weft/internal/state"
)

// Config is [pseudowire.NAME]. The names of the options are those of QEMU's
// -netdev l2tpv3 and of User-Mode Linux's vector transports.
type Config struct {
	Kind   Kind       `toml:"kind" required:"true" enum:"l2tpv3,gretap,vxlan" example:"\"l2tpv3\"" doc:"The encapsulation: l2tpv3 (RFC 3931 and RFC 4719, static: no control connection), gretap (Ethernet in GRE, RFC 2784 and RFC 2890), vxlan (RFC 7348, the kernel's own device to one other host)."`
	Device string     `toml:"device" example:"\"attic\"" doc:"The name of the network interface. Default: NAME."`
	Src    netip.Addr `toml:"src" also:"local" required:"true" example:"\"192.0.2.1\"" doc:"The local address of tunnel packets."`
	Dst    netip.Addr `toml:"dst" also:"remote" required:"true" example:"\"192.0.2.2\"" doc:"The remote address of tunnel packets."`

	UDP        bool   `toml:"udp" also:"encap" example:"true" doc:"l2tpv3: over UDP; with false over IP protocol 115."`
	SrcPort    uint16 `toml:"srcport" also:"udp_sport" example:"1701" doc:"l2tpv3 over UDP, and vxlan: the local port. Many pseudowires may share one. vxlan's default is 4789."`
	DstPort    uint16 `toml:"dstport" also:"udp_dport" example:"1701" doc:"l2tpv3 over UDP: the remote port."`
	RxSession  uint32 `toml:"rx_session" also:"session_id,rxsession" example:"10" doc:"l2tpv3: the session id of received packets. It is the other end's tx_session."`
	TxSession  uint32 `toml:"tx_session" also:"peer_session_id,txsession" example:"10" doc:"l2tpv3: the session id of sent packets."`
	RxCookie   string `toml:"rx_cookie" also:"peer_cookie,rxcookie" example:"\"0x00000000000000aa\"" doc:"l2tpv3: the cookie of received packets (RFC 3931 section 4.1): a number as in QEMU and UML, or 0x and all 8 or 16 digits."`
	TxCookie   string `toml:"tx_cookie" also:"cookie,txcookie" example:"\"0x00000000000000bb\"" doc:"l2tpv3: the cookie of sent packets."`
	Cookie64   bool   `toml:"cookie64" example:"false" doc:"l2tpv3: cookies that are given as numbers have 8 bytes; with false 4."`
	Counter    bool   `toml:"counter" also:"l2spec_type" example:"false" doc:"l2tpv3: a counter of four bytes before each frame, in both directions. QEMU and UML call it counter; in the kernel it is the L2-specific sublayer (l2spec_type default). GSO packets are segmented then, which costs throughput."`
	PinCounter bool   `toml:"pincounter" example:"false" doc:"l2tpv3: that counter stays zero."`
	Offset     int    `toml:"offset" example:"0" doc:"l2tpv3: bytes between header and frame, as QEMU's option of that name has them. Only 0 is possible: L2TPv3 has none (RFC 3931 section 4.1), and weft and Linux send none. Leave QEMU's offset out."`
	Sequence   bool   `toml:"sequence" also:"seq" example:"false" doc:"l2tpv3: the counter is a sequence number (RFC 3931 section 4.6), and out-of-order packets are dropped. gretap: sequence numbers of RFC 2890, likewise."`

	RxKey    uint32 `toml:"rx_key" also:"ikey,key" example:"7" doc:"gretap: the key of received packets (RFC 2890). Set both or neither."`
	TxKey    uint32 `toml:"tx_key" also:"okey" example:"7" doc:"gretap: the key of sent packets."`
	Checksum Switch `toml:"checksum" also:"csum" enum:"auto,on,off" example:"\"auto\"" doc:"gretap: checksums over whole packets (RFC 2784), off by default. l2tpv3 over UDP and IPv6: on by default, because ordinary sockets require it (RFC 8200 section 8.1); off sends none (RFC 6935), which is many times faster, if the other end accepts it."`

	Offload Switch `toml:"offload" enum:"auto,on,off" example:"\"auto\"" doc:"GSO packets stay whole, with checksums left to the last device that sends. Set off where the other end is a program on this machine, in any namespace: an emulator reads packets that no device has finished. auto is off where dst is an address of this host and no other pseudowire's end, else on."`

	VNI uint32 `toml:"vni" also:"id" max:"16777215" example:"7" doc:"vxlan: the network identifier (VNI)."`

	MTU        int      `toml:"mtu" min:"0" max:"65535" example:"1446" doc:"The largest inner IP packet, in bytes; 0 computes it from the interface that leads to dst, and from ICMP errors of routers on the path."`
	TTL        int      `toml:"ttl" min:"0" max:"255" example:"64" doc:"TTL or hop limit of sent packets; 0 copies that of the inner packet."`
	TOS        string   `toml:"tos" example:"\"inherit\"" doc:"TOS or traffic class of sent packets: inherit copies that of the inner packet, or a number like 0x10. Its congestion bits are always those of the inner packet (RFC 6040)."`
	DF         bool     `toml:"df" example:"true" doc:"Routers on the path may not fragment IPv4 packets (don't fragment): weft learns the path MTU instead. weft itself does not fragment packets."`
	TooBig     TooBig   `toml:"too_big" enum:"answer,drop" example:"\"answer\"" doc:"The action for an inner packet that is too large: answer sends an ICMP error to its sender, also to a sender behind a bridge; drop only counts it."`
	Bypass     bool     `toml:"bypass" was:"shortcut" example:"false" doc:"With [route]: routed packets bypass the interface of the pseudowire. weft encapsulates them at the interface where they arrive, and routes decapsulated packets where the tunnel packets arrive. This takes a fraction of the time. tcpdump and ip -s link do not see these packets on the interface; weft show pseudowires counts them."`
	LinkLocal  bool     `toml:"link_local" example:"true" doc:"The interface has an IPv6 link-local address. A port of a bridge needs none."`
	Interfaces []string `toml:"interfaces" example:"[\"wan\"]" doc:"The NAMEs of the interfaces at which packets of the pseudowire arrive. Default: the one that has the address src, and every [interface.NAME] of the file; loopback if dst is an address of this host."`

	keyed bool // both keys are given
	index *index
}

// Kind is how frames travel.
type Kind string

const (
	L2TPv3 Kind = "l2tpv3"
	GRETap Kind = "gretap"
	VXLAN  Kind = "vxlan"
)

// Switch is on, off, or as it is best.
type Switch string

const (
	Auto Switch = "auto"
	On   Switch = "on"
	Off  Switch = "off"
)

// TooBig is what becomes of packets that are too large.
type TooBig string

const (
	Answer TooBig = "answer"
	Drop   TooBig = "drop"
)

// Section is what config.Load needs to read [pseudowire.NAME].
func Section() config.Section {
	return config.Section{
		Name:  "pseudowire",
		Roles: state.RolePseudowires,
		Named: true,
		Doc:   "A pseudowire: Ethernet to another host, virtual machine or site, with an ordinary network interface at this end.",
		New: func(name string) any {
			return &Config{Device: name, UDP: true, Checksum: Auto, Offload: Auto, TTL: 64, TOS: "inherit", DF: true, TooBig: Answer, LinkLocal: true}
		},
		Check: func(c *config.Checker, name string, s any) { check(c, name, s.(*Config)) },
	}
}

// From returns the section [pseudowire.NAME] of f, nil if there is none.
func From(f *config.File, name string) *Config {
	c, _ := f.Get("pseudowire", name).(*Config)
	return c
}

// Devices lists the interfaces of f's pseudowires.
func Devices(f *config.File) []string {
	var devices []string
	for _, name := range f.Names("pseudowire") {
		devices = append(devices, From(f, name).Device)
	}
	return devices
}

// End is where packets of pseudowires come in: an address here, and the IP
// protocol that they have.
type End struct {
	Local    netip.Addr
	Protocol int
}

// Ends lists those of f's pseudowires that are not the kernel's, each once.
func Ends(f *config.File) []End {
	var ends []End
	seen := map[End]bool{}
	for _, name := range f.Names("pseudowire") {
		c := From(f, name)
		e := End{c.Src, protocols[c.pseudowireKind()]}
		if e.Protocol != 0 && !seen[e] && c.Src.IsValid() {
			seen[e] = true
			ends = append(ends, e)
		}
	}
	return ends
}

// protocols are the IP protocols of what is not the kernel's.
var protocols = map[state.PseudowireKind]int{state.PseudowireL2TPUDP: 17, state.PseudowireL2TPIP: 115, state.PseudowireGRE: 47, state.PseudowireGREKey: 47}

// Pairs lists the hosts between which pseudowires of f go, each pair once.
func Pairs(f *config.File) []state.Endpoints {
	var pairs []state.Endpoints
	seen := map[state.Endpoints]bool{}
	for _, name := range f.Names("pseudowire") {
		c := From(f, name)
		p := state.Endpoints{Local: c.Src, Remote: c.Dst}
		if !seen[p] && c.Src.IsValid() && c.Dst.IsValid() {
			seen[p] = true
			pairs = append(pairs, p)
		}
	}
	return pairs
}
