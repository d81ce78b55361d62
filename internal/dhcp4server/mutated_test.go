package dhcp4server

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weft/internal/mutator"
	"weft/wire/dhcp4"
)

// TestMutatedDHCPv4 is a server with many clients, on its link and behind a relay agent,
// that use the address that it gave last.
func TestMutatedDHCPv4(t *testing.T) {
	given := []byte{192, 0, 2, 100}
	var seeds [][]byte
	for _, kind := range []dhcp4.Type{dhcp4.Discover, dhcp4.Request, dhcp4.Request, dhcp4.Decline, dhcp4.Release, dhcp4.Inform} {
		m := dhcp4.Message{Op: dhcp4.BootRequest, HardwareType: 1, Hardware: mac(1), Transaction: 7, Options: dhcp4.Options{
			dhcp4.Uint8(dhcp4.OptionType, uint8(kind)), dhcp4.Bytes(dhcp4.OptionAddress, given), dhcp4.Bytes(dhcp4.OptionRequested, []byte{1, 3, 6, 15, 108, 114, 121}),
			dhcp4.Addresses(dhcp4.OptionServerID, addr("192.0.2.1")), dhcp4.Text(dhcp4.OptionHostName, "host"), dhcp4.HardwareID(1, mac(1)), dhcp4.Uint16(dhcp4.OptionMaxSize, 1400),
			dhcp4.UserClasses("iPXE"), dhcp4.Uint16(dhcp4.OptionArchitecture, 7), dhcp4.Bytes(dhcp4.OptionRelayAgent, []byte{1, 2, 'p', '7', 2, 3, 'b', 'o', 'x'}),
		}}
		switch len(seeds) {
		case 0:
			m.Relay = addr("198.51.100.1")
		case 2, 4:
			m.Client = addr("192.0.2.100")
		}
		b, _, err := m.Marshal(1472)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	mutator.Run(t, mutator.Parser{Name: "dhcpv4-server", Seeds: seeds, Format: mutator.DHCPv4(), New: func(r *rand.Rand) mutator.Machine {
		l := newLAN(t, func(c *Config) { c.MostLeases, c.RapidCommit, c.NewPerSecond = 60, true, 1e9 })
		last := bytes.Clone(given)
		return mutator.Machine{
			Aim: func(b []byte) {
				if len(b) > 33 {
					b[33] = byte(r.IntN(8))
				}
				for at := bytes.Index(b, given); at >= 0 && r.IntN(3) > 0; at = bytes.Index(b, given) {
					copy(b[at:], last)
					if bytes.Equal(last, given) {
						break
					}
				}
			},
			Receive: func(b []byte) {
				l.now = l.now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
				l.server.Tick(l.now)
				l.server.Receive(b, netip.Addr{}, l.now)
				if l.flush(); len(l.got) > 0 {
					reply := l.got[len(l.got)-1].Message
					if a := binary.BigEndian.Uint32(reply[16:]); a != 0 {
						last = bytes.Clone(reply[16:20])
					}
					if len(reply) > 1472 {
						t.Fatalf("a reply of %d bytes", len(reply))
					}
				}
				l.got = nil
			},
		}
	}})
}
