package ra_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func basic() ra.Settings {
	return ra.Settings{
		Device: "lan", MAC: [6]byte{2, 0, 0, 0, 0, 1}, Lifetime: 30 * time.Minute, Interval: 10 * time.Minute,
		Preference: ra.PreferenceMedium, HopLimit: 64,
		Prefixes: []ra.AnnouncedPrefix{{Prefix: prefix("2001:db8:1::/64"), OnLink: true, Autonomous: true, Preferred: 45 * time.Minute, Valid: 90 * time.Minute}},
		Own:      []netip.Addr{addr("fe80::1")},
	}
}

var start = time.Unix(1e9, 0)

// latest makes random delays as long as they can be.
func latest(d time.Duration) time.Duration { return d }

func soonest(time.Duration) time.Duration { return 0 }

func marshal(t *testing.T, m ndp.Message) string {
	t.Helper()
	b, err := ndp.MarshalMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// times runs an advertiser for a while and gives the times of multicast advertisements.
func times(a *ra.Advertiser, from, to time.Time) []time.Duration {
	var list []time.Duration
	for now := a.Next(); now.Before(to); now = a.Next() {
		for _, s := range a.Tick(now) {
			if s.To == netip.IPv6LinkLocalAllNodes() {
				list = append(list, now.Sub(from))
			}
		}
	}
	return list
}

func TestTheFirstThreeComeQuickly(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	got := times(a, start, start.Add(31*time.Minute))
	want := []time.Duration{0, 16 * time.Second, 32 * time.Second, 632 * time.Second, 1232 * time.Second, 1832 * time.Second}
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
			break
		}
	}
	if got := times(ra.NewAdvertiser(basic(), nil, soonest, start), start, start.Add(20*time.Minute)); len(got) != 8 {
		t.Errorf("with the shortest intervals %v", got)
	}
}

func TestAHostWithAnAddressIsAnsweredByItself(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	a.Tick(start)
	now := start.Add(5 * time.Second)
	for range 3 {
		a.Solicit(addr("fe80::2").WithZone("lan"), &ndp.RouterSolicitation{}, 255, now)
	}
	if at := a.Next(); at != now.Add(500*time.Millisecond) {
		t.Errorf("it waits %v", at.Sub(now))
	}
	sent := a.Tick(a.Next())
	if len(sent) != 1 || sent[0].To != addr("fe80::2") {
		t.Errorf("%v", sent)
	}
	if a.Next() != start.Add(16*time.Second) {
		t.Error("the others' turn has moved")
	}
}

func TestAHostWithoutAddressIsAnsweredWithEverybody(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, soonest, start)
	a.Tick(start)
	a.Solicit(netip.IPv6Unspecified(), &ndp.RouterSolicitation{}, 255, start.Add(time.Second))
	if at := a.Next(); at != start.Add(3*time.Second) { // MIN_DELAY_BETWEEN_RAS
		t.Errorf("it comes after %v", at.Sub(start))
	}
	if sent := a.Tick(a.Next()); len(sent) != 1 || sent[0].To != addr("ff02::1") {
		t.Errorf("%v", sent)
	}
}

func TestManyQuestionsGiveOneAnswer(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	a.Tick(start)
	base := addr("fe80::1:0").As16()
	for i := range 1000 {
		base[14], base[15] = byte(i>>8), byte(i)
		a.Solicit(netip.AddrFrom16(base), &ndp.RouterSolicitation{}, 255, start.Add(10*time.Second))
	}
	sent := 0
	for a.Next().Before(start.Add(15 * time.Second)) {
		sent += len(a.Tick(a.Next()))
	}
	if sent > 33 {
		t.Errorf("%d advertisements for 1000 questions", sent)
	}
}

func TestQuestionsThatAreNotValidAreIgnored(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	a.Tick(start)
	before := a.Next()
	a.Solicit(addr("fe80::2"), &ndp.RouterSolicitation{}, 64, start)
	a.Solicit(netip.IPv6Unspecified(), &ndp.RouterSolicitation{Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: []byte{2, 0, 0, 0, 0, 2}}}}, 255, start)
	if a.Next() != before || a.Stats().Ignored != 2 || a.Stats().Solicited != 0 {
		t.Errorf("%+v", a.Stats())
	}
}

func TestEverythingIsSaid(t *testing.T) {
	s := basic()
	s.Managed, s.Other, s.MTU, s.Preference = true, true, 1492, ra.PreferenceHigh
	s.Routes = []ra.Route{{Prefix: prefix("2001:db8:9::/48"), Preference: ra.PreferenceLow, Lifetime: time.Hour}}
	s.DNS, s.Search = []netip.Addr{addr("2001:db8:1::1")}, []string{"example.net"}
	s.PREF64 = []netip.Prefix{prefix("64:ff9b::/96"), prefix("2001:db8:64::/56")}
	m, err := ndp.ParseMessage([]byte(marshal(t, s.Message(nil))))
	if err != nil {
		t.Fatal(err)
	}
	r := m.(*ndp.RouterAdvertisement)
	if !r.ManagedConfiguration || !r.OtherConfiguration || r.RouterSelectionPreference != ndp.High || r.RouterLifetime != 30*time.Minute || r.CurrentHopLimit != 64 {
		t.Errorf("%+v", r)
	}
	var found []string
	for _, o := range r.Options {
		switch o := o.(type) {
		case *ndp.MTU:
			if o.MTU == 1492 {
				found = append(found, "mtu")
			}
		case *ndp.PrefixInformation:
			if o.Prefix == addr("2001:db8:1::") && o.OnLink && o.AutonomousAddressConfiguration && o.PreferredLifetime == 45*time.Minute && o.ValidLifetime == 90*time.Minute {
				found = append(found, "prefix")
			}
		case *ndp.RouteInformation:
			if o.PrefixLength == 48 && o.Preference == ndp.Low && o.RouteLifetime == time.Hour {
				found = append(found, "route")
			}
		case *ndp.RecursiveDNSServer:
			if o.Lifetime == 30*time.Minute && o.Servers[0] == addr("2001:db8:1::1") {
				found = append(found, "rdnss")
			}
		case *ndp.DNSSearchList:
			if o.DomainNames[0] == "example.net" {
				found = append(found, "dnssl")
			}
		case *ndp.PREF64:
			if o.Lifetime == 30*time.Minute && (o.Prefix == prefix("64:ff9b::/96") || o.Prefix == prefix("2001:db8:64::/56")) {
				found = append(found, "pref64")
			}
		}
	}
	if got := strings.Join(found, " "); got != "mtu prefix route rdnss dnssl pref64 pref64" {
		t.Error(got)
	}
}

// The bytes of the option are those of RFC 8781 section 4: type 38, two units
// of length, 13 bits of lifetime in eighths, 3 bits of prefix length code.
func TestPREF64OnTheWire(t *testing.T) {
	s := basic()
	s.Interval, s.PREF64 = 10*time.Second, []netip.Prefix{prefix("64:ff9b::/96")}
	// 30 s become 32: four units of eight
	want := "\x26\x02\x00\x20\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00"
	if m := marshal(t, s.Message(nil)); !strings.Contains(m, want) {
		t.Errorf("%x", m)
	}
	s.Interval, s.PREF64 = 30*time.Hour, []netip.Prefix{prefix("2001:db8::/32")}
	if m := marshal(t, s.Message(nil)); !strings.Contains(m, "\x26\x02\xff\xfd\x20\x01\x0d\xb8") {
		t.Errorf("at most 8191 units, code 5 for a /32: %x", m)
	}
}

func TestTheFarewellTakesEverythingBack(t *testing.T) {
	s := basic()
	s.DNS, s.Search, s.PREF64 = []netip.Addr{addr("2001:db8:1::1")}, []string{"example.net"}, []netip.Prefix{prefix("64:ff9b::/96")}
	s.Routes = []ra.Route{{Prefix: prefix("2001:db8:9::/48"), Lifetime: time.Hour}}
	m := s.Farewell(start)
	if m.RouterLifetime != 0 {
		t.Error("still a default router")
	}
	for _, o := range m.Options {
		switch o := o.(type) {
		case *ndp.PrefixInformation:
			if o.PreferredLifetime != 0 || o.ValidLifetime == 0 {
				t.Errorf("%+v", o)
			}
		case *ndp.RouteInformation:
			if o.RouteLifetime != 0 {
				t.Errorf("%+v", o)
			}
		case *ndp.RecursiveDNSServer:
			if o.Lifetime != 0 {
				t.Errorf("%+v", o)
			}
		case *ndp.DNSSearchList:
			if o.Lifetime != 0 {
				t.Errorf("%+v", o)
			}
		case *ndp.PREF64:
			if o.Lifetime != 0 {
				t.Errorf("%+v", o)
			}
		}
	}
	marshal(t, m)
}

// old finds what is said of a prefix.
func old(m *ndp.RouterAdvertisement, p string) *ndp.PrefixInformation {
	for _, o := range m.Options {
		if i, is := o.(*ndp.PrefixInformation); is && netip.PrefixFrom(i.Prefix, int(i.PrefixLength)) == prefix(p) {
			return i
		}
	}
	return nil
}

func TestAPrefixThatIsTakenAwayIsDeprecated(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	times(a, start, start.Add(time.Minute))
	s := basic()
	s.Prefixes[0].Prefix = prefix("2001:db8:2::/64")
	now := start.Add(2 * time.Minute)
	a.Update(s, now)
	if a.Next() != now {
		t.Errorf("the change is advertised after %v", a.Next().Sub(now))
	}
	m := a.Tick(now)[0].Message
	was, is := old(m, "2001:db8:1::/64"), old(m, "2001:db8:2::/64")
	if was == nil || was.PreferredLifetime != 0 || was.ValidLifetime != 90*time.Minute || is == nil || is.PreferredLifetime == 0 {
		t.Errorf("%+v %+v", was, is)
	}
	// another process goes on with what this one knows
	b := ra.NewAdvertiser(s, a.Deprecated(), latest, now.Add(10*time.Minute))
	m = b.Tick(now.Add(10 * time.Minute))[0].Message
	if was := old(m, "2001:db8:1::/64"); was == nil || was.ValidLifetime != 80*time.Minute {
		t.Errorf("%+v", was)
	}
	m = a.Tick(now.Add(91 * time.Minute))[0].Message
	if old(m, "2001:db8:1::/64") != nil {
		t.Error("it is announced for ever")
	}
	// and one that comes back is a prefix like any
	a.Update(basic(), now.Add(92*time.Minute))
	m = a.Tick(a.Next())[0].Message
	if is := old(m, "2001:db8:1::/64"); is == nil || is.PreferredLifetime == 0 {
		t.Errorf("%+v", is)
	}
}

func TestTheSameAgainChangesNothing(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	times(a, start, start.Add(time.Minute))
	next := a.Next()
	a.Update(basic(), start.Add(2*time.Minute))
	if a.Next() != next {
		t.Error("it starts again")
	}
}

func TestOtherRoutersAreHeldAgainstThisOne(t *testing.T) {
	a := ra.NewAdvertiser(basic(), nil, latest, start)
	s := basic()
	s.HopLimit, s.Managed = 32, true
	s.Prefixes[0].Valid = time.Hour
	other := s.Message(nil)
	got := a.Receive(addr("fe80::2"), other, 255)
	want := []string{"hop limit is 32 there and 64 here", "flag M is true there and false here", "valid lifetime of 2001:db8:1::/64 is 1h0m0s there and 1h30m0s here"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("%q", got)
	}
	if again := a.Receive(addr("fe80::2"), other, 255); again != nil {
		t.Errorf("said again: %q", again)
	}
	if a.Receive(addr("fe80::3"), basic().Message(nil), 255) != nil {
		t.Error("a router that agrees")
	}
	if a.Receive(addr("fe80::4"), other, 64) != nil || a.Receive(addr("2001:db8::4"), other, 255) != nil || a.Receive(addr("fe80::1"), other, 255) != nil {
		t.Error("from far away, or from oneself")
	}
}
