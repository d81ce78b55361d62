package packetio

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"weft/internal/mutator"
	"weft/wire/arp"
	"weft/wire/ipv4"
)

// TestMutatedARP is what a host reads while it probes for an address.
func TestMutatedARP(t *testing.T) {
	own, a := [6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("192.0.2.7")
	seeds := [][]byte{
		arp.Probe([6]byte{2}, a).Marshal(), arp.Announcement([6]byte{2}, a).Marshal(),
		arp.Packet{Op: arp.Reply, FromHardware: [6]byte{2}, From: a, ToHardware: own, To: netip.MustParseAddr("192.0.2.8")}.Marshal(),
	}
	mutator.Run(t, mutator.Parser{Name: "arp", Seeds: seeds, New: func(*rand.Rand) mutator.Machine {
		return mutator.Machine{Receive: func(b []byte) {
			if p, err := arp.Parse(b); err == nil && p.Conflicts(a, own) && p.From != a && p.To != a {
				t.Fatalf("%+v is a conflict", p)
			}
		}}
	}})
}

// TestMutatedDatagrams is what a packet socket gives to a client of DHCPv4.
func TestMutatedDatagrams(t *testing.T) {
	d := ipv4.Datagram{From: netip.MustParseAddrPort("192.0.2.1:67"), To: netip.MustParseAddrPort("192.0.2.7:68"), Payload: make([]byte, 300)}
	mutator.Run(t, mutator.Parser{Name: "udp-ipv4", Seeds: [][]byte{d.Marshal()}, Seal: mutator.SealIP, New: func(r *rand.Rand) mutator.Machine {
		return mutator.Machine{Receive: func(b []byte) {
			if got, err := ipv4.Parse(b, r.IntN(2) == 0); err == nil && len(got.Payload) > len(b)-28 {
				t.Fatalf("%d bytes of %d", len(got.Payload), len(b))
			}
		}}
	}})
}
