package dhcp6client

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/ndp"

	"weft/internal/mutator"
	"weft/wire/dhcp6"
	"weft/wire/ipv6"
)

// TestMutatedDHCPv6Client is a client whose server and router are hostile: they know its
// transactions.
func TestMutatedDHCPv6Client(t *testing.T) {
	const headers = 40 + 8
	var seeds [][]byte
	lease := func(p string) []dhcp6.IA {
		return []dhcp6.IA{{ID: [4]byte{3: 1}, Leases: []dhcp6.Lease{{Prefix: netip.MustParsePrefix(p), Preferred: time.Hour, Valid: 2 * time.Hour}}}}
	}
	id := newLink(t).client.duid()
	for _, kind := range []dhcp6.Type{dhcp6.Advertise, dhcp6.Reply} {
		b, err := (&dhcp6.Message{
			Type: kind, ClientID: id, ServerID: []byte{0, 3, 0, 1, 2}, RapidCommit: true, DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Search: []string{"example.net"},
			Addresses: lease("2001:db8:3::5/128"), Prefixes: lease("2001:db8:9::/56"),
		}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, ipv6.MarshalUDP(routerAddr(), netip.MustParseAddr("fe80::2"), dhcp6.ServerPort, dhcp6.ClientPort, b))
	}
	advertisement, err := ndp.MarshalMessage(&ndp.RouterAdvertisement{RouterLifetime: time.Hour, Options: []ndp.Option{
		&ndp.PrefixInformation{PrefixLength: 64, AutonomousAddressConfiguration: true, ValidLifetime: time.Hour, PreferredLifetime: time.Hour, Prefix: netip.MustParseAddr("2001:db8:3::")},
		&ndp.RecursiveDNSServer{Lifetime: time.Hour, Servers: []netip.Addr{netip.MustParseAddr("2001:db8::53")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	seeds = append(seeds, ipv6.Packet{From: routerAddr(), To: netip.MustParseAddr("ff02::1"), NextHeader: ipv6.ICMPv6, HopLimit: 255, Payload: advertisement}.Marshal(2))
	format := mutator.By(func(b []byte) mutator.Format {
		if len(b) > 40 && b[6] == ipv6.ICMPv6 {
			f := mutator.RouterDiscovery(true).(mutator.TLV)
			f.Fixed += 40
			return f
		}
		f := mutator.DHCPv6().(mutator.TLV)
		f.Fixed += headers
		return f
	})
	mutator.Run(t, mutator.Parser{Name: "dhcpv6-client", Seeds: seeds, Format: format, Seal: mutator.SealIP, New: func(r *rand.Rand) mutator.Machine {
		l := newLink(t)
		l.silent = r.IntN(2) == 0
		aim := func(b []byte) {
			if len(b) > headers+4 && b[6] == 17 && r.IntN(8) > 0 {
				copy(b[headers+1:], l.client.transaction[:])
				if at := bytes.Index(b, []byte{0, 3, 0, 1, 2}); at >= 0 && l.client.server != nil && len(l.client.server) == 5 {
					copy(b[at:], l.client.server)
				}
				mutator.SealIP(b)
			}
		}
		return mutator.Machine{Aim: aim, Receive: func(b []byte) {
			l.now = l.now.Add(time.Duration(r.IntN(300)) * time.Millisecond)
			if p, err := ipv6.Parse(b); err == nil {
				l.client.Receive(p, l.now)
			}
			if r.IntN(64) == 0 {
				l.now = l.now.Add(time.Hour)
			}
			l.settle()
			l.sent = l.sent[:0]
			_ = l.client.Lease()
		}}
	}})
}
