package syslog

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/leodido/go-syslog/v4/rfc5424"
)

func TestACollectorGetsWhatIsSent(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	const text = "udp 192.0.2.1:4711 is [2001:db8::7]:4000"
	check := func(line string) {
		t.Helper()
		parsed, err := rfc5424.NewParser().Parse([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		m := parsed.(*rfc5424.SyslogMessage)
		if *m.Message != text || *m.MsgID != "BOUND" || !m.Timestamp.Equal(at) || *m.Appname != "weft" {
			t.Errorf("got %q", line)
		}
	}
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	s, err := Open("udp://" + packets.LocalAddr().String())
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
	if s, err = Open("tcp://" + listener.Addr().String()); err != nil {
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
	for _, bad := range []string{"", "192.0.2.1:514", "http://192.0.2.1:514", "udp://192.0.2.1", "udp://192.0.2.1:514/x"} {
		if _, _, err := Parse(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
	if n, a, err := Parse("tcp://[2001:db8::5]:601"); n != "tcp" || a != "[2001:db8::5]:601" || err != nil {
		t.Errorf("%s %s %v", n, a, err)
	}
}
