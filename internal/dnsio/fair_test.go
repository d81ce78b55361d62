package dnsio_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/dnsio"
)

// listening is a server at an address, of which stranger may not ask.
func listening(t *testing.T, outsider netip.Addr, handle dnsio.Handler) (*dnsio.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	s := dnsio.NewServer(handle, func(a netip.Addr) bool { return a != outsider })
	if err := s.Set(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(at)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, at
}

func plainly(_ context.Context, _ netip.Addr, m *dns.Msg, _ bool) *dns.Msg { return reply(m) }

// dialFrom opens a TCP connection that has a source address.
func dialFrom(t *testing.T, from netip.Addr, at string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 5 * time.Second}
	c, err := d.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange asks one question on a connection.
func exchange(c net.Conn) error {
	conn := &dns.Conn{Conn: c}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if err := conn.WriteMsg(question()); err != nil {
		return err
	}
	_, err := conn.ReadMsg()
	return err
}

// source gives another address of loopback for each number.
func source(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 3, byte(n >> 8), byte(n)}) }

// A stranger's connection is closed before it holds anything.
func TestStrangersHoldNoConnection(t *testing.T) {
	_, at := listening(t, source(1), plainly)
	for range 600 {
		c := dialFrom(t, source(1), at)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a stranger's connection stays: %v", err)
		}
	}
	if err := exchange(dialFrom(t, source(2), at)); err != nil {
		t.Error("a client is not answered:", err)
	}
}

// Whatever others do with their connections, a client that comes is answered, and keeps
// its connection while others have more.
func TestAClientIsAnsweredBesideManyConnections(t *testing.T) {
	half := append(binary.BigEndian.AppendUint16(nil, 100), 1, 2, 3)
	for name, c := range map[string]struct {
		hosts, each int
		send        []byte
	}{
		"one host, idle":                            {1, 300, nil},
		"one host, half a question":                 {1, 300, half},
		"one host, half a length":                   {1, 300, []byte{0}},
		"many hosts, idle":                          {40, 16, nil},
		"many hosts, half a question":               {40, 16, half},
		"many hosts, a length beyond any question":  {40, 16, []byte{0xff, 0xff, 1}},
		"as many hosts as there is room, once each": {256, 1, half},
	} {
		t.Run(name, func(t *testing.T) {
			_, at := listening(t, netip.Addr{}, plainly)
			mine := dialFrom(t, source(9999), at)
			if err := exchange(mine); err != nil {
				t.Fatal(err)
			}
			for i := range c.hosts {
				for range c.each {
					other := dialFrom(t, source(i), at)
					_, _ = other.Write(c.send)
				}
			}
			if c.each > 1 { // others have more: it keeps what it had
				if err := exchange(mine); err != nil {
					t.Error("its connection is gone:", err)
				}
			}
			if err := exchange(dialFrom(t, source(9998), at)); err != nil {
				t.Error("one that comes is not answered:", err)
			}
		})
	}
}

// Questions that are slow to be answered take the share of who asked them.
func TestOneHostsSlowQuestionsLeaveRoomForOthers(t *testing.T) {
	release := make(chan struct{})
	var held atomic.Int64
	_, at := listening(t, netip.Addr{}, func(ctx context.Context, client netip.Addr, m *dns.Msg, udp bool) *dns.Msg {
		if client == source(1) {
			held.Add(1)
			<-release
		}
		return reply(m)
	})
	defer close(release)
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: source(1).AsSlice()}}
	flood, err := d.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	packed, err := question().Pack()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		_, _ = flood.Write(packed)
		if i%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	d.LocalAddr = &net.UDPAddr{IP: source(2).AsSlice()}
	for range 20 {
		other, err := d.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := exchange(other); err != nil {
			t.Error("another host is not answered:", err)
		}
		other.Close()
	}
	if n := held.Load(); n > 250 {
		t.Errorf("one host has %d questions under way", n)
	}
}

// A question at which the handler panics has no answer; those after it have, and the
// server says what happened.
func TestAQuestionAtWhichTheHandlerPanicsIsLost(t *testing.T) {
	var asked atomic.Int64
	s, at := listening(t, netip.Addr{}, func(_ context.Context, _ netip.Addr, m *dns.Msg, _ bool) *dns.Msg {
		if asked.Add(1)%2 == 1 {
			panic("a question that weft cannot bear")
		}
		return reply(m)
	})
	c := dialFrom(t, source(1), at)
	if err := exchange(c); !errors.Is(err, io.EOF) {
		t.Errorf("the connection of a question that is lost: %v", err)
	}
	if err := exchange(dialFrom(t, source(1), at)); err != nil {
		t.Error(err)
	}
	udp, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	packed, _ := question().Pack()
	_, _ = udp.Write(packed) // lost
	if err := exchange(udp); err != nil {
		t.Error(err)
	}
	says := func() string { return fmt.Sprint(s.Fault()) }
	for begun := time.Now(); !strings.Contains(says(), "2 messages") && time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
	} // another reader may have answered before the loss was noted
	if !strings.Contains(says(), "2 messages") || !strings.Contains(says(), "cannot bear") {
		t.Errorf("the server says %s", says())
	}
}

// What is no question is answered as RFC 1035 says, or not at all, and never ends a
// reader.
func TestWhatIsNoQuestionIsAnsweredOrIgnored(t *testing.T) {
	_, at := listening(t, netip.Addr{}, plainly)
	good, _ := question().Pack()
	response := append([]byte(nil), good...)
	response[2] |= 0x80
	update := append([]byte(nil), good...)
	update[2] = 5 << 3
	for name, c := range map[string]struct {
		b     []byte
		rcode int // -1: no answer
	}{
		"nothing":              {nil, -1},
		"half a header":        {good[:7], -1},
		"cut off":              {good[:20], dns.RcodeFormatError},
		"a response":           {response, -1},
		"an update":            {update, dns.RcodeNotImplemented},
		"longer than any":      {append(append([]byte(nil), good...), make([]byte, 5000)...), dns.RcodeFormatError},
		"a name in circles":    {append(append([]byte(nil), good[:12]...), 0xc0, 12, 0, 1, 0, 1), dns.RcodeFormatError},
		"a thousand questions": {append([]byte{1, 2, 1, 0, 3, 0xe8, 0, 0, 0, 0, 0, 0}, good[12:]...), dns.RcodeFormatError},
	} {
		c := c
		conn, err := net.Dial("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(c.b)
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		b := make([]byte, 512)
		n, err := conn.Read(b)
		var m dns.Msg
		switch {
		case c.rcode == -1 && err == nil:
			t.Errorf("%s is answered with %x", name, b[:n])
		case c.rcode >= 0 && (err != nil || m.Unpack(b[:n]) != nil || m.Rcode != c.rcode && name != "longer than any"):
			t.Errorf("%s: %v %v", name, err, m.Rcode)
		}
		conn.Close()
	}
	udp, _ := net.Dial("udp", at)
	defer udp.Close()
	if err := exchange(udp); err != nil {
		t.Error(err)
	}
}

// Replies that do not match the query are counted; after some, the query goes on over
// TCP, because a third party may be guessing its identifier.
func TestUnwantedRepliesAreCounted(t *testing.T) {
	udp := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		for i := range 100 {
			_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Id += uint16(i) + 1 }))
		}
		plain(w, m)
	})
	tcp := serve(t, udp.at.String(), nil, plain)
	p := pool(t, dnsio.Options{}, dnsio.Forwarder{Transport: dnsio.UDP, Address: udp.at})
	wantAnswer(t, p)
	if tcp.asked.Load() != 1 {
		t.Errorf("TCP was asked %d times", tcp.asked.Load())
	}
	if got := p.States()[0].Unwanted; got != 20 {
		t.Errorf("%d unwanted replies are counted", got)
	}
}
