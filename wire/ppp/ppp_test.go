package ppp

import (
	"bytes"
	"encoding/hex"
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

func TestFrames(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        Protocol
		rest        string
		bad         bool
	}{
		{"whole", "ff03c02101", LCP, "01", false},
		{"without address and control", "c02101", LCP, "01", false},
		{"protocol of one byte", "2145", IPv4, "45", false},
		{"both compressed", "ff035760", IPv6, "60", false},
		{"nothing", "", 0, "", true},
		{"address alone", "ff03", 0, "", true},
		{"even protocol", "ff030020", 0, "", true},
		{"one even byte", "c0", 0, "", true},
	} {
		p, rest, err := ParseFrame(unhex(t, c.bytes))
		if (err != nil) != c.bad || !c.bad && (p != c.want || hex.EncodeToString(rest) != c.rest) {
			t.Errorf("%s: %v %x %v", c.name, p, rest, err)
		}
	}
}

func TestPacketsThatLie(t *testing.T) {
	for name, s := range map[string]string{"cut": "010100", "length of three": "01010003", "length beyond the end": "0101000800"} {
		if p, err := ParsePacket(unhex(t, s)); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for name, s := range map[string]string{"cut": "01", "length of zero": "0100", "length of one": "0101", "beyond the end": "010501"} {
		if o, err := ParseOptions(unhex(t, s)); err == nil {
			t.Errorf("option %s: %+v", name, o)
		}
	}
	for name, s := range map[string]string{"PAP": "05616c69", "CHAP": "10aabb"} {
		_, _, err1 := ParsePAP(unhex(t, s))
		_, _, err2 := ParseCHAP(unhex(t, s))
		if err1 == nil || err2 == nil {
			t.Errorf("%s: %v, %v", name, err1, err2)
		}
	}
}

// The example of RFC 2759 section 9.2.
func TestMSCHAPv2(t *testing.T) {
	authenticator, peer := unhex(t, "5b5d7c7d7b3f2f3e3c2c602132262628"), unhex(t, "21402324255e262a28295f2b3a337c7e")
	nt, err := MSCHAPv2NT(authenticator, peer, "User", "clientPass")
	if err != nil || !bytes.Equal(nt, unhex(t, "82309ecd8d708b5ea08faa3981cd83544233114a3d85d6df")) {
		t.Errorf("%x, %v", nt, err)
	}
	proof, err := MSCHAPv2Authenticator(authenticator, peer, nt, `DOMAIN\User`, "clientPass")
	if err != nil || proof != "S=407A5589115FD0D6209F510FE9C04566932CDA56" {
		t.Errorf("%s, %v", proof, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"ff03c0210101000e010405b40506cd51999f", "ff03c0230101001105616c69636506776f6e646572", "ff038021010100100306cb0071568106c0000235", "c22301010000", "ff03c02101010008ff000000"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, rest, err := ParseFrame(b)
		if err != nil {
			return
		}
		p, err := ParsePacket(rest)
		if err != nil {
			return
		}
		again, err := ParsePacket(p.Marshal())
		if err != nil || again.Code != p.Code || again.ID != p.ID || !bytes.Equal(again.Data, p.Data) {
			t.Fatalf("%x: %+v became %+v, %v", b, p, again, err)
		}
		if list, err := ParseOptions(p.Data); err == nil && !bytes.Equal(MarshalOptions(list), p.Data) {
			t.Fatalf("%x: options became %x", p.Data, MarshalOptions(list))
		}
		_, _, _ = ParsePAP(p.Data)
		_, _, _ = ParseCHAP(p.Data)
		_, _ = ParseMSCHAPv2(p.Data)
	})
}
