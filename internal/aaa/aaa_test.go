package aaa

import (
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
				_ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 77))
				_ = rfc3162.FramedIPv6Prefix_Set(p, &net.IPNet{IP: net.ParseIP("2001:db8:77::"), Mask: net.CIDRMask(64, 128)})
				_ = rfc4818.DelegatedIPv6Prefix_Set(p, &net.IPNet{IP: net.ParseIP("2001:db8:7700::"), Mask: net.CIDRMask(56, 128)})
				_ = rfc2865.FramedRoute_SetString(p, "192.0.2.128/26 0.0.0.0 1")
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
