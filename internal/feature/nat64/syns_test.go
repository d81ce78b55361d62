package nat64

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"weft/internal/config"
	"weft/internal/state"
)

// closed lets no SYN in; opened is whether the node has opened the same
// connection since.
type closed struct{ opened bool }

func (c *closed) Resolve(t state.Tuple) (state.Tuple, state.Outcome) { return t, state.SlowSyn }
func (c *closed) Session(uint8, netip.AddrPort, netip.AddrPort) (client, remote6 netip.AddrPort, ok bool) {
	return client, remote6, c.opened
}
func (c *closed) Binding(uint8, netip.AddrPort, netip.AddrPort, netip.AddrPort) (netip.AddrPort, bool) {
	return netip.AddrPort{}, false
}

const sharing = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24"]
[nat64.main]
mode = "stateful"
prefix = "64:ff9b:1::/96"
pools = [{ ipv4 = "192.0.2.1" }]
filtering = "address-dependent"
interfaces = ["lan", "wan"]
`

func sharingSlow(t *testing.T, b *closed) (*Slow, *clock) {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(sharing), append(config.CoreSections(), Section()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c := &clock{}
	return NewSlow("main", c.read, func() uint32 { return 7 }, b, f, state.Facts{}), c
}

// syn is one from port to 192.0.2.1:7.
func syn(t *testing.T, port uint16) []byte {
	t.Helper()
	p := packetOf(t, "4500 0028 0000 4000 4006 0000 08080808 c0000201", "0000 0007 00000001 00000000 5002 2000 0000 0000")
	binary.BigEndian.PutUint16(p[20:], port)
	return p
}

func TestAStoredSYNIsAnsweredAfterSixSeconds(t *testing.T) {
	s, c := sharingSlow(t, &closed{})
	packet := syn(t, 1000)
	if a := s.Handle(packet, state.Arrival{Why: state.SlowSyn}); len(a) != 0 {
		t.Fatalf("answered at once: %v", a)
	}
	s.Handle(packet, state.Arrival{Why: state.SlowSyn}) // sent again
	c.now = 6e9 - 1
	if a := s.Due(); len(a) != 0 {
		t.Fatalf("answered too early: %v", a)
	}
	c.now = 6e9
	a := s.Due()
	if len(a) != 1 {
		t.Fatalf("%d answers, want one for two of the same", len(a))
	}
	b := a[0].Bytes
	if len(b) != 28+len(packet) || b[9] != 1 || b[20] != 3 || b[21] != 3 || string(b[28:]) != string(packet) {
		t.Errorf("answered %x, want port unreachable about the packet", b)
	}
	if a := s.Due(); len(a) != 0 {
		t.Errorf("answered twice")
	}
}

func TestASYNThatTheNodeSentTooIsForgotten(t *testing.T) {
	b := &closed{}
	s, c := sharingSlow(t, b)
	s.Handle(syn(t, 1000), state.Arrival{Why: state.SlowSyn})
	b.opened, c.now = true, 7e9
	if a := s.Due(); len(a) != 0 {
		t.Errorf("answered %v", a)
	}
}

func TestStoredSYNsAreBounded(t *testing.T) {
	s, c := sharingSlow(t, &closed{})
	for port := range uint16(2000) {
		s.Handle(syn(t, port+1), state.Arrival{Why: state.SlowSyn})
	}
	c.now = 6e9
	if n := len(s.Due()); n != synMost {
		t.Errorf("%d are kept, want %d", n, synMost)
	}
	if n := s.Counts()[state.DropFiltered]; n != 2000 {
		t.Errorf("%d are counted as filtered, want all 2000", n)
	}
}
