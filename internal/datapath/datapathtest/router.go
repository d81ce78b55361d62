package datapathtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/datapath/fibtable"
	"weft/internal/state"
)

// router is a bench whose lan is routed.
type Router struct {
	*Bench
	routes *fibtable.Routes
	First  uint32 // number of next hop 0
	tables map[int]map[string]*fib.Table
}

const Router4, Router6 = "192.0.2.1", "2001:db8:ffff::1"

var Builds = []string{"ingress_xdp", "ingress_tc"}

func NewRouter(t *testing.T, parts ...datapath.Part) *Router {
	t.Helper()
	b := New(t, Usual, parts...)
	b.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass, false).With(state.RoleRouted, p.Device == "lan")
	})
	routes, err := fibtable.Of(b.Datapath).Routes()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { routes.Close() })
	r := &Router{Bench: b, routes: routes, tables: map[int]map[string]*fib.Table{}}
	r.First, _ = routes.Range()
	r.First--
	for hop, n := range map[uint32]state.NeighbourEntry{
		1: r.Neighbour(1, 1500, true), 2: r.Neighbour(2, 1280, true), 7: r.Neighbour(7, 1500, false),
	} {
		r.Reach(hop, n)
	}
	for hop, kind := range map[uint32]state.NexthopKind{
		3: state.NexthopBlackhole, 4: state.NexthopUnreachable, 5: state.NexthopLocal, 6: state.NexthopStack,
	} {
		r.Set(hop, state.Nexthop{Kind: kind})
	}
	members := []uint32{r.First + 1, r.First + 2, r.First + 2, r.First + 2}
	if err := routes.SetGroup(r.First+100, members); err != nil {
		t.Fatal(err)
	}
	r.Set(8, state.Nexthop{Kind: state.NexthopGroup, Index: r.First + 100})
	for hop := range uint32(8) {
		r.Route(0, fmt.Sprintf("198.51.%d.0/24", 100+hop), hop+1)
		r.Route(0, fmt.Sprintf("2001:db8:%x::/48", 1+hop), hop+1)
	}
	r.Publish()
	return r
}

// neighbour is one behind wan, whose link address ends in its number.
func (r *Router) Neighbour(number byte, mtu uint32, xdp bool) state.NeighbourEntry {
	return state.NeighbourEntry{
		IfIndex: uint32(r.Links["wan"].Index), MTU: mtu, XDP: xdp,
		Dst: [6]byte{2, 0, 0, 0, 1, number}, Src: r.Links["wan"].MAC,
	}
}

func (r *Router) Set(hop uint32, to state.Nexthop) {
	r.T.Helper()
	if err := r.routes.SetNexthop(r.First+hop, to); err != nil {
		r.T.Fatal(err)
	}
}

// reach makes a next hop lead to a neighbour of the same number.
func (r *Router) Reach(hop uint32, n state.NeighbourEntry) {
	r.T.Helper()
	if err := r.routes.SetNeighbour(r.First+hop, n); err != nil {
		r.T.Fatal(err)
	}
	r.Set(hop, state.Nexthop{Kind: state.NexthopNeighbour, Index: r.First + hop})
}

func (r *Router) Route(table int, prefix string, hop uint32) {
	r.T.Helper()
	p := netip.MustParsePrefix(prefix)
	if r.tables[table] == nil {
		r.makeTables(table)
	}
	f := "fib4"
	if p.Addr().Is6() {
		f = "fib6"
	}
	if err := r.tables[table][f].Insert(p, r.First+hop); err != nil {
		r.T.Fatal(err)
	}
}

func (r *Router) makeTables(table int) {
	r.T.Helper()
	words4, err4 := r.routes.Words4(table)
	words6, err6 := r.routes.Words6(table)
	table4, err44 := fib.New4(words4)
	table6, err66 := fib.New6(words6)
	if err := errors.Join(err4, err6, err44, err66); err != nil {
		r.T.Fatal(err)
	}
	r.tables[table] = map[string]*fib.Table{"fib4": table4, "fib6": table6}
}

func (r *Router) Publish() {
	r.T.Helper()
	if err := r.routes.Publish(); err != nil {
		r.T.Fatal(err)
	}
}

// one runs a frame through a build and gives what it met.
func (r *Router) One(build string, frame []byte) (Result, state.Outcome) {
	r.T.Helper()
	res := r.Run(build, "lan", frame)[0]
	o, err := Variant{Program: build}.Outcome(res)
	if err != nil {
		r.T.Fatalf("%s: %v", build, err)
	}
	return res, o
}

// verdictOf is what a build must return for an outcome.
func VerdictOf(build string, o state.Outcome) uint32 {
	name := "tc"
	if build == "ingress_xdp" {
		name = "xdp"
	}
	return Variant{Name: name, Program: build}.Verdict(o)
}

// hopped is a frame of lan as it leaves towards a neighbour: what routing may
// change is the link header and the TTL, with the IPv4 header checksum.
func Hopped(frame []byte, to state.NeighbourEntry) []byte {
	ip := FewerHops(bytes.Clone(frame[14:]))
	if IsIPv4(ip) {
		Healed(ip)
	}
	out := append(append([]byte{}, to.Dst[:]...), to.Src[:]...)
	return append(append(out, frame[12:14]...), ip...)
}

var (
	NoTags  = state.VLANTags{}
	Vlan7   = state.VLANTags{{Proto: state.VLANCustomer, ID: 7}}
	Vlan8   = state.VLANTags{{Proto: state.VLANCustomer, ID: 8}}
	Service = state.VLANTags{{Proto: state.VLANService, ID: 100}}
	Qinq    = state.VLANTags{{Proto: state.VLANService, ID: 100}, {Proto: state.VLANCustomer, ID: 7}}
	Mac7    = [6]byte{2, 0, 0, 0, 7, 7} // of the VLAN interface
)

// tagged puts tags into a frame, each with priority bits.
func Tagged(frame []byte, tags state.VLANTags, priority uint16) []byte {
	out := bytes.Clone(frame[:12])
	for _, tag := range tags[:tags.Len()] {
		out = binary.BigEndian.AppendUint16(out, tag.Proto)
		out = binary.BigEndian.AppendUint16(out, tag.ID|priority)
	}
	return append(out, frame[12:]...)
}

// to returns frame with another destination.
func To(frame []byte, mac [6]byte) []byte { return With(frame, 0, mac[:]...) }

// seen is a frame as TC shows it: the outermost tag is not in it.
func Seen(build string, frame []byte, tags state.VLANTags) []byte {
	if build == "ingress_tc" && tags.Len() > 0 {
		return append(bytes.Clone(frame[:12]), frame[16:]...)
	}
	return frame
}

// stack makes an interface on top of lan.
func (r *Router) Stack(tags state.VLANTags, device string, mac [6]byte, routed bool) {
	r.T.Helper()
	r.Apply(state.IngressEntry{Device: device, MAC: mac, Roles: state.Roles(0).With(state.RoleRouted, routed)})
	r.Apply(state.Lower{Device: "lan", Tags: tags, Upper: device})
}

func (r *Router) Apply(o state.Object) {
	r.T.Helper()
	r.In(func() error {
		return r.Datapath.Apply(r.T.Context(), state.Step{Op: state.Add, Object: o})
	})
}
