package openwrt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readVLANs takes the VLANs of bridges (DSA), and says of a switch's (swconfig) that they
// are the switch's.
func (c *converter) readVLANs() {
	for _, s := range c.of("network", "bridge-vlan") {
		b := c.bridgeOf[c.rename(s.value("device"))]
		id, err := strconv.Atoi(s.value("vlan"))
		switch {
		case b == nil:
			s.rest(No, fmt.Sprintf("there is no bridge %q", printable(s.value("device"))), "add the bridge, or remove the section")
			continue
		case err != nil || id < 1 || id > 4094:
			s.rest(No, fmt.Sprintf("%q is no VLAN", printable(s.value("vlan"))), "1 to 4094")
			continue
		}
		c.bridgeVLAN(b, s, id)
	}
	c.switches()
}

func (c *converter) bridgeVLAN(b *bridge, s *section, id int) {
	b.filtering = true
	at := fmt.Sprintf("[bridge.%s] ports", b.device)
	s.yes("", at)
	s.yes("device", at)
	s.yes("vlan", at)
	s.yes("ports", at)
	s.yes("alias", at)
	for _, name := range s.words("alias") {
		b.alias[name] = id
	}
	if s.on("local", true) {
		if b.vlans[id] == nil {
			b.order = append(b.order, id)
		}
		b.vlans[id] = s
	}
	s.yes("local", "whether the router takes part in this VLAN")
	for _, word := range s.words("ports") {
		name, flags, _ := strings.Cut(word, ":")
		name = c.rename(name)
		c.addPort(b, name, s, "ports", word)
		p := b.byDevice[name]
		switch {
		case p == nil || slices.Contains(p.vlans, id) || p.vlan == id:
		case strings.Contains(flags, "t"):
			p.vlans = append(p.vlans, id)
		case p.vlan == 0:
			p.vlan = id
		default:
			s.item(No, "ports", word, fmt.Sprintf("%s is in VLAN %d without a tag already", name, p.vlan), "a port of weft's bridges has one VLAN without a tag")
		}
	}
}

// finishVLANs gives the router one of its VLANs without a tag, on the bridge's own device,
// and finds ports without a VLAN.
func (c *converter) finishVLANs(b *bridge) {
	slices.Sort(b.order)
	if !b.filtering {
		if len(b.above) > 0 {
			b.unfiltered()
		}
		return
	}
	if b.hostVLAN == 0 && len(b.order) > 0 && !b.plain {
		b.hostVLAN = b.order[0]
	}
	if b.hostVLAN == 0 {
		for b.hostVLAN = 1; b.vlans[b.hostVLAN] != nil && b.hostVLAN < 4094; {
			b.hostVLAN++
		}
	}
	b.ports = slices.DeleteFunc(b.ports, func(p *port) bool {
		if p.vlan == 0 && len(p.vlans) == 0 {
			p.s.item(Differs, p.option, p.device, fmt.Sprintf("the port %s is in no bridge-vlan: it passes nothing, and is left out", p.device), "add it to ports if it has a VLAN")
			delete(b.byDevice, p.device)
			return true
		}
		return false
	})
}

// unfiltered gives the VLANs whose devices stand on a bridge without filtering to all of
// its ports: there it passes all tags.
func (b *bridge) unfiltered() {
	b.hostVLAN = 1
	for _, id := range b.above {
		if id == b.hostVLAN || b.vlans[id] != nil {
			continue
		}
		b.vlans[id] = b.s
		b.order = append(b.order, id)
	}
	slices.Sort(b.order)
	for _, p := range b.ports {
		p.vlan, p.vlans = b.hostVLAN, b.order
	}
	b.filtering = true
}

// switches are those that swconfig sets.
func (c *converter) switches() {
	for _, s := range c.of("network", "switch", "switch_port") {
		s.rest(No, "weft does not set the chip of a switch (swconfig)", "set the same VLANs in the switch that the new router is connected to")
	}
	for _, s := range c.of("network", "switch_vlan") {
		id := s.value("vid")
		if id == "" {
			id = s.value("vlan")
		}
		var with, without []string
		for _, p := range s.words("ports") {
			if n, tagged := strings.CutSuffix(p, "t"); tagged {
				with = append(with, printable(n))
			} else {
				without = append(without, printable(p))
			}
		}
		s.rest(No, "weft does not set the chip of a switch (swconfig)",
			fmt.Sprintf("set VLAN %s in a switch: its ports %s without a tag, %s with one; the router has the device of the VLAN", printable(id), orNone(without), orNone(with)))
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "(none)"
	}
	return strings.Join(list, " ")
}
