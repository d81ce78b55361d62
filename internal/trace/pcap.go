package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// pcapngMagic begins a pcapng file: its first block is a section header.
var pcapngMagic = []byte{0x0a, 0x0d, 0x0d, 0x0a}

// Input reads packets from a capture file.
type Input struct {
	Raw    bool // IP packets without link header
	ether  uint16
	source gopacket.PacketDataSource
	read   int
}

// Packet is one of a capture file.
type Packet struct {
	Number int // from 1
	Time   time.Time
	Bytes  []byte
	Cut    int // bytes that its capture left away
}

// NewInput reads the header of a pcap or pcapng file.
func NewInput(r io.Reader) (*Input, error) {
	b := bufio.NewReader(r)
	start, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	if len(start) == 0 {
		return nil, errors.New("read capture: it is empty, not even a header is there")
	}
	in := &Input{}
	var link layers.LinkType
	if bytes.Equal(start, pcapngMagic) {
		ng, err := pcapgo.NewNgReader(b, pcapgo.NgReaderOptions{WantMixedLinkType: false, ErrorOnMismatchingLinkType: true})
		if err != nil {
			return nil, fmt.Errorf("read header of the pcapng file: %w", unexpected(err))
		}
		in.source, link = ng, ng.LinkType()
	} else {
		classic, err := pcapgo.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read header of the pcap file: %w", unexpected(err))
		}
		// the upper bits speak of the frame check sequence (draft-ietf-opsawg-pcap)
		in.source, link = classic, classic.LinkType()&0xffff
	}
	switch link {
	case layers.LinkTypeEthernet:
	case layers.LinkTypeRaw, dltRawBSD, dltRawOpenBSD:
		in.Raw = true
	case layers.LinkTypeIPv4:
		in.Raw, in.ether = true, etherIPv4
	case layers.LinkTypeIPv6:
		in.Raw, in.ether = true, etherIPv6
	default:
		return nil, fmt.Errorf("the capture has link type %d (%s); weft trace reads Ethernet (1) and raw IP (101, 228, 229)", link, link)
	}
	return in, nil
}

// Some systems wrote their own number for raw IP into files (tcpdump.org/linktypes).
const (
	dltRawBSD     layers.LinkType = 12
	dltRawOpenBSD layers.LinkType = 14
)

// Next returns the next packet, or io.EOF after the last one.
func (in *Input) Next() (Packet, error) {
	data, info, err := in.source.ReadPacketData()
	if err == io.EOF && info.CaptureLength == 0 {
		return Packet{}, io.EOF
	}
	in.read++
	if err != nil {
		return Packet{}, fmt.Errorf("read packet %d of the capture: %w", in.read, unexpected(err))
	}
	return Packet{Number: in.read, Time: info.Timestamp, Bytes: data, Cut: info.Length - len(data)}, nil
}

// etherType returns the type that a raw packet has on Ethernet. A packet that
// is neither goes in as IPv4, whose receiver checks the version.
func (in *Input) etherType(ip []byte) uint16 {
	switch {
	case in.ether != 0:
		return in.ether
	case len(ip) > 0 && ip[0]>>4 == 6:
		return etherIPv6
	}
	return etherIPv4
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends in the middle")
	}
	return err
}

// Output writes packets to a pcap file with nanoseconds.
type Output struct{ w *pcapgo.Writer }

// snapLen is what a pcap header says when nothing is cut.
const snapLen = 262144

// NewOutput writes the header of a pcap file.
func NewOutput(w io.Writer, raw bool) (*Output, error) {
	link := layers.LinkTypeEthernet
	if raw {
		link = layers.LinkTypeRaw
	}
	out := &Output{pcapgo.NewWriterNanos(w)}
	if err := out.w.WriteFileHeader(snapLen, link); err != nil {
		return nil, fmt.Errorf("write header of the pcap file: %w", err)
	}
	return out, nil
}

// Write adds a packet.
func (o *Output) Write(at time.Time, packet []byte) error {
	info := gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(packet), Length: len(packet)}
	if err := o.w.WritePacket(info, packet); err != nil {
		return fmt.Errorf("write pcap file: %w", err)
	}
	return nil
}
