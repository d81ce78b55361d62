package aaa

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc3576"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/rfc6911"
	"layeh.com/radius/vendors/microsoft"
	"layeh.com/radius/vendors/wispr"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// desk takes orders for one session, alice's.
type desk struct {
	ended   atomic.Int32
	changes []Change
}

func (d *desk) Disconnect(m Match) int {
	if m.Login != "alice" && m.ID != "a1" {
		return 0
	}
	d.ended.Add(1)
	return 1
}

func (d *desk) Change(m Match, c Change) int {
	if m.Login != "alice" {
		return 0
	}
	d.changes = append(d.changes, c)
	return 1
}

func lns() NAS {
	return NAS{Names: []string{"lns"}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}}
}

// order sends an order as a server would, to a listener at a loopback address,
// and waits so long for the answer.
func order(t *testing.T, wait time.Duration, unsigned bool, orders Orders, p *radius.Packet) (*radius.Packet, error) {
	t.Helper()
	issuers := []Issuer{{Client: netip.MustParsePrefix("127.0.0.0/8"), Secret: "with RADIUS", Unsigned: unsigned}}
	at := netip.MustParseAddr("127.0.9.9")
	d, err := ListenDynamic(t.Context(), at, func() []Issuer { return issuers }, lns, orders)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	return radius.Exchange(ctx, p, net.JoinHostPort(at.String(), "3799"))
}

func packet(code radius.Code, secret string, fill func(*radius.Packet)) *radius.Packet {
	p := radius.New(code, []byte(secret))
	fill(p)
	return p
}

func alice(p *radius.Packet) { _ = rfc2865.UserName_SetString(p, "alice") }

// signedOrder has the Message-Authenticator of a request (RFC 5176 section 3.4:
// its authenticator counts as zero).
func signedOrder(t *testing.T, p *radius.Packet) *radius.Packet {
	t.Helper()
	p.Attributes = append(radius.Attributes{{Type: rfc2869.MessageAuthenticator_Type, Attribute: make(radius.Attribute, 16)}}, p.Attributes...)
	sum, err := digest(p, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	p.Attributes[0].Attribute = sum
	return p
}

func TestOrdersHaveToBeSigned(t *testing.T) {
	for _, c := range []struct {
		name     string
		unsigned bool
		order    *radius.Packet
		want     radius.Code // 0: no answer
	}{
		{"signed", false, signedOrder(t, packet(radius.CodeDisconnectRequest, "with RADIUS", alice)), radius.CodeDisconnectACK},
		{"not signed", false, packet(radius.CodeDisconnectRequest, "with RADIUS", alice), 0},
		{"not signed, and excused", true, packet(radius.CodeDisconnectRequest, "with RADIUS", alice), radius.CodeDisconnectACK},
		{"another secret", true, packet(radius.CodeDisconnectRequest, "guess", alice), 0},
		{"signed wrongly, and excused", true, packet(radius.CodeDisconnectRequest, "with RADIUS", func(p *radius.Packet) {
			alice(p)
			p.Add(rfc2869.MessageAuthenticator_Type, make(radius.Attribute, 16))
		}), 0},
		{"an hour old", false, signedOrder(t, packet(radius.CodeDisconnectRequest, "with RADIUS", func(p *radius.Packet) {
			alice(p)
			_ = rfc2869.EventTimestamp_Set(p, time.Now().Add(-time.Hour))
		})), 0},
	} {
		d := &desk{}
		wait := patience
		if c.want == 0 {
			wait = 300 * time.Millisecond
		}
		answer, err := order(t, wait, c.unsigned, d, c.order)
		if c.want == 0 {
			if err == nil || d.ended.Load() != 0 {
				t.Errorf("%s: it is answered with %v, and %d sessions ended", c.name, answer, d.ended.Load())
			}
			continue
		}
		if err != nil || answer.Code != c.want || d.ended.Load() != 1 {
			t.Errorf("%s: %v, %v, %d ended", c.name, answer, err, d.ended.Load())
			continue
		}
		wire, err := c.order.Encode()
		if err != nil || !authentic(answer, [16]byte(wire[4:20])) {
			t.Errorf("%s: the answer is not signed", c.name)
		}
	}
}

func TestWhatOrdersLeadTo(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  radius.Code
		fill  func(*radius.Packet)
		want  radius.Code
		cause rfc3576.ErrorCause
	}{
		{"another rate", radius.CodeCoARequest, func(p *radius.Packet) { alice(p); _ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6) }, radius.CodeCoAACK, 0},
		{"no session identification", radius.CodeDisconnectRequest, func(*radius.Packet) {}, radius.CodeDisconnectNAK, rfc3576.ErrorCause_Value_MissingAttribute},
		{"an unknown user", radius.CodeDisconnectRequest, func(p *radius.Packet) { _ = rfc2865.UserName_SetString(p, "bob") }, radius.CodeDisconnectNAK, rfc3576.ErrorCause_Value_SessionContextNotFound},
		{"by the session's id", radius.CodeDisconnectRequest, func(p *radius.Packet) { _ = rfc2866.AcctSessionID_SetString(p, "a1") }, radius.CodeDisconnectACK, 0},
		{"nothing to change", radius.CodeCoARequest, alice, radius.CodeCoANAK, rfc3576.ErrorCause_Value_MissingAttribute},
		{"ask again yourself", radius.CodeCoARequest, func(p *radius.Packet) { alice(p); _ = rfc2865.ServiceType_Set(p, 17) }, radius.CodeCoANAK, rfc3576.ErrorCause_Value_UnsupportedService},
		{"for another router, by address", radius.CodeCoARequest, func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.IdleTimeout_Set(p, 60)
			_ = rfc2865.NASIPAddress_Set(p, net.IPv4(192, 0, 2, 9))
		}, radius.CodeCoANAK, rfc3576.ErrorCause_Value_NASIdentificationMismatch},
		{"for another router, by name", radius.CodeDisconnectRequest, func(p *radius.Packet) { alice(p); _ = rfc2865.NASIdentifier_SetString(p, "lns2") }, radius.CodeDisconnectNAK, rfc3576.ErrorCause_Value_NASIdentificationMismatch},
		{"for this router", radius.CodeDisconnectRequest, func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.NASIdentifier_SetString(p, "lns")
			_ = rfc2865.NASIPAddress_Set(p, net.IPv4(192, 0, 2, 1))
			_ = rfc3162.NASIPv6Address_Set(p, net.ParseIP("2001:db8::1"))
		}, radius.CodeDisconnectACK, 0},
		{"more than can be done", radius.CodeCoARequest, func(p *radius.Packet) {
			alice(p)
			_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
			_ = rfc2865.FramedRoute_SetString(p, "10.0.0.0/8")
		}, radius.CodeCoANAK, rfc3576.ErrorCause_Value_UnsupportedAttribute},
		{"an address of three bytes besides the name", radius.CodeDisconnectRequest, func(p *radius.Packet) {
			alice(p)
			p.Add(rfc2865.FramedIPAddress_Type, radius.Attribute{192, 0, 2})
		}, radius.CodeDisconnectNAK, invalidValue},
		{"a prefix of 200 bits besides the name", radius.CodeDisconnectRequest, func(p *radius.Packet) {
			alice(p)
			p.Add(rfc4818.DelegatedIPv6Prefix_Type, append(radius.Attribute{0, 200}, make(radius.Attribute, 16)...))
		}, radius.CodeDisconnectNAK, invalidValue},
		{"a port that no session has besides the name", radius.CodeDisconnectRequest, func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.NASPort_Set(p, 1<<16+1)
		}, radius.CodeDisconnectNAK, invalidValue},
		{"a time of two bytes", radius.CodeCoARequest, func(p *radius.Packet) {
			alice(p)
			_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
			p.Add(rfc2865.SessionTimeout_Type, radius.Attribute{0, 60})
		}, radius.CodeCoANAK, invalidValue},
		{"another vendor's", radius.CodeCoARequest, func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.IdleTimeout_Set(p, 60)
			_ = microsoft.MSPrimaryDNSServer_Set(p, net.IPv4(192, 0, 2, 53))
		}, radius.CodeCoANAK, rfc3576.ErrorCause_Value_UnsupportedAttribute},
		{"a change with the end", radius.CodeDisconnectRequest, func(p *radius.Packet) { alice(p); _ = rfc2865.IdleTimeout_Set(p, 60) }, radius.CodeDisconnectNAK, rfc3576.ErrorCause_Value_UnsupportedAttribute},
	} {
		d := &desk{}
		answer, err := order(t, patience, false, d, signedOrder(t, packet(c.code, "with RADIUS", func(p *radius.Packet) {
			c.fill(p)
			p.Add(rfc2865.ProxyState_Type, radius.Attribute("way back"))
		})))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if cause := rfc3576.ErrorCause_Get(answer); answer.Code != c.want || cause != c.cause {
			t.Errorf("%s: %v %v, want %v %v", c.name, answer.Code, cause, c.want, c.cause)
		}
		if got, ok := answer.Lookup(rfc2865.ProxyState_Type); !ok || string(got) != "way back" {
			t.Errorf("%s: Proxy-State is %q", c.name, got)
		}
		if c.code == radius.CodeCoARequest && c.want == radius.CodeCoAACK && (len(d.changes) != 1 || *d.changes[0].RateUp != 5e6) {
			t.Errorf("%s: %+v", c.name, d.changes)
		}
	}
}

// All by which an order may name a session, and all that it may change (RFC 5176
// section 3).
func TestHowOrdersAreRead(t *testing.T) {
	_, framed, _ := net.ParseCIDR("2001:db8:77::/64")
	_, delegated, _ := net.ParseCIDR("2001:db8:7700::/56")
	p := packet(radius.CodeCoARequest, "s", func(p *radius.Packet) {
		alice(p)
		_ = rfc2866.AcctSessionID_SetString(p, "a1")
		_ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 77))
		_ = rfc2865.NASPort_Set(p, 4711)
		_ = rfc3162.FramedIPv6Prefix_Set(p, framed)
		_ = rfc4818.DelegatedIPv6Prefix_Set(p, delegated)
		_ = rfc6911.FramedIPv6Address_Set(p, net.ParseIP("2001:db8:78::5"))
		_ = rfc3162.FramedInterfaceID_Set(p, net.HardwareAddr{2, 0, 0, 0, 0, 0, 0, 7})
		_ = rfc2865.CallingStationID_SetString(p, "line 5")
		_ = rfc2865.CalledStationID_SetString(p, "isp")
		_ = rfc2865.FilterID_SetString(p, "garden")
		_ = rfc2865.SessionTimeout_Set(p, 60)
		_ = rfc2865.IdleTimeout_Set(p, 61)
		_ = rfc2869.AcctInterimInterval_Set(p, 62)
		_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
		_ = wispr.WISPrBandwidthMaxDown_Set(p, 6e6)
	})
	want := Match{
		ID: "a1", Login: "alice", Address: netip.MustParseAddr("192.0.2.77"), Session: 4711, IPv6: netip.MustParseAddr("2001:db8:78::5"),
		Prefix: netip.MustParsePrefix("2001:db8:77::/64"), Delegated: netip.MustParsePrefix("2001:db8:7700::/56"),
		InterfaceID: [8]byte{2, 7: 7}, Calling: "line 5", Called: "isp",
	}
	if got := matchOf(p); got != want || !understood(p) {
		t.Errorf("it means %+v, want %+v; understood %v", got, want, understood(p))
	}
	c := changeOf(p)
	if *c.RateUp != 5e6 || *c.RateDown != 6e6 || !*c.WalledGarden || *c.SessionTimeout != time.Minute || *c.IdleTimeout != 61*time.Second || *c.Interim != 62*time.Second {
		t.Errorf("it changes %+v", c)
	}
}

// An order that is given again because the answer was lost is carried out once, and
// gets that answer, not a refusal because the session is gone (RFC 5176 section 2.3).
func TestAnOrderThatIsRepeatedGetsTheSameAnswer(t *testing.T) {
	d := &leaver{}
	at := netip.MustParseAddr("127.0.9.10")
	issuers := []Issuer{{Client: netip.MustParsePrefix("127.0.0.0/8"), Secret: "with RADIUS"}}
	l, err := ListenDynamic(t.Context(), at, func() []Issuer { return issuers }, lns, d)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from := func() *net.UDPConn {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, DynamicPort)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	say := func(conn *net.UDPConn, p *radius.Packet) []byte {
		t.Helper()
		wire, err := p.Encode()
		b := make([]byte, 4096)
		for begun := time.Now(); err == nil && time.Since(begun) < patience; {
			if _, err = conn.Write(wire); err != nil {
				break
			}
			// what comes while the answer before is still being written is dropped
			_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if n, err := conn.Read(b); err == nil {
				return b[:n]
			}
		}
		t.Fatalf("there is no answer: %v", err)
		return nil
	}
	server := from()
	order := signedOrder(t, packet(radius.CodeDisconnectRequest, "with RADIUS", alice))
	first := bytes.Clone(say(server, order))
	for range 3 {
		if again := bytes.Clone(say(server, order)); string(again) != string(first) {
			t.Errorf("the answer is %x, and then %x", first, again)
		}
	}
	if radius.Code(first[0]) != radius.CodeDisconnectACK || d.asked.Load() != 1 {
		t.Errorf("the answer is %v, and it was carried out %d times", radius.Code(first[0]), d.asked.Load())
	}
	// another order, and the same from elsewhere, are new
	for i, conn := range []*net.UDPConn{server, from()} {
		p := packet(radius.CodeDisconnectRequest, "with RADIUS", alice)
		p.Identifier = order.Identifier + 1
		p = signedOrder(t, p)
		if b := say(conn, p); radius.Code(b[0]) != radius.CodeDisconnectNAK || d.asked.Load() != int32(2+i) {
			t.Errorf("a new order is answered with %v, and carried out %d times", radius.Code(b[0]), d.asked.Load())
		}
	}
}

// leaver is a desk whose session is gone when it was ended.
type leaver struct {
	desk
	asked atomic.Int32
}

func (l *leaver) Disconnect(Match) int {
	if l.asked.Add(1) > 1 {
		return 0
	}
	return 1
}

// Answers are kept for a while, and so many of them.
func TestAnswersAreForgotten(t *testing.T) {
	a, now := &answered{}, time.Now()
	p := packet(radius.CodeDisconnectACK, "s", alice)
	key := func(i int) orderKey { return orderKey{id: byte(i), authenticator: [16]byte{byte(i >> 8)}} }
	for i := range answersMost + 5 {
		a.add(key(i), p, now)
	}
	a.add(key(answersMost), p, now) // two that came at once
	if len(a.of) != answersMost || len(a.ring) != answersMost {
		t.Errorf("%d answers are kept", len(a.of))
	}
	for i, want := range map[int]bool{0: false, 4: false, 5: true, answersMost + 4: true} {
		if got := a.find(key(i), now) != nil; got != want {
			t.Errorf("answer %d is kept: %v", i, got)
		}
	}
	if a.find(key(6), now.Add(answersFor+time.Second)) != nil {
		t.Error("an old answer is given")
	}
}
