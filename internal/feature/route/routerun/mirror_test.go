package routerun

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/fib"
	"weft/internal/feature/route"
	"weft/internal/kernel"
	"weft/internal/kernel/rtnetlink"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// memory is a route.Tables that a test can read.
type memory struct {
	nexthops   map[uint32]state.Nexthop
	neighbours map[uint32]state.NeighbourEntry
	groups     map[uint32]uint32
}

func (m *memory) SetNexthop(n uint32, h state.Nexthop) error { m.nexthops[n] = h; return nil }
func (m *memory) SetNeighbour(n uint32, e state.NeighbourEntry) error {
	m.neighbours[n] = e
	return nil
}
func (m *memory) SetGroup(at uint32, members []uint32) error {
	m.groups[at] = uint32(len(members))
	for i, n := range members {
		m.groups[at+1+uint32(i)] = n
	}
	return nil
}
func (m *memory) Grace() error { return nil }

// model is a router whose routes change at random, and weft's mirror of them.
type model struct {
	t       *testing.T
	space   *netspace.Space
	memory  *memory
	fibs    [2]*fib.Table
	mirror  *mirror
	kernel  *kernel.Kernel
	matcher *rtnetlink.Matcher
	marker  int
	random  *rand.Rand
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, space: spacetest.New(t, "model"), random: rand.New(rand.NewPCG(seed, 1)),
		memory: &memory{map[uint32]state.Nexthop{}, map[uint32]state.NeighbourEntry{}, map[uint32]uint32{}},
	}
	var err error
	if m.fibs[0], err = fib.New4(make([]uint32, fib.MinWords4+1<<16)); err == nil {
		m.fibs[1], err = fib.New6(make([]uint32, fib.MinWords6+1<<16))
	}
	if err != nil {
		t.Fatal(err)
	}
	var feed *rtnetlink.Feed
	err = m.space.Do(func() (err error) {
		if m.kernel, err = kernel.Open(t.TempDir()); err != nil {
			return err
		}
		if m.matcher, err = rtnetlink.OpenMatcher(); err != nil {
			return err
		}
		feed, err = rtnetlink.OpenFeed()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	service := route.New(m.memory, route.Numbers{First: 1, Last: 5000},
		route.TableSpec{Kernel: state.TableMain, IPv4: m.fibs[0], IPv6: m.fibs[1]})
	ready := make(chan struct{})
	m.mirror = newMirror(slog.New(slog.DiscardHandler), feed, service, m.memory, func() error { close(ready); return nil })
	m.topology()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.mirror.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		feed.Close()
		m.matcher.Close()
		m.kernel.Close()
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("the mirror ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the mirror is not ready")
	}
	return m
}

// ip runs lines as `ip -batch` does, those that begin with -6 as `ip -6`; some
// of a random lot fail, which is fine.
func (m *model) ip(lines ...string) {
	m.t.Helper()
	for len(lines) > 0 {
		six, n := strings.HasPrefix(lines[0], "-6 "), 0
		var text strings.Builder
		for ; n < len(lines) && strings.HasPrefix(lines[n], "-6 ") == six; n++ {
			text.WriteString(strings.TrimPrefix(lines[n], "-6 ") + "\n")
		}
		lines = lines[n:]
		c := exec.Command("ip", "-force", "-batch", "-")
		if six {
			c = exec.Command("ip", "-6", "-force", "-batch", "-")
		}
		c.Stdin = strings.NewReader(text.String())
		if err := m.space.Start(c); err != nil {
			m.t.Fatal(err)
		}
		_ = c.Wait()
	}
}

const devices = 3

func (m *model) topology() {
	lines := []string{"link set lo up"}
	for d := range devices {
		lines = append(lines, fmt.Sprintf("link add dev d%d type veth peer name p%d", d, d), fmt.Sprintf("link set p%d up", d))
	}
	for d := range devices {
		lines = append(lines, m.deviceUp(d)...)
	}
	m.ip(lines...)
}

func (m *model) deviceUp(d int) []string {
	lines := []string{
		fmt.Sprintf("link set d%d up", d),
		fmt.Sprintf("addr add 10.%d.0.1/16 dev d%d", d, d),
		fmt.Sprintf("addr add 2001:db8:%d::1/64 dev d%d nodad", d, d),
	}
	for g := 2; g < 6; g++ {
		lines = append(lines,
			fmt.Sprintf("neigh replace 10.%d.0.%d lladdr 02:00:00:00:%02x:%02x dev d%d nud permanent", d, g, d, g, d),
			fmt.Sprintf("neigh replace 2001:db8:%d::%d lladdr 02:06:00:00:%02x:%02x dev d%d nud permanent", d, g, d, g, d))
	}
	return lines
}

// settle waits until the mirror has heard all that happened before. A listing
// tells of a route before the news of what happened earlier are read, so it
// takes one more look after the last of them.
func (m *model) settle() {
	m.t.Helper()
	for {
		before := m.resyncs()
		m.receives()
		if m.resyncs() == before {
			return
		}
	}
}

func (m *model) resyncs() (n uint64) {
	m.t.Helper()
	if err := m.mirror.with(context.Background(), func(*route.Service) { n = m.mirror.resyncs.Load() }); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// hears waits until the mirror knows of a route that is new.
func (m *model) receives() {
	m.t.Helper()
	m.marker++
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(m.marker >> 8), byte(m.marker)}), 32)
	m.ip(fmt.Sprintf("route add blackhole %s metric 77", p))
	deadline := time.Now().Add(time.Minute)
	for {
		done := false
		err := m.mirror.with(context.Background(), func(s *route.Service) {
			_, received := m.fibs[0].Get(p)
			done = received && !s.Stale()
		})
		if err != nil {
			m.t.Fatal(err)
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatal("the mirror does not settle")
		}
	}
}

// words returns what a fib's value leads to.
func (m *model) words(n uint32) string {
	h := m.memory.nexthops[n]
	switch h.Kind {
	case state.NexthopNeighbour:
		e := m.memory.neighbours[h.Index]
		return fmt.Sprintf("%d/%x/%d", e.IfIndex, e.Dst, e.MTU)
	case state.NexthopGroup:
		members := map[string]bool{}
		for i := range m.memory.groups[h.Index] {
			members[m.words(m.memory.groups[h.Index+1+i])] = true
		}
		return "one of " + join(members)
	}
	return h.Kind.String()
}

func join(set map[string]bool) string {
	var list []string
	for w := range set {
		list = append(list, w)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// kernelWords says in the same words what the kernel has for an address.
func (m *model) kernelWords(a netip.Addr, neighbours map[string]string, mtus map[int]uint32) string {
	r, ok, err := m.matcher.Match(context.Background(), a)
	if err != nil {
		m.t.Fatal(err)
	}
	if !ok {
		return "nothing"
	}
	switch r.Type {
	case state.RouteLocal, state.RouteBroadcast, state.RouteAnycast, state.RouteMulticast:
		return "local"
	case state.RouteBlackhole:
		return "blackhole"
	case state.RouteUnreachable, state.RouteProhibit:
		return "unreachable"
	}
	ways := map[string]bool{}
	for _, h := range r.Hops {
		gateway := h.Gateway
		if !gateway.IsValid() {
			gateway = a
		}
		mac, known := neighbours[fmt.Sprintf("%s dev %d", gateway, h.Device)]
		mtu := mtus[h.Device]
		if r.MTU != 0 {
			mtu = min(mtu, r.MTU)
		}
		if known {
			ways[fmt.Sprintf("%d/%s/%d", h.Device, mac, mtu)] = true
		} else {
			ways["stack"] = true
		}
	}
	if len(ways) > 1 {
		return "one of " + join(ways)
	}
	return join(ways)
}

// compare waits until both say the same of every boundary address. What the lines
// of the history did the mirror has heard; but the kernel does some of it later,
// and by itself: it tells up to a second after a device is up that it runs
// (linkwatch), and then changes its routes.
func (m *model) compare(history []string) (left, own int) {
	m.t.Helper()
	for end := time.Now().Add(patience); ; m.settle() {
		left, own, wrong := m.differ()
		if len(wrong) == 0 {
			return left, own
		}
		if time.Now().After(end) {
			m.t.Fatalf("%d addresses wrong, such as\n%s\nafter\n%s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "\n"), strings.Join(history[max(0, len(history)-400):], "\n"))
		}
	}
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// differ asks both for every boundary address. Leaving one to the kernel is never
// wrong; it gives how many were, how many were not, and what differs.
func (m *model) differ() (left, own int, wrong []string) {
	m.t.Helper()
	neighbours, mtus := m.observed()
	addresses := map[netip.Addr]bool{}
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255}) // never looked up
	for _, p := range m.prefixes() {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if a.IsValid() && !a.IsMulticast() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() && a != broadcast {
				addresses[a] = true
			}
		}
	}
	ours := map[netip.Addr]string{}
	err := m.mirror.with(context.Background(), func(*route.Service) { // it may be writing
		for a := range addresses {
			f := m.fibs[0]
			if a.Is6() {
				f = m.fibs[1]
			}
			ours[a] = "nothing"
			if n, ok := f.Lookup(a); ok {
				ours[a] = m.words(n)
			}
		}
	})
	if err != nil {
		m.t.Fatal(err)
	}
	for a := range addresses {
		theirs := m.kernelWords(a, neighbours, mtus)
		ours, alike := sameWay(ours[a], theirs)
		switch {
		case ours == "stack":
			left++
		case !alike:
			wrong = append(wrong, fmt.Sprintf("%s: weft has %s, the kernel %s", a, ours, theirs))
		default:
			own++
		}
	}
	return left, own, wrong
}

// sameWay compares; of a group, members that are left to the kernel may be any,
// and the kernel's group with one way left is that way.
func sameWay(ours, theirs string) (string, bool) {
	set := func(s string) map[string]bool {
		m := map[string]bool{}
		for _, w := range strings.Fields(strings.TrimPrefix(s, "one of ")) {
			m[w] = true
		}
		return m
	}
	mine, kernels := set(ours), set(theirs)
	delete(mine, "stack")
	if len(mine) == 0 {
		return "stack", true
	}
	for w := range mine {
		if !kernels[w] {
			return ours, false
		}
	}
	return ours, true
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// observed lists the neighbours that the kernel can reach, and MTUs.
func (m *model) observed() (map[string]string, map[int]uint32) {
	o := &observer{neighbours: map[string]string{}, mtus: map[int]uint32{}}
	m.dump(o)
	return o.neighbours, o.mtus
}

func (m *model) prefixes() []netip.Prefix {
	o := &observer{neighbours: map[string]string{}, mtus: map[int]uint32{}}
	m.dump(o)
	return o.prefixes
}

func (m *model) dump(o *observer) {
	m.t.Helper()
	err := m.space.Do(func() error {
		feed, err := rtnetlink.OpenFeed()
		if err != nil {
			return err
		}
		defer feed.Close()
		return feed.Dump(context.Background(), o)
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// observer is a rtnetlink.Sink that notes what compare needs.
type observer struct {
	neighbours map[string]string
	mtus       map[int]uint32
	prefixes   []netip.Prefix
	routes     int
}

func (o *observer) Link(l state.KernelLink) { o.mtus[l.Index] = uint32(l.MTU) }
func (o *observer) Neighbour(n state.KernelNeighbour) {
	if n.State.Usable() {
		o.neighbours[fmt.Sprintf("%s dev %d", n.Addr, n.Device)] = fmt.Sprintf("%x", n.MAC)
	}
}
func (o *observer) Route(r *state.KernelRoute, _ state.RouteChange) {
	o.routes++
	o.prefixes = append(o.prefixes, r.Prefix)
}
func (o *observer) LinkGone(int)                        {}
func (o *observer) NeighbourGone(state.KernelNeighbour) {}
func (o *observer) BridgeEntry(state.BridgeEntry)       {}
func (o *observer) BridgeEntryGone(state.BridgeEntry)   {}
func (o *observer) Object(state.NexthopObject)          {}
func (o *observer) ObjectGone(uint32)                   {}
func (o *observer) Rules([]state.KernelRule)            {}
func (o *observer) RoutesMayBeGone()                    {}

// change is one random line for `ip -batch`.
func (m *model) change() []string {
	r := m.random
	d := r.IntN(devices)
	six := r.IntN(2) == 0
	p, gateway := m.prefix4(), func() string { return fmt.Sprintf("via 10.%d.0.%d dev d%d", d, 2+r.IntN(5), d) }
	flag := ""
	if six {
		flag = "-6 "
		p, gateway = m.prefix6(), func() string { return fmt.Sprintf("via 2001:db8:%d::%d dev d%d", d, 2+r.IntN(5), d) }
	}
	verb := []string{"add", "replace", "del"}[r.IntN(3)]
	if r.IntN(12) == 0 {
		verb = []string{"append", "prepend"}[r.IntN(2)] // only the kernel knows which of two it takes
	}
	metric := []string{"", "metric 5", "metric 5", "metric 2000"}[r.IntN(4)]
	if six && metric == "" {
		metric = "metric 1024"
	}
	line := func(how string) []string { return []string{fmt.Sprintf("%sroute %s %s", flag, verb, how)} }
	switch r.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6:
		return line(fmt.Sprintf("%s %s %s", p, gateway(), metric))
	case 7, 8, 9:
		hops := ""
		for range 2 + r.IntN(2) {
			d = r.IntN(devices)
			hops += fmt.Sprintf(" nexthop %s weight %d", gateway(), 1+r.IntN(4))
		}
		return line(fmt.Sprintf("%s %s %s", p, metric, hops))
	case 10:
		kind := []string{"blackhole", "unreachable", "prohibit", "throw"}[r.IntN(4)]
		return line(fmt.Sprintf("%s %s %s", kind, p, metric))
	case 11:
		return line(fmt.Sprintf("%s %s %s mtu %d", p, gateway(), metric, 1280+r.IntN(100)))
	case 12:
		return line(fmt.Sprintf("%s dev d%d %s", p, d, metric))
	case 13, 14:
		id := 1 + r.IntN(6)
		if six {
			id += 10
		}
		return line(fmt.Sprintf("%s nhid %d %s", p, id, metric))
	case 15, 16:
		id := 1 + r.IntN(4)
		if six {
			id += 10
		}
		return []string{fmt.Sprintf("%snexthop replace id %d %s", flag, id, gateway())}
	case 17:
		id, a, b := 5+r.IntN(2), 1+r.IntN(4), 1+r.IntN(4)
		if six {
			id, a, b = id+10, a+10, b+10
		}
		return []string{fmt.Sprintf("nexthop replace id %d group %d,%d/%d,%d", id, a, 1+r.IntN(3), b, 1+r.IntN(3))}
	case 18:
		id := 1 + r.IntN(6)
		if six {
			id += 10
		}
		if r.IntN(3) == 0 {
			return []string{fmt.Sprintf("nexthop del id %d", id)}
		}
		return nil
	case 19:
		if r.IntN(4) == 0 {
			return append([]string{fmt.Sprintf("link set d%d down", d)}, m.deviceUp(d)...)
		}
		return []string{fmt.Sprintf("link set d%d mtu %d", d, 1400+r.IntN(3)*50)}
	case 20:
		return []string{fmt.Sprintf("neigh replace 10.%d.0.%d lladdr 02:00:00:01:%02x:%02x dev d%d nud permanent", d, 2+r.IntN(4), r.IntN(4), r.IntN(4), d)}
	case 21:
		g := 2 + r.IntN(4)
		return []string{fmt.Sprintf("neigh del 10.%d.0.%d dev d%d", d, g, d), fmt.Sprintf("neigh del 2001:db8:%d::%d dev d%d", d, g, d)}
	case 22:
		return []string{
			fmt.Sprintf("neigh replace 10.%d.%d.9 lladdr 02:00:00:09:%02x:%02x dev d%d nud permanent", d, r.IntN(4), d, r.IntN(4), d),
			fmt.Sprintf("neigh replace 2001:db8:%d::%x lladdr 02:06:00:09:%02x:%02x dev d%d nud permanent", d, 9+r.IntN(4), d, r.IntN(4), d),
		}
	}
	return []string{
		fmt.Sprintf("addr %s 10.%d.%d.7/24 dev d%d", []string{"add", "del"}[r.IntN(2)], d, 1+r.IntN(3), d),
		fmt.Sprintf("route %s local 198.18.0.0/%d dev lo table local", []string{"add", "del"}[r.IntN(2)], 16+r.IntN(2)*8),
		fmt.Sprintf("-6 route %s local 2001:db8:ffff::/%d dev lo table local", []string{"add", "del"}[r.IntN(2)], 48+r.IntN(2)*8),
	}
}

// prefix4 gives one of few prefixes, so that they meet and nest.
func (m *model) prefix4() string {
	r := m.random
	switch r.IntN(8) {
	case 0:
		return "default"
	case 1:
		return fmt.Sprintf("10.%d.%d.9/32", r.IntN(devices), r.IntN(4))
	case 2:
		return fmt.Sprintf("10.%d.%d.0/24", r.IntN(devices), r.IntN(4))
	}
	a := netip.AddrFrom4([4]byte{198, 18, byte(r.IntN(4)), byte(r.IntN(4))})
	return netip.PrefixFrom(a, 12+r.IntN(21)).Masked().String()
}

func (m *model) prefix6() string {
	r := m.random
	switch r.IntN(8) {
	case 0:
		return "default"
	case 1:
		return fmt.Sprintf("2001:db8:%d::%x/128", r.IntN(devices), 9+r.IntN(4))
	}
	a := netip.MustParseAddr("2001:db8:ffff::").As16()
	a[7], a[9], a[15] = byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(4))
	return netip.PrefixFrom(netip.AddrFrom16(a), 20+r.IntN(109)).Masked().String()
}

func TestTheMirrorAgreesWithTheKernelAfterRandomChanges(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed)
			var history []string
			left, own := 0, 0
			for range 8 {
				var lines []string
				for range 60 {
					lines = append(lines, m.change()...)
				}
				m.ip(lines...)
				history = append(history, lines...)
				m.settle()
				l, o := m.compare(history)
				left, own = left+l, own+o
			}
			t.Logf("%d addresses left to the kernel, %d not", left, own)
			if own < left/4 {
				t.Errorf("%d addresses are left to the kernel, only %d are not", left, own)
			}
		})
	}
}
