package aaa

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/vendors/microsoft"

	"weft/internal/feature/access"
	"weft/wire/ppp"
)

// serve answers requests; sign says whether answers are signed.
func serve(t *testing.T, signs bool) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	server := radius.PacketServer{
		SecretSource: radius.StaticSecretSource([]byte("with RADIUS")),
		Handler: radius.HandlerFunc(func(w radius.ResponseWriter, r *radius.Request) {
			if !authentic(r.Packet, r.Packet.Authenticator) {
				return
			}
			p := r.Response(radius.CodeAccessReject)
			digest := rfc2865.CHAPPassword_Get(r.Packet)
			if rfc2865.UserPassword_GetString(r.Packet) == "wonder" ||
				len(digest) == 17 && ppp.CHAPValid(digest[0], []byte("wonder"), rfc2865.CHAPChallenge_Get(r.Packet), digest[1:]) {
				p = r.Response(radius.CodeAccessAccept)
				profile(p)
			}
			if proof, ok := mschapOf(r.Packet); ok {
				p = r.Response(radius.CodeAccessAccept)
				_ = microsoft.MSCHAP2Success_Set(p, proof)
				profile(p)
			}
			if signs {
				q := *p
				q.Authenticator = r.Packet.Authenticator
				if err := sign(&q); err != nil {
					return
				}
				p.Attributes = q.Attributes
			}
			_ = w.Write(p)
		}),
	}
	go func() { _ = server.Serve(conn) }()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func profile(p *radius.Packet) {
	_ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 77))
	_ = rfc3162.FramedIPv6Prefix_Set(p, &net.IPNet{IP: net.ParseIP("2001:db8:77::"), Mask: net.CIDRMask(64, 128)})
	_ = rfc4818.DelegatedIPv6Prefix_Set(p, &net.IPNet{IP: net.ParseIP("2001:db8:7700::"), Mask: net.CIDRMask(56, 128)})
	_ = rfc2865.FramedRoute_SetString(p, "192.0.2.128/26 0.0.0.0 1")
}

// mschapOf reads MS-CHAP2-Response (RFC 2548 section 2.3.2) as a server does,
// and gives MS-CHAP2-Success (section 2.3.3). The login "mute" gets none.
func mschapOf(p *radius.Packet) ([]byte, bool) {
	b, challenge := microsoft.MSCHAP2Response_Get(p), microsoft.MSCHAPChallenge_Get(p)
	if len(b) != 50 || len(challenge) != 16 {
		return nil, false
	}
	login, flags, peer, reserved, got := rfc2865.UserName_GetString(p), b[1], b[2:18], b[18:26], b[26:50]
	want, err := ppp.MSCHAPv2NT(challenge, peer, login, "wonder")
	if err != nil || flags != 0 || !bytes.Equal(reserved, make([]byte, 8)) || !bytes.Equal(want, got) {
		return nil, false
	}
	if login == "mute" {
		return []byte{b[0]}, true
	}
	proof, err := ppp.MSCHAPv2Authenticator(challenge, peer, got, login, "wonder")
	return append([]byte{b[0]}, proof...), err == nil
}

func mschap(t *testing.T, login, password string) access.Credentials {
	t.Helper()
	challenge, peer := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	nt, err := ppp.MSCHAPv2NT(challenge, peer, login, password)
	if err != nil {
		t.Fatal(err)
	}
	return access.Credentials{
		Login: login, Method: access.MethodMSCHAPv2, ID: 9, Challenge: challenge,
		Response: ppp.MSCHAPv2Response{PeerChallenge: peer, NTResponse: nt}.Marshal(),
	}
}

// The server's proof that it knows the password too goes on to the subscriber
// (RFC 2759 section 5).
func TestMSCHAPv2ThroughRADIUS(t *testing.T) {
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, true), Secret: "with RADIUS", Timeout: time.Second, Tries: 1}})
	ask := func(shown access.Credentials) (access.Verdict, error) {
		return c.Authenticate(context.Background(), question(shown))
	}
	right := mschap(t, "alice", "wonder")
	v, err := ask(right)
	want, _ := ppp.MSCHAPv2Authenticator(right.Challenge, []byte("fedcba9876543210"), right.Response[24:48], "alice", "wonder")
	if err != nil || !v.Accept || v.Text != want || v.Profile.IPv4.String() != "192.0.2.77" {
		t.Errorf("the right password: %+v, %v, want %s", v, err, want)
	}
	if v, err := ask(mschap(t, "alice", "guess")); err != nil || v.Accept {
		t.Errorf("a wrong password: %+v, %v", v, err)
	}
	if v, err := ask(mschap(t, "mute", "wonder")); err == nil || v.Accept {
		t.Errorf("an answer without proof: %+v, %v", v, err)
	}
	short := right
	short.Response = right.Response[:40]
	if v, err := ask(short); err == nil || v.Accept {
		t.Errorf("a response that is cut off: %+v, %v", v, err)
	}
}

func question(c access.Credentials) access.Question {
	return access.Question{
		Access: "isp", Session: 5, Credentials: c,
		Call: access.Call{LAC: netip.MustParseAddrPort("198.51.100.2:1701"), LNS: netip.MustParseAddrPort("198.51.100.1:1701"), LACName: "dsl", Tx: 1000},
	}
}

func TestASubscriberIsKnown(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	servers := []Server{
		{Auth: silent.LocalAddr().(*net.UDPAddr).AddrPort(), Secret: "x", Timeout: 20 * time.Millisecond, Tries: 2},
		{Auth: serve(t, true), Secret: "with RADIUS"},
	}
	c := NewClient(slog.New(slog.DiscardHandler), "lns", servers)
	challenge := []byte("0123456789abcdef")
	for _, one := range []struct {
		shown access.Credentials
		want  bool
	}{
		{access.Credentials{Login: "alice", Method: access.MethodPAP, Password: "wonder"}, true},
		{access.Credentials{Login: "alice", Method: access.MethodPAP, Password: "guess"}, false},
		{access.Credentials{Login: "alice", Method: access.MethodCHAP, ID: 7, Challenge: challenge, Response: ppp.CHAPDigest(7, []byte("wonder"), challenge)}, true},
	} {
		v, err := c.Authenticate(context.Background(), question(one.shown))
		if err != nil || v.Accept != one.want {
			t.Fatalf("%+v: %+v, %v", one.shown, v, err)
		}
		if !v.Accept {
			continue
		}
		p := v.Profile
		if p.IPv4.String() != "192.0.2.77" || p.Prefix.String() != "2001:db8:77::/64" || p.Delegated.String() != "2001:db8:7700::/56" || len(p.Routes) != 1 || p.Routes[0].String() != "192.0.2.128/26" {
			t.Errorf("the profile is %+v", p)
		}
	}
}

func TestAnUnsignedAnswerIsNotBelieved(t *testing.T) {
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, false), Secret: "with RADIUS", Timeout: 50 * time.Millisecond, Tries: 1}})
	v, err := c.Authenticate(context.Background(), question(access.Credentials{Login: "alice", Method: access.MethodPAP, Password: "wonder"}))
	if err == nil {
		t.Errorf("it was believed: %+v", v)
	}
}
