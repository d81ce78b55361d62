package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// flusher is a report that can be flushed: a reader of a pipe sees each packet when
// it is done.
type flusher interface {
	io.Writer
	Flush() error
}

func writeJSON(w flusher, r Result) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return w.Flush()
}

// explain writes what became of a packet for a person.
func explain(w flusher, raw bool, p Packet, r Result, subscribers subscribers) error {
	var b strings.Builder
	fmt.Fprintf(&b, "packet %d  in by %s: %s\n", p.Number, r.In, describe(raw, p.Bytes, subscribers))
	for _, d := range r.Decisions {
		times := ""
		if d.Times > 1 {
			times = fmt.Sprintf(" (%d times)", d.Times)
		}
		fmt.Fprintf(&b, "  %-19s %s: %s%s\n", d.Program, d.Outcome, d.outcome.Words(), times)
	}
	if len(r.Decisions) == 0 {
		fmt.Fprintf(&b, "  %-19s no program of weft saw it\n", "-")
	}
	fmt.Fprintf(&b, "  => %s, %s: %s\n", r.Verdict, r.Reason, r.words)
	if note := subscribers.note(raw, p.Bytes, r.Reason); note != "" {
		fmt.Fprintf(&b, "     %s\n", note)
	}
	for _, s := range r.Outputs {
		fmt.Fprintf(&b, "  out by %s: %s\n", s.Interface, describe(raw, s.bytes, subscribers))
	}
	if len(r.Outputs) == 0 {
		b.WriteString("  nothing left\n")
	}
	b.WriteByte('\n')
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return w.Flush()
}

// describe says in one line what a packet is, from the outside inwards.
func describe(raw bool, packet []byte, s subscribers) string {
	words := layersOf(raw, packet, s)
	if words == "" {
		return fmt.Sprintf("%d bytes that cannot be read", len(packet))
	}
	return fmt.Sprintf("%s, %d bytes", words, len(packet))
}

// packetOf takes a packet apart.
func packetOf(raw bool, packet []byte) gopacket.Packet {
	var first gopacket.Decoder = layers.LayerTypeEthernet
	if raw {
		first = layers.LayerTypeIPv4
		if len(packet) > 0 && packet[0]>>4 == 6 {
			first = layers.LayerTypeIPv6
		}
	}
	return gopacket.NewPacket(packet, first, gopacket.DecodeOptions{NoCopy: true})
}

// layersOf names the layers of a packet.
func layersOf(raw bool, packet []byte, s subscribers) string {
	var words []string
	for _, layer := range packetOf(raw, packet).Layers() {
		if s := describeLayer(layer); s != "" {
			words = append(words, s)
		}
		if u, ok := layer.(*layers.UDP); ok {
			if l := s.describe(u); l != "" {
				return strings.Join(append(words, l), ", ")
			}
		}
	}
	return strings.Join(words, ", ")
}

func describeLayer(layer gopacket.Layer) string {
	switch l := layer.(type) {
	case *layers.Ethernet:
		return fmt.Sprintf("%s > %s", l.SrcMAC, l.DstMAC)
	case *layers.ARP:
		if l.Operation == layers.ARPRequest {
			return fmt.Sprintf("ARP who has %s? tell %s", net.IP(l.DstProtAddress), net.IP(l.SourceProtAddress))
		}
		return fmt.Sprintf("ARP %s is at %s", net.IP(l.SourceProtAddress), net.HardwareAddr(l.SourceHwAddress))
	case *layers.IPv4:
		if l.SrcIP == nil {
			return "" // cut short
		}
		return fmt.Sprintf("IPv4 %s > %s ttl %d%s", l.SrcIP, l.DstIP, l.TTL, fragmentWords(l))
	case *layers.IPv6:
		if l.SrcIP == nil {
			return ""
		}
		return fmt.Sprintf("IPv6 %s > %s hop limit %d", l.SrcIP, l.DstIP, l.HopLimit)
	case *layers.IPv6Fragment:
		return fmt.Sprintf("fragment at %d more %v", int(l.FragmentOffset)*8, l.MoreFragments)
	case *layers.TCP:
		return fmt.Sprintf("TCP %d > %d%s", l.SrcPort, l.DstPort, tcpFlags(l))
	case *layers.UDP:
		return fmt.Sprintf("UDP %d > %d", l.SrcPort, l.DstPort)
	case *layers.ICMPv4:
		return "ICMP " + l.TypeCode.String()
	case *layers.ICMPv6:
		return "ICMPv6 " + l.TypeCode.String()
	case *layers.ICMPv6NeighborSolicitation:
		return fmt.Sprintf("who has %s?", l.TargetAddress)
	case *layers.ICMPv6NeighborAdvertisement:
		return fmt.Sprintf("I have %s", l.TargetAddress)
	}
	return ""
}

func fragmentWords(l *layers.IPv4) string {
	switch {
	case l.FragOffset != 0 || l.Flags&layers.IPv4MoreFragments != 0:
		return fmt.Sprintf(" fragment at %d more %v", int(l.FragOffset)*8, l.Flags&layers.IPv4MoreFragments != 0)
	case l.Flags&layers.IPv4DontFragment != 0:
		return " DF"
	}
	return ""
}

func tcpFlags(l *layers.TCP) string {
	var set strings.Builder
	for _, f := range []struct {
		on   bool
		name string
	}{{l.SYN, " SYN"}, {l.FIN, " FIN"}, {l.RST, " RST"}, {l.ACK, " ACK"}} {
		if f.on {
			set.WriteString(f.name)
		}
	}
	return set.String()
}
