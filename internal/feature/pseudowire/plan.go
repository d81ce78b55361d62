package pseudowire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"weft/internal/config"
	"weft/internal/state"
)

const (
	ethernet = 14
	// defaultMTU is that of the way while it is not known.
	defaultMTU = 1500
)

// Plan returns what the [pseudowire.NAME] sections want to exist. It is pure.
func Plan(f *config.File, facts state.Facts) state.Part {
	p := &planner{f: f, facts: facts, links: map[string]state.LinkFact{}, holder: map[netip.Addr]string{}, ports: map[string]bool{}, inward: map[end]bool{}, named: map[string]bool{}, faces: map[string]*config.Interface{}}
	for _, l := range facts.Links {
		p.links[l.Name] = l
		for _, a := range l.Addresses {
			p.holder[a.Addr()] = l.Name
		}
	}
	names := f.Names("pseudowire")
	for _, name := range names {
		c := From(f, name)
		in, _ := c.ends()
		p.inward[in], p.named[c.Device] = true, true
	}
	for _, name := range f.Names("interface") {
		i := f.Interface(name)
		p.faces[i.Device] = i
	}
	for _, name := range names {
		p.pseudowires = append(p.pseudowires, p.device(name))
	}
	for _, name := range names {
		p.pseudowire(name)
	}
	return state.Part{Feature: "pseudowire", Objects: slices.Concat(p.pseudowires, p.settings, p.ends), Needs: p.needs, Claims: peers(f), Problems: p.problems}
}

type planner struct {
	f           *config.File
	facts       state.Facts
	links       map[string]state.LinkFact
	holder      map[netip.Addr]string // device that has an address
	ports       map[string]bool       // keys of what is planned already
	inward      map[end]bool          // by what pseudowires here know their packets
	named       map[string]bool       // devices of pseudowires: there may be thousands
	faces       map[string]*config.Interface
	pseudowires state.Desired
	settings    state.Desired
	ends        state.Desired
	needs       []state.Need // where packets arrive
	problems    []state.Problem
}

func (p *planner) warn(path, what, remedy string) {
	p.problems = append(p.problems, state.Problem{Severity: state.Warning, Pos: p.f.Position(path), Path: path, What: what, Remedy: remedy})
}

// device is the interface of a pseudowire.
func (p *planner) device(name string) state.Object {
	c := From(p.f, name)
	path := "pseudowire." + name
	mtu := c.MTU
	if mtu == 0 {
		mtu = p.mtu(c)
		if mtu < 1280 {
			p.warn(path, fmt.Sprintf("packets of %d bytes at most fit through it: IPv6 needs 1280 (RFC 8200 section 5)", mtu), "raise the MTU of the way to "+c.Dst.String())
		}
	}
	if c.MTU == 0 {
		mtu = max(mtu, p.bridged(c.Device))
	}
	tos, _ := tosOf(c.TOS)
	if c.Kind == VXLAN {
		return state.VXLAN{
			Name: c.Device, MAC: c.mac(), MTU: mtu, Owner: path, VNI: c.VNI, Local: c.Src, Remote: c.Dst,
			Port: c.port(), TTL: c.TTL, TOS: tos, DF: c.DF, LinkLocal: c.LinkLocal,
		}
	}
	w := state.PseudowireDevice{Name: c.Device, Hidden: hiddenName(c.Device), MAC: c.mac(), MTU: mtu, Owner: path, LinkLocal: c.LinkLocal}
	w.Sums = !c.sums() && p.offload(c)
	w.Segments = w.Sums && c.segments()
	w.Bypass = c.Bypass && w.Sums
	return w
}

// bridged returns the largest MTU among the other ports of the bridge that a
// device is in, 0 if it is in none. A bridge drops what is too large for a port
// without a word; the program behind this one answers (RFC 4459 section 3.2), as
// the kernel's VXLAN device does.
func (p *planner) bridged(device string) int {
	bridge := p.links[device].Master
	if bridge == "" || p.links[bridge].Kind != "bridge" {
		return 0
	}
	mtu := 0
	for _, l := range p.facts.Links {
		if l.Master == bridge && !p.named[l.Name] {
			mtu = max(mtu, l.MTU)
		}
	}
	return mtu
}

// segments reports whether super-packets can go through whole: the kernel cannot
// take apart what it does not know, nor number the parts.
func (c *Config) segments() bool {
	return (!c.Counter || c.PinCounter) && !c.Sequence && !(c.Kind == L2TPv3 && !c.UDP)
}

// offload reports whether a device finishes what is sent, further on.
func (p *planner) offload(c *Config) bool {
	if c.Offload != Auto {
		return c.Offload == On
	}
	if !c.Dst.IsLoopback() && p.holder[c.Dst] == "" {
		return true
	}
	_, out := c.ends()
	out.local, out.remote = c.Dst, c.Src
	return p.inward[out]
}

// sums reports whether packets have a checksum over all of them.
func (c *Config) sums() bool {
	switch c.Kind {
	case GRETap:
		return c.Checksum == On
	case L2TPv3:
		return c.UDP && c.Src.Is6() && c.Checksum != Off
	}
	return false
}

// overhead is what stands before a frame, in bytes.
func (c *Config) overhead() int {
	n := 20
	if c.Src.Is6() {
		n = 40
	}
	four := func(set bool) {
		if set {
			n += 4
		}
	}
	switch c.Kind {
	case VXLAN:
		return n + 8 + 8
	case GRETap:
		n += 4
		four(c.Checksum == On)
		four(c.keyed)
		four(c.Sequence)
	case L2TPv3:
		if c.UDP {
			n += 8 + 4
		}
		tx, _ := cookie(c.TxCookie, c.Cookie64)
		n += 4 + len(tx)
		four(c.Counter || c.Sequence)
	}
	return n
}

func (p *planner) mtu(c *Config) int {
	way, known := p.facts.Paths[state.Endpoints{Local: c.Src, Remote: c.Dst}]
	mtu := defaultMTU
	if known && way.MTU != 0 {
		mtu = way.MTU
	}
	inside := func(mtu int) int { return min(max(mtu-c.overhead()-ethernet, 68), 65535-c.overhead()-ethernet) }
	if way.PathMTU != 0 && way.PathMTU < mtu && c.DF {
		// a word from under way does not end IPv6 on the interface
		return max(inside(way.PathMTU), min(inside(mtu), 1280))
	}
	return inside(mtu)
}

// pseudowire plans what the programs know of one. Its devices come first: only
// when they are there they have numbers.
func (p *planner) pseudowire(name string) {
	c := From(p.f, name)
	path := "pseudowire." + name
	if c.Kind == VXLAN {
		return
	}
	if p.holder[c.Src] == "" && !c.Src.IsLoopback() && !p.promised(c.Src) {
		p.warn(path+".src", fmt.Sprintf("%s is no address of this host now", c.Src), "give an [interface.NAME] that address")
	}
	p.arrives(name, c)
	visible, there := p.links[c.Device]
	hidden, both := p.links[hiddenName(c.Device)]
	if !there || !both {
		return
	}
	tos, _ := tosOf(c.TOS)
	in, out := c.ends()
	rx, _ := cookie(c.RxCookie, c.Cookie64)
	tx, _ := cookie(c.TxCookie, c.Cookie64)
	w := state.Pseudowire{
		Device: c.Device, Hidden: hidden.Index, Peer: visible.Index, Kind: in.kind, Endpoints: state.Endpoints{Local: c.Src, Remote: c.Dst},
		RxID: in.id, TxID: out.id, RxCookie: rx, TxCookie: tx,
		Counter: c.Counter || c.Kind == L2TPv3 && c.Sequence, Pinned: c.PinCounter, Sequence: c.Sequence, Checksum: c.sums(),
		TTL: c.TTL, TOS: tos, DF: c.DF || c.Src.Is6(), Answer: c.TooBig == Answer, MTU: c.MTU, XDP: hidden.XDPTarget,
		Build: p.facts.Builds["pseudowire_encap"],
	}
	if c.Bypass && !c.sums() && p.offload(c) {
		w.Bypass, w.Segments = true, c.segments()
	}
	if in.kind == state.PseudowireL2TPUDP {
		w.LocalPort, w.RemotePort = c.SrcPort, c.DstPort
	}
	p.ends = append(p.ends, w)
	port := state.PseudowirePort{Kind: in.kind, Local: c.Src, Port: w.LocalPort}
	if in.kind != state.PseudowireL2TPUDP {
		port.Remote = c.Dst
	}
	p.once(&p.ends, port)
}

// promised reports whether an interface of the file is to have an address.
func (p *planner) promised(a netip.Addr) bool {
	for _, i := range p.faces {
		for _, prefix := range i.Addresses {
			if prefix.Addr() == a {
				return true
			}
		}
	}
	return false
}

func (p *planner) once(list *state.Desired, o state.Object) {
	if !p.ports[o.Key()] {
		p.ports[o.Key()] = true
		*list = append(*list, o)
	}
}

// arrives has the programs look for packets where they come in.
func (p *planner) arrives(name string, c *Config) {
	at := func(n state.Need) {
		if _, there := p.links[n.Device]; there && !p.ports["need "+n.Device] {
			p.ports["need "+n.Device] = true
			n.XDP = state.Wanted
			p.needs = append(p.needs, n)
		}
	}
	without := func(device, path string) state.Need { // a section
		return state.Need{Device: device, Hook: config.HookTC, Roles: state.RolePseudowires, Path: path, Pos: p.f.Position(path)}
	}
	path := "pseudowire." + name
	names := c.Interfaces
	if len(names) == 0 {
		names = p.f.Names("interface")
		if l, ok := p.links[p.holder[c.Src]]; ok && p.faces[l.Name] == nil {
			at(without(l.Name, path+".src"))
		}
	} else {
		path += ".interfaces"
	}
	for _, n := range names {
		if need := p.f.Need(path, n, state.RolePseudowires); !p.named[need.Device] {
			at(need)
		}
	}
	if c.Dst.IsLoopback() || p.holder[c.Dst] != "" {
		at(without("lo", path))
		p.accepted(c)
	}
}

// accepted has the kernel take what the programs put on loopback for a program
// of this host: it does not come with a route, as what the stack sends does.
func (p *planner) accepted(c *Config) {
	if c.Src.Is6() {
		return
	}
	p.once(&p.settings, state.Sysctl{Name: "net/ipv4/conf/lo/accept_local", Value: "1"})
	if c.Src.IsLoopback() || c.Dst.IsLoopback() {
		p.once(&p.settings, state.Sysctl{Name: "net/ipv4/conf/lo/route_localnet", Value: "1"})
	}
}

// hiddenName is the same each time, and no name that people give.
func hiddenName(device string) string {
	sum := sha256.Sum256([]byte("weft hidden end " + device))
	return "wire" + hex.EncodeToString(sum[:5])
}

// mac gives a device the same locally administered link address each time. The
// two ends of a wire, which may well have one name, have different ones.
func (c *Config) mac() [6]byte {
	in, _ := c.ends()
	return state.StableMAC(fmt.Sprintf("weft pseudowire %s %d %s %s %d %d %d", c.Device, in.kind, in.local, in.remote, in.port, in.from, in.id))
}
