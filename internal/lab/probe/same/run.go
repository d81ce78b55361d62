package same

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Router is one of the two that are compared: the devices of this node that
// lead to it.
type Router struct {
	Name            string
	Six, Four       string           // devices, on the IPv6 side and on the IPv4 side
	SixMAC, FourMAC net.HardwareAddr // link addresses of the router behind them
}

// Outcome is the result of a case.
type Outcome struct {
	Name string
	Same bool
	Why  string      // of the case
	Left [2][]string // what left each router: side and hex
}

// The time without packets after which a case is complete: the results of a packet
// arrive within milliseconds, with some room for an emulated guest. The second
// router has had the first one's time already.
const (
	quietFirst  = 300 * time.Millisecond
	quietSecond = 100 * time.Millisecond
)

// Run sends every case through both routers, the slower one first, and passes on the
// results.
func Run(ctx context.Context, routers [2]Router, cases []Case, each func(Outcome)) error {
	var ports [2]*port
	for i, r := range routers {
		p, err := open(r)
		if err != nil {
			return err
		}
		defer p.close()
		ports[i] = p
	}
	for _, c := range cases {
		o := Outcome{Name: c.Name, Why: c.Why}
		for _, p := range ports {
			if err := p.send(c.Packet); err != nil {
				return fmt.Errorf("send %q: %w", c.Name, err)
			}
		}
		for i, quiet := range []time.Duration{quietFirst, quietSecond} {
			left, err := ports[i].collect(ctx, quiet)
			if err != nil {
				return err
			}
			o.Left[i] = left
		}
		o.Same = slices.Equal(o.Left[0], o.Left[1])
		each(o)
	}
	return nil
}

// port is the two devices that lead to a router.
type port struct {
	router Router
	fd     [2]int // IPv6 side, IPv4 side
	to     [2]unix.SockaddrLinklayer
	header [2][]byte
}

func open(r Router) (*port, error) {
	p := &port{router: r, fd: [2]int{-1, -1}}
	for i, device := range []string{r.Six, r.Four} {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", device, err)
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("open packet socket: %w", err)
		}
		p.fd[i] = fd
		all := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00)
		p.to[i] = unix.SockaddrLinklayer{Protocol: all, Ifindex: d.Index}
		if err := unix.Bind(fd, &p.to[i]); err != nil {
			return nil, fmt.Errorf("bind packet socket to %s: %w", device, err)
		}
		gate := r.SixMAC
		if i == 1 {
			gate = r.FourMAC
		}
		p.header[i] = append(bytes.Clone(gate), d.HardwareAddr...)
	}
	return p, nil
}

func (p *port) close() {
	for _, fd := range p.fd {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (p *port) send(packet []byte) error {
	side, kind := 0, []byte{0x86, 0xdd}
	if packet[0]>>4 == 4 {
		side, kind = 1, []byte{0x08, 0x00}
	}
	frame := append(append(bytes.Clone(p.header[side]), kind...), packet...)
	return unix.Sendto(p.fd[side], frame, 0, &p.to[side])
}

// collect reads what comes on either side until it is quiet, in order.
func (p *port) collect(ctx context.Context, quiet time.Duration) ([]string, error) {
	var left []string
	buffer := make([]byte, 1<<16)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(p.fd[0]), Events: unix.POLLIN}, {Fd: int32(p.fd[1]), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(quiet.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("wait for packets: %w", err)
		}
		if n == 0 {
			slices.Sort(left) // two sides have no common order
			return left, nil
		}
		for i, name := range []string{"v6", "v4"} {
			if fds[i].Revents == 0 {
				continue
			}
			n, from, err := unix.Recvfrom(p.fd[i], buffer, 0)
			if err != nil {
				return nil, fmt.Errorf("read packets: %w", err)
			}
			ll, _ := from.(*unix.SockaddrLinklayer)
			if ll != nil && ll.Pkttype == unix.PACKET_HOST && n > 14 && !chatter(buffer[14:n], buffer[12:14]) {
				left = append(left, fmt.Sprintf("%s %x", name, Normal(buffer[14:n])))
			}
		}
	}
	return nil, context.Cause(ctx)
}

// chatter tells neighbour discovery and ARP from the rest.
func chatter(ip, kind []byte) bool {
	switch {
	case kind[0] == 0x08 && kind[1] == 0x06:
		return true
	case kind[0] == 0x86 && len(ip) > 40 && ip[6] == icmp6:
		return ip[40] >= 130 && ip[40] <= 137 || ip[40] == 143
	}
	return false
}

// Normal returns a packet without the fields that routers may choose: link padding,
// the identification of IPv4 packets and of quoted ones, the precedence of IPv4
// errors, the flow label of IPv6 errors, and the checksums that cover those.
func Normal(ip []byte) []byte {
	ip = bytes.Clone(ip)
	if len(ip) < 20 || ip[0]>>4 != 4 {
		if len(ip) >= 40 {
			ip = ip[:min(len(ip), 40+(int(ip[4])<<8|int(ip[5])))]
		}
		if len(ip) > 40 && ip[6] == icmp6 && ip[40] < 128 {
			ip[1] &= 0xf0
			clear(ip[2:4])
		}
		return ip
	}
	ip = ip[:min(len(ip), int(ip[2])<<8|int(ip[3]))]
	clear(ip[4:6])
	clear(ip[10:12])
	if ip[9] == icmp4 && len(ip) >= 48 && slices.Contains([]byte{3, 11, 12}, ip[20]) {
		ip[1] = 0
		clear(ip[22:24])
		clear(ip[32:34])
		clear(ip[38:40])
	}
	return ip
}
