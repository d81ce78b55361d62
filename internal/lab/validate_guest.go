package lab

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// guest looks at what only guests have, or must not have.
func (v *validator) guest(path string, n Node) {
	v.wires(path, n)
	if !n.Kind.IsGuest() {
		if len(n.Modules) > 0 || n.Kernel != "" || n.MemoryMiB != 0 || n.Script != "" || n.Root != "" || n.Init != "" {
			v.add(path, "modules, kernel, memory, script, root and init are for guests", `add kind = "uml" or kind = "qemu", or remove them`)
		}
		if len(n.Programs) > 0 {
			v.add(path, "program is for guests", `add kind = "qemu" or kind = "uml", or remove it: a process says what it needs`)
		}
		return
	}
	if n.Weft != "" {
		v.add(path+".weft", "weft is for network namespaces", "a guest does what its script says")
	}
	for name := range n.Files {
		if !filepath.IsAbs(name) || filepath.Clean(name) != name {
			v.add(path+".files", fmt.Sprintf("%q is no file of a guest", name), "a path from the root, like /etc/weft/weft.toml")
		}
	}
	for i, p := range n.Processes {
		if n.Root == "" || !p.First {
			v.add(fmt.Sprintf("%s.process[%d]", path, i), "a process runs beside a guest only before it boots", `root = "host", and first = true: it writes to {dir}, which the guest sees; or the guest's script`)
		}
	}
	for i, p := range n.Programs {
		if p.Name == "" || strings.ContainsRune(p.Name, '/') && !filepath.IsAbs(p.Name) {
			v.add(fmt.Sprintf("%s.program[%d].name", path, i), fmt.Sprintf("%q is no program", p.Name), "the name of one that the host has, without its directory; or files from the root, like /usr/lib/pppd/*/pppoe.so")
		}
	}
	v.root(path, n)
}

// root looks at a guest with the host's root.
func (v *validator) root(path string, n Node) {
	if n.Root != "" && n.Root != "host" {
		v.add(path+".root", fmt.Sprintf("%q is no root", n.Root), `root = "host"`)
	}
	if n.Root != "" && n.Kind != QEMU {
		v.add(path+".root", "a User-Mode Linux guest always has the root of its host", `kind = "qemu", or remove root`)
	}
	if n.Root == "" && n.Init != "" {
		v.add(path+".init", "init is for guests with the host's root", `add root = "host"`)
	}
	if n.Init != "" && n.Init != "systemd" {
		v.add(path+".init", fmt.Sprintf("%q cannot be a guest's init", n.Init), `init = "systemd"`)
	}
	if n.Init == "" {
		return
	}
	if n.Forward || len(n.Gateway)+len(n.Routes)+len(n.Sysctls) > 0 || slices.ContainsFunc(v.scenario.Links, func(l Link) bool { return l.addresses(n.Name) }) {
		v.add(path, "a guest with systemd configures its network itself", "remove addresses, gateway, route, sysctls and forward; write the files of its network manager by files")
	}
}

// addresses reports whether the link's end at a node has addresses.
func (l Link) addresses(node string) bool {
	return slices.ContainsFunc(l.Ends, func(e End) bool { return e.Node == node && len(e.Addresses) > 0 })
}

// wires looks at the network cards that a guest's machine carries itself.
func (v *validator) wires(path string, n Node) {
	if !n.Kind.IsGuest() && (n.Beside != "" || len(n.Wires) > 0) {
		v.add(path, "beside and wire are for guests", `add kind = "uml" or kind = "qemu", or remove them`)
		return
	}
	host := slices.IndexFunc(v.scenario.Nodes, func(o Node) bool { return o.Name == n.Beside && !o.Kind.IsGuest() })
	if n.Beside != "" && host < 0 {
		v.add(path+".beside", fmt.Sprintf("%q is no node that is a network namespace", n.Beside), "the name of one")
	}
	if n.Beside != "" && len(v.scenario.devicesOf(n.Name)) > 0 {
		v.add(path+".beside", "a guest in another node's namespace cannot be the end of a link", "take the link away, or beside")
	}
	for i, w := range n.Wires {
		if w.Device == "" || w.Options == "" {
			v.add(fmt.Sprintf("%s.wire[%d]", path, i), "a wire has a device in the guest, and options", `like options = "transport=gre,src=127.0.0.3,dst=127.0.0.2"`)
		}
		if _, err := net.ParseMAC(w.MAC); w.MAC != "" && err != nil {
			v.add(fmt.Sprintf("%s.wire[%d].mac", path, i), fmt.Sprintf("%q is not a MAC address", w.MAC), "six bytes like 02:00:00:00:00:01")
		}
	}
}
