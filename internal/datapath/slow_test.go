package datapath

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/state"
)

// The stack routes IPv4 to the translator, unless it would drop what RFC 7915
// has translated or answered: that goes up before it.
func TestTheSlowPathGetsWhatTheIPv4StackWouldDrop(t *testing.T) {
	b := newBench(t, usual)
	b.setPorts(func(p *state.Port) { p.Roles = p.Roles.With(state.RoleShortcut, false) })
	with := func(options string) []byte {
		p := udp(far4, node4, 24)
		p.options = bin(options)
		return p.bytes()
	}
	icmp := func(from string, kind byte, size int) []byte {
		quoted := append(udp(node4, far4, 8).bytes(), counting(size)...)
		return packet{from: from, to: node4, protocol: 1, payload: message(from, node4, kind, 0, "00000000", quoted[:size])}.bytes()
	}
	const before, leave = state.SlowBeforeStack, state.PassNotTranslated
	for _, v := range []struct {
		name string
		in   []byte
		want state.Outcome
	}{
		{"a plain packet", with(""), leave},
		{"a record of the route", with("0707040000000000"), leave},
		{"a source route", with("830704c000020100"), before},
		{"a source route that is used up", with("830708c000020100"), before},
		{"a strict one behind no-ops", with("010101 890708c0000201 0000"), before},
		{"a source route that is broken", with("8302000000000000"), leave},
		{"a source route to somebody else", packet{from: far4, to: "9.9.9.9", protocol: 17, options: bin("830708c000020100"), payload: counting(8)}.bytes(), leave},
		{"an ICMP error of 1260 bytes", icmp(far4, 3, 1232), leave},
		{"an ICMP error of 1261 bytes", icmp(far4, 3, 1233), before},
		{"an echo of 1261 bytes", icmp(far4, 8, 1233), leave},
		{"an ICMP error from loopback", icmp("127.0.0.1", 11, 40), before},
		{"an ICMP error from nowhere", icmp("0.0.0.0", 3, 40), before},
		{"an echo from loopback", icmp("127.0.0.1", 8, 40), leave},
	} {
		frame := b.frame("wan", v.in)
		r := roads()[1]
		r.shortcut = false
		if err := r.check(b, frame, b.run("ingress_tc", "wan", frame)[0], v.want, nil); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

func TestTheSlowPathIsToldTheMTUOfTheWayOut(t *testing.T) {
	b := newBench(t, usual)
	fragment := udp(node6, far6, 24)
	fragment.protocol, fragment.options = 44, bin("11000001aaaa1234")
	res := b.run("ingress_tc", "lan", b.frame("lan", fragment.bytes()))[0]
	if got := binary.BigEndian.Uint16(res.frame[4:]); got != 1500 || res.err != nil {
		t.Errorf("IPv6: MTU %d, %v", got, res.err)
	}
	later := udp(far4, node4, 24)
	later.flags = 3
	res = b.run("translator_egress", "wan", b.frame("wan", later.bytes()))[0]
	if got := binary.BigEndian.Uint16(res.frame[4:]); got != 1500 || res.err != nil {
		t.Errorf("IPv4: MTU %d, %v", got, res.err)
	}
}

func TestWhatIsPutBackArrivesWhereItCameFrom(t *testing.T) {
	b := newBench(t, usual)
	back := func(ip []byte, index int) []byte {
		frame := b.frame("lan", ip)
		frame[6], frame[7] = 0x06, 'w'
		binary.BigEndian.PutUint32(frame[8:], uint32(index))
		return frame
	}
	ip := udp(far4, node4, 9).bytes()
	frame := back(ip, b.links["wan"].Index)
	res := b.run("translator_ingress", "nat64-main", frame)[0]
	mac := b.links["wan"].MAC
	want := append(append([]byte{}, mac[:]...), frame[6:]...)
	if res.err != nil || res.verdict != 7 || res.counted["translator_ingress pass-mended"] != 1 || !bytes.Equal(res.frame, want) {
		t.Errorf("returned %d, counted %v, made %x, want %x (%v)", res.verdict, res.counted, res.frame, want, res.err)
	}
	res = b.run("translator_ingress", "nat64-main", back(ip, 1))[0]
	if res.err != nil || res.verdict != 2 {
		t.Errorf("to an interface that weft does not serve: returned %d (%v)", res.verdict, res.err)
	}
}

// A flood of what is hard: no more goes up than the slow path is given.
func TestWhatGoesToTheSlowPathIsBounded(t *testing.T) {
	b := newBench(t, usual)
	d := &Datapath{maps: b.datapath.maps, options: Options{Tables: b.datapath.options.Tables}}
	unmapped := b.frame("lan", udp("2001:db8:77::1", far6, 24).bytes())
	plain := b.frame("lan", udp(node6, far6, 24).bytes())
	p, err := programNamed("ingress_tc")
	if err != nil {
		t.Fatal(err)
	}
	b.in(func() error {
		program, err := d.load(p)
		if err != nil {
			return err
		}
		before, err := b.counters()
		if err != nil {
			return err
		}
		const flood = 10_000
		if _, err := program.Run(&ebpf.RunOptions{Data: unmapped, Context: b.skbContext("ingress_tc", "lan"), Repeat: flood}); err != nil {
			return err
		}
		verdict, err := program.Run(&ebpf.RunOptions{Data: plain, Context: b.skbContext("ingress_tc", "lan")})
		if err != nil {
			return err
		}
		after, err := b.counters()
		if err != nil {
			return err
		}
		counted := difference(before, after)
		up, limited := counted["ingress_tc slow-error-due"], counted["ingress_tc drop-slow-limit"]
		if up == 0 || limited == 0 || up+limited != flood {
			t.Errorf("%d went up and %d were too many, of %d", up, limited, flood)
		}
		if verdict != 7 || counted["ingress_tc forward-6to4-shortcut"]+counted["ingress_tc forward-6to4"] != 1 {
			t.Errorf("a plain packet after the flood: returned %d, counted %v", verdict, counted)
		}
		return nil
	})
	if err := d.loaded["ingress_tc"].Close(); err != nil {
		t.Error(err)
	}
}
