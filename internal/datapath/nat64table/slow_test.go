package nat64table

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// The stack routes IPv4 to the translator, unless it would drop what RFC 7915
// has translated or answered: that goes up before it.
func TestTheSlowPathGetsWhatTheIPv4StackWouldDrop(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	b.SetPorts(func(p *state.IngressEntry) { p.Roles = p.Roles.With(state.RoleBypass, false) })
	with := func(options string) []byte {
		p := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 24)
		p.Options = datapathtest.Bin(options)
		return p.Bytes()
	}
	icmp := func(from string, kind byte, size int) []byte {
		quoted := append(datapathtest.Udp(datapathtest.Node4, datapathtest.Far4, 8).Bytes(), datapathtest.Counting(size)...)
		return datapathtest.Packet{From: from, To: datapathtest.Node4, Protocol: 1, Payload: datapathtest.Message(from, datapathtest.Node4, kind, 0, "00000000", quoted[:size])}.Bytes()
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
		{"a source route to another host", datapathtest.Packet{From: datapathtest.Far4, To: "9.9.9.9", Protocol: 17, Options: datapathtest.Bin("830708c000020100"), Payload: datapathtest.Counting(8)}.Bytes(), leave},
		{"an ICMP error of 1260 bytes", icmp(datapathtest.Far4, 3, 1232), leave},
		{"an ICMP error of 1261 bytes", icmp(datapathtest.Far4, 3, 1233), before},
		{"an echo of 1261 bytes", icmp(datapathtest.Far4, 8, 1233), leave},
		{"an ICMP error from loopback", icmp("127.0.0.1", 11, 40), before},
		{"an ICMP error from nowhere", icmp("0.0.0.0", 3, 40), before},
		{"an echo from loopback", icmp("127.0.0.1", 8, 40), leave},
	} {
		frame := b.Frame("wan", v.in)
		r := datapathtest.Variants()[1]
		r.Bypass = false
		if err := r.Check(b.Bench, frame, b.Run("ingress_tc", "wan", frame)[0], v.want, nil); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

func TestTheSlowPathIsToldTheMTUOfTheWayOut(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	fragment := datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 24)
	fragment.Protocol, fragment.Options = 44, datapathtest.Bin("11000001aaaa1234")
	res := b.Run("ingress_tc", "lan", b.Frame("lan", fragment.Bytes()))[0]
	if got := binary.BigEndian.Uint16(res.Frame[4:]); got != 1500 || res.Err != nil {
		t.Errorf("IPv6: MTU %d, %v", got, res.Err)
	}
	later := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 24)
	later.Flags = 3
	res = b.Run("translator_egress", "wan", b.Frame("wan", later.Bytes()))[0]
	if got := binary.BigEndian.Uint16(res.Frame[4:]); got != 1500 || res.Err != nil {
		t.Errorf("IPv4: MTU %d, %v", got, res.Err)
	}
}

func TestWhatIsPutBackArrivesWhereItCameFrom(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	back := func(ip []byte, index int) []byte {
		frame := b.Frame("lan", ip)
		frame[6], frame[7] = 0x06, 'w'
		binary.BigEndian.PutUint32(frame[8:], uint32(index))
		return frame
	}
	ip := datapathtest.Udp(datapathtest.Far4, datapathtest.Node4, 9).Bytes()
	frame := back(ip, b.Links["wan"].Index)
	res := b.Run("translator_ingress", "nat64-main", frame)[0]
	mac := b.Links["wan"].MAC
	want := append(append([]byte{}, mac[:]...), frame[6:]...)
	if res.Err != nil || res.Verdict != 7 || res.Counted["translator_ingress pass-normalised"] != 1 || !bytes.Equal(res.Frame, want) {
		t.Errorf("returned %d, counted %v, made %x, want %x (%v)", res.Verdict, res.Counted, res.Frame, want, res.Err)
	}
	res = b.Run("translator_ingress", "nat64-main", back(ip, 1))[0]
	if res.Err != nil || res.Verdict != 2 {
		t.Errorf("to an interface that weft does not serve: returned %d (%v)", res.Verdict, res.Err)
	}
}

// A flood of what is hard: no more goes up than the slow path is given.
func TestWhatGoesToTheSlowPathIsBounded(t *testing.T) {
	b := newBench(t, datapathtest.Usual, parts()...)
	options := b.Datapath.Options()
	options.UnlimitedSlow, options.TestClock = false, false
	d := b.Datapath.With(options)
	unmapped := b.Frame("lan", datapathtest.Udp("2001:db8:77::1", datapathtest.Far6, 24).Bytes())
	plain := b.Frame("lan", datapathtest.Udp(datapathtest.Node6, datapathtest.Far6, 24).Bytes())
	program, err := d.Load("ingress_tc")
	if err != nil {
		t.Fatal(err)
	}
	b.In(func() error {
		before, err := b.Counters()
		if err != nil {
			return err
		}
		const flood = 10_000
		if _, err := program.Run(&ebpf.RunOptions{Data: unmapped, Context: b.SkbContext("ingress_tc", "lan"), Repeat: flood}); err != nil {
			return err
		}
		verdict, err := program.Run(&ebpf.RunOptions{Data: plain, Context: b.SkbContext("ingress_tc", "lan")})
		if err != nil {
			return err
		}
		after, err := b.Counters()
		if err != nil {
			return err
		}
		counted := datapathtest.Difference(before, after)
		up, limited := counted["ingress_tc slow-error-due"], counted["ingress_tc drop-slow-limit"]
		if up == 0 || limited == 0 || up+limited != flood {
			t.Errorf("%d went up and %d were too many, of %d", up, limited, flood)
		}
		if verdict != 7 || counted["ingress_tc forward-6to4-bypass"]+counted["ingress_tc forward-6to4"] != 1 {
			t.Errorf("a plain packet after the flood: returned %d, counted %v", verdict, counted)
		}
		return nil
	})
	if err := program.Close(); err != nil {
		t.Error(err)
	}
}
