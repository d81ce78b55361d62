package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/config"
	"weft/internal/state"
)

// ProblemsError carries what is wrong with the configuration.
type ProblemsError []state.Problem

func (e ProblemsError) Error() string {
	return fmt.Sprintf("the configuration has %d problems", len(e))
}

// Inner is what the process that Outer started does.
func Inner(ctx context.Context, engine Engine) error {
	request, err := readRequest(os.NewFile(requestFD, "request"))
	if err != nil {
		return err
	}
	if err := privateMounts(); err != nil {
		return err
	}
	f, problems := engine.Parse(request.File, request.Text)
	if state.HasErrors(problems) {
		return ProblemsError(problems)
	}
	input, err := NewInput(os.Stdin)
	if err != nil {
		return err
	}
	report := bufio.NewWriter(os.Stdout)
	t := tracer{request: request, file: f, input: input, report: report}
	if request.Write {
		w := bufio.NewWriter(os.NewFile(writeFD, "output"))
		if t.output, err = NewOutput(w, input.Raw); err != nil {
			return err
		}
		t.flush = w.Flush
	}
	return t.run(ctx, engine)
}

// privateMounts gives the process a /run and a bpf file system of its own.
func privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount a file system on /run: %w", err)
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpf file system: %w", err)
	}
	return nil
}

// tracer is one run.
type tracer struct {
	request Request
	file    *config.File
	input   *Input
	output  *Output      // nil: packets are not written
	flush   func() error // of output
	report  *bufio.Writer

	topology *topology
	router   Router
	in       device
	clock    atomic.Int64 // nanoseconds since the first packet, by the capture
	start    time.Time    // of the capture
	last     tally
}

func (t *tracer) run(ctx context.Context, engine Engine) error {
	p, err := t.input.Next()
	if errors.Is(err, io.EOF) {
		return t.done()
	}
	if err != nil {
		return err
	}
	t.start = p.Time
	if err := t.build(ctx, engine, p); err != nil {
		return err
	}
	defer t.topology.close()
	defer t.router.Close()
	for ctx.Err() == nil {
		if err := t.trace(ctx, p); err != nil {
			return fmt.Errorf("packet %d: %w", p.Number, err)
		}
		p, err = t.input.Next()
		if errors.Is(err, io.EOF) {
			return t.done()
		}
		if err != nil {
			return errors.Join(err, t.done())
		}
	}
	return ctx.Err()
}

func (t *tracer) done() error {
	if err := t.report.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if t.output == nil {
		return nil
	}
	if err := t.flush(); err != nil {
		return fmt.Errorf("write pcap file: %w", err)
	}
	return nil
}

// build makes the devices and has the router apply the configuration.
func (t *tracer) build(ctx context.Context, engine Engine, first Packet) (err error) {
	name, call, err := FindInterface(t.file, t.request.In)
	if err != nil {
		return err
	}
	made := engine.Makes(t.file)
	if device := t.file.Interface(name).Device; slices.Contains(made, device) {
		return fmt.Errorf("weft makes %s itself: give the interface at which its packets arrive", device)
	}
	adopt(t.file.Interface(name).Device, t.request, t.input.Raw, first)
	choose(t.file, t.request)
	if t.topology, err = newTopology(t.file, t.request.Host, made, engine.Ports(t.file), call); err != nil {
		return err
	}
	t.topology.answer = t.input.Raw
	t.router, err = engine.Start(ctx, t.file, t.request.Via == ViaSlow, t.clock.Load)
	if err != nil {
		return err
	}
	if err := t.router.Subscribe(t.request.LNS); err != nil {
		return err
	}
	warn := func(s string) { fmt.Fprintln(os.Stderr, "warning:", s) }
	t.topology.addresses(t.request.Host, warn)
	if err := t.topology.routes(t.file, t.request.Host, warn); err != nil {
		return err
	}
	if err := t.topology.ready(); err != nil {
		return err
	}
	for _, d := range t.topology.devices {
		if d.name == call(name) {
			t.in = d
		}
	}
	if t.last, err = count(t.router); err != nil {
		return err
	}
	// after all is ready: the kernel asks for a neighbour once
	if err := t.router.Follow(ctx); err != nil {
		return err
	}
	_, t.last, err = t.topology.settle(t.router, t.last)
	return err
}

// adopt gives an interface that the host does not have the link address to
// which the first frame is addressed, so that a capture from another machine
// is for this one.
func adopt(dev string, r Request, raw bool, first Packet) {
	if _, real := r.Host[dev]; real || raw || len(first.Bytes) < etherLen || multicast(first.Bytes) {
		return
	}
	to := mac(first.Bytes[:6])
	if to != (mac{}) {
		r.Host[dev] = HostDevice{MAC: to, MTU: 1500}
	}
}

// choose sets the hooks of all interfaces as the request wants them.
func choose(f *config.File, r Request) {
	for _, n := range f.Names("interface") {
		i := f.Interface(n)
		switch r.Via {
		case ViaXDP:
			i.Hook, i.Bypass = config.HookXDP, true
		case ViaTC, ViaSlow:
			i.Hook = config.HookTC
		case ViaConfig:
			// the veth that stands for the device would not be chosen itself
			if i.Hook == config.HookAuto && i.Bypass && r.Host[i.Device].XDP {
				i.Hook = config.HookXDP
			}
		}
	}
}

// trace sends one packet and reports what became of it.
func (t *tracer) trace(ctx context.Context, p Packet) error {
	if now := p.Time.Sub(t.start).Nanoseconds(); now > t.clock.Load() {
		t.clock.Store(now)
	}
	bytes := p.Bytes
	if t.input.Raw {
		if from := ends(p.Bytes); len(from) > 0 {
			if err := t.topology.behind(t.in, from[0]); err != nil {
				return err
			}
		}
		for _, a := range ends(p.Bytes) {
			if err := t.topology.meet(append(t.router.Images(a), a)); err != nil {
				return err
			}
		}
		bytes = frame(t.in.mac, farMAC, t.input.etherType(p.Bytes), p.Bytes)
	}
	if err := t.router.Follow(ctx); err != nil {
		return err
	}
	r := Result{Packet: p.Number, In: t.in.name, Outputs: []Sent{}, Decisions: []Decision{}}
	sent := time.Now()
	if err := t.topology.far.send(t.in.farIndex, bytes); err != nil {
		if !refuse(&r, bytes, err) {
			return fmt.Errorf("send to %s: %w", t.in.dev, err)
		}
		return t.notify(p, r)
	}
	out, now, err := t.topology.settle(t.router, t.last)
	if err != nil {
		return err
	}
	r.Decisions = now.since(t.last)
	t.last = now
	var outcome state.Outcome
	r.Verdict, outcome = judge(r.Decisions)
	r.Reason, r.words = outcome.String(), outcome.Words()
	for _, c := range out {
		if err := t.leave(&r, c, p.Time.Add(c.at.Sub(sent))); err != nil {
			return err
		}
	}
	return t.notify(p, r)
}

// refuse explains a frame that no device would have received.
func refuse(r *Result, frame []byte, err error) bool {
	r.Verdict = state.Drop
	switch {
	case len(frame) < etherLen:
		r.Reason, r.words = "frame-too-short", "shorter than an Ethernet header: no device receives that"
	case errors.Is(err, unix.EMSGSIZE):
		r.Reason, r.words = "frame-too-long", "longer than the interface's MTU allows: the device does not receive that"
	default:
		return false
	}
	return true
}

// leave notes a frame that left.
func (t *tracer) leave(r *Result, c caught, at time.Time) error {
	bytes := c.frame
	if t.input.Raw {
		bytes = bytes[min(etherLen, len(bytes)):]
	}
	name := ""
	if c.device >= 0 {
		name = t.topology.devices[c.device].name
	}
	r.Outputs = append(r.Outputs, Sent{Interface: name, Hex: fmt.Sprintf("%x", bytes), bytes: bytes})
	if t.output == nil {
		return nil
	}
	return t.output.Write(at, bytes)
}

func (t *tracer) notify(p Packet, r Result) error {
	if p.Cut > 0 {
		r.words += fmt.Sprintf("; its capture had cut %d bytes off", p.Cut)
	}
	if t.request.JSON {
		return writeJSON(t.report, r)
	}
	return explain(t.report, t.input.Raw, p, r, subscribersOf(t.request.LNS, t.request.Logins))
}
