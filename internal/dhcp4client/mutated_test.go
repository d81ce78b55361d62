package dhcp4client

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weft/internal/mutator"
	"weft/wire/dhcp4"
)

// TestMutatedDHCPv4OfAServer is a client whose server knows what it asks.
func TestMutatedDHCPv4OfAServer(t *testing.T) {
	var seeds [][]byte
	for _, kind := range []dhcp4.Type{dhcp4.Offer, dhcp4.Ack, dhcp4.Ack, dhcp4.Nak} {
		m := dhcp4.Message{Op: dhcp4.BootReply, HardwareType: 1, Hardware: hardware, Your: addr("192.0.2.7"), Options: dhcp4.Options{
			dhcp4.Uint8(dhcp4.OptionType, uint8(kind)), dhcp4.Addresses(dhcp4.OptionServerID, addr("192.0.2.1")), dhcp4.Uint32(dhcp4.OptionLeaseTime, 3600), dhcp4.Mask(24),
			dhcp4.Addresses(dhcp4.OptionDNS, addr("192.0.2.53")), dhcp4.Uint16(dhcp4.OptionMTU, 1400), dhcp4.Search("lan.example.net", "example.net"),
			dhcp4.Routes(dhcp4.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: addr("192.0.2.1")}), dhcp4.Uint32(dhcp4.OptionRenewal, 100),
			dhcp4.SixRDOption(dhcp4.SixRD{MaskLen: 8, Prefix: netip.MustParsePrefix("2001:db8::/32"), Relays: []netip.Addr{addr("192.0.2.99")}}), dhcp4.Bytes(dhcp4.OptionRapidCommit, nil),
		}}
		b, _, err := m.Marshal(1472)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	mutator.Run(t, mutator.Parser{Name: "dhcpv4-client", Seeds: seeds, Format: mutator.DHCPv4(), New: func(r *rand.Rand) mutator.Machine {
		l := newLink(t, func(c *Config) { c.RapidCommit, c.IPv6Only, c.NoProbe = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0 })
		return mutator.Machine{
			Aim: func(b []byte) {
				if len(b) >= 8 && r.IntN(8) > 0 {
					binary.BigEndian.PutUint32(b[4:], l.client.transaction)
				}
			},
			Receive: func(b []byte) {
				l.client.Receive(b, l.now)
				l.now = l.now.Add(time.Duration(r.IntN(100)) * time.Second)
				l.client.Tick(l.now)
				l.client.Probed(addr("192.0.2.7"), r.IntN(3) == 0, l.now)
				l.sent, l.to, l.at, l.probes = l.sent[len(l.sent)-1:], l.to[len(l.to)-1:], l.at[len(l.at)-1:], nil
			},
		}
	}})
}
