package attack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"weft/internal/lab/probe/lac"
	"weft/wire/dhcp6"
)

// again is how long a client of a user waits before it repeats itself (RFC 8415 section
// 7.6: SOL_TIMEOUT; resolvers wait as long or longer).
const again = time.Second

// Login brings a tunnel and a subscriber's session up, and ends both. The concentrator
// has its own port, so that no other one is taken for it.
func Login(ctx context.Context, here netip.Addr, server netip.AddrPort) (time.Duration, error) {
	conn, err := lac.Dial(netip.AddrPortFrom(here, 0), server)
	if err != nil {
		return 0, err
	}
	l := lac.New(conn, 1, 1)
	took, err := l.BringUp(ctx)
	return took, errors.Join(err, l.Close())
}

// Hold brings a subscriber's session up and keeps it until ctx ends. up is called when it
// is up.
func Hold(ctx context.Context, here, server netip.AddrPort, up func()) error {
	conn, err := lac.Dial(here, server)
	if err != nil {
		return err
	}
	l := lac.New(conn, 1, 1)
	l.Prefix = "h"
	if _, err := l.BringUp(ctx); err != nil {
		return errors.Join(err, conn.Close())
	}
	up()
	for ctx.Err() == nil {
		if err := l.Turn(50 * time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("the session of %s ended: %w", here, err), conn.Close())
		}
	}
	return l.Close()
}

// Resolve asks a name server for the IPv6 address of a name that it cannot know yet: the
// server of the zone answers for any.
func Resolve(ctx context.Context, server netip.AddrPort, domain string) (time.Duration, error) {
	label := make([]byte, 6)
	_, _ = rand.Read(label) // never fails (crypto/rand)
	q := new(dns.Msg)
	q.SetQuestion(hex.EncodeToString(label)+"."+dns.Fqdn(domain), dns.TypeAAAA)
	c := dns.Client{Timeout: again}
	begun := time.Now()
	for {
		r, _, err := c.ExchangeContext(ctx, q, server.String())
		if err == nil && r.Rcode == dns.RcodeSuccess && len(r.Answer) > 0 {
			return time.Since(begun), nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("ask %s for %s: %w", server, q.Question[0].Name, errors.Join(err, context.Cause(ctx)))
		}
		if err == nil {
			time.Sleep(again / 10)
		}
	}
}

// Host is a DHCPv6 client on a device, with its lease.
type Host struct {
	conn  *net.UDPConn
	to    *net.UDPAddr
	lease dhcp6.Message
}

// NewHost opens the socket of a client, which needs the device's link-local address.
func NewHost(device string) (*Host, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s: %w", device, err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); is && n.IP.IsLinkLocalUnicast() && n.IP.To4() == nil {
			conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: n.IP, Port: dhcp6.ClientPort, Zone: device})
			if err != nil {
				return nil, fmt.Errorf("listen as a DHCPv6 client on %s: %w", device, err)
			}
			id := append([]byte{0, 3, 0, 1}, i.HardwareAddr...)
			return &Host{conn, &net.UDPAddr{IP: net.ParseIP("ff02::1:2"), Port: dhcp6.ServerPort, Zone: device}, dhcp6.Message{ClientID: id}}, nil
		}
	}
	return nil, fmt.Errorf("%s has no link-local address", device)
}

// Close closes the socket.
func (h *Host) Close() error { return h.conn.Close() }

// Lease asks for an address and a prefix.
func (h *Host) Lease(ctx context.Context) (time.Duration, error) {
	ia := []dhcp6.IA{{ID: [4]byte{3: 1}}}
	return h.exchange(ctx, dhcp6.Message{Type: dhcp6.Solicit, RapidCommit: true, Addresses: ia, Prefixes: ia})
}

// Renew renews what Lease has got.
func (h *Host) Renew(ctx context.Context) (time.Duration, error) {
	return h.exchange(ctx, dhcp6.Message{Type: dhcp6.Renew, ServerID: h.lease.ServerID, Addresses: h.lease.Addresses, Prefixes: h.lease.Prefixes})
}

// exchange repeats a message until there is a Reply with both leases.
func (h *Host) exchange(ctx context.Context, m dhcp6.Message) (time.Duration, error) {
	_, _ = rand.Read(m.Transaction[:])
	m.ClientID = h.lease.ClientID
	b, err := m.Marshal()
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, 1<<16)
	begun := time.Now()
	for ctx.Err() == nil {
		if _, err := h.conn.WriteTo(b, h.to); err != nil {
			return 0, fmt.Errorf("send %s: %w", m.Type, err)
		}
		_ = h.conn.SetReadDeadline(time.Now().Add(again))
		for {
			n, err := h.conn.Read(buffer)
			if err != nil {
				break // time to repeat it
			}
			r, err := dhcp6.Parse(buffer[:n])
			if err == nil && r.Type == dhcp6.Reply && r.Transaction == m.Transaction && given(r.Addresses) && given(r.Prefixes) {
				h.lease.ServerID, h.lease.Addresses, h.lease.Prefixes = r.ServerID, r.Addresses, r.Prefixes
				return time.Since(begun), nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not answered: %w", m.Type, context.Cause(ctx))
}

func given(list []dhcp6.IA) bool {
	return len(list) > 0 && len(list[0].Leases) > 0 && list[0].Leases[0].Valid > 0
}
