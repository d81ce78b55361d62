package nat64table

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/internal/translate/session"
)

// shared is the router that stateful tests go through: two pool addresses of
// which the second has few ports.
const shared = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
bypass = true
[interface.wan]
addresses = ["198.51.100.1/24"]
bypass = true
[nat64.main]
mode = "stateful"
prefix = "64:ff9b:1::/96"
interfaces = ["lan", "wan"]
pools = [{ ipv4 = "192.0.2.1", ports = "1-65535" }]
static = [{ protocol = "tcp", ipv6 = "[2001:db8:3::80]:8080", ipv4 = "192.0.2.1:80" }]
`

const pool4 = "192.0.2.1"

// newStateful is newBench with empty tables of state and the clock at zero.
func newStateful(t *testing.T, toml string) *bench {
	t.Helper()
	b := newBench(t, toml, parts()...)
	b.forget()
	b.clock(1000)
	return b
}

// forget ends all bindings and sessions.
func (b *bench) forget() {
	b.T.Helper()
	for _, name := range []string{"nat64_bib6", "nat64_bib4", "nat64_sessions", "nat64_subscribers", "nat64_peers"} {
		if err := datapathtest.EmptyMap(b.Table(name)); err != nil {
			b.T.Fatal(err)
		}
	}
	free := b.Table("nat64_slots_free")
	for {
		var at uint32
		if free.LookupAndDelete(nil, &at) != nil {
			break
		}
	}
	fragments, err := datapath.InnerMaps(b.Table(fastSets))
	if err != nil {
		b.T.Fatal(err)
	}
	defer datapath.CloseInner(fragments)
	for _, fragment := range fragments {
		if err := fragment.Put(uint32(0), make([]byte, fragment.ValueSize())); err != nil {
			b.T.Fatal(err)
		}
	}
	if err := b.Table("nat64_sweep_states").Put(uint32(0), sweepState{}); err != nil {
		b.T.Fatal(err)
	}
}

// clock sets the time, in ticks.
func (b *bench) clock(ticks uint32) {
	b.T.Helper()
	if err := b.Table("nat64_clock").Put(uint32(0), ticks); err != nil {
		b.T.Fatal(err)
	}
}

// count returns how many entries a table has.
func (b *bench) count(name string) (n int) {
	b.T.Helper()
	m := b.Table(name)
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	for it := m.Iterate(); it.Next(&key, &value); {
		n++
	}
	return n
}

// flow is one packet of a stateful test: ports are those of TCP and UDP, or
// the identifier of an echo in both.
type flow struct {
	from, to string // address:port
	protocol byte   // of IPv4
	flags    byte   // TCP; for an echo 1 is a request
}

func (f flow) packet() datapathtest.Packet {
	from, to := netip.MustParseAddrPort(f.from), netip.MustParseAddrPort(f.to)
	a, z := from.Addr().String(), to.Addr().String()
	switch f.protocol {
	case 6:
		seg := datapathtest.TcpSegment(a, z, f.flags, nil, 5)
		binary.BigEndian.PutUint16(seg, from.Port())
		binary.BigEndian.PutUint16(seg[2:], to.Port())
		return datapathtest.Packet{From: a, To: z, Protocol: 6, Payload: datapathtest.Seal(seg, 16, a, z, 6)}
	case 17:
		seg := datapathtest.UdpSegment(a, z, datapathtest.Counting(5))
		binary.BigEndian.PutUint16(seg, from.Port())
		binary.BigEndian.PutUint16(seg[2:], to.Port())
		return datapathtest.Packet{From: a, To: z, Protocol: 17, Payload: datapathtest.Seal(seg, 6, a, z, 17)}
	}
	p := datapathtest.Echo(a, z, f.flags != 1, 5)
	id := from.Port()
	if id == 0 {
		id = to.Port()
	}
	binary.BigEndian.PutUint16(p.Payload[4:], id)
	datapathtest.Seal(p.Payload, 2, a, z, p.Protocol)
	return p
}

// cross sends a packet along a road, fails unless it meets outcome, and gives
// the packet that leaves.
func (b *bench) cross(r datapathtest.Variant, name string, f flow, want state.Outcome) []byte {
	b.T.Helper()
	in := f.packet().Bytes()
	frame := b.Frame(datapathtest.Side(in), in)
	res := b.Run(r.Program, r.From(in), frame)[0]
	got, err := r.Outcome(res)
	if err != nil {
		b.T.Fatalf("%s: %v", name, err)
	}
	if meets := r.Meets(want, datapathtest.IsIPv4(in)); got != meets {
		b.T.Fatalf("%s: met %s, want %s", name, got, meets)
	}
	if got.Verdict() != state.Forward {
		if got.Verdict() != state.Slow && string(res.Frame) != string(frame) {
			b.T.Fatalf("%s: refused, and yet it was changed", name)
		}
		return nil
	}
	return res.Frame[14:]
}

// crossesAs is cross for a packet that must come out as another one does.
func (b *bench) crossesAs(r datapathtest.Variant, name string, in, out flow, want state.Outcome) {
	b.T.Helper()
	got := b.cross(r, name, in, want)
	p := out.packet().Bytes()
	if r.Bypass {
		p = datapathtest.FewerHops(p)
	}
	if datapathtest.IsIPv4(p) {
		copy(p[4:6], got[4:6])
		datapathtest.Healed(p)
	}
	if string(got) != string(p) {
		b.T.Fatalf("%s: made\n     %x, want\n     %x", name, got, p)
	}
}

// bothWays returns the roads that take both directions.
func bothWays() (list []datapathtest.Variant) {
	for _, r := range datapathtest.Variants() {
		if r.Takes4 {
			list = append(list, r)
		}
	}
	return list
}

// onEachVariant runs a test on fresh state along each road.
func onEachVariant(t *testing.T, toml string, test func(b *bench, r datapathtest.Variant)) {
	t.Helper()
	for _, r := range bothWays() {
		t.Run(strings.ReplaceAll(r.Name, " ", "-"), func(t *testing.T) {
			b := newStateful(t, toml)
			b.TakeVariant(r)
			test(b, r)
		})
	}
}

const (
	client6 = "[2001:db8:3::77]:4000"
	remote6 = "[64:ff9b:1::8.8.8.8]:53"
	remote4 = "8.8.8.8:53"
)

func TestAnAnswerFindsItsWayBack(t *testing.T) {
	for _, protocol := range []byte{6, 17, 1} {
		onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
			to, remote := remote6, remote4
			ask, answer := byte(2), byte(0x12)
			if protocol == 1 {
				to, remote, ask, answer = "[64:ff9b:1::8.8.8.8]:4000", "8.8.8.8:0", 1, 0
			}
			out := b.cross(r, "the first packet", flow{client6, to, protocol, ask}, to4)
			bound, far := datapathtest.Ends(out)
			// identifiers of echoes know no privileged range
			if bound.Addr().String() != pool4 || bound.Port() < 1024 && protocol != 1 || far.Addr().String() != "8.8.8.8" {
				b.T.Fatalf("protocol %d went from %s to %s", protocol, bound, far)
			}
			if protocol == 1 {
				remote = netip.AddrPortFrom(far.Addr(), bound.Port()).String()
			}
			b.crossesAs(r, "the same again", flow{client6, to, protocol, ask}, flow{bound.String(), remote, protocol, ask}, to4)
			b.crossesAs(r, "its answer", flow{remote, bound.String(), protocol, answer}, flow{to, client6, protocol, answer}, to6)
			if n, m := b.count("nat64_bib6"), b.count("nat64_sessions"); n != 1 || m != 1 {
				b.T.Errorf("%d bindings and %d sessions, want one each", n, m)
			}
		})
	}
}

func TestABindingIsTheSameForEveryDestination(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		first, _ := datapathtest.Ends(b.cross(r, "to one", flow{client6, remote6, 17, 0}, to4))
		second, _ := datapathtest.Ends(b.cross(r, "to another", flow{client6, "[64:ff9b:1::9.9.9.9]:99", 17, 0}, to4))
		if first != second {
			b.T.Errorf("bound to %s and to %s (RFC 4787 REQ-1)", first, second)
		}
		if first.Port()%2 != 0 {
			b.T.Errorf("an even port became %d (RFC 4787 REQ-4)", first.Port())
		}
		low, _ := datapathtest.Ends(b.cross(r, "from a low port", flow{"[2001:db8:3::77]:53", remote6, 17, 0}, to4))
		if low.Port() >= 1024 || low.Port()%2 != 1 {
			b.T.Errorf("port 53 became %d (RFC 4787 REQ-3, REQ-4)", low.Port())
		}
		b.crossesAs(r, "from another host", flow{"7.7.7.7:7", first.String(), 17, 0}, flow{"[64:ff9b:1::7.7.7.7]:7", client6, 17, 0}, to6)
	})
}

func TestWhatNothingLetsInStaysOut(t *testing.T) {
	for filtering, c := range map[string]struct{ other, otherPort state.Outcome }{
		"endpoint-independent":       {to6, to6},
		"address-dependent":          {state.DropFiltered, to6},
		"address-and-port-dependent": {state.DropFiltered, state.DropFiltered},
	} {
		onEachVariant(t, shared+fmt.Sprintf("filtering = %q\n", filtering), func(b *bench, r datapathtest.Variant) {
			b.cross(r, "to an unbound port", flow{remote4, pool4 + ":7777", 17, 0}, state.DropNoBinding)
			bound, _ := datapathtest.Ends(b.cross(r, "out", flow{client6, remote6, 17, 0}, to4))
			b.cross(r, "from the same address and port", flow{remote4, bound.String(), 17, 0}, to6)
			b.cross(r, "from another address", flow{"9.9.9.9:53", bound.String(), 17, 0}, c.other)
			b.cross(r, "from another port", flow{"8.8.8.8:54", bound.String(), 17, 0}, c.otherPort)
			tcp, _ := datapathtest.Ends(b.cross(r, "out by TCP", flow{client6, remote6, 6, 2}, to4))
			other := c.other
			if other == state.DropFiltered {
				other = state.SlowSyn
			}
			b.cross(r, "a SYN from another address", flow{"9.9.9.9:53", tcp.String(), 6, 2}, other)
			b.cross(r, "static, from anywhere", flow{"9.9.9.9:9999", pool4 + ":80", 6, 2}, to6)
		})
	}
}

func TestAStaticBindingIsReachedAndAnswers(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		in := flow{"9.9.9.9:9999", pool4 + ":80", 6, 2}
		b.crossesAs(r, "SYN", in, flow{"[64:ff9b:1::9.9.9.9]:9999", "[2001:db8:3::80]:8080", 6, 2}, to6)
		back := flow{"[2001:db8:3::80]:8080", "[64:ff9b:1::9.9.9.9]:9999", 6, 0x12}
		b.crossesAs(r, "SYN and ACK", back, flow{pool4 + ":80", "9.9.9.9:9999", 6, 0x12}, to4)
		b.cross(r, "an ACK without connection", flow{"9.9.9.9:9998", pool4 + ":80", 6, 0x10}, to6)
		b.cross(r, "by UDP", flow{"9.9.9.9:9999", pool4 + ":80", 17, 0}, state.DropNoBinding)
	})
}

func TestTCPWithoutSYNOpensNothing(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		b.cross(r, "an ACK", flow{client6, remote6, 6, 0x10}, state.DropNoBinding)
		b.cross(r, "a reset", flow{client6, remote6, 6, 4}, state.DropNoBinding)
		b.cross(r, "an echo reply", flow{client6, "[64:ff9b:1::8.8.8.8]:4000", 1, 0}, state.DropNoBinding)
		if n := b.count("nat64_bib6") + b.count("nat64_sessions") + b.count("nat64_subscribers"); n != 0 {
			b.T.Errorf("%d entries are left", n)
		}
	})
}

func TestTimeEndsSessionsAndTheirBindings(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		first, _ := datapathtest.Ends(b.cross(r, "out", flow{client6, remote6, 17, 0}, to4))
		b.clock(1000 + ticks(300e9) - 1)
		if err := Of(b.Datapath).Sweep(); err != nil {
			b.T.Fatal(err)
		}
		b.cross(r, "in, at the last moment", flow{remote4, first.String(), 17, 0}, to6)
		b.clock(1000 + 2*ticks(300e9) + session.SlackMax)
		b.cross(r, "in, too late, not swept", flow{remote4, first.String(), 17, 0}, state.DropNoBinding)
		b.cross(r, "out again", flow{client6, remote6, 17, 0}, to4)
		b.clock(1000 + 4*ticks(300e9))
		if err := Of(b.Datapath).Sweep(); err != nil {
			b.T.Fatal(err)
		}
		for _, name := range []string{"nat64_bib6", "nat64_bib4", "nat64_sessions", "nat64_subscribers"} {
			if n := b.count(name); n != 0 {
				b.T.Errorf("%d entries are left in %s", n, name)
			}
		}
	})
}

// forgetByTime lets all sessions run out.
func (b *bench) forgetByTime() {
	b.T.Helper()
	var now uint32
	if err := b.Table("nat64_clock").Lookup(uint32(0), &now); err != nil {
		b.T.Fatal(err)
	}
	b.clock(now + ticks(7440e9) + 1)
	if err := Of(b.Datapath).Sweep(); err != nil {
		b.T.Fatal(err)
	}
}

// RFC 6888 REQ-4: a subscriber that takes all ports that it can keeps no other one out.
func TestASubscriberThatTakesAllKeepsOthersIn(t *testing.T) {
	toml := strings.Replace(shared, "1-65535", "2000-2007", 1)
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		for i := range 2 {
			b.cross(r, fmt.Sprint("port ", i), flow{fmt.Sprintf("[2001:db8:3::1]:%d", 4000+i), remote6, 6, 2}, to4)
		}
		for i := range 100 {
			b.cross(r, "beyond a quarter", flow{fmt.Sprintf("[2001:db8:3::%x]:5000", 0x100+i), remote6, 6, 2}, state.DropSubscriberLimit)
		}
		b.cross(r, "another subscriber", flow{"[2001:db8:4::1]:4000", remote6, 6, 2}, to4)
		b.cross(r, "what it has", flow{"[2001:db8:3::1]:4000", remote6, 6, 2}, to4)
	})
}

func TestAFullPoolRefusesAndKeepsWhatItHas(t *testing.T) {
	toml := strings.Replace(shared, "1-65535", "2000-2007", 1) + "fair_share = false\n"
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		used := map[uint16]bool{}
		for i := range 8 {
			bound, _ := datapathtest.Ends(b.cross(r, fmt.Sprint("client ", i), flow{fmt.Sprintf("[2001:db8:3::%x]:4000", 0x100+i), remote6, 6, 2}, to4))
			if used[bound.Port()] || bound.Port() < 2000 || bound.Port() > 2007 {
				b.T.Errorf("port %d", bound.Port())
			}
			used[bound.Port()] = true
		}
		b.cross(r, "one too many", flow{"[2001:db8:3::999]:4000", remote6, 6, 2}, state.DropPoolExhausted)
		b.cross(r, "an old one", flow{"[2001:db8:3::100]:4000", remote6, 6, 2}, to4)
		b.cross(r, "another protocol", flow{"[2001:db8:3::999]:4000", remote6, 17, 2}, to4)
		if n := b.count("nat64_sessions"); n != 9 {
			b.T.Errorf("%d sessions, want 9", n)
		}
	})
}

func TestASubscriberHasLimits(t *testing.T) {
	onEachVariant(t, shared+"ports_per_subscriber = 2\nsessions_per_subscriber = 3\n", func(b *bench, r datapathtest.Variant) {
		from := func(host, port int) string { return fmt.Sprintf("[2001:db8:3::%x]:%d", host, port) }
		b.cross(r, "port 1", flow{from(1, 4001), remote6, 6, 2}, to4)
		b.cross(r, "port 2", flow{from(2, 4002), remote6, 17, 0}, to4)
		b.cross(r, "port 3", flow{from(3, 4003), remote6, 6, 2}, state.DropSubscriberLimit)
		b.cross(r, "session 3", flow{from(1, 4001), "[64:ff9b:1::9.9.9.9]:53", 6, 2}, to4)
		b.cross(r, "session 4", flow{from(1, 4001), "[64:ff9b:1::9.9.9.8]:53", 6, 2}, state.DropSubscriberLimit)
		b.cross(r, "another subscriber", flow{"[2001:db8:2::1]:4001", remote6, 6, 2}, to4)
		b.forgetByTime()
		b.cross(r, "after a time", flow{from(3, 4003), remote6, 6, 2}, to4)
	})
}

func TestBlocksOfPortsAreFixed(t *testing.T) {
	toml := strings.Replace(shared, "192.0.2.1\", ports = \"1-65535\"", "192.0.2.0/31\", ports = \"1024-65535\"", 1) +
		"port_block = 2016\nsubscribers = \"2001:db8:4::/58\"\n" // 64 subscribers, 32 blocks an address
	onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
		for _, c := range []struct {
			client, pool string
			low          uint16
		}{{"2001:db8:4:0::5", "192.0.2.0", 1024}, {"2001:db8:4:1::5", "192.0.2.0", 1024 + 2016}, {"2001:db8:4:20::5", "192.0.2.1", 1024}, {"2001:db8:4:3f::5", "192.0.2.1", 1024 + 31*2016}} {
			for port := range 5 {
				bound, _ := datapathtest.Ends(b.cross(r, c.client, flow{fmt.Sprintf("[%s]:%d", c.client, 5000+port), remote6, 17, 0}, to4))
				if bound.Addr().String() != c.pool || bound.Port() < c.low || bound.Port() > c.low+2015 {
					b.T.Errorf("%s got %s, want a port of %s from %d on", c.client, bound, c.pool, c.low)
				}
			}
		}
		b.cross(r, "of no block", flow{"[2001:db8:4:40::5]:5000", remote6, 17, 0}, state.DropPoolExhausted)
	})
}

func TestPacketsThatMakeNoStateOrMustNotCross(t *testing.T) {
	onEachVariant(t, shared, func(b *bench, r datapathtest.Variant) {
		b.cross(r, "from the prefix itself", flow{"[64:ff9b:1::7.7.7.7]:4000", remote6, 17, 0}, state.DropIllegalAddress)
		b.cross(r, "hairpin to an unbound port", flow{client6, "[64:ff9b:1::192.0.2.1]:5000", 17, 0}, to4)
	})
}

// The table has 4000 slots: what has ended makes room.
func TestSlotsAreUsedAgain(t *testing.T) {
	b := newStateful(t, shared)
	r := &Resolver{Of(b.Datapath), b.Program("nat64_resolve"), func() uint32 { return 1000 }}
	b.In(func() error {
		for round := range 3 {
			refused := 0
			for i := range 4100 {
				client := netip.AddrPortFrom(datapathtest.Addr("2001:db8:3::1"), 4000)
				remote := netip.AddrPortFrom(datapathtest.Addr("64:ff9b:1::8.8.8.8"), uint16(1000+i))
				if _, o := r.Resolve(state.Tuple{Protocol: 17, From: client, To: remote}); o == state.DropTableFull {
					refused++
				} else if o != state.OutcomeNone {
					return fmt.Errorf("round %d, packet %d met %s", round, i, o)
				}
			}
			if refused != 100 {
				t.Errorf("round %d: %d were refused, want 100", round, refused)
			}
			b.forgetByTime()
		}
		return nil
	})
}

// The kernel sweeps: no process holds the tables any more.
func TestTheSweepGoesOnWithoutTheDaemon(t *testing.T) {
	dir := filepath.Join("/sys/fs/bpf", fmt.Sprintf("weft-test-%d", os.Getpid()))
	t.Cleanup(func() { datapath.Remove(dir) })
	b := newBench(t, shared, parts()...) // skips or fails where this cannot be
	b.In(func() error {
		d, err := datapath.Open(dir, datapath.Options{Tables: state.Tables{Bindings: 1024, Sessions: 1024}, Parts: parts()})
		if err != nil {
			return err
		}
		// slots that are said to be used, for the sweep to walk over
		if err := d.Write("nat64_sweep_states", uint32(0), sweepState{High: 1000}, false); err != nil {
			return err
		}
		return d.Close()
	})
	cursor := func() uint32 {
		d, err := datapath.View(dir, parts())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m, err := d.Map("nat64_sweep_states")
		if err != nil {
			t.Fatal(err)
		}
		var s sweepState
		if err := m.Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		return s.Cursor
	}
	seen := map[uint32]bool{}
	for end := time.Now().Add(20 * time.Second); len(seen) < 4; {
		if seen[cursor()] = true; time.Now().After(end) {
			t.Fatalf("the sweep stands still: %v", seen)
		}
	}
}

// Packets on all CPUs at once make and end the same bindings and sessions, while
// the sweep runs among them. Afterwards the tables agree with each other.
func TestManyAtOnceKeepTheTablesInOrder(t *testing.T) {
	b := newStateful(t, shared+"filtering = \"address-dependent\"\nsessions_per_subscriber = 50\n")
	r := &Resolver{Of(b.Datapath), b.Program("nat64_resolve"), func() uint32 { return 1000 }}
	var now atomic.Uint32
	now.Store(1000)
	var wait sync.WaitGroup
	races := atomic.Uint64{}
	for worker := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(worker)))
			for i := range 1500 {
				client := netip.AddrPortFrom(datapathtest.Addr(fmt.Sprintf("2001:db8:3::%x", 1+random.IntN(3))), uint16(4000+random.IntN(4)))
				remote := netip.AddrPortFrom(datapathtest.Addr("64:ff9b:1::8.8.8.8"), uint16(50+random.IntN(4)))
				_, o := r.Resolve(state.Tuple{Protocol: []uint8{6, 17}[random.IntN(2)], From: client, To: remote, Flags: []uint8{2, 16, 1}[random.IntN(3)]})
				switch o {
				case state.OutcomeNone, state.DropNoBinding, state.DropSubscriberLimit:
				case state.DropSessionRace:
					races.Add(1)
				default:
					t.Errorf("met %s", o)
				}
				if i%100 == 0 { // all that is idle for long is over
					b.Table("nat64_clock").Put(uint32(0), now.Add(ticks(200e9)))
					if err := Of(b.Datapath).Sweep(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d of 12000 packets lost a race", races.Load())
	held := map[netip.AddrPort]int{}
	sessions, err := datapath.Collect(b.Datapath, "nat64_sessions", func(k sessionKey, v sessionValue) sessionValue { return v })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions {
		held[netip.AddrPortFrom(addrPort6(s.Client.U8, s.Port).Addr(), uint16(s.Protocol)<<12|datapath.Wire16(s.Port)&0xfff)]++
	}
	bindings, err := datapath.Collect(b.Datapath, "nat64_bib6", func(k bib6Key, v binding) binding { return v })
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range bindings {
		k := netip.AddrPortFrom(addrPort6(v.Client.U8, v.Port).Addr(), uint16(v.Protocol)<<12|datapath.Wire16(v.Port)&0xfff)
		if held[k] != int(uint32(v.Word)) || v.Word>>63 != 0 {
			t.Errorf("%s has %d sessions, its binding counts %d", k, held[k], uint32(v.Word))
		}
		delete(held, k)
	}
	if len(held) != 0 {
		t.Errorf("sessions without binding: %v", held)
	}
	b.clock(now.Load() + ticks(7440e9) + 1)
	if err := Of(b.Datapath).Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"nat64_bib6", "nat64_bib4", "nat64_sessions", "nat64_subscribers", "nat64_peers"} {
		if n := b.count(table); n != 0 {
			t.Errorf("%d entries are left in %s", n, table)
		}
	}
}
