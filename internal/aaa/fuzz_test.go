package aaa

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2868"
	"layeh.com/radius/vendors/wispr"
)

// paper is what an order's answer is written on.
type paper struct{ answer *radius.Packet }

func (p *paper) Write(a *radius.Packet) error { p.answer = a; return nil }

// FuzzOrder: any request with a valid secret gets an answer that can be sent, or none.
func FuzzOrder(f *testing.F) {
	for _, code := range []radius.Code{radius.CodeDisconnectRequest, radius.CodeCoARequest} {
		b, err := packet(code, "s", func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 77))
			_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
			_ = rfc2865.ProxyState_Add(p, []byte("x"))
		}).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := radius.Parse(b, []byte("s"))
		if err != nil {
			return
		}
		w := &paper{}
		handle(w, &radius.Request{LocalAddr: &net.UDPAddr{}, RemoteAddr: &net.UDPAddr{}, Packet: p}, lns(), &desk{}, true, &answered{})
		if w.answer == nil {
			return
		}
		if _, err := w.answer.Encode(); err != nil && len(b) < 2048 {
			t.Fatalf("%x: the answer cannot be sent: %v", b, err)
		}
	})
}

// FuzzProfile: what a server gives is addresses and prefixes that are whole, or
// an error.
func FuzzProfile(f *testing.F) {
	p := radius.New(radius.CodeAccessAccept, []byte("s"))
	profile(p)
	_ = rfc2868.TunnelType_Set(p, 1, rfc2868.TunnelType_Value_L2TP)
	_ = rfc2868.TunnelServerEndpoint_SetString(p, 1, "192.0.2.99")
	b, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{2, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := radius.Parse(b, []byte("s"))
		if err != nil {
			return
		}
		asked := radius.New(radius.CodeAccessRequest, []byte("s"))
		got, err := profileOf(p, asked)
		if err != nil {
			return
		}
		if got.IPv4.IsValid() && !got.IPv4.Is4() || got.IPv6.IsValid() && !got.IPv6.Is6() {
			t.Fatalf("%+v", got)
		}
		for _, n := range append([]netip.Prefix{got.Prefix, got.Delegated}, got.Routes...) {
			if n.IsValid() && n != n.Masked() {
				t.Fatalf("%s is no network: %+v", n, got)
			}
		}
		_ = authentic(p, asked.Authenticator)
	})
}

// FuzzRoute: a Framed-Route is a network, or an error.
func FuzzRoute(f *testing.F) {
	for _, text := range []string{"192.0.2.128/26 0.0.0.0 1", "10.0.0.0", "2001:db8:1::/48 :: 1", "", "255.255.255.255", "::ffff:1.2.3.4/96"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := route(text); err == nil && (!p.IsValid() || p != p.Masked()) {
			t.Fatalf("%q is %v", text, p)
		}
	})
}

// FuzzRecord: a stored record, damaged or not, can be sent or is rejected, and does no
// other harm.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"Account":{"Kind":2,"Access":"isp","ID":"a1","Login":"alice","Profile":{"ipv4":"192.0.2.7","delegated":"2001:db8::/56","class":["AQI="]}},"Total":{"up_bytes":5}}`))
	f.Add([]byte(`{"Account":{"Kind":9,"Profile":{"prefix":"192.0.2.0/24","ipv6":"192.0.2.1","class":[null]}}}`))
	c := NewClient(slog.New(slog.DiscardHandler), "lns", nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		var one Record
		if json.Unmarshal(b, &one) != nil || one.Account == nil {
			return
		}
		p, err := c.accountingRequest([]byte("s"), one.Account, one.Total)
		if err != nil {
			return
		}
		_, _ = p.Encode()
	})
}

// FuzzAnswer: any answer to an Access-Request or Accounting-Request, also a forged one,
// gives a reply or an error.
func FuzzAnswer(f *testing.F) {
	q := question(Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"})
	asked := radius.New(radius.CodeAccessRequest, []byte("s"))
	accept := asked.Response(radius.CodeAccessAccept)
	profile(accept)
	b, err := accept.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = radius.IsAuthenticResponse(b, b, []byte("s"))
		if p, err := radius.Parse(b, []byte("s")); err == nil {
			_ = signed(p, asked, true)
			_, _ = replyOf(p, asked, q)
		}
	})
}
