package dhcp4client

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"weft/wire/dhcp4"
)

// link is a client's link to a server that a test writes, with a clock that a test moves.
type link struct {
	t       *testing.T
	now     time.Time
	client  *Client
	sent    []*dhcp4.Message
	to      []netip.Addr
	at      []time.Time
	probes  []netip.Addr
	changes int
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

const hardware = "\x02\x00\x00\x00\x00\x07"

func testConfig() Config {
	r := rand.New(rand.NewPCG(1, 1))
	return Config{Hardware: hardware, HostName: "box", Random: func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}}
}

func newLink(t *testing.T, change func(*Config)) *link {
	l := &link{t: t, now: time.Unix(1_000_000, 0)}
	config := testConfig()
	if change != nil {
		change(&config)
	}
	l.client = New(config, l, l.now)
	l.client.Tick(l.now)
	return l
}

func (l *link) Send(b []byte, to netip.Addr) {
	m, err := dhcp4.Parse(b)
	if err != nil {
		l.t.Fatal(err)
	}
	l.sent, l.to, l.at = append(l.sent, m), append(l.to, to), append(l.at, l.now)
}
func (l *link) Probe(a netip.Addr) { l.probes = append(l.probes, a) }
func (l *link) Changed()           { l.changes++ }

// last is the message that the client sent last.
func (l *link) last() *dhcp4.Message { return l.sent[len(l.sent)-1] }

// pass lets time pass.
func (l *link) pass(d time.Duration) {
	for end, n := l.now.Add(d), 0; ; n++ {
		due := l.client.Due()
		if due.IsZero() || due.After(end) {
			l.now = end
			return
		}
		if n > 100_000 {
			l.t.Fatalf("%s: the client has something to do all the time", l.client.Status().State)
		}
		if due.After(l.now) {
			l.now = due
		}
		l.client.Tick(l.now)
	}
}

// reply answers the client's last message.
func (l *link) reply(kind dhcp4.Type, change func(*dhcp4.Message)) {
	l.t.Helper()
	m := &dhcp4.Message{
		Op: dhcp4.BootReply, HardwareType: 1, Hardware: hardware, Transaction: l.last().Transaction, Your: addr("192.0.2.7"),
		Options: dhcp4.Options{
			dhcp4.Uint8(dhcp4.OptionType, uint8(kind)), dhcp4.Addresses(dhcp4.OptionServerID, addr("192.0.2.1")), dhcp4.Uint32(dhcp4.OptionLeaseTime, 3600), dhcp4.Mask(24),
			dhcp4.Addresses(dhcp4.OptionRouter, addr("192.0.2.1")), dhcp4.Addresses(dhcp4.OptionDNS, addr("192.0.2.53")),
		},
	}
	if kind == dhcp4.Nak {
		m.Your, m.Options = netip.Addr{}, m.Options[:2]
	}
	if change != nil {
		change(m)
	}
	b, _, err := m.Marshal(1472)
	if err != nil {
		l.t.Fatal(err)
	}
	l.client.Receive(b, l.now)
}

func (l *link) want(s State, lease bool) {
	l.t.Helper()
	if _, has := l.client.Lease(); l.client.Status().State != s || has != lease {
		l.t.Fatalf("the client is %s, lease %v; want %s, %v (%+v)", l.client.Status().State, has, s, lease, l.client.Status())
	}
}

// bound brings a client to its lease.
func bound(t *testing.T, change func(*Config)) *link {
	l := newLink(t, change)
	l.reply(dhcp4.Offer, nil)
	l.reply(dhcp4.Ack, nil)
	if !l.client.NoProbe {
		l.client.Probed(addr("192.0.2.7"), false, l.now)
	}
	l.want(Bound, true)
	return l
}

func TestFromDiscoverToBound(t *testing.T) {
	l := newLink(t, func(c *Config) {
		c.VendorClass, c.UserClasses, c.Requested = "provider-tv", []string{"box"}, []uint8{43, 3}
		c.Options = dhcp4.Options{dhcp4.Bytes(90, []byte{1, 2, 3}), dhcp4.Text(dhcp4.OptionHostName, "other")}
	})
	d := l.last()
	if d.Type() != dhcp4.Discover || l.to[0] != addr("255.255.255.255") || d.Options.Text(60) != "provider-tv" || string(d.Options.Get(77)) != "\x03box" ||
		!slices.Equal(d.Options.Get(90), []byte{1, 2, 3}) || d.Options.Text(12) != "other" || string(d.Options.Get(61)) != "\x01"+hardware || d.Client.IsValid() {
		t.Fatalf("DISCOVER: %+v", d)
	}
	list := d.Options.Get(dhcp4.OptionRequested)
	if slices.Index(list, 121) > slices.Index(list, 3) || !slices.Contains(list, 43) || slices.Contains(list, dhcp4.OptionIPv6Only) {
		t.Errorf("it requests %d", list)
	}
	l.now = l.now.Add(2 * time.Second)
	l.reply(dhcp4.Offer, nil)
	l.want(Requesting, false)
	r := l.last()
	if r.Type() != dhcp4.Request || r.Options.Address(50) != addr("192.0.2.7") || r.Options.Address(54) != addr("192.0.2.1") || r.Transaction != d.Transaction ||
		r.Seconds != 2 || r.Client.IsValid() || r.Options.Text(60) != "provider-tv" {
		t.Fatalf("REQUEST: %+v", r)
	}
	l.reply(dhcp4.Ack, func(m *dhcp4.Message) {
		m.Options.Set(dhcp4.Routes(dhcp4.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: addr("192.0.2.2")}), dhcp4.Uint16(dhcp4.OptionMTU, 1400),
			dhcp4.Search("example.net"), dhcp4.Text(dhcp4.OptionPortal, "https://portal.example.net"), dhcp4.Addresses(dhcp4.OptionNTP, addr("192.0.2.123")))
	})
	l.want(Probing, false)
	if len(l.probes) != 1 || l.probes[0] != addr("192.0.2.7") {
		t.Fatalf("it probes %v", l.probes)
	}
	l.client.Probed(addr("192.0.2.8"), true, l.now) // of another time
	l.client.Probed(addr("192.0.2.7"), false, l.now)
	l.want(Bound, true)
	got, _ := l.client.Lease()
	if got.Address != netip.MustParsePrefix("192.0.2.7/24") || len(got.Routers) != 0 || len(got.Routes) != 1 || got.MTU != 1400 || got.Search[0] != "example.net" ||
		got.NTP[0] != addr("192.0.2.123") || got.Portal == "" || got.Ends.Sub(l.now) != time.Hour || got.Renew.Sub(l.now) != 30*time.Minute || got.Rebind.Sub(l.now) != 3150*time.Second {
		t.Errorf("%+v", got)
	}
	b, err := json.Marshal(got)
	var again Lease
	if err != nil || json.Unmarshal(b, &again) != nil || !again.Ends.Equal(got.Ends) || !reflect.DeepEqual(again.Routes, got.Routes) || again.Address != got.Address {
		t.Errorf("%s became %+v", b, again)
	}
}

// RFC 2131 section 4.1: 4, 8, 16, 32, 64 seconds, give or take one, and the same
// transaction.
func TestDiscoversAreRepeatedMoreAndMoreSlowly(t *testing.T) {
	l := newLink(t, nil)
	l.pass(10 * time.Minute)
	for i, want := range []float64{4, 8, 16, 32, 64, 64, 64} {
		if got := l.at[i+1].Sub(l.at[i]).Seconds(); got < want-1 || got > want+1 || l.sent[i+1].Transaction != l.sent[0].Transaction {
			t.Errorf("try %d after %f s, want %f", i+1, got, want)
		}
	}
}

func TestAnOfferThatIsNotAcknowledgedIsGivenUp(t *testing.T) {
	l := newLink(t, nil)
	l.reply(dhcp4.Offer, nil)
	l.pass(70 * time.Second)
	requests := 0
	for _, m := range l.sent {
		if m.Type() == dhcp4.Request {
			requests++
		}
	}
	if l.want(Selecting, false); requests != requestTries || l.last().Type() != dhcp4.Discover || l.last().Transaction == l.sent[0].Transaction {
		t.Errorf("%d requests, then %+v", requests, l.last())
	}
}

func TestWhatIsNotForTheClientIsIgnored(t *testing.T) {
	for name, change := range map[string]func(*dhcp4.Message){
		"a request":                  func(m *dhcp4.Message) { m.Op = dhcp4.BootRequest },
		"another transaction":        func(m *dhcp4.Message) { m.Transaction++ },
		"another hardware address":   func(m *dhcp4.Message) { m.Hardware = "\x02\x00\x00\x00\x00\x08" },
		"another client id":          func(m *dhcp4.Message) { m.Options.Set(dhcp4.Text(61, "x")) },
		"no server":                  func(m *dhcp4.Message) { m.Options.Set(dhcp4.Text(54, "")) },
		"a server that is not ours":  func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(54, addr("192.0.2.66"))) },
		"no address":                 func(m *dhcp4.Message) { m.Your = netip.Addr{} },
		"a multicast address":        func(m *dhcp4.Message) { m.Your = addr("224.0.0.1") },
		"a loopback address":         func(m *dhcp4.Message) { m.Your = addr("127.0.0.1") },
		"a mask of nothing":          func(m *dhcp4.Message) { m.Options.Set(dhcp4.Mask(0)) },
		"a lease of 5 seconds":       func(m *dhcp4.Message) { m.Options.Set(dhcp4.Uint32(51, 5)) },
		"an ACK before the REQUEST":  func(m *dhcp4.Message) { m.Options.Set(dhcp4.Uint8(53, 5)) },
		"a message without its type": func(m *dhcp4.Message) { m.Options.Set(dhcp4.Text(53, "")) },
	} {
		l := newLink(t, func(c *Config) { c.Servers = []netip.Addr{addr("192.0.2.1")} })
		l.reply(dhcp4.Offer, change)
		if l.client.Status().State != Selecting || l.client.Status().Ignored != 1 {
			t.Errorf("%s: %+v", name, l.client.Status())
		}
		l.reply(dhcp4.Offer, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Text(61, "\x01"+hardware)) }) // RFC 6842
		l.want(Requesting, false)
		l.reply(dhcp4.Ack, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(54, addr("192.0.2.66"))) })
		l.reply(dhcp4.Nak, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(54, addr("192.0.2.66"))) })
		l.reply(dhcp4.Ack, func(m *dhcp4.Message) { m.Your = addr("192.0.2.8") })
		l.want(Requesting, false)
	}
}

func TestRenewing(t *testing.T) {
	l := bound(t, nil)
	l.pass(30*time.Minute + time.Second)
	l.want(Renewing, true)
	r := l.last()
	if l.to[len(l.to)-1] != addr("192.0.2.1") || r.Client != addr("192.0.2.7") || r.Options.Has(50) || r.Options.Has(54) || r.Type() != dhcp4.Request {
		t.Fatalf("to %s: %+v", l.to[len(l.to)-1], r)
	}
	before, _ := l.client.Lease()
	changes := l.changes
	l.reply(dhcp4.Ack, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(6, addr("192.0.2.54"))) })
	l.want(Bound, true)
	after, _ := l.client.Lease()
	if !after.Ends.After(before.Ends) || after.DNS[0] != addr("192.0.2.54") || l.changes != changes+1 || len(l.probes) != 1 {
		t.Errorf("%+v, %d changes, %d probes", after, l.changes, len(l.probes))
	}
}

func TestRebindingAndTheEndOfALease(t *testing.T) {
	l := bound(t, nil)
	l.pass(3150*time.Second + time.Second)
	l.want(Rebinding, true)
	if l.to[len(l.to)-1] != addr("255.255.255.255") || l.last().Client != addr("192.0.2.7") {
		t.Fatalf("to %s: %+v", l.to[len(l.to)-1], l.last())
	}
	if n := len(l.sent); n < 6 || n > 12 {
		t.Errorf("%d messages until T2", n)
	}
	// another server may extend it
	other := bound(t, nil)
	other.pass(3151 * time.Second)
	other.reply(dhcp4.Ack, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Addresses(54, addr("192.0.2.66"))) })
	other.want(Bound, true)
	if got, _ := other.client.Lease(); got.Server != addr("192.0.2.66") {
		t.Errorf("its server is %s", got.Server)
	}
	l.pass(450 * time.Second)
	l.want(Selecting, false)
	if l.last().Type() != dhcp4.Discover {
		t.Errorf("it sends %s", l.last().Type())
	}
}

// A lease of a minute is asked for several times, too.
func TestAShortLeaseIsRenewedInTime(t *testing.T) {
	l := newLink(t, func(c *Config) { c.NoProbe = true })
	short := func(m *dhcp4.Message) { m.Options.Set(dhcp4.Uint32(51, 60)) }
	l.reply(dhcp4.Offer, short)
	l.reply(dhcp4.Ack, short)
	n := len(l.sent)
	l.pass(59 * time.Second)
	if l.want(Rebinding, true); len(l.sent)-n < 4 {
		t.Errorf("%d tries", len(l.sent)-n)
	}
}

func TestTimesOfALease(t *testing.T) {
	for name, c := range map[string]struct {
		set               []dhcp4.Option
		longest           time.Duration
		renew, bind, ends time.Duration
	}{
		"the server's own":      {[]dhcp4.Option{dhcp4.Uint32(58, 100), dhcp4.Uint32(59, 200)}, 0, 100 * time.Second, 200 * time.Second, time.Hour},
		"T1 after T2":           {[]dhcp4.Option{dhcp4.Uint32(58, 300), dhcp4.Uint32(59, 200)}, 0, 30 * time.Minute, 3150 * time.Second, time.Hour},
		"T2 after the end":      {[]dhcp4.Option{dhcp4.Uint32(58, 300), dhcp4.Uint32(59, 3600)}, 0, 30 * time.Minute, 3150 * time.Second, time.Hour},
		"no end":                {[]dhcp4.Option{dhcp4.Uint32(51, dhcp4.Infinite)}, 0, 0, 0, 0},
		"no end, but a longest": {[]dhcp4.Option{dhcp4.Uint32(51, dhcp4.Infinite)}, 1000 * time.Second, 500 * time.Second, 875 * time.Second, 0},
		"longer than a longest": {nil, 1000 * time.Second, 500 * time.Second, 875 * time.Second, time.Hour},
		"no time at all":        {[]dhcp4.Option{dhcp4.Text(51, "")}, 0, 30 * time.Minute, 3150 * time.Second, time.Hour},
	} {
		l := newLink(t, func(config *Config) { config.NoProbe, config.LongestTime = true, c.longest })
		l.reply(dhcp4.Offer, nil)
		l.reply(dhcp4.Ack, func(m *dhcp4.Message) { m.Options.Set(c.set...) })
		got, ok := l.client.Lease()
		is := func(at time.Time, want time.Duration) bool {
			return want == 0 && at.IsZero() || want > 0 && at.Equal(l.now.Add(want))
		}
		if !ok || !is(got.Renew, c.renew) || !is(got.Rebind, c.bind) || !is(got.Ends, c.ends) {
			t.Errorf("%s: %+v at %v", name, got, l.now)
		}
	}
}

func TestAnAddressInUseIsDeclined(t *testing.T) {
	l := newLink(t, nil)
	l.reply(dhcp4.Offer, nil)
	l.reply(dhcp4.Ack, nil)
	l.client.Probed(addr("192.0.2.7"), true, l.now)
	l.want(Init, false)
	d := l.last()
	if d.Type() != dhcp4.Decline || d.Options.Address(50) != addr("192.0.2.7") || d.Options.Address(54) != addr("192.0.2.1") || d.Client.IsValid() || d.Options.Has(55) {
		t.Errorf("%+v", d)
	}
	if l.pass(9 * time.Second); l.client.Status().State != Init {
		t.Error("it begins again before 10 seconds (RFC 2131 section 3.1)")
	}
	l.pass(2 * time.Second)
	l.want(Selecting, false)
	// and when a conflict comes up later
	l = bound(t, nil)
	l.client.Conflict(addr("192.0.2.8"), l.now)
	l.want(Bound, true)
	l.client.Conflict(addr("192.0.2.7"), l.now)
	if l.want(Init, false); l.last().Type() != dhcp4.Decline || l.client.Status().Conflicts != 1 {
		t.Errorf("%+v", l.last())
	}
}

// A link that does not answer keeps no client from its address.
func TestAProbeWithoutAnAnswer(t *testing.T) {
	l := newLink(t, nil)
	l.reply(dhcp4.Offer, nil)
	l.reply(dhcp4.Ack, nil)
	l.pass(probeWait)
	l.want(Bound, true)
}

func TestARefusalBeginsAgain(t *testing.T) {
	for _, after := range []time.Duration{31 * time.Minute, 3200 * time.Second} {
		l := bound(t, nil)
		l.pass(after)
		l.reply(dhcp4.Nak, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Text(dhcp4.OptionMessage, "wrong network")) })
		if l.want(Selecting, false); l.last().Type() != dhcp4.Discover || l.client.Status().Message != "wrong network" {
			t.Errorf("%+v", l.client.Status())
		}
	}
	// who offers and refuses in a circle is asked less and less often
	l := newLink(t, nil)
	n := 0
	for end := l.now.Add(10 * time.Minute); l.now.Before(end); l.pass(100 * time.Millisecond) {
		switch l.client.Status().State {
		case Selecting:
			l.reply(dhcp4.Offer, nil)
		case Requesting:
			l.reply(dhcp4.Nak, nil)
			n++
		}
	}
	if n < 8 || n > 20 {
		t.Errorf("%d refusals in 10 minutes", n)
	}
}

func TestALeaseIsAskedForAgainAfterARestart(t *testing.T) {
	l := bound(t, nil)
	lease, _ := l.client.Lease()
	restore := func(inForce bool, change func(*Lease)) *link {
		k := &link{t: t, now: l.now.Add(time.Minute)}
		one := lease
		if change != nil {
			change(&one)
		}
		k.client = Restore(testConfig(), k, one, inForce, k.now)
		k.client.Tick(k.now)
		return k
	}
	k := restore(true, nil)
	k.want(Rebooting, true)
	if r := k.last(); r.Type() != dhcp4.Request || r.Options.Address(50) != addr("192.0.2.7") || r.Options.Has(54) || r.Client.IsValid() {
		t.Errorf("%+v", r)
	}
	k.reply(dhcp4.Ack, nil)
	if k.want(Bound, true); len(k.probes) != 0 {
		t.Error("it probes the address that it uses")
	}
	k = restore(true, nil) // no server answers: it goes on
	k.pass(time.Minute)
	k.want(Bound, true)
	k = restore(true, nil)
	k.reply(dhcp4.Nak, nil)
	k.want(Selecting, false)
	k = restore(false, nil)
	k.want(Rebooting, false)
	k.reply(dhcp4.Ack, nil)
	k.want(Probing, false)
	k = restore(false, nil)
	k.pass(time.Minute)
	k.want(Selecting, false)
	for name, change := range map[string]func(*Lease){
		"it has ended":        func(l *Lease) { l.Ends = l.Obtained.Add(time.Second) },
		"the clock went back": func(l *Lease) { l.Obtained = l.Obtained.Add(time.Hour) },
		"it is none":          func(l *Lease) { *l = Lease{} },
	} {
		if k := restore(true, change); k.client.Status().State != Selecting || k.last().Type() != dhcp4.Discover {
			t.Errorf("%s: %+v", name, k.client.Status())
		}
	}
	l.client.Verify(l.now) // the link was down
	l.want(Rebooting, true)
}

func TestRelease(t *testing.T) {
	l := bound(t, nil)
	l.client.Release(l.now)
	l.want(Released, false)
	if r := l.last(); r.Type() != dhcp4.Release || l.to[len(l.to)-1] != addr("192.0.2.1") || r.Client != addr("192.0.2.7") || r.Options.Address(54) != addr("192.0.2.1") || r.Options.Has(50) {
		t.Errorf("%+v", r)
	}
	l.client.Verify(l.now)
	if l.pass(time.Hour); !l.client.Due().IsZero() || l.last().Type() != dhcp4.Release {
		t.Error("it goes on")
	}
}

func TestRapidCommit(t *testing.T) {
	rapid := func(m *dhcp4.Message) { m.Options.Set(dhcp4.Bytes(80, []byte{})) }
	l := newLink(t, func(c *Config) { c.RapidCommit, c.NoProbe = true, true })
	l.reply(dhcp4.Ack, nil) // without the option it is none
	l.want(Selecting, false)
	l.reply(dhcp4.Ack, rapid)
	l.want(Bound, true)
	l = newLink(t, nil)
	l.reply(dhcp4.Ack, rapid)
	l.want(Selecting, false)
}

// RFC 8925: a host that can do without IPv4 does so where the network says it can, for at
// least 5 minutes.
func TestIPv6OnlyPreferred(t *testing.T) {
	prefers := func(m *dhcp4.Message) {
		m.Your = netip.Addr{}
		m.Options.Set(dhcp4.Uint32(dhcp4.OptionIPv6Only, 0))
	}
	l := newLink(t, func(c *Config) { c.IPv6Only = true })
	if !slices.Contains(l.last().Options.Get(55), dhcp4.OptionIPv6Only) {
		t.Error("it does not ask")
	}
	l.reply(dhcp4.Offer, prefers)
	l.want(IPv6Only, false)
	n := len(l.sent)
	if l.pass(299 * time.Second); len(l.sent) != n {
		t.Error("it asks before 5 minutes")
	}
	l.pass(2 * time.Second)
	l.want(Selecting, false)
	l.reply(dhcp4.Offer, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Bytes(dhcp4.OptionIPv6Only, []byte{1})) }) // of no sense
	l.want(Requesting, false)
	l = newLink(t, nil)
	l.reply(dhcp4.Offer, func(m *dhcp4.Message) { m.Options.Set(dhcp4.Uint32(dhcp4.OptionIPv6Only, 0)) })
	l.want(Requesting, false)
}

// FuzzClient: whatever servers say in whatever order, a client takes what makes sense, asks
// at a bounded rate, and goes on.
func FuzzClient(f *testing.F) {
	f.Add([]byte{0, 2, 0, 5, 1, 0, 3, 200, 0, 5, 4, 9})
	f.Add([]byte{0, 2, 3, 255, 0, 2, 0, 6, 0, 2, 0, 6, 5, 1, 3, 80})
	f.Fuzz(fuzzScript)
}

func fuzzScript(t *testing.T, script []byte) {
	l := newLink(t, func(c *Config) { c.IPv6Only, c.RapidCommit = true, true })
	begin := l.now
	for ; len(script) >= 2 && len(l.sent) < 3000; script = script[2:] {
		x := script[1]
		switch script[0] % 8 {
		case 0:
			l.reply(dhcp4.Type(x%9), nil)
		case 1:
			l.client.Probed(addr("192.0.2.7"), x%2 == 1, l.now)
		case 2:
			l.client.Conflict(addr("192.0.2.7"), l.now)
		case 3:
			l.pass(time.Duration(x) * 10 * time.Second)
		case 4:
			l.client.Verify(l.now)
		case 5:
			l.reply(dhcp4.Type(2+3*(x&1)), func(m *dhcp4.Message) {
				m.Options.Set(dhcp4.Uint32(51, uint32(x)), dhcp4.Uint32(58, uint32(x)/3), dhcp4.Bytes(80, nil), dhcp4.Mask(int(x)%33))
				m.Your = netip.AddrFrom4([4]byte{192, 0, 2, x})
			})
		case 6:
			l.reply(dhcp4.Type(x%9), func(m *dhcp4.Message) { m.Options.Set(dhcp4.Bytes(x, script[:min(len(script), 40)])) })
		case 7:
			if len(script) > 3 {
				l.client.Receive(script[2:], l.now)
			}
		}
		s, has := l.client.Status().State, false
		var lease Lease
		lease, has = l.client.Lease()
		if in := s == Bound || s == Renewing || s == Rebinding; in && !has || has && (!lease.Address.IsValid() || !in && s != Rebooting) {
			t.Fatalf("%s with lease %v %+v", s, has, lease)
		}
		if due := l.client.Due(); due.IsZero() && !(s == Bound && lease.Renew.IsZero()) {
			t.Fatalf("%s waits forever", s)
		}
	}
	quiet := len(l.sent)
	l.pass(time.Hour)
	if n := len(l.sent) - quiet; n > 600 {
		t.Fatalf("%d messages in an hour without answers, since %v", n, l.now.Sub(begin))
	}
}
