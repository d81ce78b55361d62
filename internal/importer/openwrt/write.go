package openwrt

import (
	"fmt"
	"strings"

	"weft/internal/importer"
)

// write puts the result together.
func (c *converter) write() string {
	refs := map[*port]string{}
	for _, b := range c.bridges {
		for _, p := range b.ports {
			refs[p] = c.reference(p.device)
		}
	}
	var t importer.TOML
	t.Comment("From the configuration of an OpenWrt router. What weft does otherwise or not is listed here; weft import openwrt lists all lines. Take over what is left to other programs before you stop OpenWrt. Names of devices are those of OpenWrt: --device OLD=NEW sets others.")
	for _, remark := range c.remarks() {
		t.Line("#")
		t.Comment(remark)
	}
	if c.router != "" {
		t.Line("\n[router]\nname = %s", importer.Quote(c.router))
	}
	for _, l := range c.links {
		c.writeLink(&t, l)
	}
	for _, w := range c.wires {
		t.Line("\n[pseudowire.%s]\nkind = %q\ndevice = %s\nsrc = %q\ndst = %q", w.name, w.kind, importer.Quote(w.device), w.src, w.dst)
		for _, key := range w.keys {
			t.Line("%s", key)
		}
	}
	for _, b := range c.bridges {
		b.write(&t, refs)
	}
	for _, cl := range c.clients {
		c.writeClient(&t, cl)
	}
	for _, text := range c.nat64 {
		t.Line("\n%s", strings.TrimRight(text, "\n"))
	}
	if r := c.dns64; r != nil {
		t.Line("\n[dns64]\ninterfaces = [%s]\nforwarders = [%s]\nprefixes = [%q]", importer.Quoted(r.interfaces), importer.Quoted(r.forwarders), r.prefix)
	}
	for _, a := range c.ra {
		t.Line("\n[ra.%s]", a.name)
		for _, key := range a.keys {
			t.Line("%s", key)
		}
	}
	if len(c.offload) > 0 {
		t.Line("\n[offload]\ninterfaces = [%s]", importer.Quoted(c.offload))
	}
	if len(c.guard) > 0 {
		t.Line("\n[guard.sources]\ninterfaces = [%s]\n\n[block]", importer.Quoted(c.guard))
		if len(c.block.prefixes) > 0 {
			t.Line("prefixes = [%s]", importer.Quoted(c.block.prefixes))
		}
		if len(c.block.files) > 0 {
			t.Line("files = [%s]", importer.Quoted(c.block.files))
		}
	}
	return t.String()
}

func (c *converter) writeLink(t *importer.TOML, l *link) {
	t.Line("\n[interface.%s]\ndevice = %s", l.name, importer.Quote(l.device))
	if len(l.addresses) > 0 {
		var list []string
		for _, p := range l.addresses {
			list = append(list, p.String())
		}
		t.Line("addresses = [%s]", importer.Quoted(list))
	}
	if l.mtu != 0 && l.mtu >= l.least() {
		t.Line("mtu = %d", l.mtu)
	}
	if l.promiscuous {
		t.Line("promiscuous = true")
	}
}

// reference is how a port names its device: by the NAME of a pseudowire, or by the device,
// unless that is the NAME of another interface.
func (c *converter) reference(device string) string {
	if name := c.wireOf[device]; name != "" {
		return name
	}
	if other := c.names[device]; other == "" || other == device {
		return device
	}
	if l := c.linkOf[device]; l != nil {
		return l.name
	}
	return c.newLink("port-"+device, device).name
}

func (b *bridge) write(t *importer.TOML, refs map[*port]string) {
	t.Line("\n[bridge.%s]", sectionName(b.device))
	if sectionName(b.device) != b.device {
		t.Line("device = %s", importer.Quote(b.device))
	}
	if b.mac != "" {
		t.Line("mac = %q", b.mac)
	}
	if b.host {
		t.Line("host = true")
		if b.filtering {
			t.Line("host_vlan = %d", b.hostVLAN)
			var others []string
			for _, id := range b.order {
				if id != b.hostVLAN {
					others = append(others, fmt.Sprint(id))
				}
			}
			if len(others) > 0 {
				t.Line("host_vlans = [%s]", strings.Join(others, ", "))
			}
		}
	}
	if !b.snooping {
		t.Line("multicast_snooping = false")
	}
	if len(b.ports) == 0 {
		t.Line("ports = []")
		return
	}
	t.Line("ports = [")
	for _, p := range b.ports {
		var vlans string
		if p.vlan != 0 {
			vlans = fmt.Sprintf(", vlan = %d", p.vlan)
		}
		var tagged []string
		for _, id := range p.vlans {
			if id != p.vlan {
				tagged = append(tagged, fmt.Sprint(id))
			}
		}
		if len(tagged) > 0 {
			vlans += ", vlans = [" + strings.Join(tagged, ", ") + "]"
		}
		t.Line("  { interface = %s, role = \"infrastructure\"%s },", importer.Quote(refs[p]), vlans)
	}
	t.Line("]")
}

// sectionName makes a NAME of a device's name.
func sectionName(device string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, device)
}

func (c *converter) writeClient(t *importer.TOML, cl *client) {
	t.Line("\n[l2tp_client.%s]\nserver = %s", cl.name, importer.Quote(cl.server))
	if cl.login != "" {
		t.Line("login = %s\npassword = %s", importer.Quote(cl.login), importer.Quote(cl.password))
	}
	if !cl.ipv6 {
		t.Line("ipv6 = false")
	}
	if cl.delegation {
		t.Line("prefix_delegation = true")
		var to []string
		for _, name := range cl.delegateTo {
			if i := c.byName[name]; i.link != nil {
				to = append(to, i.link.name)
			}
		}
		if len(to) > 0 {
			t.Line("delegate_to = [%s]", importer.Quoted(to))
		}
	}
	if len(cl.routes) > 0 {
		t.Line("default_route = [%s]", importer.Quoted(cl.routes))
	}
	if cl.mru != 0 {
		t.Line("mru = %d", cl.mru)
	}
	if cl.keepalive != 0 {
		t.Line("keepalive = \"%ds\"", cl.keepalive)
	}
}
