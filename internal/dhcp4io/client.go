package dhcp4io

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv4"

	"weft/internal/packetio"
	"weft/wire/dhcp4"
	wire4 "weft/wire/ipv4"
)

// Client is the sockets of a DHCPv4 client on one device. It receives by a packet socket,
// before and after the device has an address. The socket of UDP sends to one server, and
// keeps the stack from answering that server that the port is closed.
type Client struct {
	packets *packetio.Conn
	conn    *ipv4.PacketConn
	index   int
	device  string
}

// Open opens the sockets of a client.
func Open(ctx context.Context, device string) (*Client, error) {
	packets, err := packetio.Open(device, packetio.IPv4, toPort(dhcp4.ClientPort))
	if err != nil {
		return nil, err
	}
	conn, index, err := udp(ctx, device, dhcp4.ClientPort)
	if err != nil {
		return nil, errors.Join(err, packets.Close())
	}
	nothing, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err == nil {
		err = conn.SetBPF(nothing)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open DHCPv4 client on %s: %w", device, err), packets.Close(), conn.Close())
	}
	return &Client{packets, conn, index, device}, nil
}

// toPort accepts datagrams to a port that are no later fragments.
func toPort(port uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 17, SkipTrue: 6},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 4},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: port, SkipTrue: 1},
		bpf.RetConstant{Val: 65535},
		bpf.RetConstant{Val: 0},
	}
}

// Hardware is the address of the device.
func (c *Client) Hardware() string { return string(c.packets.Hardware[:]) }

// Receive waits for the next message of a server's port.
func (c *Client) Receive() (message []byte, err error) {
	for {
		p, err := c.packets.Receive()
		if err != nil {
			return nil, fmt.Errorf("receive DHCPv4 on %s: %w", c.device, err)
		}
		d, err := wire4.Parse(p.Payload, p.Partial)
		if err == nil && d.To.Port() == dhcp4.ClientPort && d.From.Port() == dhcp4.ServerPort {
			return d.Payload, nil
		}
	}
}

// Send sends a message to all servers, from the client's address if it has one, or to one
// server from the address that the device has.
func (c *Client) Send(message []byte, own, to netip.Addr) error {
	target := netip.AddrPortFrom(to, dhcp4.ServerPort)
	if to == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		d := wire4.Datagram{From: netip.AddrPortFrom(own, dhcp4.ClientPort), To: target, Payload: message}
		return c.packets.Send(d.Marshal(), packetio.IPv4, packetio.Broadcast())
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err := c.conn.WriteTo(message, &ipv4.ControlMessage{Src: own.AsSlice(), IfIndex: c.index}, net.UDPAddrFromAddrPort(target))
	if err != nil {
		return fmt.Errorf("send to DHCPv4 server %s: %w", to, err)
	}
	return nil
}

// Close ends Receive.
func (c *Client) Close() error { return errors.Join(c.packets.Close(), c.conn.Close()) }
