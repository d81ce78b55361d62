package pseudowire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"weft/internal/bench/rig"
	"weft/wire/checksum"
)

// packetLength is of the packets inside, in bytes of IP.
const packetLength = 64

// patience is how long the first packet may take to arrive.
const patience = 10 * time.Second

// small is a path for small packets: its pseudowire leads from the router to
// the left host, packets come from the right host or go there.
type small struct {
	*rig.Path
	encap, decap *rig.Generator
	left         *rig.LengthSink
	right        *rig.Sink
	router       *rig.Receivers // what it does on a CPU of its own; nil: there is only one
}

func (p *small) close(ctx context.Context) error {
	var errs []error
	for _, g := range []*rig.Generator{p.encap, p.decap} {
		if g != nil {
			errs = append(errs, g.Close())
		}
	}
	return errors.Join(append(errs, p.Close(ctx))...)
}

func (m *Measurer) smallPath(ctx context.Context, s subject) (*small, error) {
	if p, ok := m.small[s.name]; ok {
		return p, nil
	}
	path, err := rig.NewPath(rig.PathOptions{Name: s.name + "-pps", Lan: underlay, Wan: unused, Forward: true, HostGRO: true, RouterGRO: true, NoChecksum: true})
	if err != nil {
		return nil, err
	}
	p := &small{Path: path}
	if err := p.set(ctx, m.o.Weft, s); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.name, err), p.close(context.WithoutCancel(ctx)))
	}
	m.small[s.name] = p
	return p, nil
}

func (p *small) set(ctx context.Context, weft string, s subject) error {
	macs := map[string]net.HardwareAddr{}
	if s.near != "" {
		if err := p.RunWeftIn(ctx, p.Router, weft, routing(s, config(s.near, 0, 1))); err != nil {
			return err
		}
		// no host at the other end would answer
		if _, err := p.Command(ctx, p.Router, "ip", "neigh", "replace", inside4[1].String(), "lladdr", "02:00:00:00:00:09", "dev", "wire", "nud", "permanent"); err != nil {
			return err
		}
		var err error
		if macs["wire"], err = rig.MAC(p.Router, "wire"); err != nil {
			return err
		}
	}
	err := errors.Join(p.Ping(ctx, p.Router, underlay.Host[1].Addr()), p.Ping(ctx, p.Router, unused.Host[1].Addr()))
	var errs [4]error
	macs["left"], errs[0] = rig.MAC(p.Left, "eth0")
	macs["lan"], errs[1] = rig.MAC(p.Router, "lan")
	macs["right"], errs[2] = rig.MAC(p.Right, "eth0")
	macs["wan"], errs[3] = rig.MAC(p.Router, "wan")
	if err := errors.Join(err, errors.Join(errs[:]...)); err != nil {
		return err
	}
	in := rig.Datagrams{FromMAC: macs["right"], ToMAC: macs["wan"], From: unused.Host[1].Addr(), To: inside4[1], Length: packetLength}
	out := rig.Datagrams{FromMAC: macs["left"], ToMAC: macs["wire"], From: inside4[1], To: unused.Host[1].Addr(), Length: packetLength}
	if s.near == "" {
		in.To, out.From, out.ToMAC = underlay.Host[1].Addr(), underlay.Host[1].Addr(), macs["lan"]
	} else if out.Outside, err = outside(s.name, macs["left"], macs["lan"]); err != nil {
		return err
	}
	if p.encap, err = rig.NewGenerator(p.Right, in); err != nil {
		return err
	}
	if p.decap, err = rig.NewGenerator(p.Left, out); err != nil {
		return err
	}
	if p.left, err = p.NewLengthSink(p.Left, len(out.Outside)+14+packetLength); err != nil {
		return err
	}
	if p.right, err = p.NewSink(p.Right); err != nil {
		return err
	}
	return p.part(ctx)
}

// part gives the router a CPU of its own, beside the generator's (RFC 2544
// section 6): what it does with a packet it does in the thread that receives it,
// the crossing of the pseudowire's device included. What it sends is received at
// its far end there, too. With one CPU there is nothing to part.
func (p *small) part(ctx context.Context) error {
	first, last, err := rig.CPUs()
	if err != nil || first == last {
		return err
	}
	p.router, err = p.Receive(ctx, p.Router, first, "lan", "wan")
	return err
}

// worked returns how long the router works while packets are sent: it also waits
// for some. Where it shares the generator's CPU, that is all of the time.
func (p *small) worked(send func() (time.Duration, error)) (time.Duration, error) {
	if p.router == nil {
		return send()
	}
	before, err := p.router.Busy()
	if err != nil {
		return 0, err
	}
	if _, err := send(); err != nil {
		return 0, err
	}
	after, err := p.router.Busy()
	return after - before, err
}

// routing has weft route between the right host and the wire.
func routing(s subject, config string) string {
	hook := "xdp" // as a network card would have it by itself
	if s.routes() {
		hook = s.hook
	}
	config = strings.Replace(config, "[interface.under]\n", fmt.Sprintf("[interface.under]\nhook = %q\n", hook), 1)
	if !s.routes() {
		return config
	}
	return config + fmt.Sprintf("[interface.right]\ndevice = \"wan\"\nhook = %q\n[route]\ninterfaces = [\"right\", \"wire\"]\nipv4_prefixes = 1000\nipv6_prefixes = 1000\n", s.hook)
}

// outside returns the headers of a subject's packets from the left host to the
// router, as config has them: for the frame of packetLength that comes behind.
func outside(name string, from, to net.HardwareAddr) ([]byte, error) {
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Flags: layers.IPv4DontFragment, SrcIP: underlay.Host[1].Addr().AsSlice(), DstIP: underlay.Router[1].Addr().AsSlice()}
	var udp *layers.UDP
	var header []byte
	name, _, _ = strings.Cut(name, bypassSuffix)
	switch {
	case name == "kernel-vxlan": // RFC 7348 section 5
		udp = &layers.UDP{SrcPort: 49152, DstPort: 4789}
		header = []byte{8, 0, 0, 0, 0, 0, 7, 0}
	case strings.HasPrefix(name, "l2tpv3-udp"): // RFC 3931 section 4.1.2.1
		udp = &layers.UDP{SrcPort: 1702, DstPort: 1701}
		header = []byte{0, 3, 0, 0, 0, 0, 0, 1}
		if name == "l2tpv3-udp-counter" {
			header = append(header, 0, 0, 0, 0)
		}
	case name == "l2tpv3-ip": // RFC 3931 section 4.1.1.1
		ip.Protocol = layers.IPProtocol(115)
		header = []byte{0, 0, 0, 1}
	case name == "gretap": // RFC 2784 section 2
		ip.Protocol = layers.IPProtocolGRE
		header = []byte{0, 0, 0x65, 0x58}
	default:
		return nil, fmt.Errorf("packets of %s are not known", name)
	}
	list := []gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: from, DstMAC: to, EthernetType: layers.EthernetTypeIPv4}, ip}
	if udp != nil {
		ip.Protocol = layers.IPProtocolUDP
		list = append(list, udp)
	}
	// the frame inside counts too, and leaves again
	inside := make([]byte, 14+packetLength)
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: false}, append(list, gopacket.Payload(append(header, inside...)))...); err != nil {
		return nil, fmt.Errorf("make the headers of %s: %w", name, err)
	}
	all := buffer.Bytes()
	all[14+10], all[14+11] = 0, 0
	binary.BigEndian.PutUint16(all[14+10:], checksum.Of(all[14:14+20]))
	return all[:len(all)-len(inside)], nil
}

// packets returns how many million packets arrive in a second of the router's work.
func (m *Measurer) packets(ctx context.Context, s subject, decap bool) (float64, error) {
	p, err := m.smallPath(ctx, s)
	if err != nil {
		return 0, err
	}
	generator, received := p.encap, p.left.Received
	if decap {
		generator, received = p.decap, func() (uint64, error) { return p.right.Received(false) }
	}
	run := func(atLeast time.Duration) (n uint64, took time.Duration, err error) {
		before, err := received()
		if err != nil {
			return 0, 0, err
		}
		if took, err = p.worked(func() (time.Duration, error) { return generator.Run(atLeast) }); err != nil {
			return 0, 0, err
		}
		after, err := received()
		return after - before, took, err
	}
	for begin := time.Now(); ; {
		n, _, err := run(50 * time.Millisecond)
		if err != nil || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err())
		}
		if n > 0 {
			break
		}
		if time.Since(begin) > patience {
			return 0, fmt.Errorf("%s: no packet has arrived", s.name)
		}
	}
	n, took, err := run(time.Duration(m.o.Seconds / 2 * float64(time.Second)))
	if err == nil && decap {
		err = p.right.Verify(false, packetLength)
	}
	return float64(n) / took.Seconds() / 1e6, err
}
