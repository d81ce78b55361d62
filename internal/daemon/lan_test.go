package daemon_test

// Router advertisements and DHCPv6 on a link, and what happens to them when the
// daemon stops, is killed, reloads or is unloaded. The member is a host with a stock
// kernel.

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/lab/netspace"
	"weft/internal/testbin"
	"weft/wire/dhcp6"
)

const quickly = "max_interval = \"4s\"\n"

// hasRouter reports whether a host has a default router by advertisement.
func (w *topology) hasRouter(s *netspace.Space) bool {
	return strings.Contains(w.run(s, "ip -6 route show default proto ra"), "via fe80::")
}

func TestHostsKeepTheirRouterWhenTheDaemonDiesAndAreToldWhenItIsUnloaded(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual()+"[ra.lan]\n"+quickly)
	r := w.start()
	eventually(t, "the member has a router", func() bool { return w.hasRouter(w.member) })
	eventually(t, "the member has an address by SLAAC", func() bool {
		return strings.Contains(w.run(w.member, "ip -6 addr show dev eth0 scope global"), "mngtmpaddr")
	})
	r.kill()
	if !w.hasRouter(w.member) {
		t.Error("kill -9 took the router away")
	}
	r = w.start()
	r.stop()
	if !w.hasRouter(w.member) {
		t.Error("stopping took the router away, though it forwards on")
	}
	if out, err := w.weft("unload"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "the member has no router any more", func() bool { return !w.hasRouter(w.member) })
}

func TestHostsAreToldWhenTheSectionGoesAndWhenAPrefixDoes(t *testing.T) {
	t.Parallel()
	prefixes := func(p string) string { return fmt.Sprintf("[ra.lan]\nprefixes = [{ prefix = %q }]\n%s", p, quickly) }
	w := newTopology(t, usual()+prefixes("2001:db8:5::/64"))
	r := w.start()
	address := func(p, flag string) bool {
		for line := range strings.Lines(w.run(w.member, "ip -6 addr show dev eth0 scope global")) {
			if strings.Contains(line, p) && strings.Contains(line, flag) {
				return true
			}
		}
		return false
	}
	eventually(t, "an address of the first prefix", func() bool { return address("2001:db8:5:", "mngtmpaddr") })
	w.write(usual() + prefixes("2001:db8:6::/64"))
	r.kill() // the next process knows what this one had said
	r = w.start()
	eventually(t, "the first prefix is deprecated", func() bool { return address("2001:db8:5:", "deprecated") })
	eventually(t, "an address of the second prefix", func() bool { return address("2001:db8:6:", "mngtmpaddr") })
	w.write(usual())
	r.reload()
	eventually(t, "the member has no router any more", func() bool { return !w.hasRouter(w.member) })
}

const zone = `example. 600 IN SOA ns.example. root.example. 1 3600 600 86400 60
www.example. 60 IN A 198.51.100.9
ipv4only.arpa. 60 IN AAAA 2001:db8:64::192.0.0.170
`

// serveNames starts the lab's name server on the server.
func (w *topology) serveNames() {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "zone")
	if err := os.WriteFile(file, []byte(zone), 0o644); err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(testbin.Weft(w.t), "probe", "names", file)
	if err := w.server.Start(c); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	q := new(dns.Msg)
	q.SetQuestion("www.example.", dns.TypeA)
	eventually(w.t, "the lab's name server answers", func() bool {
		err := w.server.Do(func() error { _, err := dns.Exchange(q, "198.51.100.9:53"); return err })
		return err == nil
	})
}

// asks sends one question on a connection, or over UDP if there is none.
func (w *topology) asks(s *netspace.Space, conn *dns.Conn, name string) (m *dns.Msg, err error) {
	q := new(dns.Msg)
	q.SetQuestion(name, dns.TypeAAAA)
	if conn == nil {
		err = s.Do(func() error {
			if conn, err = dns.DialTimeout("udp", "[2001:db8:1::1]:53", 5*time.Second); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		defer conn.Close()
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if err := conn.WriteMsg(q); err != nil {
		return nil, err
	}
	return conn.ReadMsg()
}

// made reports whether the answer has the address that DNS64 makes.
func made(m *dns.Msg, prefix string) bool {
	want := netip.MustParseAddr(prefix + "c633:6409")
	for _, rr := range m.Answer {
		if a, is := rr.(*dns.AAAA); is && netip.MustParseAddr(a.AAAA.String()) == want {
			return true
		}
	}
	return false
}

const nameServer = "[dns64]\ninterfaces = [\"lan\"]\nforwarders = [\"198.51.100.9\"]\n"

func TestTheNameServerAnswersAndAReloadKeepsItsConnections(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual()+nameServer)
	w.serveNames()
	r := w.start()
	m, err := w.asks(w.member, nil, "www.example.")
	if err != nil || !made(m, "64:ff9b:1::") {
		t.Fatalf("%v %v\n%s", m, err, r.log)
	}
	var conn *dns.Conn
	err = w.member.Do(func() (err error) {
		conn, err = dns.DialTimeout("tcp", "[2001:db8:1::1]:53", 5*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w.write(usual() + nameServer + "prefixes = [\"2001:db8:9::/96\"]\n")
	r.reload()
	if m, err = w.asks(w.member, conn, "www.example."); err != nil || !made(m, "2001:db8:9::") {
		t.Errorf("%v %v", m, err)
	}
	out, err := w.weft("show", "dns64")
	if err != nil || !strings.Contains(out, "synthesized   2 ") || !strings.Contains(out, "\n198.51.100.9 ") {
		t.Errorf("%v\n%s", err, out)
	}
	w.write(usual())
	r.reload()
	if _, err := w.asks(w.member, conn, "www.example."); err == nil {
		t.Error("it answers though the section is gone")
	}
	r.stop()
}

func TestAPortThatSomebodyHasIsToldAndTakenWhenItIsFree(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual()+nameServer)
	w.serveNames()
	var squatter net.PacketConn
	err := w.router.Do(func() (err error) {
		squatter, err = net.ListenPacket("udp", "[::]:53")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := w.start()
	eventually(t, "it says so", func() bool { return strings.Contains(r.log.String(), "address already in use") })
	w.pings(w.member, serverFrom6) // all else works
	squatter.Close()
	eventually(t, "it answers", func() bool {
		m, err := w.asks(w.member, nil, "www.example.")
		return err == nil && made(m, "64:ff9b:1::")
	})
}

// dhcp exchanges one message with the router's DHCPv6. Each has a transaction of
// its own: what is asked again because the answer is late is answered twice, and
// the second one comes when the next message is sent.
func (w *topology) dhcp(m *dhcp6.Message) *dhcp6.Message {
	w.t.Helper()
	m.Transaction[2]++
	var conn net.PacketConn
	err := w.member.Do(func() (err error) {
		conn, err = net.ListenPacket("udp6", "[::]:546")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	b, err := m.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	index := 0
	err = w.member.Do(func() error {
		i, err := net.InterfaceByName("eth0")
		index = i.Index
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	to := &net.UDPAddr{IP: net.ParseIP("ff02::1:2"), Port: 547, Zone: fmt.Sprint(index)}
	answer := make([]byte, 2000)
	for range 40 { // as a client would, until there is an answer
		if _, err := conn.WriteTo(b, to); err != nil {
			w.t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		n, _, err := conn.ReadFrom(answer)
		if err != nil {
			continue
		}
		reply, err := dhcp6.Parse(answer[:n])
		if err != nil {
			w.t.Fatal(err)
		}
		if reply.Transaction != m.Transaction {
			continue
		}
		return reply
	}
	w.t.Fatalf("no answer to %v", m.Type)
	return nil
}

func TestADelegatedPrefixOutlivesAKillAndGoesWithUnload(t *testing.T) {
	t.Parallel()
	leases := filepath.Join(t.TempDir(), "leases")
	w := newTopology(t, usual()+fmt.Sprintf("[ra.lan]\n%sdhcpv6 = \"stateful\"\ndelegate = [\"2001:db8:100::/48\"]\nleases = %q\n", quickly, leases))
	r := w.start()
	m := &dhcp6.Message{Type: dhcp6.Solicit, Transaction: [3]byte{1, 2, 3}, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 9}, Prefixes: []dhcp6.IA{{ID: [4]byte{1}}}}
	offer := w.dhcp(m)
	m.Type, m.ServerID, m.Prefixes = dhcp6.Request, offer.ServerID, offer.Prefixes
	got := w.dhcp(m).Prefixes[0].Leases[0].Prefix
	routed := func() bool {
		out := w.run(w.router, "ip -6 route show proto 88")
		return strings.Contains(out, got.String()+" via fe80::") && strings.Contains(out, "unreachable 2001:db8:100::/48")
	}
	if !routed() {
		t.Errorf("%s is not routed", got)
	}
	r.kill()
	if !routed() {
		t.Error("the route went with the daemon")
	}
	r = w.start()
	if !routed() {
		t.Error("the next daemon took the route away")
	}
	m.Type = dhcp6.Renew
	if again := w.dhcp(m).Prefixes; len(again) != 1 || len(again[0].Leases) != 1 || again[0].Leases[0].Prefix != got {
		t.Errorf("it is not known any more: %+v", again)
	}
	out, err := w.weft("show", "ra")
	if err != nil || !strings.Contains(out, got.String()) {
		t.Errorf("%v\n%s", err, out)
	}
	m.Type = dhcp6.Release
	w.dhcp(m)
	if routed() {
		t.Error("released, it is still routed")
	}
	r.stop()
	if out, err := w.weft("unload"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := w.run(w.router, "ip -6 route show proto 88"); out != "" {
		t.Errorf("unload leaves\n%s", out)
	}
}

// Hosts are served though their leases cannot be written, or the file was damaged.
func TestHostsAreServedWithoutAFileOfLeases(t *testing.T) {
	t.Parallel()
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, bytes.Repeat([]byte{7}, 40000), 0o600); err != nil {
		t.Fatal(err)
	}
	for leases, because := range map[string]string{filepath.Join(blocked, "leases"): "not a directory", blocked: "is set aside as " + blocked + ".damaged"} {
		w := newTopology(t, usual()+fmt.Sprintf("[ra.lan]\n%sdhcpv6 = \"stateful\"\ndelegate = [\"2001:db8:100::/48\"]\nleases = %q\n", quickly, leases))
		r := w.start()
		eventually(t, "the member has a router", func() bool { return w.hasRouter(w.member) })
		m := &dhcp6.Message{Type: dhcp6.Solicit, Transaction: [3]byte{1, 2, 3}, ClientID: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 9}, Prefixes: []dhcp6.IA{{ID: [4]byte{1}}}}
		offer := w.dhcp(m)
		m.Type, m.ServerID, m.Prefixes = dhcp6.Request, offer.ServerID, offer.Prefixes
		if got := w.dhcp(m).Prefixes; len(got) != 1 || len(got[0].Leases) != 1 {
			t.Errorf("%s: nothing is delegated: %+v", because, got)
		}
		list := w.ailing()
		if len(list) != 1 || list[0].Feature != "ra" || !strings.Contains(list[0].Because, because) {
			t.Errorf("health: %+v, want %q\n%s", list, because, r.log)
		}
	}
}

func TestUnloadGoesThroughThoughADeviceIsDown(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual()+"[ra.lan]\n"+quickly)
	r := w.start()
	eventually(t, "the member has a router", func() bool { return w.hasRouter(w.member) })
	r.kill()
	w.run(w.router, "ip link set lan down")
	if out, err := w.weft("unload"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := w.weft("unload"); err != nil || strings.Contains(out, "remove") {
		t.Errorf("the second time: %v\n%s", err, out)
	}
}

func TestACLATKnowsItsTranslatorAfterAKill(t *testing.T) {
	t.Parallel()
	w := newTopology(t, fmt.Sprintf(ends, "", "")+`
[nat64.home]
mode = "clat"
interfaces = ["lan", "wan"]
clat_prefix = "2001:db8:1:c1a7::/96"
ipv4_nodes = ["192.0.2.0/24"]
discover = "dns"
resolvers = ["198.51.100.9"]
`)
	r := w.start()
	w.planIsEmpty() // and there is no server yet
	w.serveNames()
	eventually(t, "IPv4 goes to the translator", func() bool {
		out, err := w.try(w.router, "ip route get 203.0.113.1")
		return err == nil && strings.Contains(out, "nat64-home")
	})
	eventually(t, "the plan knows it, too", func() bool {
		out, err := w.weft("plan", w.file, "--json")
		return err == nil && strings.TrimSpace(out) == "[]"
	})
	r.kill()
	r = w.start()
	if r.applied() {
		t.Errorf("the next daemon changed something:\n%s", r.log.String())
	}
	w.planIsEmpty()
	r.stop()
	if out, err := w.weft("unload"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := w.run(w.router, "ip route show 0.0.0.0/1"); out != "" {
		t.Errorf("unload leaves\n%s", out)
	}
}
