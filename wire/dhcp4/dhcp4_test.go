package dhcp4_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"weft/wire/dhcp4"
)

func full() *dhcp4.Message {
	a := netip.MustParseAddr
	return &dhcp4.Message{
		Op: dhcp4.BootReply, HardwareType: dhcp4.Ethernet, Hardware: "\x02\x00\x00\x00\x00\x07", Hops: 1, Transaction: 0x01020304, Seconds: 5, Broadcast: true,
		Client: a("192.0.2.7"), Your: a("192.0.2.8"), NextServer: a("192.0.2.9"), Relay: a("198.51.100.1"), ServerName: "boot.example.net", File: "pxelinux.0",
		Options: dhcp4.Options{
			dhcp4.Uint8(dhcp4.OptionType, uint8(dhcp4.Ack)), dhcp4.Addresses(dhcp4.OptionServerID, a("192.0.2.1")), dhcp4.Uint32(dhcp4.OptionLeaseTime, 3600), dhcp4.Mask(24),
			dhcp4.Addresses(dhcp4.OptionDNS, a("192.0.2.53"), a("192.0.2.54")), dhcp4.Text(dhcp4.OptionDomain, "example.net"),
			dhcp4.Search("lan.example.net", "example.net"), dhcp4.Routes(dhcp4.Route{Destination: netip.MustParsePrefix("198.51.100.0/22"), Gateway: a("192.0.2.1")}),
			dhcp4.Bytes(dhcp4.OptionRapidCommit, []byte{}), dhcp4.Bytes(dhcp4.OptionRelayAgent, []byte{1, 2, 'p', '7'}),
		},
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	m := full()
	b, left, err := m.Marshal(dhcp4.DefaultSize)
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	got, err := dhcp4.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("got  %+v\nwant %+v", got, m)
	}
	if bits, ok := got.Options.Mask(); bits != 24 || !ok || got.Type() != dhcp4.Ack || got.Type().String() != "DHCPACK" {
		t.Errorf("mask /%d, type %s", bits, got.Type())
	}
}

// A DISCOVER as ISC dhclient 4.4 sends it, by hand from RFC 2131.
func TestAClientsDiscover(t *testing.T) {
	header := "01010600 aabbccdd 0003 0000 00000000 00000000 00000000 00000000 020000000007" + strings.Repeat("00", 10+64+128) + "63825363"
	text := header + "350101 3204c0000207 0c04686f7374 370c011c02795f060c0f77fc032a ff 0000"
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	m, err := dhcp4.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.Op != dhcp4.BootRequest || m.Type() != dhcp4.Discover || m.Transaction != 0xaabbccdd || m.Seconds != 3 || dhcp4.HardwareText(m.Hardware) != "02:00:00:00:00:07" ||
		m.Options.Address(dhcp4.OptionAddress) != netip.MustParseAddr("192.0.2.7") || m.Options.Text(dhcp4.OptionHostName) != "host" || len(m.Options.Get(dhcp4.OptionRequested)) != 12 {
		t.Errorf("%+v", m)
	}
}

// Options of more than 255 bytes are written in parts (RFC 3396), and go where there is
// room (option 52); what fits nowhere is left out, and the relay agent's option never is.
func TestLongOptionsAndOverload(t *testing.T) {
	m := full()
	m.ServerName, m.File = "", ""
	long := bytes.Repeat([]byte("0123456789abcdef"), 18) // 288 bytes
	m.Options = append(m.Options, dhcp4.Bytes(43, long), dhcp4.Bytes(224, long[:100]), dhcp4.Bytes(225, long[:50]), dhcp4.Bytes(226, long[:130]))
	b, left, err := m.Marshal(700)
	if err != nil || left != 1 || len(b) > 700 {
		t.Fatalf("%d bytes, %d left, %v", len(b), left, err)
	}
	got, err := dhcp4.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[uint8]int{43: 288, 224: 100, 225: 50} {
		if d := got.Options.Get(code); !bytes.Equal(d, long[:want]) {
			t.Errorf("option %d has %d bytes: %x", code, len(d), d)
		}
	}
	if got.Options.Has(226) || !got.Options.Has(dhcp4.OptionRelayAgent) || got.File != "" || got.ServerName != "" {
		t.Errorf("%+v", got)
	}
	if last := b[bytes.LastIndexByte(b, 255)-4:]; string(last[:4]) != "\x01\x02p7" {
		t.Errorf("the relay agent's option is not the last: %x", b[240:])
	}
}

// An option may begin among the options and go on in the fields, the boot file's first.
func TestAnOptionThatGoesOnInTheFields(t *testing.T) {
	b := make([]byte, 240)
	b[0], b[2] = 2, 6
	copy(b[236:], []byte{0x63, 0x82, 0x53, 0x63})
	copy(b[108:], []byte{15, 2, 'c', 'd', 255})
	copy(b[44:], []byte{0, 15, 2, 'e', 'f', 255})
	m, err := dhcp4.Parse(append(b, 15, 2, 'a', 'b', 52, 1, 3, 255, 1))
	if err != nil || m.Options.Text(15) != "abcdef" || m.Options.Has(52) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	b, _, err := full().Marshal(dhcp4.DefaultSize)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, to byte) []byte {
		c := bytes.Clone(b)
		c[at] = to
		return c
	}
	for name, c := range map[string][]byte{
		"another operation": change(0, 3), "a long hardware address": change(2, 17), "no cookie": change(236, 0), "an option that is too long": change(241, 255),
		"longer than a datagram": make([]byte, 65508),
	} {
		if m, err := dhcp4.Parse(c); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for n := range 240 {
		if _, err := dhcp4.Parse(b[:n]); err == nil {
			t.Errorf("cut at byte %d it is read", n)
		}
	}
}

func TestRoutes(t *testing.T) {
	route := func(to, via string) dhcp4.Route {
		r := dhcp4.Route{Destination: netip.MustParsePrefix(to)}
		if via != "" {
			r.Gateway = netip.MustParseAddr(via)
		}
		return r
	}
	for _, c := range []struct { // the examples of RFC 3442
		hex  string
		want []dhcp4.Route
		ok   bool
	}{
		{"00c0000201", []dhcp4.Route{route("0.0.0.0/0", "192.0.2.1")}, true},
		{"080ac0000201", []dhcp4.Route{route("10.0.0.0/8", "192.0.2.1")}, true},
		{"190a1b810000000000", []dhcp4.Route{route("10.27.129.0/25", "")}, true},
		{"20c6336407c0000201" + "080ac0000202", []dhcp4.Route{route("198.51.100.7/32", "192.0.2.1"), route("10.0.0.0/8", "192.0.2.2")}, true},
		{"21c6336407c0000201", nil, false}, {"20c6336407c00002", nil, false}, {"", nil, false},
	} {
		data, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []uint8{dhcp4.OptionRoutes, dhcp4.OptionPrivateRoutes} {
			got, ok := dhcp4.Options{{code, data}}.Routes()
			if !reflect.DeepEqual(got, c.want) || ok != c.ok {
				t.Errorf("%s: %v, %v", c.hex, got, ok)
			}
		}
		if c.ok && hex.EncodeToString(dhcp4.Routes(c.want...).Data) != c.hex {
			t.Errorf("%v is written as %x", c.want, dhcp4.Routes(c.want...).Data)
		}
	}
}

func TestSearchLists(t *testing.T) {
	for _, c := range []struct { // the first is the example of RFC 3397
		text string
		want []string
	}{
		{"\x03eng\x05apple\x03com\x00\x09marketing\xc0\x04", []string{"eng.apple.com", "marketing.apple.com"}},
		{"\x03lan\x00", []string{"lan"}}, {"\x00\x03lan\x00", []string{"lan"}},
		{"\x03lan", nil}, {"\xc0\x00", nil}, {"\x01a\xc0\x00", nil}, {"\x03lan\x00\xc0\x09", nil}, {"\x03l n\x00", nil}, {"\x40a\x00", nil}, {"\xc0", nil},
	} {
		if got := (dhcp4.Options{dhcp4.Text(119, c.text)}).Search(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := string(dhcp4.Search("eng.apple.com", "marketing.apple.com.", "no..name", "").Data); got != "\x03eng\x05apple\x03com\x00\x09marketing\xc0\x04" {
		t.Errorf("it is written as %q", got)
	}
}

func TestOtherOptionsWithAStructure(t *testing.T) {
	rd := dhcp4.SixRD{MaskLen: 8, Prefix: netip.MustParsePrefix("2001:db8::/32"), Relays: []netip.Addr{netip.MustParseAddr("192.0.2.99")}}
	if got, ok := (dhcp4.Options{dhcp4.SixRDOption(rd)}).SixRD(); !ok || !reflect.DeepEqual(got, rd) {
		t.Errorf("6rd: %+v, %v", got, ok)
	}
	for _, bad := range []dhcp4.SixRD{{MaskLen: 33, Prefix: rd.Prefix, Relays: rd.Relays}, {MaskLen: 0, Prefix: netip.MustParsePrefix("2001:db8::/97"), Relays: rd.Relays}, {MaskLen: 8, Prefix: rd.Prefix}} {
		if got, ok := (dhcp4.Options{dhcp4.SixRDOption(bad)}).SixRD(); ok {
			t.Errorf("6rd: %+v is taken", got)
		}
	}
	a := dhcp4.Options{dhcp4.Text(82, "\x01\x02p7\x02\x03box\x05\x04\xc0\x00\x02\x01\x0b\x04\xc0\x00\x02\x02\x09")}.RelayAgent()
	if string(a.Circuit) != "p7" || string(a.Remote) != "box" || a.Link != netip.MustParseAddr("192.0.2.1") || a.Server != netip.MustParseAddr("192.0.2.2") {
		t.Errorf("the relay agent: %+v", a)
	}
	for text, want := range map[string][]string{"\x04iPXE\x02ab": {"iPXE", "ab"}, "iPXE": {"iPXE"}, "\x09a": {"\x09a"}, "": nil} {
		if got := (dhcp4.Options{dhcp4.Text(77, text)}).UserClasses(); !reflect.DeepEqual(got, want) {
			t.Errorf("user class %q: %q", text, got)
		}
	}
	if got := string(dhcp4.UserClasses("iPXE", "", "ab").Data); got != "\x04iPXE\x02ab" {
		t.Errorf("user classes are written as %q", got)
	}
	if got := dhcp4.ClientID([4]byte{3: 1}, []byte{0, 3, 0, 1}); hex.EncodeToString(got.Data) != "ff0000000100030001" {
		t.Errorf("client id %x", got.Data)
	}
	for text, want := range map[string]string{"host\x00": "host", "h\x01st": "", "höst": ""} {
		if got := (dhcp4.Options{dhcp4.Text(12, text)}).Text(12); got != want {
			t.Errorf("text %q: %q", text, got)
		}
	}
	for mask, want := range map[uint32]int{0: 0, 0xffffffff: 32, 0xffffff00: 24, 0xffff00ff: -1, 0x7fffffff: -1} {
		if bits, ok := (dhcp4.Options{dhcp4.Uint32(1, mask)}).Mask(); ok != (want >= 0) || ok && bits != want {
			t.Errorf("mask %x: /%d, %v", mask, bits, ok)
		}
	}
}

// FuzzParse: what is read is written and read again as the same, unless it does not fit;
// nothing that is read of an option is larger than its bound.
func FuzzParse(f *testing.F) {
	b, _, err := full().Marshal(dhcp4.DefaultSize)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	head := bytes.Clone(b[:240])
	f.Add(append(bytes.Clone(head), 119, 2, 0xc0, 0, 121, 5, 0, 1, 2, 3, 4, 255))
	f.Add(append(bytes.Clone(head), 52, 1, 3, 212, 1, 9, 77, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := dhcp4.Parse(b)
		if err != nil {
			return
		}
		o := m.Options
		routes, _ := o.Routes()
		rd, _ := o.SixRD()
		if len(routes) > 256 || len(o.Search()) > 32 || len(o.UserClasses()) > 32 || len(rd.Relays) > 32 || len(o.Addresses(6)) > 32 || len(o) > 254 {
			t.Fatalf("more than a bound: %+v", m)
		}
		_ = o.RelayAgent()
		again, left, err := m.Marshal(1 << 20)
		if err != nil {
			return // a field without its last zero
		}
		n, err := dhcp4.Parse(again)
		if err != nil && len(again) < 65507 || left != 0 {
			t.Fatalf("what it writes of %x it cannot read: %v, %d left", b, err, left)
		}
		if err == nil && len(n.Options) != len(o) {
			t.Fatalf("%d options became %d", len(o), len(n.Options))
		}
		small, _, err := m.Marshal(dhcp4.DefaultSize)
		if agent := len(o.Get(82)); err == nil && agent < 200 && len(small) > dhcp4.DefaultSize {
			t.Fatalf("a message of %d bytes", len(small))
		}
		if _, parsed := dhcp4.Parse(small); err == nil && parsed != nil {
			t.Fatalf("what it writes of %x in few bytes it cannot read: %v", b, parsed)
		}
	})
}
