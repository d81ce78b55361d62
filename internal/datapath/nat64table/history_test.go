package nat64table

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
	"weft/internal/translate"
	"weft/internal/translate/session"
)

// Random histories of sessions through the programs and through the reference
// (internal/translate/session). After each packet outcome and addresses agree,
// and so do, now and then, all sessions with their states and times. The port
// of a new binding is the programs' choice; the reference judges it.

// model makes the reference of what a bench was filled with.
func (b *bench) model() *session.Table {
	var r session.Rules
	for _, o := range b.Desired {
		switch o := o.(type) {
		case state.Translator:
			r.Prefix = o.Prefix
		case state.Allocator:
			r.Filtering, r.SubscriberBits = o.Filtering, o.SubscriberBits
			r.PortsMax, r.SubscriberMax = o.PortsMax, o.SessionsMax
			r.Timers = session.Timers{
				UDP: session.Ticks(ticks(o.UDP)), ICMP: session.Ticks(ticks(o.ICMP)),
				Established: session.Ticks(ticks(o.Established)), Transitory: session.Ticks(ticks(o.Transitory)),
			}
			for _, p := range o.Pools {
				if p.Prefix.IsValid() {
					r.Pools = append(r.Pools, p)
				}
			}
		case state.StaticBinding:
			r.Static = append(r.Static, o)
		}
	}
	r.Embed = func(v4 netip.Addr) netip.Addr { return translate.Embed(r.Prefix, v4) }
	r.SessionsMax = int(b.Table("nat64_sessions").MaxEntries())
	return session.New(r)
}

// history is a run of random packets among a few nodes and hosts, so that they
// meet the same sessions again and again.
type history struct {
	b       *bench
	variant datapathtest.Variant
	model   *session.Table
	rand    *rand.Rand
	now     uint32
	bound   []netip.AddrPort // pool addresses that were seen
}

func (h *history) client() netip.AddrPort {
	a := fmt.Sprintf("2001:db8:3:%x::%x", h.rand.IntN(2), 1+h.rand.IntN(3))
	if h.rand.IntN(8) == 0 {
		a = "2001:db8:3::80" // static
	}
	return netip.AddrPortFrom(netip.MustParseAddr(a), []uint16{53, 4000, 4001, 8080}[h.rand.IntN(4)])
}

func (h *history) remote() netip.AddrPort {
	a := []string{"8.8.8.8", "9.9.9.9", "192.0.2.1"}[h.rand.IntN(3)]
	if a == "192.0.2.1" && len(h.bound) > 0 { // hairpinning, RFC 6146 3.8
		return h.bound[h.rand.IntN(len(h.bound))]
	}
	return netip.AddrPortFrom(netip.MustParseAddr(a), []uint16{53, 443}[h.rand.IntN(2)])
}

func (h *history) flags(protocol byte) byte {
	if protocol == 6 {
		return []byte{2, 2, 0x12, 0x10, 0x10, 0x10, 0x11, 0x11, 4, 0x14, 6}[h.rand.IntN(11)]
	}
	return byte(h.rand.IntN(2))
}

// step lets time pass and sends one packet.
func (h *history) step() error {
	protocol := []byte{6, 6, 6, 17, 1}[h.rand.IntN(5)]
	if h.rand.IntN(4) == 0 {
		h.pass()
	}
	out := h.rand.IntN(2) == 0
	// mostly a packet of a session that is there, so that it goes through life
	if s, ok := h.known(); ok && h.rand.IntN(4) != 0 {
		f := flow{protocol: s.Protocol, flags: h.flags(s.Protocol)}
		if out {
			return h.outbound(f, s.Client, s.Remote4)
		}
		return h.inbound(f, s.Remote4, s.Pool)
	}
	f := flow{protocol: protocol, flags: h.flags(protocol)}
	if out {
		return h.outbound(f, h.client(), h.remote())
	}
	pool := netip.MustParseAddrPort("192.0.2.1:80")
	if len(h.bound) > 0 && h.rand.IntN(4) != 0 {
		pool = h.bound[h.rand.IntN(len(h.bound))]
	}
	return h.inbound(f, h.remote(), pool)
}

// known picks one of the first four sessions in order, so that a few meet many
// packets.
func (h *history) known() (session.Session, bool) {
	var all []session.Session
	h.model.Sessions(func(s session.Session) { all = append(all, s) })
	if len(all) == 0 {
		return session.Session{}, false
	}
	slices.SortFunc(all, func(a, b session.Session) int {
		return strings.Compare(fmt.Sprint(a.Protocol, a.Pool, a.Remote4), fmt.Sprint(b.Protocol, b.Pool, b.Remote4))
	})
	return all[h.rand.IntN(min(len(all), 4))], true
}

// pass moves the clock by anything from a tick to hours, and sweeps.
func (h *history) pass() {
	steps := []uint32{1, 14, 15, 16, 200, ticks(59e9), ticks(61e9)}
	if h.rand.IntN(8) == 0 {
		steps = []uint32{ticks(240e9) - 1, ticks(240e9), ticks(301e9), ticks(7440e9)}
	}
	h.now += steps[h.rand.IntN(len(steps))]
	h.b.clock(h.now)
	if err := Of(h.b.Datapath).Sweep(); err != nil {
		h.b.T.Fatal(err)
	}
}

func (h *history) outbound(f flow, client, remote netip.AddrPort) error {
	to := netip.AddrPortFrom(translate.Embed(netip.MustParsePrefix("64:ff9b:1::/96"), remote.Addr()), remote.Port())
	f.from, f.to = client.String(), to.String()
	got, out, err := h.send(f)
	if err != nil {
		return err
	}
	var chosen netip.AddrPort
	if got == to4 {
		chosen, _ = datapathtest.Ends(out)
	}
	packet := session.Packet{Protocol: f.protocol, From: client, To: to, Flags: f.flags}
	pool, want, err := h.model.Outbound(session.Ticks(h.now), packet, remote, chosen)
	if err != nil {
		return err
	}
	if want == state.OutcomeNone {
		want = to4
	}
	if got != want {
		return fmt.Errorf("met %s, want %s", got, want)
	}
	if want != to4 {
		return nil
	}
	h.bound = append(h.bound, pool)
	return h.same(out, flow{pool.String(), remote.String(), f.protocol, f.flags})
}

func (h *history) inbound(f flow, remote, pool netip.AddrPort) error {
	f.from, f.to = remote.String(), pool.String()
	if f.protocol == 1 {
		f.from = netip.AddrPortFrom(remote.Addr(), 0).String()
	}
	got, out, err := h.send(f)
	if err != nil {
		return err
	}
	from, to, want, err := h.model.Inbound(session.Ticks(h.now), session.Packet{Protocol: f.protocol, From: remote, To: pool, Flags: f.flags})
	if err != nil {
		return err
	}
	if want == state.OutcomeNone {
		want = to6
	}
	if got != want {
		return fmt.Errorf("met %s, want %s", got, want)
	}
	if want != to6 {
		return nil
	}
	if f.protocol == 1 {
		from = netip.AddrPortFrom(from.Addr(), 0)
	}
	return h.same(out, flow{from.String(), to.String(), f.protocol, f.flags})
}

// send has the road take a packet and gives what the translation made of it,
// whatever the road made of that.
func (h *history) send(f flow) (state.Outcome, []byte, error) {
	if f.protocol == 1 && strings.HasPrefix(f.from, "[") {
		// one identifier, at both ends
		f.to = netip.AddrPortFrom(netip.MustParseAddrPort(f.to).Addr(), 0).String()
	}
	in := f.packet().Bytes()
	res := h.b.Run(h.variant.Program, h.variant.From(in), h.b.Frame(datapathtest.Side(in), in))[0]
	got, err := h.variant.Outcome(res)
	if err != nil {
		return 0, nil, err
	}
	switch got {
	case state.Forward6to4Bypass:
		got = to4
	case state.Forward4to6Bypass:
		got = to6
	case state.PassSlow: // only a SYN goes there in a history
		got = state.SlowSyn
	}
	if got != to4 && got != to6 {
		return got, nil, nil
	}
	return got, res.Frame[14:], nil
}

// same compares a packet that left with one made from scratch.
func (h *history) same(got []byte, f flow) error {
	if f.protocol == 1 {
		from, to := netip.MustParseAddrPort(f.from), netip.MustParseAddrPort(f.to)
		id := from.Port()
		if from.Addr().Is6() {
			id = to.Port()
		}
		f.from, f.to = netip.AddrPortFrom(from.Addr(), id).String(), netip.AddrPortFrom(to.Addr(), id).String()
	}
	want := f.packet().Bytes()
	if f.protocol == 1 {
		neverZero(want)
	}
	if h.variant.Bypass {
		want = datapathtest.FewerHops(want)
	}
	if datapathtest.IsIPv4(want) {
		copy(want[4:6], got[4:6])
		datapathtest.Healed(want)
	}
	if string(got) != string(want) {
		return fmt.Errorf("made\n     %x, want\n     %x", got, want)
	}
	return nil
}

// neverZero gives an echo the checksum that translation gives it where zero is
// as right: all ones, which a message of zeros has, too.
func neverZero(ip []byte) {
	check := ip[40+2 : 40+4]
	if datapathtest.IsIPv4(ip) {
		check = ip[20+2 : 20+4]
	}
	if check[0] == 0 && check[1] == 0 {
		check[0], check[1] = 0xff, 0xff
	}
}

// tablesAgree compares all sessions, and the numbers of bindings.
func (h *history) tablesAgree() error {
	want := map[string]session.Session{}
	h.model.Expire(session.Ticks(h.now))
	h.model.Sessions(func(s session.Session) { want[fmt.Sprint(s.Protocol, s.Pool, s.Remote4)] = s })
	got, err := datapath.Collect(h.b.Datapath, "nat64_sessions", func(k sessionKey, v sessionValue) session.Session {
		return session.Session{
			State: session.State(v.Word >> 32), Expires: session.Ticks(v.Word), Protocol: v.Protocol,
			Client: addrPort6(v.Client.U8, v.Port), Remote6: netip.AddrFrom16(v.Remote6.U8),
			Pool: addrPort4(v.Pool, v.PoolPort), Remote4: addrPort4(v.Remote, v.RemotePort),
		}
	})
	if err != nil {
		return err
	}
	for _, g := range got {
		key := fmt.Sprint(g.Protocol, g.Pool, g.Remote4)
		if want[key] != g {
			return fmt.Errorf("session %+v, want %+v", g, want[key])
		}
		delete(want, key)
	}
	for _, w := range want {
		return fmt.Errorf("no session %+v", w)
	}
	bindings, _ := h.model.Counts()
	if n6, n4 := h.b.count("nat64_bib6"), h.b.count("nat64_bib4"); n6 != bindings || n4 != bindings {
		return fmt.Errorf("%d bindings and %d back, want %d", n6, n4, bindings)
	}
	return nil
}

func TestRandomHistoriesMatchTheReference(t *testing.T) {
	for name, more := range map[string]string{
		"open":              "",
		"address-dependent": "filtering = \"address-dependent\"\n",
		"port-dependent":    "filtering = \"address-and-port-dependent\"\n",
		"limits":            "ports_per_subscriber = 3\nsessions_per_subscriber = 6\nfiltering = \"address-dependent\"\n",
		"few-ports":         "few",
	} {
		t.Run(name, func(t *testing.T) {
			toml := shared + more
			if more == "few" {
				toml = strings.Replace(shared, "1-65535", "4000-4007", 1)
			}
			onEachVariant(t, toml, func(b *bench, r datapathtest.Variant) {
				h := &history{b: b, variant: r, model: b.model(), rand: rand.New(rand.NewPCG(*seed, 6146)), now: 1000}
				for i := range 1200 {
					if err := h.step(); err != nil {
						b.T.Fatalf("seed %d, packet %d: %v", *seed, i, err)
					}
					if i%20 == 0 {
						if err := h.tablesAgree(); err != nil {
							b.T.Fatalf("seed %d, after packet %d: %v", *seed, i, err)
						}
					}
				}
				// when all is over nothing is left
				h.b.forgetByTime()
				for _, table := range []string{"nat64_bib6", "nat64_bib4", "nat64_sessions", "nat64_subscribers", "nat64_peers"} {
					if n := b.count(table); n != 0 {
						b.T.Errorf("%d entries are left in %s", n, table)
					}
				}
			})
		})
	}
}
