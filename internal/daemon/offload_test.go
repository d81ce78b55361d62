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

func newHome(t *testing.T, hook, rules string) *world {
	t.Helper()
	w := &world{t: t, member: spacetest.New(t, "member"), router: spacetest.New(t, "router"), server: spacetest.New(t, "server")}
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
func (w *world) echo(s *netspace.Space, network, address string) {
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
				go func() { io.Copy(c, c); c.Close() }()
			}
		}()
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// talk is a connection that says things and hears them again.
type talk struct {
	net.Conn
	t *testing.T
}

func (w *world) talk(s *netspace.Space, network, address string) *talk {
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
func (c *talk) exchange(n int, each time.Duration) (heard int) {
	b := make([]byte, 64)
	for i := range n {
		said := fmt.Sprintf("%064d", i)
		c.SetDeadline(time.Now().Add(each))
		if _, err := io.WriteString(c, said); err != nil {
			continue
		}
		if _, err := io.ReadFull(c, b); err == nil && string(b) == said {
			heard++
		}
	}
	return heard
}

// offloads runs a conversation until its packets go past the stack.
func (w *world) offloads(c *talk) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			out, _ := w.weft("show", "offload")
			flows, _ := w.weft("show", "flows")
			w.t.Log(out, flows)
		}
	}()
	eventually(w.t, "packets are forwarded past the stack", func() bool {
		before := w.counted("forward-flow")
		if heard := c.exchange(20, 5*time.Second); heard != 20 {
			w.t.Fatalf("heard %d of 20", heard)
		}
		return w.counted("forward-flow") >= before+38
	})
}

func TestEstablishedConnectionsGoPastTheStack(t *testing.T) {
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

func TestWhatChangesTakesFlowsBack(t *testing.T) {
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
	w := newHome(t, "tc", homeRules)
	weft := w.start()
	w.echo(w.server, "tcp", ":7")
	c := w.talk(w.member, "tcp", "198.51.100.9:7")
	w.offloads(c)
	weft.kill()
	eventually(t, "the stack has the flow again", func() bool {
		before := w.counted("forward-flow")
		return c.exchange(5, 5*time.Second) == 5 && w.counted("forward-flow") == before
	})
	w.start()
	w.offloads(c)
}
