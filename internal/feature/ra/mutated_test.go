package ra_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/feature/ra"
	"weft/internal/mutator"
	"weft/wire/dhcp6"
)

// exchanges are a client's messages in their order.
func exchanges(t *testing.T, server []byte) (list [][]byte) {
	for _, kind := range []dhcp6.Type{dhcp6.Solicit, dhcp6.Request, dhcp6.Confirm, dhcp6.Renew, dhcp6.Rebind, dhcp6.Decline, dhcp6.Release, dhcp6.InformationRequest} {
		m := dhcp6.Message{
			Type: kind, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}, Requested: []uint16{23, 24}, RapidCommit: kind == dhcp6.Solicit,
			Addresses: one(1, dhcp6.Lease{Prefix: prefix("2001:db8:1::d:5/128")}), Prefixes: one(1, dhcp6.Lease{Prefix: prefix("2001:db8:100::/56")}),
		}
		if kind == dhcp6.InformationRequest {
			m.Addresses, m.Prefixes = nil, nil
		}
		if kind != dhcp6.Solicit && kind != dhcp6.Rebind && kind != dhcp6.Confirm {
			m.ServerID = server
		}
		b, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		// names that point at names, NTP servers and an FQDN, which a library may read too
		list = append(list, append(b, 0, 24, 0, 13, 1, 'a', 1, 'b', 7, 'e', 'x', 'a', 'm', 'p', 0xc0, 0, 0, 0, 39, 0, 5, 1, 1, 'a', 0xc0, 0, 0, 56, 0, 7, 0, 3, 0, 3, 1, 'a', 0))
	}
	return list
}

// TestMutatedDHCPv6 is a link with many clients: their identifiers differ, and what they
// were given is in what they send.
func TestMutatedDHCPv6(t *testing.T) {
	mac := basic().MAC
	id := append([]byte{0, 3, 0, 1}, mac[:]...)
	mutator.Run(t, mutator.Parser{Name: "dhcpv6", Seeds: exchanges(t, id), Format: mutator.DHCPv6(), New: func(r *rand.Rand) mutator.Machine {
		d := ra.NewDHCP(stateful(), &memory{kept: map[ra.Binding]ra.Lease{}}, nil, time.Now())
		now := start
		given := netip.MustParseAddr("2001:db8:1::d:5").AsSlice()
		aim := func(b []byte) {
			if at := bytes.Index(b, []byte{0, 3, 0, 1, 2, 0, 0, 0}); at >= 0 && at+10 <= len(b) {
				b[at+9] += byte(r.IntN(3))
				b[at+8] = byte(r.IntN(256))
			}
			if at := bytes.Index(b, []byte{0, 5, 0, 24}); at >= 0 && at+20 <= len(b) && r.IntN(2) == 0 {
				copy(b[at+4:], given)
			}
		}
		return mutator.Machine{Aim: aim, Receive: func(b []byte) {
			now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			m, err := dhcp6.Parse(b)
			if err != nil {
				return
			}
			reply, _ := d.Handle(m, addr("fe80::2").WithZone("lan"), now)
			if reply == nil {
				return
			}
			if len(reply.Addresses) > 0 && len(reply.Addresses[0].Leases) > 0 {
				given = reply.Addresses[0].Leases[0].Prefix.Addr().AsSlice()
			}
			if answer, err := reply.Marshal(); err == nil && len(answer) > 64<<10 {
				t.Fatalf("an answer of %d bytes", len(answer))
			}
		}}
	}})
}

// TestMutatedDHCPv6OfASubscriber is the server of a link with one host.
func TestMutatedDHCPv6OfASubscriber(t *testing.T) {
	mutator.Run(t, mutator.Parser{Name: "dhcpv6-subscriber", Seeds: exchanges(t, theServer), Format: mutator.DHCPv6(), New: func(r *rand.Rand) mutator.Machine {
		l := theLink()
		return mutator.Machine{Receive: func(b []byte) { _ = ra.Links{}.Answer(l, b, r.IntN(8) == 0) }}
	}})
}

// TestMutatedRouterDiscovery is what hosts and other routers of a link send.
func TestMutatedRouterDiscovery(t *testing.T) {
	var seeds [][]byte
	source := &ndp.LinkLayerAddress{Direction: ndp.Source, Addr: []byte{2, 0, 0, 0, 0, 5}}
	for _, m := range []ndp.Message{&ndp.RouterSolicitation{}, &ndp.RouterSolicitation{Options: []ndp.Option{source}}, &ndp.RouterAdvertisement{RouterLifetime: time.Hour, Options: []ndp.Option{
		source, ndp.NewMTU(1400), &ndp.RecursiveDNSServer{Lifetime: time.Hour, Servers: []netip.Addr{addr("2001:db8::53")}},
		&ndp.DNSSearchList{Lifetime: time.Hour, DomainNames: []string{"example.net", "a.example.net"}},
		&ndp.RouteInformation{PrefixLength: 48, RouteLifetime: time.Hour, Prefix: addr("2001:db8:9::")},
		&ndp.PREF64{Lifetime: time.Hour, Prefix: prefix("64:ff9b::/96")}, &ndp.CaptivePortal{URI: "https://pay.example.net/api"},
		&ndp.PrefixInformation{PrefixLength: 64, OnLink: true, ValidLifetime: time.Hour, PreferredLifetime: time.Minute, Prefix: addr("2001:db8:1::")},
	}}, basic().Message(nil)} {
		seeds = append(seeds, []byte(marshal(t, m)))
	}
	format := mutator.By(func(b []byte) mutator.Format { return mutator.RouterDiscovery(len(b) > 0 && b[0] == 134) })
	mutator.Run(t, mutator.Parser{Name: "router-discovery", Seeds: seeds, Format: format, New: func(r *rand.Rand) mutator.Machine {
		now := start
		a := ra.NewAdvertiser(basic(), nil, latest, now)
		return mutator.Machine{Receive: func(b []byte) {
			now = now.Add(time.Duration(r.IntN(500)) * time.Millisecond)
			m, err := ndp.ParseMessage(b)
			if err != nil {
				return
			}
			from := netip.AddrFrom16([16]byte{0xfe, 0x80, 14: byte(r.IntN(256)), 15: byte(r.IntN(256))})
			switch m := m.(type) {
			case *ndp.RouterSolicitation:
				a.Solicit(from, m, ndp.HopLimit, now)
			case *ndp.RouterAdvertisement:
				_ = a.Receive(from, m, ndp.HopLimit)
			}
			if !a.Next().After(now) {
				_ = a.Tick(now)
			}
		}}
	}})
}
