package daemon_test

// Established connections past the stack, through a real ruleset:
//
//	member eth0 --- lan router wan --- eth0 server
//	10.0.0.2         (weft,             198.51.100.9
//	2001:db8:1::2     masquerade,       2001:db8:2::9
//	                  DNAT of 8080)

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
)

const homeRules = `
table inet home {
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname "lan" oifname "wan" accept
		ct status dnat accept
	}
	chain srcnat {
		type nat hook postrouting priority srcnat;
		oifname "wan" meta nfproto ipv4 masquerade
	}
	chain dstnat {
		type nat hook prerouting priority dstnat;
		iifname "wan" tcp dport 8080 dnat ip to 10.0.0.2:80
	}
}
`

const homeFile = `
[router]
forwarding = true
[interface.lan]
addresses = ["10.0.0.1/24", "2001:db8:1::1/64"]
hook = "%[1]s"
[interface.wan]
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
hook = "%[1]s"
[offload]
interfaces = ["lan", "wan"]
protocols = ["tcp", "udp", "icmp"]
minimum_packets = 2
`

func newHome(t *testing.T, hook, rules string) *topology {
	t.Helper()
	w := &topology{t: t, member: spacetest.New(t, "member"), router: spacetest.New(t, "router"), server: spacetest.New(t, "server")}
	w.file = t.TempDir() + "/weft.toml"
	t.Cleanup(func() {
		if err := w.place().Remove(); err != nil {
			t.Error(err)
		}
	})
	w.cable("lan", w.member)
	w.cable("wan", w.server)
	w.run(w.member, "ip addr add 10.0.0.2/24 dev eth0")
	w.run(w.member, "ip addr add 2001:db8:1::2/64 dev eth0 nodad")
	w.run(w.member, "ip route add default via 10.0.0.1")
	w.run(w.member, "ip -6 route add default via 2001:db8:1::1")
	w.run(w.server, "ip addr add 198.51.100.9/24 dev eth0")
	w.run(w.server, "ip addr add 2001:db8:2::9/64 dev eth0 nodad")
	w.run(w.server, "ip -6 route add default via 2001:db8:2::1")
	for _, s := range []*netspace.Space{w.member, w.server} {
		// XDP hands frames to a veth whose end has NAPI, and wants whole checksums
		w.run(s, "ethtool -K eth0 gro on tx off")
	}
	w.feed(w.router, rules, "nft -f -")
	w.write(fmt.Sprintf(homeFile, hook))
	return w
}

// echo answers in a namespace; datagrams and streams.
func (w *topology) echo(s *netspace.Space, network, address string) {
	w.t.Helper()
	err := s.Do(func() error {
		if strings.HasPrefix(network, "udp") {
			c, err := net.ListenPacket(network, address)
			if err != nil {
				return err
			}
			w.t.Cleanup(func() { c.Close() })
			go func() {
				b := make([]byte, 2048)
				for {
					n, from, err := c.ReadFrom(b)
					if err != nil {
						return
					}
					c.WriteTo(b[:n], from)
				}
			}()
			return nil
		}
		return w.accept(network, address, func(c net.Conn) { io.Copy(c, c) })
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// accept serves each connection that comes to an address of the namespace that it is
// called in, and closes it then.
func (w *topology) accept(network, address string, serve func(net.Conn)) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return nil
}

// talk is a connection that says things and hears them again.
type talk struct {
	net.Conn
	t *testing.T
}

func (w *topology) talk(s *netspace.Space, network, address string) *talk {
	w.t.Helper()
	var c net.Conn
	err := s.Do(func() (err error) {
		c, err = net.DialTimeout(network, address, 10*time.Second)
		return err
	})
	if err != nil {
		w.t.Fatalf("dial %s: %v", address, err)
	}
	w.t.Cleanup(func() { c.Close() })
	return &talk{c, w.t}
}

// exchange says something n times and hears it again; it gives how often that
// succeeded within the time for each.
func (c *talk) exchange(n int, each time.Duration) (received int) {
	b := make([]byte, 64)
	for i := range n {
		said := fmt.Sprintf("%064d", i)
		c.SetDeadline(time.Now().Add(each))
		if _, err := io.WriteString(c, said); err != nil {
			continue
		}
		if _, err := io.ReadFull(c, b); err == nil && string(b) == said {
			received++
		}
	}
	return received
}

// offloads runs a conversation until its packets go past the stack.
func (w *topology) offloads(c *talk) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			out, _ := w.weft("show", "offload", "--wide")
			flows, _ := w.weft("show", "flows", "--wide")
			w.t.Log(out, flows)
		}
	}()
	eventually(w.t, "packets are forwarded past the stack", func() bool {
		before := w.counted("forward-flow")
		if received := c.exchange(20, patience); received != 20 {
			w.t.Fatalf("heard %d of 20", received)
		}
		return w.counted("forward-flow") >= before+38
	})
}

func TestEstablishedConnectionsGoPastTheStack(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newHome(t, hook, homeRules)
			w.start()
			w.echo(w.server, "tcp", ":7")
			w.echo(w.server, "udp", "198.51.100.9:7")
			w.echo(w.server, "udp6", "[2001:db8:2::9]:7")
			w.echo(w.member, "tcp", ":80")
			for _, c := range []struct {
				name, network, address string
				from                   *netspace.Space
			}{
				{"TCP behind NAT", "tcp", "198.51.100.9:7", w.member},
				{"UDP behind NAT", "udp", "198.51.100.9:7", w.member},
				{"TCP of IPv6", "tcp", "[2001:db8:2::9]:7", w.member},
				{"UDP of IPv6", "udp", "[2001:db8:2::9]:7", w.member},
				{"TCP to a forwarded port", "tcp", "198.51.100.1:8080", w.server},
			} {
				t.Run(c.name, func(t *testing.T) {
					w.offloads(w.talk(c.from, c.network, c.address))
				})
			}
			if out, err := w.try(w.member, "ping -c 30 -i 0.02 198.51.100.9"); err != nil {
				t.Errorf("echoes are lost: %v\n%s", err, out)
			}
		})
	}
}

// The ruleset marks a connection, and a rule has its packets routed by another table:
// several uplinks are done so.
func TestConnectionsThatAreRoutedByTheirMark(t *testing.T) {
	t.Parallel()
	w := newHome(t, "tc", homeRules+`
table inet uplinks {
	chain marks {
		type filter hook prerouting priority mangle;
		ct state new ip daddr 203.0.113.0/24 ct mark set 2
		meta mark set ct mark
	}
}`)
	w.run(w.router, "ip rule add fwmark 2 lookup 200")
	w.start()
	w.run(w.router, "ip route add 203.0.113.0/24 via 198.51.100.9 table 200")
	w.run(w.router, "ip route add unreachable 203.0.113.0/24")
	w.run(w.server, "ip addr add 203.0.113.9/32 dev eth0")
	w.echo(w.server, "tcp", ":7")
	c := w.talk(w.member, "tcp", "203.0.113.9:7")
	w.offloads(c)
	w.run(w.router, "ip route replace blackhole 203.0.113.0/24 table 200")
	eventually(t, "the blackhole takes the packets", func() bool { return c.exchange(1, 200*time.Millisecond) == 0 })
	// what the server sends again still reaches the member, past the stack too
	if c.exchange(3, 200*time.Millisecond) != 0 {
		t.Error("it goes on without the route")
	}
}

func TestWhatChangesTakesFlowsBack(t *testing.T) {
	t.Parallel()
	w := newHome(t, "tc", homeRules)
	w.start()
	w.echo(w.server, "tcp", ":7")
	c := w.talk(w.member, "tcp", "198.51.100.9:7")
	w.offloads(c)
	forbidden := func(what string) {
		t.Helper()
		eventually(t, what, func() bool { return c.exchange(1, 200*time.Millisecond) == 0 })
	}
	t.Run("a neighbour that moves", func(t *testing.T) {
		w.run(w.server, "ip link set eth0 address 02:00:00:00:00:99")
		w.run(w.server, "ip neigh flush dev eth0")
		w.run(w.router, "ip neigh replace 198.51.100.9 lladdr 02:00:00:00:00:99 dev wan nud reachable")
		w.offloads(c)
	})
	t.Run("a route that changes", func(t *testing.T) {
		w.run(w.router, "ip route add blackhole 198.51.100.9/32")
		forbidden("the blackhole takes the packets")
		w.run(w.router, "ip route del blackhole 198.51.100.9/32")
		c = w.talk(w.member, "tcp", "198.51.100.9:7")
		w.offloads(c)
	})
	t.Run("a ruleset that changes", func(t *testing.T) {
		w.run(w.router, "nft insert rule inet home forward ip daddr 198.51.100.9 drop")
		forbidden("the rule drops the packets")
		w.run(w.router, "nft flush ruleset")
		w.feed(w.router, homeRules, "nft -f -")
		c = w.talk(w.member, "tcp", "198.51.100.9:7")
		w.offloads(c)
	})
	t.Run("a connection that is deleted", func(t *testing.T) {
		w.run(w.router, "nft insert rule inet home forward ct state new drop")
		c2 := c
		w.offloads(c2)
		w.run(w.router, "conntrack -D -p tcp --dport 7")
		forbidden("connection tracking knows it no more")
	})
	t.Run("weft that ends", func(t *testing.T) {
		w.run(w.router, "nft flush ruleset")
		w.feed(w.router, homeRules, "nft -f -")
		c = w.talk(w.member, "tcp", "198.51.100.9:7")
		w.offloads(c)
	})
}

func TestFlowsAreTheStacksWithoutWeft(t *testing.T) {
	t.Parallel()
	w := newHome(t, "tc", homeRules)
	weft := w.start()
	w.echo(w.server, "tcp", ":7")
	c := w.talk(w.member, "tcp", "198.51.100.9:7")
	w.offloads(c)
	weft.kill()
	eventually(t, "the stack has the flow again", func() bool {
		before := w.counted("forward-flow")
		return c.exchange(5, patience) == 5 && w.counted("forward-flow") == before
	})
	w.start()
	w.offloads(c)
}

// weft check tells what the host and its ruleset keep from being offloaded.
func TestCheckSaysWhatCannotBeOffloaded(t *testing.T) {
	t.Parallel()
	w := newHome(t, "tc", homeRules)
	if out, err := w.weft("check", w.file); err != nil || strings.Contains(out, "warning") {
		t.Errorf("%v\n%s", err, out)
	}
	w.run(w.router, "nft insert rule inet home forward limit rate 10/second accept")
	w.write(strings.NewReplacer(`interfaces = ["lan", "wan"]`, `interfaces = ["lan", "wan", "gone"]`, "[interface.wan]", "[interface.gone]\n[interface.wan]").Replace(fmt.Sprintf(homeFile, "tc")) + "early_drop = true\n")
	out, err := w.weft("check", w.file)
	for _, want := range []string{"it has a limit statement", "looks at each packet", "device gone does not exist: its flows are not offloaded", "may decide otherwise on the next packet", "below the rule that accepts established"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("check does not say %q: %v\n%s", want, err, out)
		}
	}
}

// A refused flow is dropped before the stack sees it, until the member talks to
// its sender: then all of the sender's packets come in.
func TestRefusedFlowsAreDroppedUntilTheyArePermitted(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newHome(t, hook, homeRules)
			w.write(fmt.Sprintf(homeFile, hook) + "early_drop = true\n")
			weft := w.start()
			w.echo(w.member, "udp6", "[2001:db8:1::2]:5000")
			knock := w.talk(w.server, "udp6", "[2001:db8:1::2]:5000")
			eventually(t, "what the ruleset refuses is dropped early", func() bool {
				if knock.exchange(3, 20*time.Millisecond) != 0 {
					t.Fatal("the ruleset lets it in")
				}
				return w.counted("drop-early") > 0
			})
			if out := w.mustWeft("show", "offload", "--wide"); !strings.Contains(out, "dropped early: udp") || !strings.Contains(out, "by policy of chain inet home forward") {
				t.Errorf("show offload says\n%s", out)
			}
			// the member punches a hole
			from := knock.LocalAddr().String()
			_, port, err := net.SplitHostPort(from)
			if err != nil {
				t.Fatal(err)
			}
			w.punch(w.member, "[2001:db8:1::2]:5001", "[2001:db8:2::9]:"+port) // another port: no hole
			if n := knock.exchange(2, 50*time.Millisecond); n != 0 {
				t.Errorf("%d packets came in by no hole", n)
			}
			second := w.talk(w.server, "udp6", "[2001:db8:1::2]:5002")
			eventually(t, "a second flow is dropped early", func() bool {
				before := w.counted("drop-early")
				second.exchange(3, 20*time.Millisecond)
				return w.counted("drop-early") >= before+3
			})
			_, port, _ = net.SplitHostPort(second.LocalAddr().String())
			done := w.punch(w.member, "[2001:db8:1::2]:5002", "[2001:db8:2::9]:"+port)
			second.SetDeadline(time.Now().Add(patience))
			if n, err := second.Read(make([]byte, 64)); n != 4 {
				t.Fatalf("the member's own packet: %d bytes, %v", n, err)
			}
			if n := second.exchange(5, patience); n != 5 {
				t.Errorf("%d of 5 packets came in after the member had talked to their sender", n)
			}
			done()
			weft.stop()
			w.mustWeft("unload")
			if out := w.run(w.router, "nft list tables"); strings.Contains(out, "weft") {
				t.Errorf("left behind: %s", out)
			}
		})
	}
}

// punch sends a datagram, and echoes what comes back from then on.
func (w *topology) punch(s *netspace.Space, from, to string) (done func()) {
	w.t.Helper()
	var c net.PacketConn
	err := s.Do(func() (err error) {
		if c, err = net.ListenPacket("udp6", from); err != nil {
			return err
		}
		addr, err := net.ResolveUDPAddr("udp6", to)
		if err == nil {
			_, err = c.WriteTo([]byte("open"), addr)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		b := make([]byte, 2048)
		for {
			n, back, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo(b[:n], back)
		}
	}()
	w.t.Cleanup(func() { c.Close() })
	return func() { c.Close() }
}

// Who talks to a refused sender by an interface that is none of [offload] gets
// the answers that come in by one that is.
func TestAnswersComeInWhereTheQuestionDidNotLeave(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newHome(t, hook, homeRules)
			w.run(w.router, "nft add rule inet home forward iifname lan oifname side accept")
			w.run(w.router, "ip link add side type veth peer name side0 netns "+w.server.Name)
			w.run(w.router, "ip link set side up")
			w.run(w.server, "ip link set side0 up")
			w.run(w.server, "ip addr add 2001:db8:9::9/64 dev side0 nodad")
			w.write(fmt.Sprintf(homeFile, hook) + "early_drop = true\n")
			w.start()
			w.run(w.router, "ip addr add 2001:db8:9::1/64 dev side nodad")
			w.run(w.router, "ip -6 route add 2001:db8:2::9/128 via 2001:db8:9::9")
			knock := w.talk(w.server, "udp6", "[2001:db8:1::2]:5000")
			eventually(t, "what the ruleset refuses is dropped early", func() bool {
				before := w.counted("drop-early")
				knock.exchange(3, 20*time.Millisecond)
				return w.counted("drop-early") >= before+3
			})
			_, port, _ := net.SplitHostPort(knock.LocalAddr().String())
			w.punch(w.member, "[2001:db8:1::2]:5000", "[2001:db8:2::9]:"+port)
			knock.SetDeadline(time.Now().Add(patience))
			if n, err := knock.Read(make([]byte, 64)); n != 4 {
				t.Fatalf("the member's own packet: %d bytes, %v", n, err)
			}
			if n := knock.exchange(5, patience); n != 5 {
				t.Errorf("%d of 5 packets came in after the member had talked to their sender", n)
			}
		})
	}
}

// Programs are loaded without the code for sections that the file does not have. A
// reload that adds a section, or removes one, loads them again, and flows continue.
func TestASectionThatAReloadAddsHasItsCode(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"tc", "xdp"} {
		t.Run(hook, func(t *testing.T) {
			w := newHome(t, hook, homeRules)
			weft := w.start()
			w.echo(w.server, "tcp", ":7")
			c := w.talk(w.member, "tcp", "198.51.100.9:7")
			w.offloads(c)
			home := fmt.Sprintf(homeFile, hook)
			w.write(home + "[guard.inside]\ninterfaces = [\"lan\"]\n")
			weft.reload()
			w.offloads(c)
			w.mustWeft("block", "10.0.0.2")
			eventually(t, "the guard drops what is blocked", func() bool { return c.exchange(1, 200*time.Millisecond) == 0 })
			if w.counted("drop-blocked") == 0 {
				t.Errorf("no drop was counted\n%s", w.mustWeft("show", "counters"))
			}
			w.mustWeft("unblock", "10.0.0.2")
			w.write(home)
			weft.reload()
			w.offloads(w.talk(w.member, "tcp", "198.51.100.9:7"))
		})
	}
}
