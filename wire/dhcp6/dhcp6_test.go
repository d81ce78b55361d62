package dhcp6_test

import (
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"weft/wire/dhcp6"
)

func full() *dhcp6.Message {
	ok, preference := dhcp6.Success, uint8(255)
	return &dhcp6.Message{
		Type: dhcp6.Reply, Transaction: [3]byte{1, 2, 3}, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 2}, ServerID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1},
		Addresses: []dhcp6.IA{{ID: [4]byte{0, 0, 0, 7}, T1: time.Hour, T2: 2 * time.Hour, Leases: []dhcp6.Lease{{netip.MustParsePrefix("2001:db8:1::d:5/128"), 3 * time.Hour, 4 * time.Hour}}, Status: &ok}},
		Prefixes:  []dhcp6.IA{{ID: [4]byte{0, 0, 0, 8}, Leases: []dhcp6.Lease{{netip.MustParsePrefix("2001:db8:100::/56"), time.Hour, 2 * time.Hour}}}},
		Requested: []uint16{23, 24}, RapidCommit: true, Status: &ok, Preference: &preference,
		DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Search: []string{"example.net"}, Refresh: time.Hour, Portal: "https://pay.example.net/api",
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	m := full()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := dhcp6.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	m.Preference = nil // for clients only
	if !reflect.DeepEqual(got, m) {
		t.Errorf("got  %+v\nwant %+v", got, m)
	}
}

// A Solicit as ISC dhclient 4.4 sends it with -6 -P, by hand from RFC 8415.
func TestAClientsSolicit(t *testing.T) {
	text := "01 aabbcc" +
		"0001 000e 00010001 2c000000 020000000002" + // client: DUID-LLT
		"0006 0004 0017 0018" + // wants name servers and search list
		"0008 0002 0000" + // time that passed
		"0019 0029 00000002 00000e10 00001518" + // IA_PD
		"001a 0019 00001c20 00002a30 38 20010db8010000000000000000000000"
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcp6.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.Type != dhcp6.Solicit || len(m.ClientID) != 14 || len(m.Prefixes) != 1 || len(m.Requested) != 2 ||
		m.Prefixes[0].Leases[0].Prefix != netip.MustParsePrefix("2001:db8:100::/56") || m.Prefixes[0].T1 != time.Hour {
		t.Errorf("%+v", m)
	}
}

// Clients say for how long they have been asking (RFC 8415 section 21.9), servers
// do not.
func TestClientsSaySinceWhenTheyAsk(t *testing.T) {
	for _, c := range []struct {
		kind    dhcp6.Type
		elapsed time.Duration
		want    string
	}{
		{dhcp6.Solicit, 0, "000800020000"}, {dhcp6.Renew, 3 * time.Second, "00080002012c"}, {dhcp6.Release, time.Hour, "00080002ffff"}, {dhcp6.Reply, 0, ""},
	} {
		b, err := (&dhcp6.Message{Type: c.kind, Elapsed: c.elapsed}).Marshal()
		if got := hex.EncodeToString(b[4:]); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %q", c.kind, got, err, c.want)
		}
	}
}

func TestCutShortItIsRefusedOrHarmless(t *testing.T) {
	b, err := full().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := range b {
		if _, err := dhcp6.Parse(b[:n]); err != nil {
			refused++
		}
	}
	if refused < len(b)/2 {
		t.Errorf("only %d of %d are refused", refused, len(b))
	}
}

func FuzzParse(f *testing.F) {
	b, err := full().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := dhcp6.Parse(b)
		if err != nil {
			_ = dhcp6.ClientID(b)
			return
		}
		if id := dhcp6.ClientID(b); string(id) != string(m.ClientID) {
			t.Errorf("%x: the client is %x, and %x", b, m.ClientID, id)
		}
		again, err := m.Marshal()
		if err != nil {
			return // a length that no prefix has
		}
		if _, err := dhcp6.Parse(again); err != nil {
			t.Errorf("what it writes of %x it cannot read: %v", b, err)
		}
	})
}
