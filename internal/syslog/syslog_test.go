package syslog

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"weft/internal/bus/bustest"
)

// loopback is an address that no other process has to do with: a port that was
// let go stays free.
var loopback = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>16&63, os.Getpid()>>8&255, os.Getpid()&255)

func TestACollectorGetsWhatIsSent(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	const text = "udp 192.0.2.1:4711 is [2001:db8::7]:4000"
	check := func(line string) {
		t.Helper()
		m := parse5424(line)
		when, err := time.Parse(time.RFC3339Nano, m["time"])
		if err != nil || !when.Equal(at) || m["text"] != text || m["id"] != "BOUND" || m["app"] != "weft" || m["pri"] != "134" {
			t.Errorf("got %q (%v)", line, err)
		}
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	s, err := Open(Settings{To: "udp://" + packets.LocalAddr().String()})
	if err != nil {
		t.Fatal(err)
	}
	s.Send(at, "BOUND", text)
	buffer := make([]byte, 2000)
	n, _, err := packets.ReadFrom(buffer)
	if err != nil {
		t.Fatal(err)
	}
	check(string(buffer[:n]))
	s.Close()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if s, err = Open(Settings{To: "tcp://" + listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	s.Send(at, "BOUND", text)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	length, err := r.ReadString(' ')
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	rest, err := io.ReadAll(r)
	if err != nil || length != fmt.Sprint(len(rest), " ") {
		t.Fatalf("%q %q %v", length, rest, err)
	}
	check(string(rest))
}

func TestAddressesOfCollectorsAreRead(t *testing.T) {
	for _, bad := range []string{
		"", "192.0.2.1:514", "http://192.0.2.1:514", "udp://192.0.2.1", "udp://192.0.2.1:514/x", "udp://192.0.2.1:514#name",
		"tls://192.0.2.1", "tls://user@192.0.2.1:6514", "tls://192.0.2.1:6514?x",
	} {
		if _, _, err := Parse(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	if n, a, err := Parse("tcp://[2001:db8::5]:601"); n != "tcp" || a != "[2001:db8::5]:601" || err != nil {
		t.Errorf("%s %s %v", n, a, err)
	}
	if to, err := parse("tls://[2001:db8::5]:6514#logs.example.net"); to.network != "tls" || to.name != "logs.example.net" || err != nil {
		t.Errorf("%v %v", to, err)
	}
}

// collector takes messages by TCP or TLS, and gives them out.
type collector struct {
	t        *testing.T
	listener net.Listener
	lines    chan string
	conns    chan net.Conn
}

func newCollector(t *testing.T, at string, config *tls.Config) *collector {
	t.Helper()
	c := &collector{t: t, lines: make(chan string, 100000), conns: make(chan net.Conn, 100)}
	var err error
	eventually(t, "the address is free", func() bool {
		c.listener, err = net.Listen("tcp", at)
		return err == nil
	})
	if config != nil {
		c.listener = tls.NewListener(c.listener, config)
	}
	t.Cleanup(func() { c.listener.Close() })
	go func() {
		for {
			conn, err := c.listener.Accept()
			if err != nil {
				return
			}
			c.conns <- conn
			go c.read(conn)
		}
	}()
	return c
}

// read takes messages apart by their lengths.
func (c *collector) read(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(r, "%d ", &n); err != nil {
			return
		}
		line := make([]byte, n)
		if _, err := io.ReadFull(r, line); err != nil {
			return
		}
		m := parse5424(string(line))
		if m == nil {
			c.t.Errorf("%q is no message of RFC 5424", line)
			return
		}
		c.lines <- m["text"]
	}
}

func (c *collector) gets(want ...string) {
	c.t.Helper()
	for _, w := range want {
		select {
		case got := <-c.lines:
			if got != w {
				c.t.Fatalf("got %q, want %q", got, w)
			}
		case <-time.After(20 * time.Second):
			c.t.Fatalf("%q does not come", w)
		}
	}
}

// crash ends it, with its connections.
func (c *collector) crash() {
	c.listener.Close()
	for {
		select {
		case conn := <-c.conns:
			conn.Close()
		default:
			return
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestWhatACollectorMissedIsSentWhenItIsBack(t *testing.T) {
	first := newCollector(t, loopback+":0", nil)
	at := first.listener.Addr().String()
	s, err := Open(Settings{To: "tcp://" + at})
	if err != nil {
		t.Fatal(err)
	}
	s.Send(time.Now(), "BOUND", "one")
	first.gets("one")
	first.crash()
	s.Send(time.Now(), "BOUND", "lost") // may be lost: the peer no longer reads from the connection
	eventually(t, "it is noticed", func() bool { s.Send(time.Now(), "BOUND", "probe"); return s.Status().Error != "" })
	for i := range 1000 {
		s.Send(time.Now(), "BOUND", fmt.Sprint("while away ", i))
	}
	if n := s.Status().Waiting; n < 1000 {
		t.Errorf("%d wait", n)
	}
	second := newCollector(t, at, nil)
	for got := ""; got != "while away 0"; {
		select {
		case got = <-second.lines:
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing comes: %+v", s.Status())
		}
	}
	for i := 1; i < 1000; i++ {
		second.gets(fmt.Sprint("while away ", i))
	}
	eventually(t, "all is well", func() bool { st := s.Status(); return st.Error == "" && st.Waiting == 0 })
	s.Close()
}

func TestWhatFindsNoRoomIsCountedAndNobodyWaits(t *testing.T) {
	// an address without a listener
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	s, err := Open(Settings{To: "tcp://" + at})
	if err != nil {
		t.Fatal(err)
	}
	const more = 5000
	for range waiting + more {
		s.Send(time.Now(), "BOUND", "x")
	}
	if st := s.Status(); st.Lost < more-1 || st.Lost > more || st.Waiting > waiting || st.Sent != 0 {
		t.Errorf("%+v", st)
	}
	eventually(t, "it says why", func() bool { return strings.Contains(s.Status().Error, "reach the collector tcp://"+at) })
	s.Close() // does not hang
	if st := s.Status(); st.Lost != waiting+more {
		t.Errorf("at the end %+v, want all lost", st)
	}
}

func TestACollectorByTLS(t *testing.T) {
	keys, other := bustest.NewAuthority(t), bustest.NewAuthority(t)
	pair, err := tls.LoadX509KeyPair(keys.Router("logs.example.net"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	to := "tls://" + c.listener.Addr().String()
	open := func(to, ca string) *Sender {
		t.Helper()
		s, err := Open(Settings{To: to, CA: ca})
		if err != nil {
			t.Fatal(err)
		}
		s.Send(time.Now(), "BOUND", "secret")
		return s
	}
	for name, s := range map[string]*Sender{
		"unknown authority": open(to+"#logs.example.net", other.File),
		"not known":         open(to+"#logs.example.net", ""),
		"another name":      open(to+"#other.example.net", keys.File),
		"127.0.0.1":         open(to, keys.File),
		"no such file":      open(to+"#logs.example.net", "/nonexistent"),
	} {
		eventually(t, name+" gives an error", func() bool { return s.Status().Error != "" })
		if st := s.Status(); st.Sent != 0 {
			t.Errorf("%s: %+v", name, st)
		}
		s.Close()
	}
	good := open(to+"#logs.example.net", keys.File)
	c.gets("secret")
	good.Close()
}
