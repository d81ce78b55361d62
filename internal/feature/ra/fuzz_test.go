package ra_test

import (
	"testing"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/wire/dhcp6"
)

// FuzzAnswer: a subscriber's host may say anything; it gets what its link has,
// and nothing else.
func FuzzAnswer(f *testing.F) {
	l, id := theLink(), theServer
	for _, typ := range []dhcp6.Type{dhcp6.Solicit, dhcp6.Request, dhcp6.Confirm, dhcp6.Renew, dhcp6.Rebind, dhcp6.Release, dhcp6.Decline, dhcp6.InformationRequest} {
		m := dhcp6.Message{Type: typ, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}, Addresses: one(1, dhcp6.Lease{Prefix: prefix("2001:db8:3::5/128")}), Prefixes: one(1, dhcp6.Lease{Prefix: prefix("2001:db8:9::/56")})}
		if typ != dhcp6.Solicit && typ != dhcp6.Rebind && typ != dhcp6.Confirm {
			m.ServerID = id
		}
		b, err := m.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = ra.Links{}.Answer(l, b, true)
		answer := ra.Links{}.Answer(l, b, false)
		if answer == nil {
			return
		}
		m, err := dhcp6.Parse(answer)
		if err != nil {
			t.Fatalf("%x: the answer cannot be read: %v", b, err)
		}
		for _, ia := range append(m.Addresses, m.Prefixes...) {
			for _, x := range ia.Leases {
				if x.Valid > 0 && x.Prefix != l.Delegated && x.Prefix.Addr() != l.Address {
					t.Fatalf("%x: it is given %s", b, x.Prefix)
				}
			}
		}
	})
}

// FuzzLink: what hosts and other routers of a link say.
func FuzzLink(f *testing.F) {
	for _, m := range []ndp.Message{&ndp.RouterSolicitation{}, basic().Message(nil)} {
		b, err := ndp.MarshalMessage(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ndp.ParseMessage(b)
		if err != nil {
			return
		}
		a := ra.NewAdvertiser(basic(), nil, latest, start)
		switch m := m.(type) {
		case *ndp.RouterSolicitation:
			a.Solicit(addr("fe80::5"), m, ndp.HopLimit, start)
		case *ndp.RouterAdvertisement:
			_ = a.Receive(addr("fe80::5"), m, ndp.HopLimit)
		}
		_ = a.Tick(a.Next())
	})
}
