package rig

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

const (
	// pacedPort is that of the first server, beside iperfPort, and pacedMost how
	// many connections a process of iperf3 has: its own limit is 128.
	pacedPort = 5301
	pacedMost = 100
	// pacedLong is more than any measurement takes, in seconds.
	pacedLong = 3600
	// carries is more than a control connection has received.
	carries = 1 << 14
)

// Paced are TCP connections, each at a constant rate, that run until the path is
// closed.
type Paced struct {
	to          *netspace.Space
	first, last uint16 // ports at their far end
	flows       int
}

// Pace opens connections from a namespace to an address of another, each of which
// sends at that bit rate, and waits until all have delivered data.
func (p *Path) Pace(ctx context.Context, from, to *netspace.Space, at netip.Addr, flows, rate int) (*Paced, error) {
	// who is far away sends what is due, not as much as there is because the way
	// is short (ip-sysctl, tcp_tso_rtt_log): 45 segments at once on this one
	if err := sysctls(from, "net/ipv4/tcp_tso_rtt_log=0"); err != nil {
		return nil, err
	}
	t := &Paced{to: to, first: pacedPort, last: pacedPort, flows: flows}
	var clients []*process
	for i, left := 0, flows; left > 0; i, left = i+1, left-pacedMost {
		port := pacedPort + i
		t.last = uint16(port)
		if err := p.serve(ctx, to, port, []string{"iperf3", "-s", "-p", strconv.Itoa(port), "-i", "0"}); err != nil {
			return nil, err
		}
		argv := append(p.pin(), "iperf3", "-c", at.String(), "-p", strconv.Itoa(port), "-i", "0", "-t", strconv.Itoa(pacedLong),
			"-P", strconv.Itoa(min(left, pacedMost)), "--fq-rate", strconv.Itoa(rate), "--connect-timeout", "30000")
		pr, err := p.launch(from, fmt.Sprintf("iperf3-%s-%d", from.Name, port), nil, argv...)
		if err != nil {
			return nil, err
		}
		clients = append(clients, pr)
	}
	for _, pr := range clients {
		err := pr.until(ctx, func() (bool, error) {
			n, _, err := t.Received()
			return n == flows, err
		})
		if err != nil {
			return nil, fmt.Errorf("send over %d connections: %w", flows, err)
		}
	}
	return t, nil
}

// Received is the number of connections that have received data, and their payload
// in bytes (tcp(7), tcpi_bytes_received).
func (t *Paced) Received() (connections int, bytes uint64, err error) {
	err = t.to.Do(func() error {
		list, err := netlink.SocketDiagTCPInfo(unix.AF_INET6) // where iperf3 listens
		if err != nil {
			return fmt.Errorf("ask what connections in %s have received: %w", t.to.Name, err)
		}
		for _, c := range list {
			port := c.InetDiagMsg.ID.SourcePort
			if c.TCPInfo != nil && t.first <= port && port <= t.last && c.TCPInfo.Bytes_received >= carries {
				connections++
				bytes += c.TCPInfo.Bytes_received
			}
		}
		return nil
	})
	return connections, bytes, err
}
