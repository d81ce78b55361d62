package rig

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

const (
	frameMax = 1536 // FRAME_MAX of generate.bpf.c and receive.bpf.c
	flows    = 256
	// chunk is the number of packets that one system call sends, batch the number
	// that go out together, as a network card's driver passes them on.
	chunk = 1 << 15
	batch = 64
)

// Generator makes datagrams at the speed of one CPU.
type Generator struct {
	in      *netspace.Space
	objects generateObjects
	frame   []byte
}

// NewGenerator prepares datagrams that leave a host by its eth0, as fast as a CPU
// makes them.
func NewGenerator(host *netspace.Space, d Datagrams) (*Generator, error) {
	return newGenerator(host, d, nil)
}

// underWay is the number of packets that such a generator keeps in flight: what the
// queue of a veth holds (VETH_RING_SIZE, 256) less a bundle.
const underWay = 192

// NewHeedingGenerator prepares datagrams of which no more are in flight to a sink
// than the queues of veth devices hold: none is lost, however slowly they are
// forwarded. On a machine with one CPU, where forwarder and generator take turns,
// there is no limit.
func NewHeedingGenerator(host *netspace.Space, d Datagrams, to *Sink) (*Generator, error) {
	first, last, err := CPUs()
	if err != nil {
		return nil, err
	}
	if first == last {
		to = nil
	}
	return newGenerator(host, d, to)
}

func newGenerator(host *netspace.Space, d Datagrams, to *Sink) (*Generator, error) {
	frame, udpAt, err := d.frame()
	if err != nil {
		return nil, err
	}
	index, err := DeviceIndex(host, "eth0")
	if err != nil {
		return nil, err
	}
	spec, err := loadGenerate()
	if err != nil {
		return nil, fmt.Errorf("read the generator's object: %w", err)
	}
	var whole [frameMax]byte
	copy(whole[:], frame)
	err = errors.Join(
		spec.Variables["frame"].Set(whole), spec.Variables["frame_len"].Set(uint32(len(frame))),
		spec.Variables["port_at"].Set(uint32(udpAt)), spec.Variables["flows"].Set(uint32(cmp.Or(d.Flows, flows))), spec.Variables["hosts"].Set(uint32(cmp.Or(d.Hosts, 1))),
		spec.Variables["ipv6"].Set(d.From.Is6()), spec.Variables["mixed"].Set(d.Mixed), spec.Variables["out"].Set(uint32(index)), rlimit.RemoveMemlock(),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the generator: %w", err)
	}
	g := &Generator{in: host, frame: frame}
	options := &ebpf.CollectionOptions{}
	if to != nil {
		err = errors.Join(spec.Variables["window"].Set(uint32(underWay)), spec.Variables["cpus"].Set(uint32(ebpf.MustPossibleCPU())))
		if err != nil {
			return nil, fmt.Errorf("set up the generator: %w", err)
		}
		options.MapReplacements = map[string]*ebpf.Map{"received": to.objects.Received}
	}
	if err := spec.LoadAndAssign(&g.objects, options); err != nil {
		return nil, fmt.Errorf("load the generator: %w", err)
	}
	return g, nil
}

// Close closes the program.
func (g *Generator) Close() error { return g.objects.Close() }

// Run sends for at least the given time, and returns how long it took.
func (g *Generator) Run(atLeast time.Duration) (took time.Duration, err error) {
	return Send(g.in, g.objects.Generate, g.frame, atLeast)
}

// Lost is the number of packets that did not arrive within the generator's patience.
func (g *Generator) Lost() (n uint64, err error) {
	if err := g.objects.Lost.Get(&n); err != nil {
		return 0, fmt.Errorf("read what was lost: %w", err)
	}
	return n, nil
}

// Chunks sends that many packets at least, and gives how many it sent.
func (g *Generator) Chunks(packets int) (sent int, err error) {
	for sent < packets && err == nil {
		_, err = g.Run(1)
		sent += chunk
	}
	return sent, err
}

// Send makes a program send packets for at least the given time, and returns how
// long it took. It stays on one CPU, and its packets are received there, in softirqs
// after each batch, unless the path's receivers have another CPU.
func Send(in *netspace.Space, program *ebpf.Program, frame []byte, atLeast time.Duration) (took time.Duration, err error) {
	err = in.Do(func() error {
		free, err := pin()
		if err != nil {
			return err
		}
		defer free()
		start := time.Now()
		for took < atLeast {
			_, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: chunk, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: batch})
			if err != nil {
				return fmt.Errorf("generate packets in %s: %w", in.Name, err)
			}
			took = time.Since(start)
		}
		return nil
	})
	return took, err
}

// SendExactly makes a program send that many packets, and returns how long the
// kernel took for them.
func SendExactly(in *netspace.Space, program *ebpf.Program, frame []byte, n int) (took time.Duration, err error) {
	err = in.Do(func() error {
		free, err := pin()
		if err != nil {
			return err
		}
		defer free()
		for sent := 0; sent < n; {
			now := min(n-sent, chunk)
			start := time.Now()
			_, err = program.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(now), Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: uint32(min(now, batch))})
			took += time.Since(start)
			if err != nil {
				return fmt.Errorf("generate packets in %s: %w", in.Name, err)
			}
			sent += now
		}
		return nil
	})
	return took, err
}

// pin keeps the thread on the last of the CPUs that it may use, until free.
func pin() (free func(), err error) {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("read the thread's CPUs: %w", err)
	}
	_, last, err := CPUs()
	if err != nil {
		return nil, err
	}
	one.Set(last)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, fmt.Errorf("keep the thread on one CPU: %w", err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }, nil
}

// DeviceIndex returns the index of a device.
func DeviceIndex(s *netspace.Space, name string) (index int, err error) {
	err = s.Do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", name, s.Name, err)
		}
		index = dev.Index
		return nil
	})
	return index, err
}

func perCPU(m *ebpf.Map, key uint32) (total uint64, err error) {
	var values []uint64
	if err := m.Lookup(key, &values); err != nil {
		return 0, fmt.Errorf("read counter: %w", err)
	}
	for _, v := range values {
		total += v
	}
	return total, nil
}

// Sink counts and drops the datagrams that arrive at a host.
type Sink struct {
	objects receiveObjects
	link    link.Link
}

// NewSink attaches a sink to a host's eth0. It is removed with the path.
func (p *Path) NewSink(host *netspace.Space) (*Sink, error) { return p.NewSinkAt(host, "eth0") }

// NewSinkAt attaches one to any device.
func (p *Path) NewSinkAt(in *netspace.Space, device string) (*Sink, error) {
	s := &Sink{}
	if err := errors.Join(rlimit.RemoveMemlock(), loadReceiveObjects(&s.objects, nil)); err != nil {
		return nil, fmt.Errorf("load the sink: %w", err)
	}
	p.onClose(s.objects.Close)
	var err error
	if s.link, err = AttachXDP(in, device, s.objects.Receive); err != nil {
		return nil, err
	}
	p.onClose(s.link.Close)
	return s, nil
}

// AttachXDP attaches a program to a device, in the driver.
func AttachXDP(in *netspace.Space, device string, program *ebpf.Program) (l link.Link, err error) {
	index, err := DeviceIndex(in, device)
	if err != nil {
		return nil, err
	}
	err = in.Do(func() (err error) {
		l, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach xdp to %s in %s: %w", device, in.Name, err)
	}
	return l, nil
}

// Arrived is the number of datagrams of a family that have arrived so far.
func (s *Sink) Received(ipv6 bool) (uint64, error) {
	if ipv6 {
		return perCPU(s.objects.Received, 1)
	}
	return perCPU(s.objects.Received, 0)
}

// Verify inspects the frame that was kept last: family, length, checksums.
func (s *Sink) Verify(ipv6 bool, length int) error {
	var kept receiveKept
	if err := s.objects.Last.Lookup(uint32(0), &kept); err != nil {
		return fmt.Errorf("read what arrived: %w", err)
	}
	return verify(kept.Frame[:min(int(kept.Len), len(kept.Frame))], ipv6, length)
}

// XDPForward loads xdp_forward.bpf.c. It is closed with the path.
func (p *Path) XDPForward() (*ebpf.Program, error) {
	var objects xdpForwardObjects
	if err := errors.Join(rlimit.RemoveMemlock(), loadXdpForwardObjects(&objects, nil)); err != nil {
		return nil, fmt.Errorf("load xdp_forward: %w", err)
	}
	p.onClose(objects.Close)
	return objects.XdpForward, nil
}

// ForwardInXDP makes the router forward with xdp_forward.bpf.c, on both links.
func (p *Path) ForwardInXDP() (*ebpf.Program, error) {
	program, err := p.XDPForward()
	if err != nil {
		return nil, err
	}
	for _, device := range []string{"lan", "wan"} {
		l, err := AttachXDP(p.Router, device, program)
		if err != nil {
			return nil, err
		}
		p.onClose(l.Close)
	}
	return program, nil
}

// MAC returns the link address of a device.
func MAC(s *netspace.Space, name string) (mac net.HardwareAddr, err error) {
	err = s.Do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", name, s.Name, err)
		}
		mac = dev.HardwareAddr
		return nil
	})
	return mac, err
}
