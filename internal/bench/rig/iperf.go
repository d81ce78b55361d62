package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"weft/internal/lab/netspace"
)

// Iperf3 is the program that makes TCP traffic.
var iperf3 = Program{"iperf3", "iperf3"}

const (
	iperfPort     = 5201
	iperfInterval = 0.5 // seconds between the receiver's reports; the first is warm-up
)

// ServeTCP starts an iperf3 server in a namespace and waits until it listens.
func (p *Path) ServeTCP(ctx context.Context, in *netspace.Space) error {
	return p.serve(ctx, in, iperfPort, FlowServer())
}

// serve starts an iperf3 server, and waits until it listens at a port.
func (p *Path) serve(ctx context.Context, in *netspace.Space, port int, argv []string) error {
	if err := Need(iperf3); err != nil {
		return err
	}
	pr, err := p.launch(in, fmt.Sprintf("iperf3-%s-%d", in.Name, port), nil, append(p.pin(), argv...)...)
	if err != nil {
		return err
	}
	return pr.until(ctx, func() (listens bool, err error) {
		err = in.Do(func() error {
			listens, err = listening(port)
			return err
		})
		return listens, err
	})
}

// listening looks for a TCP listener on any address (proc(5), /proc/net/tcp6).
func listening(port int) (bool, error) {
	text, err := os.ReadFile("/proc/thread-self/net/tcp6")
	if err != nil {
		return false, err
	}
	const listen = "0A"
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == listen {
			return true, nil
		}
	}
	return false, nil
}

// TCP sends over some flows at once, from a namespace to an address where
// ServeTCP listens, and gives the payload that arrived in Gbit/s. The first
// half second does not count.
func (p *Path) TCP(ctx context.Context, from *netspace.Space, to netip.Addr, flows int, seconds int) (float64, error) {
	return p.received(ctx, from, seconds, func(seconds int) []string { return FlowsTo(to, flows, seconds) })
}

// TCPBack is TCP with one flow in the other direction: the receiver opens the
// connection, and the server sends.
func (p *Path) TCPBack(ctx context.Context, to *netspace.Space, from netip.Addr, seconds int) (float64, error) {
	return p.received(ctx, to, seconds, func(seconds int) []string { return FlowFrom(from, seconds) })
}

// ErrBrief is returned if the receiver's reports contain no interval after the
// warm-up.
var ErrBrief = errors.New("the receiver reported too little after the warm-up")

// flowTries limits how often a measurement is repeated, each time twice as long,
// because a starved receiver has reported only the warm-up.
const flowTries = 4

func (p *Path) received(ctx context.Context, in *netspace.Space, seconds int, client func(seconds int) []string) (float64, error) {
	var brief error
	for range flowTries {
		argv := append(p.pin(), client(seconds)...)
		out, err := p.run(in, exec.CommandContext(ctx, argv[0], argv[1:]...))
		if err != nil {
			return 0, errors.Join(err, FlowError(out))
		}
		gbits, err := Received(out)
		if !errors.Is(err, ErrBrief) {
			return gbits, err
		}
		brief, seconds = err, 2*seconds
	}
	return 0, brief
}

// HostsOn runs the programs that make TCP traffic on one CPU from now on.
func (p *Path) HostsOn(cpu int) { p.hosts = strconv.Itoa(cpu) }

// pin begins such a command.
func (p *Path) pin() []string {
	if p.hosts == "" {
		return nil
	}
	return []string{"taskset", "--cpu-list", p.hosts}
}

// FlowServer is the command of the server for FlowsTo and FlowFrom.
func FlowServer() []string {
	return []string{"iperf3", "-s", "-p", strconv.Itoa(iperfPort), "-i", fmt.Sprint(iperfInterval), "-J"}
}

// FlowsTo is the command that sends over some flows at once; its output is for
// Received, as that of FlowFrom.
func FlowsTo(to netip.Addr, flows, seconds int) []string {
	return append(flowClient(to, seconds), "-P", strconv.Itoa(flows), "--get-server-output")
}

// FlowFrom is the command to which the server sends, over one flow.
func FlowFrom(from netip.Addr, seconds int) []string { return append(flowClient(from, seconds), "-R") }

func flowClient(server netip.Addr, seconds int) []string {
	return []string{"iperf3", "-c", server.String(), "-p", strconv.Itoa(iperfPort), "-t", strconv.Itoa(seconds),
		"-i", fmt.Sprint(iperfInterval), "-J", "--connect-timeout", "30000"}
}

// FlowError is the error that the client reported.
func FlowError(out []byte) error {
	var r struct{ Error string }
	if json.Unmarshal(out, &r) == nil && r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// interval is one of iperf3's reports.
type interval struct {
	Sum struct {
		Start, Seconds float64
		Bytes          float64
	}
}

// Received returns what the receiver received after its first report, in
// Gbit/s: the server, or the client itself where the server sent.
func Received(out []byte) (float64, error) {
	var r struct {
		Intervals []interval
		Server    struct{ Intervals []interval } `json:"server_output_json"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("read iperf3's result: %w", err)
	}
	intervals := r.Server.Intervals
	if len(intervals) == 0 {
		intervals = r.Intervals
	}
	var bytes, seconds float64
	for _, i := range intervals {
		if i.Sum.Start >= 0.9*iperfInterval {
			bytes += i.Sum.Bytes
			seconds += i.Sum.Seconds
		}
	}
	if seconds < iperfInterval/2 {
		return 0, fmt.Errorf("read iperf3's result: %w: %s", ErrBrief, time.Duration(seconds*float64(time.Second)))
	}
	return bytes * 8 / seconds / 1e9, nil
}
