package dhcp4server

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/wire/dhcp4"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// lan is a server with a clock that a test moves, and a link on which hosts have addresses
// without a lease.
type lan struct {
	t      testing.TB
	now    time.Time
	server *Server
	hosts  map[netip.Addr]bool
	silent bool // no probe is answered
	stored map[netip.Addr]Lease
	got    []Reply
}

func testConfig() Config {
	return Config{
		Address: addr("192.0.2.1"), Authoritative: true,
		Subnets: []Subnet{
			{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Local: true, Ranges: []Range{{addr("192.0.2.100"), addr("192.0.2.199")}},
				Options: dhcp4.Options{dhcp4.Addresses(dhcp4.OptionRouter, addr("192.0.2.1"))}},
			{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Ranges: []Range{{addr("198.51.100.10"), addr("198.51.100.19")}}},
		},
		Reservations: []Reservation{
			{Hardware: "\x02\x00\x00\x00\x00\x77", Address: addr("192.0.2.150"), HostName: "printer", Options: dhcp4.Options{dhcp4.Bytes(224, []byte{7})}},
			{ClientID: []byte("id7"), Address: addr("192.0.2.7")},
			{Hardware: "\x02\x00\x00\x00\x00\x66", Ignore: true},
		},
		Options: dhcp4.Options{dhcp4.Addresses(dhcp4.OptionDNS, addr("192.0.2.53")), dhcp4.Uint32(dhcp4.OptionIPv6Only, 1800), dhcp4.Text(dhcp4.OptionPortal, "https://portal.example.net")},
	}
}

func newLAN(t testing.TB, change func(*Config)) *lan {
	c := testConfig()
	if change != nil {
		change(&c)
	}
	l := &lan{t: t, now: time.Unix(1_000_000, 0), hosts: map[netip.Addr]bool{}, stored: map[netip.Addr]Lease{}}
	l.server = New(c, nil, l.now)
	return l
}

// flush does what the server wants done.
func (l *lan) flush() {
	for {
		out := l.server.Output()
		for _, c := range out.Changes {
			if c.State == Free {
				delete(l.stored, c.Address)
			} else {
				l.stored[c.Address] = c
			}
		}
		l.got = append(l.got, out.Replies...)
		if len(out.Probes) == 0 || l.silent {
			return
		}
		for _, a := range out.Probes {
			l.server.Probed(a, l.hosts[a], l.now)
		}
	}
}

// pass lets time pass.
func (l *lan) pass(d time.Duration) {
	for end := l.now.Add(d); ; l.flush() {
		due := l.server.Due()
		if due.IsZero() || due.After(end) {
			l.now = end
			return
		}
		l.now = due
		l.server.Tick(l.now)
	}
}

func mac(n int) string {
	return string([]byte{2, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// ask sends a message of client n, and returns the answer; nil: there is none.
func (l *lan) ask(n int, kind dhcp4.Type, change func(*dhcp4.Message)) *dhcp4.Message {
	l.t.Helper()
	m := &dhcp4.Message{
		Op: dhcp4.BootRequest, HardwareType: 1, Hardware: mac(n), Transaction: uint32(n),
		Options: dhcp4.Options{dhcp4.Uint8(dhcp4.OptionType, uint8(kind)), dhcp4.Bytes(dhcp4.OptionRequested, []byte{1, 3, 6})},
	}
	if change != nil {
		change(m)
	}
	b, _, err := m.Marshal(1472)
	if err != nil {
		l.t.Fatal(err)
	}
	l.got = nil
	l.server.Receive(b, netip.Addr{}, l.now)
	l.flush()
	return l.reply()
}

func (l *lan) reply() *dhcp4.Message {
	if len(l.got) == 0 {
		return nil
	}
	m, err := dhcp4.Parse(l.got[len(l.got)-1].Message)
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// accept is a REQUEST for an address that this server offered.
func accept(a netip.Addr, more ...dhcp4.Option) func(*dhcp4.Message) {
	return func(m *dhcp4.Message) {
		m.Options.Set(dhcp4.Addresses(dhcp4.OptionServerID, addr("192.0.2.1")), dhcp4.Addresses(dhcp4.OptionAddress, a))
		m.Options.Set(more...)
	}
}

// join is a client that gets a lease; the zero Addr: it got none.
func (l *lan) join(n int, more ...dhcp4.Option) netip.Addr {
	l.t.Helper()
	o := l.ask(n, dhcp4.Discover, func(m *dhcp4.Message) { m.Options.Set(more...) })
	if o == nil || o.Type() != dhcp4.Offer {
		return netip.Addr{}
	}
	a := l.ask(n, dhcp4.Request, accept(o.Your, more...))
	if a == nil || a.Type() != dhcp4.Ack {
		return netip.Addr{}
	}
	return a.Your
}

func (l *lan) lease(a netip.Addr) Lease {
	for _, x := range l.server.Leases() {
		if x.Address == a {
			return x
		}
	}
	return Lease{}
}

func TestFromDiscoverToAck(t *testing.T) {
	l := newLAN(t, nil)
	o := l.ask(1, dhcp4.Discover, nil)
	if o == nil || o.Type() != dhcp4.Offer || !netip.MustParsePrefix("192.0.2.0/24").Contains(o.Your) || o.Transaction != 1 || o.Options.Address(54) != addr("192.0.2.1") {
		t.Fatalf("%+v", o)
	}
	if to := l.got[0]; to.To != netip.AddrPortFrom(o.Your, 68) || to.Hardware != mac(1) {
		t.Errorf("the offer goes to %+v", to)
	}
	a := l.ask(1, dhcp4.Request, accept(o.Your, dhcp4.Text(12, "Laptop_1.example")))
	seconds, _ := a.Options.Uint32(51)
	t1, _ := a.Options.Uint32(58)
	t2, _ := a.Options.Uint32(59)
	if bits, _ := a.Options.Mask(); a.Type() != dhcp4.Ack || a.Your != o.Your || seconds != 12*3600 || t1 != 6*3600 || t2 != 37800 || bits != 24 ||
		a.Options.Address(3) != addr("192.0.2.1") || a.Options.Address(6) != addr("192.0.2.53") || a.Options.Has(108) || a.Options.Has(114) {
		t.Errorf("%+v", a)
	}
	if got := l.lease(a.Your); got.State != Bound || got.Hardware != "02:00:00:00:00:01" || got.HostName != "laptop-1" || got.Ends.Sub(l.now) != 12*time.Hour || l.stored[a.Your].State != Bound {
		t.Errorf("%+v, stored %+v", got, l.stored[a.Your])
	}
	if again := l.join(1); again != a.Your {
		t.Errorf("it gets %s, then %s", a.Your, again)
	}
	if other := l.join(2); other == a.Your || !other.IsValid() {
		t.Errorf("two clients have %s", other)
	}
}

func TestWhereRepliesGo(t *testing.T) {
	for name, c := range map[string]struct {
		kind   dhcp4.Type
		change func(*dhcp4.Message)
		to     string
		direct bool
	}{
		"a client without an address":  {dhcp4.Discover, nil, "", true},
		"one that needs broadcast":     {dhcp4.Discover, func(m *dhcp4.Message) { m.Broadcast = true }, "255.255.255.255:68", false},
		"one behind a relay agent":     {dhcp4.Discover, func(m *dhcp4.Message) { m.Relay = addr("198.51.100.1") }, "198.51.100.1:67", false},
		"one that renews":              {dhcp4.Request, func(m *dhcp4.Message) { m.Client = addr("192.0.2.101") }, "192.0.2.101:68", false},
		"one that is refused":          {dhcp4.Request, func(m *dhcp4.Message) { m.Client = addr("203.0.113.1") }, "255.255.255.255:68", false},
		"one that has another address": {dhcp4.Inform, func(m *dhcp4.Message) { m.Client = addr("192.0.2.9") }, "192.0.2.9:68", false},
	} {
		l := newLAN(t, nil)
		l.ask(1, c.kind, c.change)
		if len(l.got) != 1 || c.to != "" && l.got[0].To.String() != c.to || (l.got[0].Hardware != "") != c.direct {
			t.Errorf("%s: %+v", name, l.got)
		}
	}
}

func TestReservations(t *testing.T) {
	l := newLAN(t, nil)
	if a := l.join(0x77); a != addr("192.0.2.150") {
		t.Errorf("the printer has %s", a)
	}
	if m := l.reply(); string(m.Options.Get(224)) != "\x07" || l.lease(addr("192.0.2.150")).HostName != "printer" {
		t.Errorf("%+v", m)
	}
	// the same host with another identifier, as a boot ROM and then its system
	if a := l.join(0x77, dhcp4.Bytes(61, []byte("other"))); a != addr("192.0.2.150") {
		t.Errorf("with an identifier it has %s", a)
	}
	if a := l.join(5, dhcp4.Bytes(61, []byte("id7"))); a != addr("192.0.2.7") {
		t.Errorf("id7 has %s", a)
	}
	if m := l.reply(); string(m.Options.Get(61)) != "id7" {
		t.Errorf("the identifier does not come back (RFC 6842): %+v", m)
	}
	if m := l.ask(0x66, dhcp4.Discover, nil); m != nil {
		t.Errorf("one to be ignored gets %+v", m)
	}
	for _, a := range []string{"192.0.2.150", "192.0.2.7", "192.0.2.1", "192.0.2.99"} {
		if m := l.ask(9, dhcp4.Request, accept(addr(a))); m == nil || m.Type() != dhcp4.Nak {
			t.Errorf("another client that asks for %s gets %+v", a, m)
		}
	}
	// a client that had an address before it was reserved for another loses it
	a := l.join(3)
	c := testConfig()
	c.Reservations = append(c.Reservations, Reservation{Hardware: mac(4), Address: a})
	l.server.Update(c, l.now)
	if b := l.join(3); b == a || l.join(4) != a {
		t.Errorf("%s is reserved; the client that had it has %s", a, b)
	}
}

// RFC 2131 section 4.3.2.
func TestRequests(t *testing.T) {
	renew := func(a netip.Addr) func(*dhcp4.Message) { return func(m *dhcp4.Message) { m.Client = a } }
	reboot := func(a netip.Addr) func(*dhcp4.Message) {
		return func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(50, a)) }
	}
	for _, authoritative := range []bool{true, false} {
		l := newLAN(t, func(c *Config) { c.Authoritative = authoritative })
		a := l.join(1)
		want := func(name string, n int, change func(*dhcp4.Message), kind, silentKind dhcp4.Type) {
			t.Helper()
			got := dhcp4.Type(0)
			if m := l.ask(n, dhcp4.Request, change); m != nil {
				got = m.Type()
			}
			if !authoritative {
				kind = silentKind
			}
			if got != kind {
				t.Errorf("%s, authoritative %v: %v, want %v", name, authoritative, got, kind)
			}
		}
		want("its own, renewed", 1, renew(a), dhcp4.Ack, dhcp4.Ack)
		want("its own, after a reboot", 1, reboot(a), dhcp4.Ack, dhcp4.Ack)
		want("another client's, renewed", 2, renew(a), dhcp4.Nak, 0)
		want("another client's, after a reboot", 2, reboot(a), dhcp4.Nak, 0)
		want("of another network", 1, reboot(addr("203.0.113.9")), dhcp4.Nak, 0)
		want("of no range", 2, reboot(addr("192.0.2.99")), dhcp4.Nak, 0)
		want("of a server that was here before", 3, renew(addr("192.0.2.180")), dhcp4.Ack, 0)
		want("nothing", 4, nil, 0, 0)
	}
	// one that chooses another server gives its offer back
	l := newLAN(t, nil)
	o := l.ask(1, dhcp4.Discover, nil)
	l.ask(1, dhcp4.Request, func(m *dhcp4.Message) {
		m.Options.Set(dhcp4.Addresses(54, addr("192.0.2.66")), dhcp4.Addresses(50, o.Your))
	})
	if len(l.server.at) != 0 || len(l.got) != 0 {
		t.Errorf("%d entries, %v", len(l.server.at), l.got)
	}
}

func TestAddressesInUseAreNotGiven(t *testing.T) {
	l := newLAN(t, nil)
	first := l.ask(1, dhcp4.Discover, nil).Your
	l = newLAN(t, nil)
	l.hosts[first] = true
	a := l.join(1)
	if a == first || !a.IsValid() || l.lease(first).State != Declined {
		t.Fatalf("%s is in use, the client has %s; %+v", first, a, l.lease(first))
	}
	if m := l.ask(2, dhcp4.Request, accept(first)); m == nil || m.Type() != dhcp4.Nak {
		t.Errorf("%+v", m)
	}
	l.hosts[first] = false
	l.pass(quarantineTime)
	if l.lease(first).State != "" || l.stored[first].State != "" {
		t.Error("it stays in quarantine")
	}
	// DECLINE: the client found it itself
	l.ask(1, dhcp4.Decline, accept(a))
	if b := l.join(1); l.lease(a).State != Declined || b == a || !b.IsValid() {
		t.Errorf("%+v, then %s", l.lease(a), b)
	}
	// but only of an address of its own
	b := l.join(2)
	l.ask(3, dhcp4.Decline, accept(b))
	l.ask(3, dhcp4.Release, func(m *dhcp4.Message) { m.Client = b })
	if l.lease(b).State != Bound {
		t.Errorf("another client's DECLINE or RELEASE counts: %+v", l.lease(b))
	}
	// without an answer the offer goes out
	l.silent = true
	if m := l.ask(4, dhcp4.Discover, nil); m != nil {
		t.Fatalf("an offer before the probe's answer: %+v", m)
	}
	if l.pass(2 * probeTime); l.reply() == nil || l.reply().Type() != dhcp4.Offer {
		t.Error("no offer")
	}
}

func TestTheEndOfLeases(t *testing.T) {
	l := newLAN(t, nil)
	a := l.join(1, dhcp4.Text(12, "one"))
	l.ask(1, dhcp4.Release, func(m *dhcp4.Message) { m.Client = a })
	if x := l.lease(a); x.State != Released || x.HostName != "" || l.stored[a].State != Released {
		t.Errorf("%+v", x)
	}
	if got := l.join(1); got != a {
		t.Errorf("it had %s, gets %s", a, got)
	}
	l.pass(12*time.Hour + time.Second)
	if x := l.lease(a); x.State != Expired || l.stored[a].State != Expired {
		t.Errorf("%+v", x)
	}
	if got := l.join(1); got != a {
		t.Errorf("after the end it gets %s", got)
	}
	for asked, want := range map[uint32]uint32{10: 120, 600: 600, dhcp4.Infinite: 7 * 24 * 3600} {
		m := l.ask(1, dhcp4.Request, func(m *dhcp4.Message) { m.Client = a; m.Options.Set(dhcp4.Uint32(51, asked)) })
		if got, _ := m.Options.Uint32(51); got != want {
			t.Errorf("a lease of %d s is asked for: %d, want %d", asked, got, want)
		}
	}
}

func TestRelayAgents(t *testing.T) {
	l := newLAN(t, func(c *Config) { c.PerPort = 2 })
	relay := func(port string) func(*dhcp4.Message) {
		return func(m *dhcp4.Message) {
			m.Relay = addr("198.51.100.1")
			m.Options.Set(dhcp4.Bytes(82, append([]byte{1, byte(len(port))}, port...)))
		}
	}
	joined := func(n int, port string) netip.Addr {
		o := l.ask(n, dhcp4.Discover, relay(port))
		if o == nil {
			return netip.Addr{}
		}
		if string(o.Options.Get(82)) != "\x01"+string(rune(len(port)))+port || o.Relay != addr("198.51.100.1") {
			t.Errorf("%+v", o)
		}
		a := l.ask(n, dhcp4.Request, func(m *dhcp4.Message) { relay(port)(m); accept(o.Your)(m) })
		return a.Your
	}
	a, b := joined(1, "p1"), joined(2, "p1")
	if !netip.MustParsePrefix("198.51.100.0/24").Contains(a) || !b.IsValid() || string(l.lease(a).Circuit) != "p1" {
		t.Errorf("%s, %s: %+v", a, b, l.lease(a))
	}
	if c := joined(3, "p1"); c.IsValid() {
		t.Errorf("a third lease of one port: %s", c)
	}
	if d := joined(4, "p2"); !d.IsValid() {
		t.Error("another port gets nothing")
	}
	if m := l.ask(1, dhcp4.Request, func(m *dhcp4.Message) { m.Client = a }); m == nil || m.Type() != dhcp4.Ack || l.got[0].To.Addr() != a {
		t.Errorf("renewed past its relay agent: %+v", m)
	}
	over := func(m *dhcp4.Message) { // link selection and server identifier override
		m.Relay = addr("203.0.113.1")
		m.Options.Set(dhcp4.Bytes(82, []byte{5, 4, 198, 51, 100, 0, 11, 4, 203, 0, 113, 1}))
	}
	if m := l.ask(9, dhcp4.Discover, over); m == nil || m.Options.Address(54) != addr("203.0.113.1") || !netip.MustParsePrefix("198.51.100.0/24").Contains(m.Your) {
		t.Errorf("%+v", m)
	}
	if m := l.ask(9, dhcp4.Discover, func(m *dhcp4.Message) { m.Relay = addr("203.0.113.1") }); m != nil {
		t.Errorf("an unknown link: %+v", m)
	}
	if m := l.ask(1, dhcp4.Request, func(m *dhcp4.Message) { relay("p1")(m); accept(addr("192.0.2.100"))(m) }); m.Type() != dhcp4.Nak || !m.Broadcast || l.got[0].To.Addr() != m.Relay {
		t.Errorf("%+v to %+v", m, l.got)
	}
}

func TestOptionsForClientsThatAsk(t *testing.T) {
	l := newLAN(t, func(c *Config) {
		c.RapidCommit = true
		c.Boot = []Boot{
			{UserClass: "iPXE", File: "http://192.0.2.1/boot.ipxe"},
			{Architectures: []uint16{7, 9}, Server: addr("192.0.2.9"), File: "ipxe.efi"},
			{Architectures: []uint16{16}, File: "http://192.0.2.1/boot.efi"},
			{Architectures: []uint16{0}, Server: addr("192.0.2.9"), ServerName: "boot", File: "undionly.kpxe"},
		}
	})
	ask := func(more ...dhcp4.Option) *dhcp4.Message {
		return l.ask(1, dhcp4.Discover, func(m *dhcp4.Message) { m.Options.Set(more...) })
	}
	if m := ask(dhcp4.Bytes(55, []byte{108, 114})); !m.Options.Has(108) || m.Options.Text(114) != "https://portal.example.net" || m.Options.Has(6) {
		t.Errorf("%+v", m)
	}
	for want, more := range map[string][]dhcp4.Option{
		"ipxe.efi":                   {dhcp4.Uint16(93, 9)},
		"undionly.kpxe":              {dhcp4.Uint16(93, 0), dhcp4.Bytes(55, []byte{66, 67})},
		"http://192.0.2.1/boot.ipxe": {dhcp4.Uint16(93, 9), dhcp4.Text(77, "iPXE")},
		"http://192.0.2.1/boot.efi":  {dhcp4.Uint16(93, 16), dhcp4.Text(60, "HTTPClient:Arch:00016")},
		"":                           {dhcp4.Uint16(93, 6)},
	} {
		m := ask(more...)
		if m.File != want || m.Options.Text(60) == "HTTPClient" != strings.HasSuffix(want, "boot.efi") {
			t.Errorf("%q: %+v", want, m)
		}
		if want == "undionly.kpxe" && (m.Options.Text(66) != "boot" || m.Options.Text(67) != want || m.NextServer != addr("192.0.2.9")) {
			t.Errorf("%+v", m)
		}
	}
	if m := ask(dhcp4.Bytes(80, []byte{})); m.Type() != dhcp4.Ack || !m.Options.Has(80) || l.lease(m.Your).State != Bound {
		t.Errorf("rapid commit: %+v", m)
	}
	if m := l.ask(2, dhcp4.Inform, func(m *dhcp4.Message) { m.Client = addr("192.0.2.9") }); m.Type() != dhcp4.Ack || m.Your.IsValid() || m.Options.Has(51) || !m.Options.Has(6) {
		t.Errorf("INFORM: %+v", m)
	}
}

func TestNamesAreUniqueAndFitForDNS(t *testing.T) {
	l := newLAN(t, nil)
	for i, c := range []struct{ asked, want string }{
		{"Phone", "phone"}, {"phone", "phone-2"}, {"phone.lan", "phone-3"}, {"wpad", "wpad-2"}, {"printer", "printer-2"}, {"--", ""}, {"a_b c", "a-b-c"},
		{strings.Repeat("x", 70), strings.Repeat("x", 63)}, {strings.Repeat("x", 63), strings.Repeat("x", 61) + "-2"},
	} {
		a := l.join(i+1, dhcp4.Text(12, c.asked))
		if got := l.lease(a).HostName; got != c.want {
			t.Errorf("%q is called %q, want %q", c.asked, got, c.want)
		}
		l.join(i+1, dhcp4.Text(12, c.asked))
		if got := l.lease(a).HostName; got != c.want {
			t.Errorf("%q, renewed, is called %q, want %q", c.asked, got, c.want)
		}
	}
	if got := HostName("m\u00fcller"); got != "mller" {
		t.Errorf("%q", got)
	}
}

func TestLeasesOutliveTheProcess(t *testing.T) {
	l := newLAN(t, nil)
	var want []netip.Addr
	for n := range 20 {
		want = append(want, l.join(n+1, dhcp4.Text(12, "host")))
	}
	var stored []Lease
	for _, x := range l.stored {
		b, err := json.Marshal(x)
		var again Lease
		if err != nil || json.Unmarshal(b, &again) != nil {
			t.Fatal(err)
		}
		stored = append(stored, again)
	}
	before := l.server.Leases()
	l.server = New(testConfig(), stored, l.now.Add(time.Minute))
	after := l.server.Leases()
	for i := range before {
		if before[i].Address != after[i].Address || before[i].HostName != after[i].HostName || before[i].State != after[i].State || !before[i].Ends.Equal(after[i].Ends) {
			t.Errorf("%+v became %+v", before[i], after[i])
		}
	}
	for n, a := range want {
		if m := l.ask(n+1, dhcp4.Request, func(m *dhcp4.Message) { m.Client = a }); m == nil || m.Type() != dhcp4.Ack {
			t.Errorf("%s is not renewed: %+v", a, m)
		}
	}
	// a clock that was wrong makes no lease without an end
	x := stored[0]
	x.Ends = l.now.Add(1000 * time.Hour * 24)
	if got := New(testConfig(), []Lease{x}, l.now).Leases()[0].Ends; got.After(l.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("it ends %v", got)
	}
	// what is not given any more is forgotten, and its client refused
	c := testConfig()
	c.Subnets[0].Ranges = []Range{{addr("192.0.2.200"), addr("192.0.2.210")}}
	l.server.Update(c, l.now)
	if l.flush(); len(l.server.Leases()) != 0 || len(l.stored) != 0 {
		t.Errorf("%d leases, %d stored", len(l.server.Leases()), len(l.stored))
	}
	if m := l.ask(1, dhcp4.Request, func(m *dhcp4.Message) { m.Client = want[0] }); m == nil || m.Type() != dhcp4.Nak {
		t.Errorf("%+v", m)
	}
}

// An attacker that invents clients, with DISCOVERs alone or with whole exchanges, takes no
// lease from a client that has one, and keeps no new client out.
func TestExhaustion(t *testing.T) {
	for _, whole := range []bool{false, true} {
		l := newLAN(t, nil)
		known := map[int]netip.Addr{}
		for n := range 40 {
			known[n+1] = l.join(n + 1)
		}
		attack := func(n int) {
			fake := func(m *dhcp4.Message) { m.Hardware = "\x02\xff" + fmt.Sprintf("%04d", n%10000) } // of its own making
			o := l.ask(0, dhcp4.Discover, fake)
			if o != nil && whole {
				l.ask(0, dhcp4.Request, func(m *dhcp4.Message) { fake(m); accept(o.Your)(m) })
			}
		}
		n := 0
		for range 600 { // a minute, 100 a second
			for range 10 {
				n++
				attack(n)
			}
			l.pass(100 * time.Millisecond)
		}
		for c, a := range known {
			if m := l.ask(c, dhcp4.Request, func(m *dhcp4.Message) { m.Client = a }); m == nil || m.Type() != dhcp4.Ack {
				t.Errorf("whole %v: client %d cannot renew %s: %+v", whole, c, a, m)
			}
		}
		got := 0
		for c := range 10 { // with cards of a maker, while the attack goes on
			maker := func(m *dhcp4.Message) { m.Hardware = string([]byte{0, 17, 34, 0, 0, byte(c)}) }
			o := l.ask(0, dhcp4.Discover, maker)
			for range 5 {
				n++
				attack(n)
			}
			if o == nil {
				continue
			}
			if m := l.ask(0, dhcp4.Request, func(m *dhcp4.Message) { maker(m); accept(o.Your)(m) }); m != nil && m.Type() == dhcp4.Ack {
				got++
			}
		}
		if got < 10 {
			t.Errorf("whole %v: %d of 10 new clients get a lease; %+v", whole, got, l.server.Stats())
		}
	}
}

func TestExpiredLeasesAreGivenAgainTheOldestFirst(t *testing.T) {
	l := newLAN(t, func(c *Config) { c.Subnets[0].Ranges[0].Last = addr("192.0.2.103"); c.Reservations = nil })
	var had []netip.Addr
	for n := range 4 {
		had = append(had, l.join(n+1))
		l.pass(10 * time.Second)
		l.join(n + 1) // renewed, so that it is no new client
	}
	if l.join(9).IsValid() {
		t.Fatal("a fifth lease of four addresses")
	}
	l.pass(13 * time.Hour)
	ended := l.server.Leases()
	if a := l.join(9); a != had[0] {
		t.Errorf("it gets %s of %v, before were %+v", a, had, ended)
	}
	if l.join(2) != had[1] {
		t.Error("the second client does not get its own again")
	}
}

func TestTooManyMessagesOfOneClient(t *testing.T) {
	l := newLAN(t, nil)
	a, answered := l.join(1), 0
	for range 200 {
		if m := l.ask(1, dhcp4.Request, func(m *dhcp4.Message) { m.Client = a }); m != nil {
			answered++
		}
	}
	if answered < 10 || answered > 25 || !l.join(2).IsValid() {
		t.Errorf("%d of 200 at once are answered", answered)
	}
}
