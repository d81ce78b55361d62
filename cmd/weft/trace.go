package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/datapath"
	"weft/internal/features"
	"weft/internal/instance"
	"weft/internal/state"
	"weft/internal/trace"
)

// innerTrace is the hidden command that weft trace starts in namespaces of its own.
const innerTrace = "inside"

type traceFlags struct {
	config, in, read, write, via string
	sessions                     string
	asJSON                       bool
}

func traceCommand() *cobra.Command {
	flags := traceFlags{read: "-"}
	c := &cobra.Command{
		Use:   "trace --config FILE --in IFACE [--read PCAP] [--write PCAP] [--via xdp|tc|slow] [--json]",
		Short: "Show what the router would do with packets",
		Long: `Apply FILE in a temporary network namespace whose interfaces represent the
host's, send the packets of a capture into one of them, and report every frame
that leaves any interface (from eBPF programs, the slow path or the kernel), and
the decisions of the programs. The host's network does not change, and nothing
is left behind.

IFACE is the NAME of an [interface.NAME] or its device; the report names the
others in the same way. The capture is pcap or pcapng, Ethernet or raw IP, from
standard input unless --read names a file. Its timestamps are the daemon's
clock; sessions of a stateful translator and caches of the programs live by the
kernel's, so a pause in the capture does not end them. State persists from
packet to packet.

With raw IP, all neighbours are known, and the report has raw IP. With Ethernet
no neighbour answers, and the kernel's requests to neighbours are in the report.

A device has the host's MAC and MTU if the host has it. Otherwise its MTU is
1500 or the file's, and its MAC is 02:77:65:66:74:NN (NN: its position in the
file), or, for IFACE, the destination of the first Ethernet frame. If the host
has all the devices, their routes are copied. If no default route is copied,
IPv4 and IPv6 get one out of the first interface with such an address; if there
is none, IPv4 out of the last interface and IPv6 out of the first. The host's
firewall is not copied.

Subscribers of [lns.NAME] have the sessions of this host's programs, so that
packets to and from them are explained; --sessions FILE reads them from the
output of weft show l2tp-sessions --json on another host, and --sessions none
omits them. Control messages of L2TP and PPP go to the daemon, which does not
answer here.

--via xdp sets hook = "xdp" and bypass = true on all interfaces, --via tc
sets hook = "tc", and --via slow sends all packets to translate to the slow
path. --json prints one object per line for each packet: packet, verdict
(forward, pass, drop), reason, in, outputs and decisions.`,
		Example: "  weft trace --config weft.toml --in lan --read capture.pcap\n" +
			"  weft trace --config weft.toml --in lan --json --via xdp < packets.pcap",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runTrace(cmd.Context(), flags) },
	}
	c.Flags().StringVar(&flags.config, "config", "", "the configuration, a weft.toml")
	c.Flags().StringVar(&flags.in, "in", "", "ingress interface")
	c.Flags().StringVar(&flags.read, "read", "-", "capture with the packets; - is standard input")
	c.Flags().StringVar(&flags.write, "write", "", "pcap file for the output packets")
	c.Flags().StringVar(&flags.via, "via", "", "path: xdp, tc or slow (default: as configured)")
	c.Flags().StringVar(&flags.sessions, "sessions", "", "file with subscribers' sessions, or none (default: those of this host)")
	c.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object for each packet")
	for _, name := range []string{"config", "in"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // no such flag: a mistake in this function
		}
	}
	c.AddCommand(&cobra.Command{
		Use: innerTrace, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := trace.Inner(cmd.Context(), engine{slog.New(slog.NewTextHandler(os.Stderr, nil))})
			var problems trace.ProblemsError
			if errors.As(err, &problems) {
				printProblems(os.Stderr, problems)
				return errReported
			}
			return err
		},
	})
	return c
}

func runTrace(ctx context.Context, flags traceFlags) error {
	via := trace.Via(flags.via)
	switch via {
	case trace.ViaConfig, trace.ViaXDP, trace.ViaTC, trace.ViaSlow:
	default:
		return fmt.Errorf("--via %s: it is xdp, tc or slow", flags.via)
	}
	text, err := os.ReadFile(flags.config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	f, problems := daemon.Parse(flags.config, text)
	printProblems(os.Stderr, problems)
	if state.HasErrors(problems) {
		return errReported
	}
	if _, _, err := trace.FindInterface(f, flags.in); err != nil {
		return fmt.Errorf("--in %s: %w", flags.in, err)
	}
	if err := needRoot("weft trace"); err != nil {
		return err
	}
	request := trace.Request{File: flags.config, Text: text, In: flags.in, Via: via, JSON: flags.asJSON}
	if request.Host, err = hostDevices(f); err != nil {
		return err
	}
	if request.LNS, request.Logins, err = sessionsFor(ctx, f, flags.sessions); err != nil {
		return err
	}
	files := trace.Files{Read: os.Stdin, Report: os.Stdout, Errors: os.Stderr}
	if flags.read != "-" {
		if files.Read, err = os.Open(flags.read); err != nil {
			return fmt.Errorf("open capture: %w", err)
		}
		defer files.Read.Close()
	}
	if flags.write != "" {
		if files.Write, err = os.Create(flags.write); err != nil {
			return fmt.Errorf("create pcap file: %w", err)
		}
		defer files.Write.Close()
	}
	err = trace.Outer(ctx, []string{"trace", innerTrace}, request, files)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return errReported // by the inner process
	}
	return err
}

func hostDevices(f *config.File) (map[string]trace.HostDevice, error) {
	host, err := daemon.Look()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	links, err := host.Doors().Kernel.Links()
	if err != nil {
		return nil, err
	}
	return trace.Host(f, links)
}

// engine gives weft trace the daemon's router.
type engine struct{ log *slog.Logger }

func (e engine) Parse(file string, text []byte) (*config.File, []state.Problem) {
	return daemon.Parse(file, text)
}

func (e engine) Ports(f *config.File) []string { return features.Ports(f) }

func (e engine) Makes(f *config.File) []string { return features.Makes(f) }

func (e engine) Start(ctx context.Context, f *config.File, forceSlow bool, clock func() int64) (trace.Router, error) {
	i, err := instance.Start(ctx, f, instance.Options{
		Log: e.log, Clock: clock, Datapath: datapath.Options{ForceSlow: forceSlow, UnlimitedSlow: true},
	})
	var problems daemon.ProblemsError
	if errors.As(err, &problems) {
		return nil, trace.ProblemsError(problems)
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}
