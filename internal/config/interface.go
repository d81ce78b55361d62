package config

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"weft/internal/state"
)

// Interface is [interface.NAME].
type Interface struct {
	Device      string         `toml:"device" example:"\"eth0\"" doc:"The Linux device, as in ip link. Default: NAME."`
	Addresses   []netip.Prefix `toml:"addresses" ip:"host" example:"[\"192.0.2.1/24\", \"2001:db8:1::1/64\"]" doc:"The router's own addresses on it, each with the prefix length of its subnet. weft adds them, and removes only addresses that it has added."`
	MTU         int            `toml:"mtu" min:"0" max:"65535" example:"1500" doc:"The largest IP packet in bytes; 0 leaves the device as it is. IPv6 needs 1280 (RFC 8200 section 5), IPv4 68 (RFC 791)."`
	Hook        Hook           `toml:"hook" enum:"auto,xdp,tc" example:"\"auto\"" doc:"The hook of the programs: xdp (in the driver, fastest for small packets), tc (after the driver, keeps large TCP segments whole), or auto, which selects one for the device."`
	Promiscuous bool           `toml:"promiscuous" example:"false" doc:"The device receives all frames (promiscuous mode): a guest binds a raw socket to it (User-Mode Linux's raw and hybrid transports) and has its own link address."`
	Offloads    bool           `toml:"offloads" example:"true" doc:"With false the device carries no GSO packets and no unfinished checksums, for guests that do not accept them."`
	Bypass      bool           `toml:"bypass" was:"shortcut" example:"false" doc:"Translated packets bypass the stack (and netfilter)."`
}

// Hook is where programs attach to an interface.
type Hook = state.HookChoice

const (
	HookAuto = state.ChooseAuto
	HookXDP  = state.ChooseXDP
	HookTC   = state.ChooseTC
)

// DeviceNameMax is the longest name of a Linux device (IFNAMSIZ less the final
// zero).
const DeviceNameMax = 15

// DeviceNameFault returns what keeps name from being a Linux device's, with a
// remedy; both empty if nothing does. The rules are dev_valid_name's.
func DeviceNameFault(name string) (what, remedy string) {
	switch {
	case name == "":
		return "a device name cannot be empty", `like "eth0"`
	case len(name) > DeviceNameMax:
		return fmt.Sprintf("the device name %q has %d characters, Linux allows %d", name, len(name), DeviceNameMax), ""
	case name == "." || name == "..", strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == ':' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}):
		return fmt.Sprintf("%q cannot be the name of a device", name), "no spaces, slashes, colons or percent signs"
	}
	return "", ""
}

func checkInterface(c *Checker, name string, i *Interface) {
	if what, remedy := DeviceNameFault(i.Device); what != "" {
		key := "device"
		if !c.Given(key) {
			key = ""
		}
		if remedy == "" {
			remedy = "set device to the name that ip link shows"
		}
		c.Error(key, what, remedy)
	}
	if i.Hook == HookXDP && !i.Bypass && !c.Broken("bypass") && c.File().Roles()&^state.RoleTranslated == 0 {
		c.Error("hook", "XDP cannot pass a translated packet back to the stack, it can only send it out past the stack",
			`add bypass = true if going past netfilter is right here, else write hook = "tc" or "auto"`)
	}
	checkMTU(c, i)
	for n, p := range i.Addresses {
		key := index("addresses", n)
		if what, remedy := addressFault(p); what != "" {
			c.Error(key, what, remedy)
		}
		for m, q := range i.Addresses[:n] {
			if q.IsValid() && p.Addr() == q.Addr() {
				c.Error(key, fmt.Sprintf("%s is also %s", p.Addr(), c.Path(index("addresses", m))), "take one of the two out")
				break
			}
		}
	}
	checkOthers(c, name, i)
}

func checkMTU(c *Checker, i *Interface) {
	least, why := 68, "IPv4 needs 68 (RFC 791)"
	for _, p := range i.Addresses {
		if p.Addr().Is6() {
			least, why = 1280, "IPv6 needs 1280 (RFC 8200 section 5)"
		}
	}
	if i.MTU != 0 && i.MTU < least {
		c.Error("mtu", fmt.Sprintf("%d is too small: %s", i.MTU, why), fmt.Sprintf("from %d to 65535, or 0 to leave the device as it is", least))
	}
}

// addressFault returns why p cannot be an interface's address and subnet. An
// invalid p has been reported already.
func addressFault(p netip.Prefix) (what, remedy string) {
	a := p.Addr()
	host := p.Bits() >= a.BitLen()-1 // /31 and /127 have no reserved addresses (RFC 3021, RFC 6164)
	switch {
	case !p.IsValid():
		return "", ""
	case a.IsUnspecified(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Sprintf("%s cannot be an interface's address", a), "give it one address of its subnet"
	case a.IsLoopback():
		return fmt.Sprintf("%s is a loopback address", a), "give it an address that neighbours can reach"
	case p.Bits() == 0:
		return fmt.Sprintf("%s makes the whole Internet a neighbour", p), "write the prefix length of the subnet"
	case !host && p == p.Masked():
		return fmt.Sprintf("%s is the subnet, not an address in it", p), fmt.Sprintf("like %q", netip.PrefixFrom(a.Next(), p.Bits()))
	case !host && a.Is4() && !p.Contains(a.Next()):
		return fmt.Sprintf("%s is the subnet's broadcast address", a), fmt.Sprintf("like %q", netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()))
	}
	return "", ""
}

// checkOthers compares with the interfaces that stand before this one in the
// file, so that each collision is reported once, at the later place.
func checkOthers(c *Checker, name string, i *Interface) {
	for _, other := range c.File().Names("interface") {
		if other == name {
			return
		}
		o := c.File().Interface(other)
		if o.Device == i.Device && !c.File().broken("interface."+other+".device") {
			key := "device"
			if !c.Given(key) {
				key = ""
			}
			c.Error(key, fmt.Sprintf("interface.%s is the device %q already", other, o.Device), "keep one section for each device")
		}
		for n, p := range i.Addresses {
			for _, q := range o.Addresses {
				checkPair(c, index("addresses", n), p, q, other)
			}
		}
	}
}

func checkPair(c *Checker, key string, p, q netip.Prefix, other string) {
	// Link-local subnets are the same on every link (RFC 4291, RFC 3927), and a
	// single address may well lie in a neighbouring subnet.
	local := p.Addr().IsLinkLocalUnicast() && q.Addr().IsLinkLocalUnicast()
	switch {
	case !p.IsValid() || !q.IsValid() || local:
	case p.Addr() == q.Addr():
		c.Error(key, fmt.Sprintf("%s is also an address of interface.%s", p.Addr(), other), "give each interface its own")
	case p.Overlaps(q) && !p.IsSingleIP() && !q.IsSingleIP():
		c.Error(key, fmt.Sprintf("the subnet %s overlaps %s of interface.%s", p.Masked(), q.Masked(), other), "each link needs a subnet of its own")
	}
}
