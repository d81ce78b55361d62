package dhcp4run

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/arpio"
	"weft/internal/dhcp4client"
	"weft/internal/dhcp4server"
	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/wire/dhcp4"
)

// The topology of each test: a server's and a client's namespace, joined by a veth pair.
//
//	srv [ lan 192.0.2.1/24 ] ------ [ wan ] cli
type pair struct {
	t        *testing.T
	srv, cli *netspace.Space
	ctx      context.Context
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, srv: spacetest.New(t, "srv"), cli: spacetest.New(t, "cli"), ctx: t.Context()}
	spacetest.Batch(t, p.srv, "link set lo up", "link add lan type veth peer name wan netns "+p.cli.Name, "address add 192.0.2.1/24 dev lan", "link set lan up")
	spacetest.Batch(t, p.cli, "link set lo up", "link set wan up")
	return p
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// wait waits for a condition, for a minute at most.
func (p *pair) wait(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("after a minute: not %s", what)
		}
	}
}

// output runs a program in a namespace.
func (p *pair) output(s *netspace.Space, args ...string) string {
	p.t.Helper()
	var out strings.Builder
	c := exec.CommandContext(p.ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &out
	if err := s.Start(c); err != nil {
		p.t.Fatal(err)
	}
	_ = c.Wait() // what it says is looked at
	return out.String()
}

func need(t *testing.T, program string) string {
	spacetest.NeedRoot(t)
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%v: tools/setup.sh test installs it", err)
	}
	return path
}

// start runs a server or a client, whose sockets are opened in a namespace.
func start[T interface{ Stop() }](p *pair, s *netspace.Space, f func(in func(func() error) error) T) T {
	x := f(s.Do)
	p.t.Cleanup(x.Stop)
	return x
}

func serverConfig() dhcp4server.Config {
	return dhcp4server.Config{
		Address: addr("192.0.2.1"), Authoritative: true,
		Subnets: []dhcp4server.Subnet{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Local: true, Ranges: []dhcp4server.Range{{First: addr("192.0.2.100"), Last: addr("192.0.2.149")}}}},
		Options: dhcp4.Options{dhcp4.Addresses(dhcp4.OptionRouter, addr("192.0.2.1")), dhcp4.Addresses(dhcp4.OptionDNS, addr("192.0.2.53")), dhcp4.Text(dhcp4.OptionDomain, "example.net")},
	}
}

func (p *pair) serve(config dhcp4server.Config, path string) *Server {
	return start(p, p.srv, func(in func(func() error) error) *Server {
		return StartServer(p.ctx, ServerSettings{Device: "lan", Config: config, Path: path, in: in})
	})
}

// leases is the server's table.
func (p *pair) leases(s *Server) (list []dhcp4server.Lease) {
	p.t.Helper()
	list, err := s.Leases(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// client starts our client, which puts its address on its device as the router does.
func (p *pair) client(change func(*ClientSettings)) (*Client, chan dhcp4client.Lease) {
	changes := make(chan dhcp4client.Lease, 100)
	settings := ClientSettings{Device: "wan", Config: dhcp4client.Config{HostName: "box"}}
	settings.Changed = func(l dhcp4client.Lease, ok bool) {
		p.output(p.cli, "ip", "address", "flush", "dev", "wan")
		if ok {
			p.output(p.cli, "ip", "address", "add", l.Address.String(), "dev", "wan")
		}
		changes <- l
	}
	if change != nil {
		change(&settings)
	}
	return start(p, p.cli, func(in func(func() error) error) *Client {
		settings.in = in
		return StartClient(p.ctx, settings)
	}), changes
}

func (p *pair) next(changes chan dhcp4client.Lease) dhcp4client.Lease {
	p.t.Helper()
	select {
	case l := <-changes:
		return l
	case <-time.After(time.Minute):
		p.t.Fatal("after a minute the lease is the same")
		return dhcp4client.Lease{}
	}
}

func TestOurClientAndOurServer(t *testing.T) {
	p := newPair(t)
	path := filepath.Join(t.TempDir(), "leases")
	config := serverConfig()
	config.LeaseTime, config.ShortestTime = 20*time.Second, 20*time.Second
	server := p.serve(config, path)
	client, changes := p.client(nil)
	l := p.next(changes)
	if l.Address.Bits() != 24 || l.Server != addr("192.0.2.1") || l.DNS[0] != addr("192.0.2.53") || l.Domain != "example.net" {
		t.Fatalf("%+v", l)
	}
	table := p.leases(server)
	if len(table) != 1 || table[0].Address != l.Address.Addr() || table[0].HostName != "box" {
		t.Fatalf("%+v", table)
	}
	if out := p.output(p.srv, "ping", "-c", "1", "-W", "20", l.Address.Addr().String()); !strings.Contains(out, "1 received") {
		t.Errorf("the client does not answer: %s", out)
	}
	// it renews by itself, from address to address
	if again := p.next(changes); again.Address != l.Address || !again.Obtained.After(l.Obtained) {
		t.Fatalf("%+v", again)
	}
	// a server that was restarted knows the lease, and the client keeps it
	server.Stop()
	server = p.serve(config, path)
	if err := client.Verify(p.ctx); err != nil {
		t.Fatal(err)
	}
	if again := p.next(changes); again.Address != l.Address || !again.Obtained.After(l.Obtained) {
		t.Errorf("%+v", again)
	}
	if err := client.Release(p.ctx); err != nil {
		t.Fatal(err)
	}
	for gone := p.next(changes); gone.Address.IsValid(); { // what was renewed before it
		gone = p.next(changes)
	}
	p.wait("released", func() bool { x := p.leases(server); return len(x) == 1 && x[0].State == dhcp4server.Released })
}

// A host that has an address without a lease keeps it: the server finds it, and so does a
// client whose server does not look.
func TestAnAddressThatAHostHas(t *testing.T) {
	p := newPair(t)
	config := serverConfig()
	config.NoProbe = true
	config.Subnets[0].Ranges[0].Last = addr("192.0.2.101")
	server := p.serve(config, "")
	spacetest.Batch(t, p.srv, "address add 192.0.2.100/32 dev lan", "address add 192.0.2.101/32 dev lan")
	_, changes := p.client(nil)
	p.wait("declined by the client", func() bool {
		return slices.ContainsFunc(p.leases(server), func(l dhcp4server.Lease) bool { return l.State == dhcp4server.Declined })
	})
	spacetest.Batch(t, p.srv, "address del 192.0.2.100/32 dev lan", "address del 192.0.2.101/32 dev lan")
	if l := p.next(changes); !l.Address.IsValid() {
		t.Errorf("%+v", l)
	}
	q := newPair(t)
	config.NoProbe = false
	server = q.serve(config, "")
	spacetest.Batch(t, q.cli, "address add 192.0.2.100/24 dev wan")
	_, changes = q.client(func(s *ClientSettings) { s.Config.NoProbe = true })
	if l := q.next(changes); l.Address.Addr() != addr("192.0.2.101") {
		t.Errorf("the client has %s", l.Address)
	}
	// .100 is looked at only if it came first
	for _, l := range q.leases(server) {
		if l.Address == addr("192.0.2.100") && l.State != dhcp4server.Declined {
			t.Errorf("%+v", l)
		}
	}
}

// Busybox's udhcpc and ISC dhclient take leases of our server; with and without broadcast.
func TestStockClients(t *testing.T) {
	udhcpc, dhclient := need(t, "udhcpc"), need(t, "dhclient")
	p := newPair(t)
	server := p.serve(serverConfig(), "")
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	text := "#!/bin/sh\n[ \"$1\" = bound ] && echo \"udhcpc $ip/$mask router $router dns $dns domain $domain\"\nexit 0\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, flags := range [][]string{{}, {"-B"}, {"-x", "hostname:busy"}, {"-C"}} {
		out := p.output(p.cli, append([]string{udhcpc, "-f", "-n", "-q", "-t", "20", "-T", "3", "-i", "wan", "-s", script}, flags...)...)
		if !strings.Contains(out, "/24 router 192.0.2.1 dns 192.0.2.53 domain example.net") {
			t.Errorf("udhcpc %v (%d): %s", flags, i, out)
		}
	}
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte("send host-name \"isc\";\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(p.ctx, dhclient, "-4", "-d", "-sf", "/bin/true", "-lf", filepath.Join(dir, "lease"), "-pf", filepath.Join(dir, "pid"), "-cf", conf, "wan")
	if err := p.cli.Start(c); err != nil {
		t.Fatal(err)
	}
	p.wait("a lease of dhclient", func() bool {
		return slices.ContainsFunc(p.leases(server), func(l dhcp4server.Lease) bool { return l.HostName == "isc" })
	})
	if !slices.ContainsFunc(p.leases(server), func(l dhcp4server.Lease) bool { return l.HostName == "busy" }) {
		t.Errorf("%+v", p.leases(server))
	}
}

// Our client takes a lease of dnsmasq, with what it says, and renews it.
func TestDnsmasq(t *testing.T) {
	dnsmasq := need(t, "dnsmasq")
	p := newPair(t)
	dir := t.TempDir()
	var log strings.Builder
	c := exec.CommandContext(p.ctx, dnsmasq, "--keep-in-foreground", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=lan", "--bind-interfaces", "--user=root", "--log-dhcp",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"), "--dhcp-range=192.0.2.100,192.0.2.120,2m",
		"--dhcp-option=option:domain-search,lan.example.net,example.net", "--dhcp-option=121,198.51.100.0/24,192.0.2.1,0.0.0.0/0,192.0.2.1",
		"--dhcp-option=option:mtu,1400", "--dhcp-option=option:ntp-server,192.0.2.123", "--dhcp-ignore=tag:!provider", "--dhcp-vendorclass=set:provider,provider-box")
	c.Stdout, c.Stderr = &log, &log
	if err := p.srv.Start(c); err != nil {
		t.Fatal(err)
	}
	_, changes := p.client(func(s *ClientSettings) { s.Config.VendorClass = "provider-box" })
	l := p.next(changes)
	if l.Address.Bits() != 24 || l.Server != addr("192.0.2.1") || l.MTU != 1400 || len(l.Routes) != 2 || len(l.Routers) != 0 || len(l.NTP) != 1 ||
		fmt.Sprint(l.Search) != "[lan.example.net example.net]" || l.Ends.Sub(l.Obtained) != 2*time.Minute {
		t.Fatalf("%+v", l)
	}
}

// A probe of RFC 5227 finds a host, and an announcement is received.
func TestARP(t *testing.T) {
	p := newPair(t)
	var near, far *arpio.Conn
	err := p.srv.Do(func() (err error) { near, err = arpio.Open("lan"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := p.cli.Do(func() (err error) { far, err = arpio.Open("wan"); return err }); err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if err := far.Probe(addr("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := far.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if got.Conflicts(addr("192.0.2.1"), far.Hardware()) {
			break
		}
	}
	if err := far.Announce(addr("192.0.2.9")); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := near.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if got.From == addr("192.0.2.9") && got.FromHardware == far.Hardware() {
			return
		}
	}
}
