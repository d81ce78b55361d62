package ipv4

import (
	"bytes"
	"net/netip"
	"testing"
)

func example(payload string) Datagram {
	return Datagram{netip.MustParseAddrPort("192.0.2.1:67"), netip.MustParseAddrPort("255.255.255.255:68"), []byte(payload)}
}

func TestADatagramIsReadAsItWasWritten(t *testing.T) {
	for _, payload := range []string{"", "o", "offer", "longer offer"} {
		d := example(payload)
		got, err := Parse(append(d.Marshal(), "padding"...), false)
		if err != nil || got.From != d.From || got.To != d.To || string(got.Payload) != payload {
			t.Errorf("%q: %+v, %v", payload, got, err)
		}
	}
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	whole := example("offer").Marshal()
	change := func(at int, to byte) []byte {
		b := bytes.Clone(whole)
		b[at] = to
		return b
	}
	for name, b := range map[string][]byte{
		"another version": change(0, 0x65), "a header of 4 words": change(0, 0x44), "more than there is": change(3, 200), "no room for UDP": change(3, 24),
		"more fragments": change(6, 0x20), "a later fragment": change(7, 1), "TCP": change(9, 6), "a wrong header checksum": change(10, 1),
		"a datagram of 7 bytes": change(25, 7), "a datagram longer than its packet": change(25, 50), "a wrong UDP checksum": change(26, whole[26]+1), "another payload": change(30, 'x'),
	} {
		if d, err := Parse(b, false); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for n := range whole {
		if _, err := Parse(whole[:n], false); err == nil {
			t.Errorf("cut at byte %d it is read", n)
		}
	}
	if _, err := Parse(change(26, whole[26]+1), true); err != nil {
		t.Errorf("a checksum that the device is to complete: %v", err)
	}
	none := bytes.Clone(whole)
	none[26], none[27] = 0, 0
	if _, err := Parse(none, false); err != nil {
		t.Errorf("a datagram without a checksum: %v", err)
	}
}

// FuzzParse: what is read can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add(example("offer").Marshal(), false)
	f.Add(example("").Marshal(), true)
	f.Fuzz(func(t *testing.T, b []byte, partial bool) {
		d, err := Parse(b, partial)
		if err != nil {
			return
		}
		again, err := Parse(d.Marshal(), false)
		if err != nil || again.From != d.From || again.To != d.To || !bytes.Equal(again.Payload, d.Payload) {
			t.Fatalf("%+v became %+v, %v", d, again, err)
		}
	})
}
