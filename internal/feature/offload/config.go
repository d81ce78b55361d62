// Package offload forwards established connections past the kernel's stack, as
// [offload] of weft.toml requests. The nftables ruleset stays as it is and decides
// on each new connection. Once connection tracking has a connection as established
// and its first packets have passed the ruleset, eBPF rewrites and forwards its packets.
package offload

import (
	"fmt"
	"slices"
	"time"

	"weft/internal/config"
	"weft/internal/state"
)

// Protocol is a protocol whose connections can be offloaded.
type Protocol string

const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
)

// Config is [offload].
type Config struct {
	Interfaces     []string      `toml:"interfaces" required:"true" example:"[\"lan\", \"wan\"]" doc:"The NAMEs of the interfaces between which established connections bypass the stack. A PPPoE interface needs the Ethernet or VLAN interface below it in the list too."`
	Protocols      []Protocol    `toml:"protocols" enum:"tcp,udp,icmp" example:"[\"tcp\", \"udp\"]" doc:"The protocols to offload. icmp is ICMP echo."`
	MinimumPackets int           `toml:"minimum_packets" min:"1" max:"65535" example:"4" doc:"Number of packets of one direction that the ruleset must have accepted before that direction is offloaded. Short connections stay with the stack."`
	IdleTimeout    time.Duration `toml:"idle_timeout" min:"5s" max:"24h" example:"\"1m\"" doc:"A flow without packets for this time goes back to the stack. Connection tracking has its own timeouts."`
	Refused        bool          `toml:"early_drop" was:"refused" example:"true" doc:"Drop packets of flows that the ruleset has just refused before the stack sees them, for 10 s at a time. weft learns refusals from nftables' tracing."`
	DSA            DSA           `toml:"dsa" enum:"none,mtk,qca,gswip" example:"\"mtk\"" doc:"The tags of a switch behind one device, as in the file dsa/tagging of that device in /sys/class/net. weft then works on that device instead of on the ports. none: on the ports."`
	TableSize      int           `toml:"table_size" min:"1024" max:"4194304" example:"65536" doc:"Maximum number of flows (directions of connections) of each address family: about 370 to 470 bytes are allocated for each, IPv6 included. Further flows stay with the stack."`
}

// DSA is the format of a switch's tags, by the kernel's name.
type DSA string

func (d DSA) format() state.SwitchFormat {
	for f := state.SwitchMTK; f <= state.SwitchGSWIP; f++ {
		if f.String() == string(d) {
			return f
		}
	}
	return state.SwitchNone
}

// Switch is the tag format that [offload] configures.
func Switch(f *config.File) state.SwitchFormat {
	if c := From(f); c != nil {
		return c.DSA.format()
	}
	return state.SwitchNone
}

// Section is what config.Load needs to read [offload].
func Section() config.Section {
	return config.Section{
		Name:  "offload",
		Roles: state.RoleOffloaded,
		Doc:   "Flow offload: nftables decides on new connections, eBPF forwards established ones. Off without the section.",
		New: func(string) any {
			return &Config{Protocols: []Protocol{TCP, UDP}, DSA: "none", MinimumPackets: 4, IdleTimeout: time.Minute, TableSize: 65536}
		},
		Check: func(c *config.Checker, _ string, s any) { check(c, s.(*Config)) },
	}
}

// From returns the section [offload] of f, nil if there is none.
func From(f *config.File) *Config {
	if !f.Given("offload") {
		return nil
	}
	c, _ := f.Get("offload", "").(*Config)
	return c
}

// Flows is the size of the flow tables, 0 without [offload].
func Flows(f *config.File) int {
	if c := From(f); c != nil {
		return c.TableSize
	}
	return 0
}

// Takes reports whether connections of a protocol are offloaded.
func (c *Config) Takes(protocol uint8) bool {
	name := map[uint8]Protocol{state.ProtocolTCP: TCP, state.ProtocolUDP: UDP, state.ProtocolICMP: ICMP, state.ProtocolICMPv6: ICMP}[protocol]
	return slices.Contains(c.Protocols, name)
}

func check(c *config.Checker, s *Config) {
	if !c.File().Given("offload") {
		return
	}
	if c.Given("interfaces") && len(s.Interfaces) < 2 {
		c.Error("interfaces", "has fewer than two interfaces: there is nothing to forward between them", "name at least two [interface.NAME], or leave [offload] out")
	}
	c.Interfaces("interfaces", s.Interfaces)
	if c.Given("protocols") && len(s.Protocols) == 0 {
		c.Error("protocols", "is empty: nothing would be offloaded", `write protocols = ["tcp", "udp"], or leave [offload] out`)
	}
	if !c.File().Router().Forwarding {
		c.Warn("", "forwarding is off: there are no forwarded connections to offload", "set forwarding = true in [router], unless something else does")
	}
	for _, u := range c.File().Uses(state.RoleRouted) {
		if i := slices.Index(s.Interfaces, u.Interface); i >= 0 {
			c.Error(fmt.Sprintf("interfaces[%d]", i), fmt.Sprintf("%s is also in [%s], whose packets bypass the ruleset", u.Interface, u.Section), "take it out of one of the two lists")
		}
	}
}

// Equal reports whether two configurations are the same.
func (c Config) Equal(d Config) bool {
	return slices.Equal(c.Interfaces, d.Interfaces) && slices.Equal(c.Protocols, d.Protocols) &&
		c.MinimumPackets == d.MinimumPackets && c.IdleTimeout == d.IdleTimeout && c.TableSize == d.TableSize && c.DSA == d.DSA && c.Refused == d.Refused
}
