package subscriber

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/addresspool"
	"weft/internal/state"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// flats is a server with a pool that has to be named.
// atPool gives a user all of one pool.
func atPool(p *Profile, name string) {
	p.Pool, p.Pools6 = name, nil
	if name != "" {
		p.Pools6 = &Pools6{name, name, name}
	}
}

func flats() ServerSettings {
	s := testServer()
	s.Addresses6 = prefixes("2001:db8:3000::/64")
	s.Pools = append(s.Pools, addresspool.Pool{
		Name: "flats", Only: true, Addresses: prefixes("198.18.0.0/24"), Prefixes: prefixes("2001:db8:1100::/48"),
		Delegate: prefixes("2001:db8:2100::/40"), Addresses6: prefixes("2001:db8:3100::/64"),
	}, addresspool.Pool{Name: "four", Only: true, Addresses: prefixes("198.18.1.0/24")})
	atPool(&s.Users[0].Profile, "flats")
	return s
}

func TestAPoolHasAllKinds(t *testing.T) {
	d := newPeerPair(t)
	s := flats()
	d.start(s, testClient())
	l, p := d.up(), s.Pools[1]
	single := netip.PrefixFrom(d.server.only().profile.IPv6, 128)
	if !p.Addresses[0].Contains(l.IPv4) || !p.Prefixes[0].Contains(d.server.only().given.Prefix.Addr()) || !p.Delegate[0].Contains(l.Delegated.Addr()) || !p.Addresses6[0].Contains(single.Addr()) {
		t.Errorf("of pool flats it has %+v and %s", l, single)
	}
	has := false
	for _, a := range l.Addresses {
		has = has || a == single
	}
	if got := d.server.sessions[d.server.only().local]; !has || got.IPv6 != single.Addr() {
		t.Errorf("the client has %v, the datapath %+v", l.Addresses, got)
	}
	for _, row := range d.server.engine.Pools() {
		want := 0
		if row.Pool == "flats" {
			want = 1
		}
		if row.Used != want || row.Free <= 0 {
			t.Errorf("pool %+v, want %d in use", row, want)
		}
	}
	// the same again, in the same process and in the next one
	d.server.engine.Kick(Match{Login: "alice"}, d.now)
	d.pass(10 * time.Second)
	if again := d.up(); again.IPv4 != l.IPv4 || again.Delegated != l.Delegated || d.server.only().profile.IPv6 != single.Addr() {
		t.Errorf("it has %+v, and had %+v", again, l)
	}
	kept := d.server.engine.servers["isp"].pools.Last("alice")
	if addresspool.ParseLease(kept.String()) != kept || kept.IPv6 != single.Addr() {
		t.Errorf("what is kept is %q", kept)
	}
}

// What a pool does not have comes from where everybody's does.
func TestAPoolOfOneKind(t *testing.T) {
	d := newPeerPair(t)
	s := flats()
	atPool(&s.Users[0].Profile, "four")
	d.start(s, testClient())
	l := d.up()
	if !s.Pools[2].Addresses[0].Contains(l.IPv4) || !s.Delegate[0].Contains(l.Delegated.Addr()) || !s.Addresses6[0].Contains(d.server.only().profile.IPv6) {
		t.Errorf("it has %+v", l)
	}
}

func TestWhatKeepsASubscriberFromAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ServerSettings)
		want   string
	}{
		"a pool that is full": {func(s *ServerSettings) { s.Pools[1].Addresses = prefixes("192.0.2.1/32") }, `no IPv4 address is free in pool "flats"`},
		"no pool is free": {func(s *ServerSettings) {
			s.Pools = s.Pools[:1]
			atPool(&s.Users[0].Profile, "")
			s.Pools[0].Addresses = prefixes("192.0.2.1/32")
		}, "no IPv4 address is free"},
		"its address is the gateway's":    {func(s *ServerSettings) { s.Users[0].Profile.IPv4 = s.Gateway }, " is an address of this router"},
		"its address is a listener's":     {func(s *ServerSettings) { s.Users[0].Profile.IPv4 = s.Listen[0].Addr() }, " is an address of this router"},
		"a pool that is not there":        {func(s *ServerSettings) { atPool(&s.Users[0].Profile, "houses") }, `there is no pool "houses"`},
		"its prefix is another session's": {func(s *ServerSettings) { s.Users[0].Profile.Delegated = netip.MustParsePrefix("2001:db8:9::/56") }, "2001:db8:9::/56 is that of session 7"},
		"its route is another session's":  {func(s *ServerSettings) { s.Users[0].Profile.Routes = prefixes("198.51.100.8/29") }, "198.51.100.8/29 is that of session 7"},
	} {
		d := newPeerPair(t)
		s := flats()
		c.change(&s)
		d.server.engine.Set([]ServerSettings{s}, nil, d.now)
		other := &session{engine: d.server.engine, local: 7, login: "bob", profile: Profile{Routes: prefixes("198.51.100.8/29")}, given: addresspool.Lease{Delegated: netip.MustParsePrefix("2001:db8:9::/56")}}
		d.server.engine.servers["isp"].hold(other)
		d.client.engine.Set(nil, []ClientSettings{testClient()}, d.now)
		d.settle()
		if d.client.engine.Learned()["home"].Up {
			t.Errorf("%s: it is up", name)
			continue
		}
		_, ended := d.server.engine.Details(Match{Login: "alice"})
		if len(ended) == 0 || !strings.HasSuffix(ended[0].Text, c.want) || ended[0].Reason != ReasonRefused {
			t.Errorf("%s: it ends with %+v, want %q", name, ended, c.want)
		}
		if n := d.server.engine.Stats().NoAddress; n == 0 {
			t.Errorf("%s: nothing is counted", name)
		}
	}
}

// An empty pool of prefixes rejects no session; it is counted.
func TestWithoutAPrefix(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Delegate, s.Bits = prefixes("2001:db8:2000::/56"), 56
	d.server.engine.Set([]ServerSettings{s}, nil, d.now)
	other := &session{engine: d.server.engine, local: 7, login: "bob", given: addresspool.Lease{Delegated: s.Delegate[0]}}
	d.server.engine.servers["isp"].hold(other)
	d.client.engine.Set(nil, []ClientSettings{testClient()}, d.now)
	d.settle()
	if l := d.up(); l.Delegated.IsValid() || !l.IPv4.IsValid() || d.server.engine.Stats().NoPrefix != 1 {
		t.Errorf("it has %+v, %d are counted", l, d.server.engine.Stats().NoPrefix)
	}
}

// The subscriber's hosts receive the routes that RADIUS gave for hosts, and the captive
// portal of the walled garden.
func TestWhatHostsAreToldBesides(t *testing.T) {
	d := newPeerPair(t)
	s := testServer()
	s.Portal, s.Users = "https://pay.example.net/api", nil
	s.Remote = true
	d.start(s, testClient())
	q := d.server.asked[0]
	d.server.engine.Answer(q, AuthReply{Accept: true, Profile: Profile{WalledGarden: true, Advertised: prefixes("2001:db8:77::/48")}}, d.now)
	d.settle()
	one := d.server.only()
	hosts := func() state.HostLink { return one.hostLink() }
	if h := hosts(); h.Portal != s.Portal || len(h.Routes) != 1 || h.Routes[0] != one.profile.Advertised[0] {
		t.Fatalf("hosts get %+v", h)
	}
	d.pass(time.Minute)
	sent, no := d.server.sent, false
	d.server.engine.Change(Match{Login: "alice"}, Change{WalledGarden: &no}, d.now)
	d.settle()
	if h := hosts(); !strings.HasSuffix(h.Portal, ":unrestricted") || d.server.sent == sent {
		t.Errorf("out of the garden hosts get %q, and %d messages were sent", h.Portal, d.server.sent-sent)
	}
}
