package nat64

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/state"
	"weft/wire/checksum/checksumtest"
)

const served = `
[interface.lan]
addresses = ["2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24"]
[nat64.main]
mode = "stateless"
prefix = "64:ff9b:1::/96"
mappings = [{ ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" }]
interfaces = ["lan", "wan"]
`

type clock struct{ now int64 }

func (c *clock) read() int64 { return c.now }

// slowPath is that of the config; the clock stands at zero.
func slowPath(t *testing.T, toml string) (*Slow, *clock) {
	t.Helper()
	f, problems := config.Load("weft.toml", []byte(toml), append(config.CoreSections(), Section()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c := &clock{}
	facts := state.Facts{Links: []state.LinkFact{
		{Name: "wan", MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}},
	}}
	return NewSlow("main", c.read, func() uint32 { return 7 }, nil, f, facts), c
}

func packetOf(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksumtest.Of(b[:int(b[0]&15)*4]))
	return b
}

// UDP over IPv4 without checksum, TTL 63 and 64; the header's is filled in
const (
	zero63 = "4500 0020 0000 4000 3f11 0000 c6336409 c6336402 07d0 0fa0 000c 0000 00010203"
	zero64 = "4500 0020 0000 4000 4011 0000 c6336409 c6336402 07d0 0fa0 000c 0000 00010203"
)

func TestErrorsQuoteAPacketAsItCameWhereverItWasTaken(t *testing.T) {
	s, _ := slowPath(t, served)
	for _, c := range []struct {
		name, in string
		how      state.Arrival
	}{
		{"behind the stack's routing", zero63, state.Arrival{Why: state.SlowErrorDue, MTUOut: 1500, MTUIn: 1500, Index: 3}},
		{"before it", zero64, state.Arrival{Why: state.SlowBeforeStack, MTUOut: 1500, MTUIn: 1500, Index: 3}},
		{"from this host", zero64, state.Arrival{Why: state.SlowErrorDue, MTUOut: 1500}},
	} {
		answers := s.Handle(packetOf(t, c.in), c.how)
		if len(answers) != 1 || !answers[0].Local || hex.EncodeToString(answers[0].Bytes[28:]) != hex.EncodeToString(packetOf(t, zero64)) {
			t.Errorf("%s: %+v", c.name, answers)
		}
	}
	if n := s.Counts()[state.DropUdpZeroChecksum]; n != 3 {
		t.Errorf("counted %d of 3", n)
	}
}

func TestErrorsAreAsManyAsTheFileSays(t *testing.T) {
	for _, c := range []struct {
		line  string
		burst int
	}{{"", 200}, {"errors_per_second = 5", 10}, {"errors_per_second = 0", 0}} {
		s, clock := slowPath(t, served+c.line)
		send := func(packets int) (sent int) {
			for range packets {
				sent += len(s.Handle(packetOf(t, zero63), state.Arrival{Why: state.SlowErrorDue, Index: 3}))
			}
			return sent
		}
		if n := send(1000); n != c.burst {
			t.Errorf("%q: %d errors at once, want %d", c.line, n, c.burst)
		}
		clock.now += 1e9
		if n := send(1000); n != c.burst/2 {
			t.Errorf("%q: %d errors after a second, want %d", c.line, n, c.burst/2)
		}
	}
}

func TestWhatTheStackWouldDropIsMendedAndPutBackOrTranslatedAtOnce(t *testing.T) {
	s, _ := slowPath(t, served)
	before := state.Arrival{Why: state.SlowBeforeStack, MTUOut: 1500, MTUIn: 1500, Index: 3}
	// a source route that is used up
	answers := s.Handle(packetOf(t, "4700 0028 0000 4000 4011 0000 c6336409 c6336402 830708c000020100 07d0 0fa0 000c bb55 00010203"), before)
	if len(answers) != 1 || answers[0].Back != 3 || answers[0].Bytes[0] != 0x45 || len(answers[0].Bytes) != 32 {
		t.Errorf("a source route: %+v", answers)
	}
	// port unreachable, from 127.0.0.1
	loopback := packetOf(t, "4500 0038 0000 4000 4001 0000 7f000001 c6336402 0303 0000 00000000",
		"4500 0020 0000 4000 3f11 0000 c6336402 c6336409 07d0 0fa0 000c bb55")
	answers = s.Handle(loopback, before)
	if len(answers) != 1 || answers[0].Back != 0 || answers[0].Bytes[0]>>4 != 6 || answers[0].Bytes[7] != 63 {
		t.Errorf("an error from loopback: %+v", answers)
	}
	// those that pass the firewall by are limited
	passed := 0
	for range 1000 {
		passed += len(s.Handle(loopback, before))
	}
	if passed != 199 || s.Counts()[state.DropSlowLimit] != 801 {
		t.Errorf("%d of a thousand passed, counted %v", passed, s.Counts())
	}
}
