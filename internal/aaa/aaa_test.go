package aaa

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/vendors/microsoft"

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

func mschap(t *testing.T, login, password string) Credentials {
	t.Helper()
	challenge, peer := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	nt, err := ppp.MSCHAPv2NT(challenge, peer, login, password)
	if err != nil {
		t.Fatal(err)
	}
	return Credentials{
		Login: login, Method: MethodMSCHAPv2, ID: 9, Challenge: challenge,
		Response: ppp.MSCHAPv2Response{PeerChallenge: peer, NTResponse: nt}.Marshal(),
	}
}

// The server's proof that it knows the password too goes on to the subscriber
// (RFC 2759 section 5).
func TestMSCHAPv2ThroughRADIUS(t *testing.T) {
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, true), Secret: "with RADIUS", Timeout: patience, Tries: 1}})
	ask := func(shown Credentials) (Reply, error) {
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

func question(c Credentials) Request {
	return Request{
		Session: 5, Credentials: c,
		Call: Call{LAC: netip.MustParseAddrPort("198.51.100.2:1701"), LNS: netip.MustParseAddrPort("198.51.100.1:1701"), LACName: "dsl", Tx: 1000},
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
		shown Credentials
		want  bool
	}{
		{Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"}, true},
		{Credentials{Login: "alice", Method: MethodPAP, Password: "guess"}, false},
		{Credentials{Login: "alice", Method: MethodCHAP, ID: 7, Challenge: challenge, Response: ppp.CHAPDigest(7, []byte("wonder"), challenge)}, true},
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
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, false), Secret: "with RADIUS", Timeout: 10 * time.Second, Tries: 1}})
	v, err := c.Authenticate(context.Background(), question(Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"}))
	if err == nil {
		t.Errorf("it was believed: %+v", v)
	}
	if st := c.Stats(); len(st) != 1 || st[0].Forged != 1 || st[0].Unanswered != 0 || st[0].Answered != 0 || !st[0].Silent {
		t.Errorf("what is counted: %+v", st)
	}
}

// A server that cannot sign is believed if the file says so; a wrong signature never is.
func TestAnUnsignedAnswerIsBelievedWhereTheFileSaysSo(t *testing.T) {
	alice := question(Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"})
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, false), Secret: "with RADIUS", Timeout: 10 * time.Second, Unsigned: true}})
	t.Cleanup(c.Close)
	if v, err := c.Authenticate(t.Context(), alice); err != nil || !v.Accept {
		t.Errorf("%+v, %v", v, err)
	}
	asked := radius.New(radius.CodeAccessRequest, []byte("s"))
	answer := asked.Response(radius.CodeAccessAccept)
	if !signed(answer, asked, true) || signed(answer, asked, false) {
		t.Error("without a signature it depends on the file")
	}
	answer.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, 16))
	if signed(answer, asked, true) {
		t.Error("a wrong signature is believed")
	}
}

// What became of questions is counted by server, in their order.
func TestServersAreCounted(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone := silent.LocalAddr().(*net.UDPAddr).AddrPort()
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{
		{Auth: gone, Secret: "x", Timeout: 20 * time.Millisecond, Tries: 1}, {Auth: serve(t, true), Secret: "with RADIUS", Timeout: 10 * time.Second},
	})
	t.Cleanup(c.Close)
	for range 3 {
		if v, err := c.Authenticate(t.Context(), question(Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"})); err != nil || !v.Accept {
			t.Fatal(v, err)
		}
	}
	st := c.Stats()
	if len(st) != 2 || st[0].Server != gone || st[0].Unanswered != 1 || !st[0].Silent || st[1].Answered != 3 || st[1].Silent {
		t.Errorf("what is counted: %+v", st)
	}
}

// Accounting records wait while no server answers, delay no login, and are all sent once
// when a server is back.
func TestAccountsWaitForAServer(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:0")
	gone, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	accounting := gone.LocalAddr().(*net.UDPAddr).AddrPort()
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: serve(t, true), Accounting: accounting, Secret: "with RADIUS", Timeout: time.Second, Tries: 3}})
	c.pause = 50 * time.Millisecond
	t.Cleanup(c.Close)
	const many = 1000
	begun := time.Now()
	for i := range many {
		c.Account(t.Context(), &Record{Account: &Accounting{Status: StatusStart, ID: fmt.Sprint(i), Login: "alice", At: time.Now()}})
	}
	for { // 20 ms may be too short for the server of this test
		v, err := c.Authenticate(t.Context(), question(Credentials{Login: "alice", Method: MethodPAP, Password: "wonder"}))
		if err == nil && v.Accept {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("a login beside unacknowledged records gives %+v, %v", v, err)
		}
	}
	reported := map[string]int{}
	b := make([]byte, 4096)
	for len(reported) < many {
		if err := gone.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, from, err := gone.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatalf("%d of %d accounts came: %v", len(reported), many, err)
		}
		p, err := radius.Parse(b[:n], []byte("with RADIUS"))
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) < 200*time.Millisecond {
			continue // it takes nothing yet
		}
		reported[rfc2866.AcctSessionID_GetString(p)]++
		answer, err := p.Response(radius.CodeAccountingResponse).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gone.WriteToUDPAddrPort(answer, from); err != nil {
			t.Fatal(err)
		}
	}
}

// bookkeeper answers accounts, and tells of each; which decides whether it is taken.
func accounting(t *testing.T, reported chan<- *radius.Packet, taken func(*radius.Packet) bool) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	server := radius.PacketServer{
		SecretSource: radius.StaticSecretSource([]byte("with RADIUS")),
		Handler: radius.HandlerFunc(func(w radius.ResponseWriter, r *radius.Request) {
			if taken(r.Packet) {
				reported <- r.Packet
				_ = w.Write(r.Response(radius.CodeAccountingResponse))
			}
		}),
	}
	go func() { _ = server.Serve(conn) }()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// An account that a server does not take, as one whose database objects to it
// does, holds up no other.
func TestAnAccountThatIsNotTakenHoldsUpNoOther(t *testing.T) {
	reported := make(chan *radius.Packet, 100)
	at := accounting(t, reported, func(p *radius.Packet) bool { return rfc2866.AcctSessionID_GetString(p) != "bad" })
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: at, Accounting: at, Secret: "with RADIUS", Timeout: 50 * time.Millisecond, Tries: 1}})
	c.pause = 10 * time.Millisecond
	t.Cleanup(c.Close)
	c.Account(t.Context(), &Record{Account: &Accounting{Status: StatusStart, ID: "bad", At: time.Now()}})
	received := map[string]bool{}
	for i := range 20 {
		c.Account(t.Context(), &Record{Account: &Accounting{Status: StatusStart, ID: fmt.Sprint(i), At: time.Now()}})
		if i%5 == 4 {
			for len(received) <= i {
				select {
				case p := <-reported:
					received[rfc2866.AcctSessionID_GetString(p)] = true
				case <-time.After(20 * time.Second):
					t.Fatalf("%d accounts came", len(received))
				}
			}
		}
	}
}

// Accounting-On is sent until the first server answers; if none does, no server counts
// as silent.
func TestARouterBegins(t *testing.T) {
	reported := make(chan *radius.Packet, 100)
	calls := make(chan bool, 100)
	at := accounting(t, reported, func(*radius.Packet) bool { calls <- true; return len(calls) > 2 })
	c := NewClient(slog.New(slog.DiscardHandler), "lns", []Server{{Auth: at, Accounting: at, Secret: "with RADIUS", Timeout: 20 * time.Millisecond, Tries: 1}})
	c.pause = 10 * time.Millisecond
	t.Cleanup(c.Close)
	c.Begun(t.Context(), Accounting{ID: "on-isp", At: time.Now(), Call: question(Credentials{}).Call})
	select {
	case p := <-reported:
		if rfc2866.AcctStatusType_Get(p) != rfc2866.AcctStatusType_Value_AccountingOn {
			t.Errorf("it says %v", p.Attributes)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no server has received Accounting-On")
	}
	if st := c.Stats(); st[0].Silent || st[0].AccountsUnanswered != 0 {
		t.Errorf("of the server it says %+v", st[0])
	}
}
