package daemon_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"weft/internal/lab/probe"
)

// statefulTranslator shares one address, which is behind the router for the
// server: it has a route for it.
const statefulTranslator = `
[nat64.main]
mode = "stateful"
prefix = "64:ff9b:1::/96"
pools = [{ ipv4 = "192.0.2.1" }]
static = [{ protocol = "udp", ipv6 = "[2001:db8:1::2]:7007", ipv4 = "192.0.2.1:7007" }]
interfaces = ["lan", "wan"]
bindings = %d
`

func statefulTOML(ends string, bindings int) string {
	return ends + fmt.Sprintf(statefulTranslator, bindings)
}

func newStatefulTopology(t *testing.T, bypass string) *topology {
	t.Helper()
	w := newTopology(t, statefulTOML(fmt.Sprintf(ends, bypass, bypass), 65536))
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	return w
}

func TestManyShareOneAddress(t *testing.T) {
	t.Parallel()
	for name, bypass := range map[string]string{"through the stack": "", "shortcut": "bypass = true", "xdp": "bypass = true\nhook = \"xdp\""} {
		t.Run(name, func(t *testing.T) {
			w := newStatefulTopology(t, bypass)
			r := w.start()
			ports := w.serve(w.server)
			w.pings(w.member, serverFrom6)
			w.move(w.member, serverFrom6, ports.TCP, probe.Upload, 16<<20)
			w.move(w.member, serverFrom6, ports.TCP, probe.Download, 16<<20)
			var result probe.Datagrams
			w.probe(w.member, &result, "exchange", net.JoinHostPort(serverFrom6, fmt.Sprint(ports.UDP)), "--size", "0,100,1200,3000,9000")
			if result.Intact != 5 {
				t.Errorf("%d of 5 datagrams came back: %s", result.Intact, result.Problem)
			}
			if n := w.counted("drop-no-binding"); n != 0 {
				t.Errorf("%d packets found no binding", n)
			}
			if len(w.rows("bib")) < 4 || len(w.rows("nat-sessions")) < 3 {
				t.Errorf("bindings %v, sessions %v", w.rows("bib"), w.rows("nat-sessions"))
			}
			r.stop()
			w.planIsEmpty()
		})
	}
}

func TestSessionsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	w := newStatefulTopology(t, "")
	r := w.start()
	f := w.startFlood()
	before := len(w.rows("nat-sessions"))
	r.kill()
	w.pings(w.member, serverFrom6) // new ones are made without it, too
	if after := len(w.rows("nat-sessions")); after != before+1 {
		t.Errorf("%d sessions before, %d after a ping without the daemon", before, after)
	}
	r = w.start()
	w.planIsEmpty()
	w.write(statefulTOML(fmt.Sprintf(ends, "", ""), 65536) + "udp_timeout = \"10m\"\n")
	r.reload()
	f.endWithoutLoss(t)
}

func TestOtherSizesAreNewTables(t *testing.T) {
	t.Parallel()
	w := newStatefulTopology(t, "")
	r := w.start()
	w.pings(w.member, serverFrom6)
	w.write(statefulTOML(fmt.Sprintf(ends, "", ""), 2048))
	r.reload()
	if rows := w.rows("nat-sessions"); len(rows) != 0 {
		t.Errorf("sessions came over: %v", rows)
	}
	w.pings(w.member, serverFrom6)
	if rows := w.rows("nat-sessions"); len(rows) != 1 {
		t.Errorf("sessions %v, want that of the ping", rows)
	}
	// back to stateless, and nothing is left of it
	w.write(usual())
	r.reload()
	w.pings(w.member, serverFrom6)
	if out, err := w.weft("show", "pools"); err != nil || strings.TrimSpace(out) != "none" {
		t.Errorf("pools are left: %s %v", out, err)
	}
	w.write(statefulTOML(fmt.Sprintf(ends, "", ""), 65536))
	r.reload()
	w.pings(w.member, serverFrom6)
	r.stop()
	w.planIsEmpty()
}

func TestAStaticBindingIsReachedFromOutside(t *testing.T) {
	t.Parallel()
	w := newStatefulTopology(t, "")
	w.start()
	var echo net.PacketConn
	var conn net.Conn
	err := w.member.Do(func() (err error) {
		echo, err = net.ListenPacket("udp6", "[2001:db8:1::2]:7007")
		return err
	})
	if err == nil {
		err = w.server.Do(func() (err error) {
			conn, err = net.Dial("udp4", "192.0.2.1:7007")
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	defer conn.Close()
	go func() {
		b := make([]byte, 100)
		n, from, err := echo.ReadFrom(b)
		if err == nil {
			echo.WriteTo(b[:n], from)
		}
	}()
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 100)
		n, _ := conn.Read(b)
		got <- string(b[:n])
	}()
	eventually(t, "an answer comes", func() bool {
		conn.Write([]byte("hello"))
		select {
		case s := <-got:
			return s == "hello"
		default:
			return false
		}
	})
}
