package l2tp

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        Header
		rest        string
		bad         bool
	}{
		{"data, as short as it gets", "000200010002ff03", Header{Tunnel: 1, Session: 2}, "ff03", false},
		{"data with length, and padding behind", "4002000c00010002ff03002100000000", Header{Tunnel: 1, Session: 2}, "ff030021", false},
		{"data with sequence numbers", "08020001000200030004ff", Header{Sequenced: true, Tunnel: 1, Session: 2, Ns: 3, Nr: 4}, "ff", false},
		{"data with offset", "0202000100020002aaaaff", Header{Tunnel: 1, Session: 2}, "ff", false},
		{"data with priority", "0102000100027f", Header{Priority: true, Tunnel: 1, Session: 2}, "7f", false},
		{"acknowledgement", "c802000c0001000200030004", Header{Control: true, Sequenced: true, Tunnel: 1, Session: 2, Ns: 3, Nr: 4}, "", false},
		{"nothing", "", Header{}, "", true},
		{"version 3", "c803000c0001000200030004", Header{}, "", true},
		{"version 1", "0001000100020000", Header{}, "", true},
		{"control without length", "880200010002000300040000", Header{}, "", true},
		{"control without sequence numbers", "c00200080001000200030004", Header{}, "", true},
		{"control with offset", "ca02000e00010002000300040000", Header{}, "", true},
		{"length beyond the end", "c802ffff0001000200030004", Header{}, "", true},
		{"length of nothing", "4002000000010002", Header{}, "", true},
		{"length that ends in the header", "c802000a0001000200030004", Header{}, "", true},
		{"offset beyond the end", "020200010002ffff", Header{}, "", true},
	} {
		h, rest, err := Parse(unhex(t, c.bytes))
		if (err != nil) != c.bad || !c.bad && (h != c.want || hex.EncodeToString(rest) != c.rest) {
			t.Errorf("%s: %+v %x %v", c.name, h, rest, err)
		}
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	secret, vector := []byte("between us"), []byte("random vector!!!")
	m := New(ICCN).AddUint32(TxConnectSpeed, 100_000_000).AddUint32(FramingType, 1).Add(ProxyAuthenName, []byte("alice")).
		Add(ProxyAuthenResponse, bytes.Repeat([]byte{0xa5}, 40)).Option(SubAddress, nil)
	for name, body := range map[string][]byte{"open": m.Marshal(), "hidden": m.MarshalHidden(secret, vector)} {
		got, err := ParseMessage(body, secret)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Type != m.Type || len(got.AVPs) != len(m.AVPs) {
			t.Fatalf("%s: %+v", name, got)
		}
		for i, a := range got.AVPs {
			if a.Attribute != m.AVPs[i].Attribute || a.Mandatory != m.AVPs[i].Mandatory || !bytes.Equal(a.Value, m.AVPs[i].Value) {
				t.Errorf("%s: AVP %d is %+v, want %+v", name, i, a, m.AVPs[i])
			}
		}
	}
	hidden := m.MarshalHidden(secret, vector)
	if bytes.Contains(hidden, []byte("alice")) {
		t.Error("a hidden value can be read")
	}
	if _, err := ParseMessage(hidden, []byte("another")); err == nil {
		t.Log("another secret gave lengths that fit by chance")
	}
}

// RFC 2661 section 4.1: what is not known and mandatory ends what the message
// is about; what need not be known is passed over.
func TestWhatIsNotKnown(t *testing.T) {
	const hello = "8008000000000006"
	for _, c := range []struct {
		name, body string
		unknown    bool
		bad        bool
	}{
		{"optional attribute", hello + "0008000000ff0001", false, false},
		{"mandatory attribute", hello + "8008000000ff0001", true, false},
		{"mandatory attribute of a vendor", hello + "8008000900010001", true, false},
		{"reserved bit of a mandatory one", hello + "8408000000090001", true, false},
		{"tunnel id of three bytes", hello + "800900000009000102", false, true},
		{"tunnel id of three bytes that need not be understood", hello + "000900000009000102", false, false},
		{"length of five", hello + "8005000000090001", false, true},
		{"length beyond the end", hello + "83ff000000090001", false, true},
		{"no type", "8008000000090001", false, true},
		{"hidden type", "c008000000000006", false, true},
		{"hidden and mandatory, no vector", hello + "c00a00000009000100020003", false, true},
		{"three bytes", "800800", false, true},
	} {
		m, err := ParseMessage(unhex(t, c.body), []byte("s"))
		if (err != nil) != c.bad || err == nil && m.Unknown != c.unknown {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
	}
}

func TestEndsAreSaidInWords(t *testing.T) {
	for _, c := range []struct {
		kind MessageType
		r    Result
		want string
	}{
		{CDN, Result{Code: CallNever}, "result 5 (no facilities)"},
		{StopCCN, Result{Code: StopVersion, Error: 0x0100, Text: "one"}, "result 5 (another version of the protocol), error 256: one"},
		{StopCCN, Result{Code: StopError, Error: ErrorMandatory}, "result 2 (general error), error 8 (a mandatory attribute is not known)"},
		{CDN, Result{Code: 99, Error: 99, Text: "?"}, "result 99, error 99: ?"},
		{StopCCN, Result{}, "result 0"},
	} {
		if got := New(c.kind).AddResult(c.r).Why(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"c8020060000000000000000080080000000000018008000000020100800a00000007686f6d65800a0000000300000003",
		"c802000c0001000200030004", "4002000c00010002ff030021", "0202000100020002aaaaff", "c802ffff0001000200030004",
		// lengths of zero and of all, as in malformed captures
		"c80200140001000000000000800600000000", "c8020012000100000000000000000000000000", "c802001400010000000000008fffffffffff",
	} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = Peek(b)
		h, rest, err := Parse(b)
		if err != nil || !h.Control || len(rest) == 0 {
			return
		}
		m, err := ParseMessage(rest, []byte("secret"))
		if err != nil {
			return
		}
		again, err := ParseMessage(m.Marshal(), nil)
		if err != nil {
			t.Fatalf("%x: what was written cannot be read: %v", b, err)
		}
		for i := range m.AVPs {
			m.AVPs[i].Hidden = false
		}
		if again.Type != m.Type || len(again.AVPs) != len(m.AVPs) || len(m.AVPs) > 0 && !reflect.DeepEqual(again.AVPs, m.AVPs) {
			t.Fatalf("%x: %+v became %+v", b, m, again)
		}
		_ = m.Why()
	})
}
