package dhcp4io

import (
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"

	"weft/wire/ipv4"
)

// The filter accepts datagrams to the port, whatever options the header has, and nothing else.
func TestTheFilterOfAClient(t *testing.T) {
	vm, err := bpf.NewVM(toPort(68))
	if err != nil {
		t.Fatal(err)
	}
	whole := func(port uint16, change func([]byte) []byte) []byte {
		b := ipv4.Datagram{From: netip.MustParseAddrPort("192.0.2.1:67"), To: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), port), Payload: []byte("offer")}.Marshal()
		if change != nil {
			b = change(b)
		}
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"to the port":      {whole(68, nil), true},
		"to another":       {whole(67, nil), false},
		"of TCP":           {whole(68, func(b []byte) []byte { b[9] = 6; return b }), false},
		"a later fragment": {whole(68, func(b []byte) []byte { b[7] = 1; return b }), false},
		"with options": {whole(68, func(b []byte) []byte {
			b[0] = 0x46
			return append(append(append([]byte{}, b[:20]...), 1, 1, 1, 0), b[20:]...)
		}), true},
	} {
		n, err := vm.Run(c.b)
		if err != nil || n > 0 != c.want {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
