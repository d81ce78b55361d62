package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Datagrams are UDP packets of one size between two addresses.
type Datagrams struct {
	FromMAC, ToMAC net.HardwareAddr
	From, To       netip.Addr
	Length         int    // bytes of the IP packet
	Outside        []byte // bytes before the frame: the headers of a tunnel
	Flows          int    // source ports, a power of two; 0: 256
	Hosts          int    // source addresses from From on, a power of two; 0: one
	Mixed          bool   // not in turn
}

const (
	firstPort = 0x8000
	// discard is the port that packets go to (RFC 863).
	discard = 9
	// firstWord leaves room for the flows to decrease it, see generate.bpf.c.
	firstWord = 0x8000
)

// Frame returns the Ethernet frame of one of them.
func (d Datagrams) Frame() ([]byte, error) {
	frame, _, err := d.frame()
	return frame, err
}

// frame returns the Ethernet frame of the first flow, and where its UDP header
// begins.
func (d Datagrams) frame() (frame []byte, udpAt int, err error) {
	eth := &layers.Ethernet{SrcMAC: d.FromMAC, DstMAC: d.ToMAC}
	udp := &layers.UDP{SrcPort: firstPort, DstPort: discard}
	var ip gopacket.SerializableLayer
	header := 20
	if d.From.Is4() {
		eth.EthernetType = layers.EthernetTypeIPv4
		ip4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: d.From.AsSlice(), DstIP: d.To.AsSlice()}
		ip, err = ip4, udp.SetNetworkLayerForChecksum(ip4)
	} else {
		header = 40
		eth.EthernetType = layers.EthernetTypeIPv6
		ip6 := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: d.From.AsSlice(), DstIP: d.To.AsSlice()}
		ip, err = ip6, udp.SetNetworkLayerForChecksum(ip6)
	}
	if err != nil {
		return nil, 0, err
	}
	if d.Length < header+8+2 {
		return nil, 0, fmt.Errorf("make a datagram of %d bytes: too short", d.Length)
	}
	payload := make([]byte, d.Length-header-8)
	for i := range payload {
		payload[i] = byte(i)
	}
	binary.BigEndian.PutUint16(payload, firstWord)
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, eth, ip, udp, gopacket.Payload(payload)); err != nil {
		return nil, 0, fmt.Errorf("make a datagram: %w", err)
	}
	return slices.Concat(d.Outside, buffer.Bytes()), len(d.Outside) + 14 + header, nil
}

// verify checks a frame that has crossed: family, length and every checksum.
func verify(frame []byte, want6 bool, length int) error {
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := packet.ErrorLayer(); e != nil {
		return fmt.Errorf("what arrived cannot be read: %w", e.Error())
	}
	_, is6 := packet.NetworkLayer().(*layers.IPv6)
	if is6 != want6 || len(frame) != 14+length {
		return fmt.Errorf("what arrived is an IP packet of %d bytes (IPv6: %v), not %d (%v)", len(frame)-14, is6, length, want6)
	}
	udp, ok := packet.TransportLayer().(*layers.UDP)
	if !ok {
		return errors.New("what arrived is not UDP")
	}
	if err := udp.SetNetworkLayerForChecksum(packet.NetworkLayer()); err != nil {
		return err
	}
	err, wrong := packet.VerifyChecksums()
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return fmt.Errorf("what arrived has a wrong checksum: %+v", wrong)
	}
	return nil
}
