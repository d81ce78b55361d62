package natsbus_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weft/internal/bus"
	"weft/internal/bus/bustest"
	"weft/internal/bus/natsbus"
)

// stranger holds a connection open from an address of its own.
func stranger(t *testing.T, from string, to netip.AddrPort) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hello is the beginning of a TLS handshake.
var hello = []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}

// manners are what strangers do with a connection that they hold open.
var manners = map[string]func(net.Conn){
	"silence":           func(net.Conn) {},
	"half a handshake":  func(c net.Conn) { c.Write(hello) },
	"not TLS":           func(c net.Conn) { c.Write([]byte("CONNECT {}\r\n")) },
	"an endless record": func(c net.Conn) { c.Write(append(hello[:3:3], 0xff, 0xff)) },
}

func bounded(t *testing.T, b *natsbus.Bus, most int) {
	t.Helper()
	if n := b.Early(); n > most {
		t.Fatalf("%d connections without keys are open, most is %d", n, most)
	}
}

// A peer gets in while strangers hold as many connections as they like, from one
// address or from many, and begin new ones all the time.
func TestAPeerGetsInWhileStrangersHoldConnections(t *testing.T) {
	for name, manner := range manners {
		for spread, addresses := range map[string]int{"one address": 1, "many addresses": 200} {
			t.Run(name+" from "+spread, func(t *testing.T) {
				keys := bustest.NewAuthority(t)
				at := freePort(t)
				a := open(t, settings(t, keys, "a", at, bus.Peer{Name: "b", Address: freePort(t)}))
				await(t, a, "a opens", opened)
				attack := func(i int) {
					manner(stranger(t, fmt.Sprintf("127.200.1.%d", 1+i%addresses), at))
					bounded(t, a, natsbus.MostStrangers)
				}
				for i := range 600 {
					attack(i)
				}
				if addresses == 1 {
					bounded(t, a, natsbus.MostOfSource)
				}
				b := open(t, settings(t, keys, "b", freePort(t), bus.Peer{Name: "a", Address: at}))
				await(t, b, "b reads a", joined)
				for i := range 300 { // and those who are in stay in
					attack(i)
				}
				publish(t, a, "hello")
				await(t, b, "messages come", says("hello"))
				if s := a.Status(t.Context()); s.Clients != 1 {
					t.Errorf("status %+v", s)
				}
			})
		}
	}
}

// What strangers hold is taken from them in time, also if they send a byte now and then.
func TestStrangersDoNotStay(t *testing.T) {
	keys := bustest.NewAuthority(t)
	at := freePort(t)
	a := open(t, settings(t, keys, "a", at, bus.Peer{Name: "b", Address: freePort(t)}))
	await(t, a, "a opens", opened)
	slow := stranger(t, "127.200.2.1", at)
	silent := stranger(t, "127.200.2.2", at)
	for i := 0; ; i++ { // a byte at a time of a record that is never whole
		if _, err := slow.Write(hello[min(i, 3) : min(i, 3)+1]); err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	silent.SetReadDeadline(time.Now().Add(patience))
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the silent one gets %d bytes, %v", n, err)
	}
	if n := a.Early(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Who has a peer's certificate and goes no further is bounded too, and a line that
// does not end is refused before NATS sees it.
func TestAPeersOwnConnectionsAreBounded(t *testing.T) {
	keys := bustest.NewAuthority(t)
	at := freePort(t)
	a := open(t, settings(t, keys, "a", at, bus.Peer{Name: "b", Address: freePort(t)}))
	await(t, a, "a opens", opened)
	pair, err := tls.LoadX509KeyPair(keys.Router("b"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := bus.Keys{CA: keys.File}.TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates, config.ServerName = []tls.Certificate{pair}, "a"
	dial := func(line string) *tls.Conn {
		c := tls.Client(stranger(t, "127.0.0.1", at), config)
		c.SetDeadline(time.Now().Add(patience))
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, line) // it may be refused before its end: what is read says so
		return c
	}
	var all []*tls.Conn
	for range 2 * natsbus.MostOfPeer {
		c := dial(`CONNECT {"user":"b","pass":"","verbose":true}` + "\r\n")
		read := make([]byte, 8192)
		for n := 0; !strings.Contains(string(read[:n]), "+OK"); { // the server's answer
			m, err := c.Read(read[n:])
			if err != nil {
				t.Fatalf("%v after %q", err, read[:n])
			}
			n += m
		}
		all = append(all, c)
	}
	if n := a.Status(t.Context()).Clients; n > natsbus.MostOfPeer {
		t.Errorf("the peer has %d connections", n)
	}
	if _, err := io.ReadAll(all[0]); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest is still open: %v", err)
	}
	for _, line := range []string{
		strings.Repeat("x", 100000), `CONNECT {"user":"weft-local"}` + "\r\n", `CONNECT {"user":"c"}` + "\r\n", "CONNECT x\r\n", "PING\r\n", "\r\n",
	} {
		c := dial(line)
		got, err := io.ReadAll(c)
		if err != nil && strings.Contains(err.Error(), "timeout") || strings.Contains(string(got), "+OK") || strings.Contains(string(got), "PONG") {
			t.Errorf("to %.40q it says %q, %v", line, got, err)
		}
	}
}
