package daemon_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// opens sends a datagram from a port of the member to the server, and gives
// the port of the pool that it got.
func (w *topology) opens(port int) netip.AddrPort {
	w.t.Helper()
	err := w.member.Do(func() error {
		conn, err := net.DialUDP("udp6", &net.UDPAddr{Port: port}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(serverFrom6), 9)))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("x"))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var at netip.AddrPort
	eventually(w.t, "the port is bound", func() bool {
		for _, row := range w.rows("bib") {
			if strings.HasSuffix(row["ipv6"].(string), fmt.Sprint("]:", port)) {
				at = netip.MustParseAddrPort(row["ipv4"].(string))
			}
		}
		return at.IsValid()
	})
	return at
}

// had asks who had a port, and gives the answers' nodes.
func (w *topology) had(at netip.AddrPort, when time.Time, more ...string) (nodes []string, rows []map[string]any) {
	w.t.Helper()
	out, err := w.weft(append([]string{"show", "who", at.Addr().String(), fmt.Sprint(at.Port()), when.Format(time.RFC3339Nano), "--json"}, more...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &rows)
	}
	if err != nil {
		w.t.Fatalf("show who: %v\n%s", err, out)
	}
	for _, r := range rows {
		nodes = append(nodes, r["ipv6"].(string))
	}
	return nodes, rows
}

func TestWhoHadAPortIsKnownAfterwards(t *testing.T) {
	t.Parallel()
	collector, err := net.ListenPacket("udp4", "127.0.0.1:0") // not the router's: what is sent to it is lost
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Close()
	log := filepath.Join(t.TempDir(), "main.allocations")
	logs := fmt.Sprintf("allocation_log = %q\nallocation_syslog = \"udp://%s\"\n", log, collector.LocalAddr())
	w := newTopology(t, statefulTOML(fmt.Sprintf(ends, "", ""), 65536)+logs)
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	r := w.start()
	is := func(at netip.AddrPort, when time.Time, want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s was %s", at, want), func() bool {
			nodes, _ := w.had(at, when)
			return strings.Join(nodes, " ") == want
		})
	}
	first := w.opens(5001)
	time.Sleep(200 * time.Millisecond) // more than times are rounded by
	during := time.Now()
	is(first, during, "[2001:db8:1::2]:5001")

	r.kill()
	second := w.opens(5002) // while weft does not run
	time.Sleep(200 * time.Millisecond)
	between := time.Now()
	r = w.start()
	is(second, between, "[2001:db8:1::2]:5002")
	is(first, between, "[2001:db8:1::2]:5001")

	if out, err := w.weft("flush", "bib", "--all"); err != nil || !strings.HasPrefix(out, "2 sessions") {
		t.Errorf("flush: %s %v", out, err)
	}
	if rows := w.rows("nat-sessions"); len(rows) != 0 {
		t.Errorf("after the flush there are %v", rows)
	}
	time.Sleep(200 * time.Millisecond)
	after := time.Now()
	is(first, after, "")
	is(first, during, "[2001:db8:1::2]:5001")
	is(second, between, "[2001:db8:1::2]:5002")
	if _, rows := w.had(first, during); rows[0]["until"] == nil || rows[0]["translator"] != "main" {
		t.Errorf("its end is not known: %v", rows)
	}
	// without the daemon the file itself is asked
	r.stop()
	if nodes, _ := w.had(second, between, "--file", log); strings.Join(nodes, " ") != "[2001:db8:1::2]:5002" {
		t.Errorf("the file says %v", nodes)
	}
	if out, err := w.weft("show", "who", "192.0.2.1", "4711", "yesterday"); err == nil || !strings.Contains(out, "no time") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFixedBlocksSayWhoHadAPort(t *testing.T) {
	t.Parallel()
	toml := strings.Replace(statefulTOML(fmt.Sprintf(ends, "", ""), 65536), "static = [{ protocol = \"udp\", ipv6 = \"[2001:db8:1::2]:7007\", ipv4 = \"192.0.2.1:7007\" }]",
		"subscribers = \"2001:db8:1::/59\"\nsubscriber_prefix_len = 64\nport_block = 2016", 1)
	w := newTopology(t, toml)
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	w.start()
	at := w.opens(5001)
	if nodes, rows := w.had(at, time.Now()); strings.Join(nodes, " ") != "2001:db8:1::/64" {
		t.Errorf("%s is %v", at, rows)
	}
	if nodes, _ := w.had(netip.AddrPortFrom(at.Addr(), at.Port()+2016), time.Now()); strings.Join(nodes, " ") != "2001:db8:1:1::/64" {
		t.Errorf("the next block is that of %v", nodes)
	}
	if nodes, _ := w.had(netip.MustParseAddrPort("203.0.113.77:5000"), time.Now()); len(nodes) != 0 {
		t.Errorf("an unused address is %v", nodes)
	}
}

// The blocks change by reload, by restart, and end: each time is answered for
// by the blocks that were in force then.
func TestBlocksOfBeforeAChangeAreKnownAfterwards(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "main.allocations")
	const static = "static = [{ protocol = \"udp\", ipv6 = \"[2001:db8:1::2]:7007\", ipv4 = \"192.0.2.1:7007\" }]"
	with := func(first string, block int) string {
		toml := statefulTOML(fmt.Sprintf(ends, "", ""), 65536) + fmt.Sprintf("allocation_log = %q\n", log)
		if block == 0 {
			return toml
		}
		return strings.Replace(toml, static, static+fmt.Sprintf("\nsubscribers = %q\nsubscriber_prefix_len = 64\nport_block = %d", first, block), 1)
	}
	w := newTopology(t, with("2001:db8:1::/59", 2016))
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	r := w.start()
	is := func(what string, at netip.AddrPort, when time.Time, want string, more ...string) {
		t.Helper()
		if nodes, rows := w.had(at, when, append([]string{"--protocol", "udp"}, more...)...); strings.Join(nodes, " ") != want {
			t.Errorf("%s: %s was %v, want %s", what, at, rows, want)
		}
	}
	moment := func() time.Time {
		time.Sleep(250 * time.Millisecond) // more than times are rounded by
		defer time.Sleep(250 * time.Millisecond)
		return time.Now()
	}
	before := moment().Add(-time.Hour)
	at := w.opens(5001) // a port of the first block
	first := moment()

	w.write(with("2001:db8:1::/60", 4032))
	r.reload()
	second := moment()
	r.kill()
	w.write(with("2001:db8:0:ffe0::/59", 2016))
	meanwhile := moment()
	r = w.start()
	if rows := w.rows("bib"); len(rows) != 1 { // the static one
		t.Errorf("bindings outside of their blocks are left: %v", rows)
	}
	third := moment()
	w.write(with("", 0))
	r.reload()
	free := w.opens(5003)
	fourth := moment()

	in := func(port int) netip.AddrPort { return netip.AddrPortFrom(at.Addr(), uint16(port)) }
	check := func(more ...string) {
		t.Helper()
		is("before", in(3040), before, "", more...)
		is("at first", at, first, "2001:db8:1::/64", more...)
		is("at first", in(1024+2016), first, "2001:db8:1:1::/64", more...)
		is("after the reload", in(1024+2016), second, "2001:db8:1::/64", more...)
		is("after the reload", in(1024+4032), second, "2001:db8:1:1::/64", more...)
		is("while weft does not run", in(1024+4032), meanwhile, "2001:db8:1:1::/64", more...)
		is("after the restart", in(1024+4032), third, "2001:db8:0:ffe2::/64", more...)
		is("what is static", in(7007), second, "[2001:db8:1::2]:7007", more...)
		is("without blocks", in(1024+4032), fourth, "", more...)
		is("without blocks", free, fourth, "[2001:db8:1::2]:5003", more...)
	}
	eventually(t, "the binding without blocks is written down", func() bool {
		nodes, _ := w.had(free, time.Now())
		return len(nodes) == 1
	})
	check()
	if _, rows := w.had(in(1024+4032), second); len(rows) != 1 || rows[0]["from"] == nil || rows[0]["until"] == nil || rows[0]["note"] == "" {
		t.Errorf("when the blocks were in force is not said: %v", rows)
	}

	// and back to blocks: what was bound without them is over
	w.write(with("2001:db8:1::/59", 2016))
	r.reload()
	fifth := moment()
	is("with blocks again", free, fifth, func() string {
		block := (int(free.Port()) - 1024) / 2016
		return fmt.Sprintf("2001:db8:1:%x::/64", block)
	}(), "--protocol", "udp")
	r.stop()
	check("--file", log)
}

func TestFlushEndsWhatItIsToldAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newStatefulTopology(t, "")
	w.start()
	first, second := w.opens(5001), w.opens(5002)
	for _, c := range []struct{ args, says string }{
		{"flush bib", "--all"},
		{"flush bib --all --port 5001", "--all"},
		{"flush bib --translator mian", "there are: main"},
		{"flush nat-sessions --protocol sctp", "none of tcp"},
		{"flush bibs", "did you mean bib"},
	} {
		if out, err := w.weft(strings.Fields(c.args)...); err == nil || !strings.Contains(out, c.says) {
			t.Errorf("weft %s says %q (%v), not %q", c.args, out, err, c.says)
		}
	}
	if out, err := w.weft("flush", "bib", "--ipv4", first.Addr().String(), "--port", fmt.Sprint(first.Port()), "--json"); err != nil || strings.TrimSpace(out) != `{"sessions_ended":1}` {
		t.Errorf("%v: %s", err, out)
	}
	var left []string
	for _, row := range w.rows("bib") {
		if row["static"] == false {
			left = append(left, row["ipv4"].(string))
		}
	}
	if len(left) != 1 || left[0] != second.String() {
		t.Errorf("left are %v, want %s", left, second)
	}
	if out, err := w.weft("flush", "nat-sessions", "--port", "9"); err != nil || !strings.HasPrefix(out, "1 sessions") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSubscribersAreCounted(t *testing.T) {
	t.Parallel()
	w := newTopology(t, statefulTOML(fmt.Sprintf(ends, "", ""), 65536)+"count_subscribers = true\nports_per_subscriber = 2\n")
	w.run(w.server, "ip route add 192.0.2.1/32 via 198.51.100.1")
	w.start()
	w.pings(w.member, serverFrom6)
	first := w.rows("nat-subscribers")[0]
	if first["subscriber"] != "2001:db8:1::/64" || first["ports"] != 1.0 || first["sessions"] != 1.0 || first["refused"] != 0.0 {
		t.Errorf("after a ping: %v", first)
	}
	if n := first["packets_6to4"].(float64); n < 1 || first["packets_4to6"] != n || first["bytes_4to6"].(float64) != first["bytes_6to4"].(float64)+20*n {
		t.Errorf("packets and bytes of a ping: %v", first)
	}
	w.opens(5001)
	// a refused packet on its way to the slow path, which answers and counts it, may be lost
	eventually(t, "the third port is refused", func() bool {
		err := w.member.Do(func() error {
			conn, err := net.DialUDP("udp6", &net.UDPAddr{Port: 5002}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(serverFrom6), 9)))
			if err == nil {
				_, err = conn.Write([]byte("one too many"))
				conn.Close()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return w.rows("nat-subscribers")[0]["refused"].(float64) >= 1
	})
	if row := w.rows("nat-subscribers")[0]; row["ports"] != 2.0 || row["packets_6to4"].(float64) != first["packets_6to4"].(float64)+1 {
		t.Errorf("after three: %v", row)
	}
}
