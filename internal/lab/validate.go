package lab

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"weft/internal/state"
)

// validator collects what is wrong with a scenario that decoded well.
type validator struct {
	places   places
	scenario *Scenario
	problems []state.Problem
}

func (v *validator) add(path, what, remedy string) {
	v.problems = append(v.problems, state.Problem{
		Pos: v.places.find(path), Path: path, What: what, Remedy: remedy,
	})
}

var (
	// A node's name ends the name of its namespace, weft-LAB-NODE, which the last
	// hyphen splits into lab and node: so a node's name has no hyphen.
	nodeName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,14}$`)
	middleName = regexp.MustCompile(`^link[0-9]+$`)
	deviceName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$`)
	sysctlName = regexp.MustCompile(`^net(\.[A-Za-z0-9_-]+)+$`)
	fileName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

func (v *validator) run() {
	if v.scenario.Title == "" {
		v.add("title", "the scenario has no title", `title = "what it shows, in one line"`)
	}
	if len(v.scenario.Nodes) == 0 {
		v.add("node", "the scenario has no nodes", "each node is a table [[node]] with a name")
	}
	seen := map[string]bool{}
	for i, n := range v.scenario.Nodes {
		path := fmt.Sprintf("node[%d]", i)
		if seen[n.Name] {
			v.add(path+".name", fmt.Sprintf("a second node is called %q", n.Name), "names are unique in a scenario")
		}
		seen[n.Name] = true
		v.node(path, n)
	}
	devices := map[Place]bool{}
	for i, l := range v.scenario.Links {
		v.link(fmt.Sprintf("link[%d]", i), l, devices)
	}
	for i, c := range v.scenario.Checks {
		v.check(fmt.Sprintf("check[%d]", i), c)
	}
}

func (v *validator) node(path string, n Node) {
	if !nodeName.MatchString(n.Name) {
		v.add(path+".name", fmt.Sprintf("%q cannot be a node's name", n.Name), "a small letter, then at most 14 small letters, digits and underscores")
	}
	if middleName.MatchString(n.Name) {
		v.add(path+".name", fmt.Sprintf("%q is the name of the middle of a link", n.Name), "choose another")
	}
	if n.Kind != "" && n.Kind != Namespace && !n.Kind.IsGuest() {
		v.add(path+".kind", fmt.Sprintf("%q is no kind of node", n.Kind), "netns, uml or qemu")
	}
	if n.Switch && (n.Forward || n.Weft != "" || n.Kind.IsGuest() || len(n.Gateway)+len(n.Routes) > 0) {
		v.add(path+".switch", "a switch only passes frames on", "remove what it would need addresses for, or switch")
	}
	v.guest(path, n)
	families := map[bool]bool{}
	for _, g := range n.Gateway {
		if families[g.Is4()] {
			v.add(path+".gateway", "two default gateways of one family", "at most one IPv4 and one IPv6 address")
		}
		families[g.Is4()] = true
	}
	for name := range n.Sysctls {
		if !sysctlName.MatchString(name) {
			v.add(path+".sysctls", fmt.Sprintf("%q is not a sysctl of a network namespace", name), "a name like net.ipv4.ip_forward")
		}
	}
	for name := range n.Files {
		if !n.Kind.IsGuest() && !fileName.MatchString(name) {
			v.add(path+".files", fmt.Sprintf("%q cannot be the name of a file in the node's directory", name), "letters, digits, dots and hyphens")
		}
	}
	for i, r := range n.Routes {
		v.route(fmt.Sprintf("%s.route[%d]", path, i), r)
	}
	v.processes(path, n.Processes)
}

func (v *validator) route(path string, r Route) {
	switch {
	case !r.To.IsValid():
		v.add(path, "the route has no destination", `to = "192.0.2.0/24"`)
	case r.To != r.To.Masked():
		v.add(path+".to", fmt.Sprintf("%s has bits beyond its length", r.To), r.To.Masked().String())
	case !r.Via.IsValid() && r.Device == "":
		v.add(path, "the route leads nowhere", "via = an address, device = a device's name, or both")
	}
}

func (v *validator) processes(path string, ps []Process) {
	seen := map[string]bool{"weft": true}
	for i, p := range ps {
		path := fmt.Sprintf("%s.process[%d]", path, i)
		if !fileName.MatchString(p.Name) || seen[p.Name] {
			v.add(path+".name", fmt.Sprintf("%q cannot be this process's name", p.Name), "letters, digits, dots and hyphens; unique in the node; not weft")
		}
		seen[p.Name] = true
		if len(p.Argv) == 0 {
			v.add(path+".argv", "the process has no command", `argv = ["program", "argument"]`)
		}
		if p.First && !p.Once {
			v.add(path+".first", "a process that goes before weft must end before weft starts", "once = true")
		}
		if p.Once && len(p.Ready) > 0 {
			v.add(path+".ready", "a process that runs once is ready when it has ended", "remove ready, or once")
		}
	}
}

func (v *validator) link(path string, l Link, devices map[Place]bool) {
	if len(l.Ends) != 2 {
		v.add(path+".ends", fmt.Sprintf("the link has %d ends", len(l.Ends)), `ends = [{ node = "a", device = "eth0" }, { node = "b", device = "eth0" }]`)
	}
	for _, e := range l.Ends {
		path := path + ".ends"
		if v.nodeNamed(e.Node) == nil {
			v.add(path, fmt.Sprintf("no node is called %q", e.Node), v.nodeNames())
		}
		if !deviceName.MatchString(e.Device) || e.Device == "lo" {
			v.add(path, fmt.Sprintf("%q cannot be a device's name", e.Device), "a letter, then at most 14 letters, digits, dots and hyphens")
		}
		place := Place{e.Node, e.Device}
		if devices[place] {
			v.add(path, fmt.Sprintf("%s is already the end of a link", place), "each end is a device of its own")
		}
		devices[place] = true
		if _, err := net.ParseMAC(e.MAC); e.MAC != "" && err != nil {
			v.add(path, fmt.Sprintf("%q is not a MAC address", e.MAC), "six bytes like 02:00:00:00:00:01")
		}
	}
	if l.MTU != 0 && (l.MTU < 68 || l.MTU > 65535) {
		v.add(path+".mtu", fmt.Sprintf("a link cannot have an MTU of %d", l.MTU), "68 to 65535; IPv6 needs 1280")
	}
	if l.Loss < 0 || l.Loss > 100 {
		v.add(path+".loss", fmt.Sprintf("%g percent cannot be lost", l.Loss), "0 to 100")
	}
	switch {
	case l.Via != "" && l.Via != "guest":
		v.add(path+".via", fmt.Sprintf("a link cannot go by way of %q", l.Via), `via = "guest"`)
	case l.Impaired() && l.Via == "":
		v.add(path, "delay, jitter and loss need a kernel with netem", `add via = "guest"`)
	}
}

func (v *validator) nodeNamed(name string) *Node {
	i := slices.IndexFunc(v.scenario.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &v.scenario.Nodes[i]
}

func (v *validator) nodeNames() string {
	var names []string
	for _, n := range v.scenario.Nodes {
		names = append(names, n.Name)
	}
	return "there are " + strings.Join(names, ", ")
}

// checkFields says which fields a kind of check must have, and which it may
// have besides its name.
var checkFields = map[CheckKind]struct{ must, may []string }{
	CheckPing:     {[]string{"from", "to"}, []string{"count", "size", "fails"}},
	CheckTransfer: {[]string{"from", "to", "at"}, []string{"bytes"}},
	CheckUDP:      {[]string{"from", "to", "at"}, []string{"sizes", "tries"}},
	CheckPMTU:     {[]string{"from", "to", "at"}, []string{"mtu", "bytes"}},
	CheckObserve:  {[]string{"from", "to", "places"}, []string{"count", "size", "routed"}},
	CheckExec:     {[]string{"node", "argv"}, []string{"expect", "fails"}},
	CheckCounters: {[]string{"node"}, []string{"counted"}},
	CheckTakeover: {[]string{"from", "to", "at", "kill", "within"}, []string{"bytes"}},
	CheckKill:     {[]string{"node"}, nil},
	CheckRevive:   {[]string{"node"}, nil},
	CheckReboot:   {[]string{"node"}, []string{"argv"}},
	CheckReload:   {[]string{"node", "change", "from", "to", "at"}, []string{"fails", "argv"}},
}

func (v *validator) check(path string, c Check) {
	fields, ok := checkFields[c.Kind]
	if !ok {
		v.add(path+".kind", fmt.Sprintf("%q is no kind of check", c.Kind), "ping, transfer, udp, pmtu, observe, exec, counters, takeover, kill, revive, reboot or reload")
		return
	}
	if c.Name == "" {
		v.add(path, "the check has no name", `name = "a sentence that says what must come true"`)
	}
	set := c.fieldsSet()
	for _, f := range fields.must {
		if !slices.Contains(set, f) {
			v.add(path, fmt.Sprintf("a %s check needs %s", c.Kind, f), fmt.Sprintf("it must have %s and may have %s", strings.Join(fields.must, ", "), strings.Join(fields.may, ", ")))
		}
	}
	for _, f := range set {
		if !slices.Contains(fields.must, f) && !slices.Contains(fields.may, f) {
			v.add(path+"."+f, fmt.Sprintf("a %s check has no use for %s", c.Kind, f), fmt.Sprintf("it must have %s and may have %s", strings.Join(fields.must, ", "), strings.Join(fields.may, ", ")))
		}
	}
	for field, node := range map[string]string{"from": c.From, "at": c.At, "node": c.Node, "kill": c.Kill} {
		if node != "" && v.nodeNamed(node) == nil {
			v.add(path+"."+field, fmt.Sprintf("no node is called %q", node), v.nodeNames())
		}
	}
	for _, p := range c.Places {
		if !v.hasDevice(p) {
			v.add(path+".places", fmt.Sprintf("no link ends at %s", p), "node:device, as in the links' ends")
		}
	}
	for field, name := range map[string]string{"kill": c.Kill, "node": c.Node} {
		n := v.nodeNamed(name)
		if n != nil && n.Kind.IsGuest() && (field == "kill" || c.Kind == CheckRevive || c.Kind == CheckKill) {
			v.add(path+"."+field, fmt.Sprintf("%s is a guest", name), "a network namespace")
		}
	}
	v.checkChange(path, c)
	v.checkNumbers(path, c)
}

func (v *validator) checkChange(path string, c Check) {
	n := v.nodeNamed(c.Node)
	switch {
	case n == nil:
	case c.Kind == CheckReboot && !n.Kind.IsGuest():
		v.add(path+".node", fmt.Sprintf("%s is no guest", c.Node), "a guest; takeover and revive are for network namespaces")
	case c.Kind == CheckReboot && len(c.Argv) > 0 && n.Init == "":
		v.add(path+".argv", "only a guest with systemd restarts itself", "remove argv: the guest is switched off and on again")
	case c.Kind == CheckReload && n.Weft == "":
		v.add(path+".node", fmt.Sprintf("no router runs in %s", c.Node), "a node with weft")
	}
	if c.Kind == CheckReload && len(c.Argv) > 0 && !c.Fails {
		v.add(path+".argv", "argv is what the other end does once the change has stopped the traffic", "add fails = true")
	}
	for _, pair := range c.Change {
		if len(pair) != 2 || pair[0] == pair[1] {
			v.add(path+".change", "each change is what stands in weft.toml, and what instead", `change = [["ttl = 64", "ttl = 32"]]`)
		}
	}
}

func (v *validator) checkNumbers(path string, c Check) {
	if c.Count < 0 || c.Count > 1000 {
		v.add(path+".count", fmt.Sprintf("%d requests cannot be sent", c.Count), "1 to 1000")
	}
	for _, s := range append(slices.Clone(c.Sizes), c.Size) {
		if s < 0 || s > 65000 {
			v.add(path+".size", fmt.Sprintf("a payload cannot have %d bytes", s), "0 to 65000")
		}
	}
	if c.Tries < 0 || c.Tries > 10 {
		v.add(path+".tries", fmt.Sprintf("nothing is sent %d times", c.Tries), "1 to 10")
	}
	if c.Bytes > maxBytes {
		v.add(path+".bytes", fmt.Sprintf("%s is more than a transfer moves", c.Bytes), "at most "+maxBytes.String())
	}
}

func (v *validator) hasDevice(p Place) bool {
	for _, l := range v.scenario.Links {
		for _, e := range l.Ends {
			if (Place{e.Node, e.Device}) == p {
				return true
			}
		}
	}
	return false
}

func (c Check) fieldsSet() []string {
	var set []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"from", c.From != ""}, {"to", c.To.IsValid()}, {"at", c.At != ""},
		{"count", c.Count != 0}, {"size", c.Size != 0}, {"sizes", len(c.Sizes) > 0},
		{"tries", c.Tries != 0},
		{"bytes", c.Bytes != 0}, {"fails", c.Fails}, {"mtu", c.MTU != 0},
		{"places", len(c.Places) > 0}, {"node", c.Node != ""}, {"argv", len(c.Argv) > 0},
		{"routed", c.Routed}, {"expect", c.Expect != ""}, {"counted", len(c.Counted) > 0},
		{"kill", c.Kill != ""}, {"within", c.Within != 0}, {"change", len(c.Change) > 0},
	} {
		if f.is {
			set = append(set, f.name)
		}
	}
	return set
}
