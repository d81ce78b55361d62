package ra_test

import (
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/config"
	"weft/internal/feature/ra"
	"weft/internal/state"
	"weft/wire/dhcp6"
)

// delegated are the settings of a link whose prefix is part of a delegation.
func delegated(preferred, valid time.Duration) ra.Settings {
	s := basic()
	s.Received = []ra.Received{{Prefix: prefix("2001:db8::/44"), Preferred: start.Add(preferred), Valid: start.Add(valid)}}
	return s
}

func lifetimes(t *testing.T, m *ndp.RouterAdvertisement) (preferred, valid time.Duration) {
	t.Helper()
	for _, o := range m.Options {
		if p, ok := o.(*ndp.PrefixInformation); ok {
			return p.PreferredLifetime, p.ValidLifetime
		}
	}
	t.Fatalf("no prefix in %+v", m)
	return 0, 0
}

// RFC 8415 section 6.3: what is advertised out of a delegated prefix ends no later than the
// delegation does.
func TestAdvertisedLifetimesEndWithTheDelegation(t *testing.T) {
	a := ra.NewAdvertiser(delegated(time.Hour, 80*time.Minute), nil, soonest, start)
	at := func(now time.Duration, preferred, valid time.Duration) {
		t.Helper()
		a.Solicit(addr("fe80::2"), &ndp.RouterSolicitation{}, 255, start.Add(now))
		sent := a.Tick(start.Add(now))
		if len(sent) == 0 {
			t.Fatalf("after %v nothing is sent", now)
		}
		if p, v := lifetimes(t, sent[0].Message); p != preferred || v != valid {
			t.Errorf("after %v the prefix is preferred for %v and valid for %v, want %v and %v", now, p, v, preferred, valid)
		}
	}
	at(0, 45*time.Minute, 80*time.Minute) // preferred_lifetime of the file is shorter
	at(30*time.Minute, 30*time.Minute, 50*time.Minute)
	at(70*time.Minute, 0, 10*time.Minute)
	a.Update(delegated(3*time.Hour, 4*time.Hour), start.Add(71*time.Minute)) // renewed
	at(71*time.Minute, 45*time.Minute, 90*time.Minute)
	at(239*time.Minute, 0, time.Minute)
	at(300*time.Minute, 0, 0)
	if p, v := lifetimes(t, delegated(time.Hour, time.Hour).Farewell(start.Add(50*time.Minute))); p != 0 || v != 10*time.Minute {
		t.Errorf("the last advertisement has %v and %v", p, v)
	}
}

// RFC 9096 section 3.5: a prefix that is gone is announced as deprecated, and its valid
// lifetime still ends with the delegation.
func TestADeprecatedPrefixEndsWithItsDelegation(t *testing.T) {
	a := ra.NewAdvertiser(delegated(time.Hour, time.Hour), nil, soonest, start)
	a.Tick(start)
	next := basic()
	next.Prefixes[0].Prefix = prefix("2001:db8:ffff:1::/64")
	a.Update(next, start.Add(30*time.Minute))
	for now, valid := range map[time.Duration]time.Duration{40 * time.Minute: 20 * time.Minute, 70 * time.Minute: 0} {
		b := ra.NewAdvertiser(next, a.Deprecated(), soonest, start.Add(now))
		found := false
		for _, o := range b.Tick(start.Add(now))[0].Message.Options {
			if p, ok := o.(*ndp.PrefixInformation); ok && p.Prefix == addr("2001:db8:1::") {
				found = true
				if p.PreferredLifetime != 0 || p.ValidLifetime != valid {
					t.Errorf("after %v: %+v, want valid for %v", now, p, valid)
				}
			}
		}
		if !found {
			t.Errorf("after %v the prefix is not announced as deprecated", now)
		}
	}
}

func TestDHCPv6LeasesEndWithTheDelegation(t *testing.T) {
	s := stateful()
	s.Received = delegated(30*time.Minute, 40*time.Minute).Received
	d := ra.NewDHCP(s, &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
	c := newClient(t, d, 1)
	c.say(dhcp6.Solicit, one(1), nil)
	l := lease(t, c.say(dhcp6.Request, one(1), nil).Addresses)
	if l.Preferred != 30*time.Minute || l.Valid != 40*time.Minute {
		t.Errorf("the lease is %+v, and the delegation ends after 40 minutes", l)
	}
	if kept := d.Leases(); len(kept) != 1 || !kept[0].Until.Equal(start.Add(40*time.Minute)) {
		t.Errorf("kept is %+v", kept)
	}
}

func TestTheEndsComeFromTheClientsOfL2TP(t *testing.T) {
	f, problems := config.Load("", []byte("[interface.lan]\n[ra.lan]\n"), append(config.CoreSections(), ra.Section()))
	if state.HasErrors(problems) {
		t.Fatal(problems)
	}
	facts := state.Facts{
		Links:   []state.LinkFact{{Name: "lan"}},
		Clients: map[string]state.L2TPClient{"isp": {Up: true, Delegated: prefix("2001:db8::/48"), Preferred: start, Valid: start.Add(time.Hour)}, "off": {}},
	}
	s, _ := ra.SettingsOf(f, facts, "lan")
	if len(s.Received) != 1 || s.Received[0] != (ra.Received{Prefix: prefix("2001:db8::/48"), Preferred: start, Valid: start.Add(time.Hour)}) {
		t.Errorf("%+v", s.Received)
	}
}
