package pseudowire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab"
)

// Guests are measured in the labs that try them: `weft lab run uml-l2tpv3` has
// the same guest, the same weft.toml and the same addresses. TCP is between the
// guest and the node that the lab's own transfer begins at.

const (
	guestUp   = "guest-up"
	guestDown = "guest-down"
)

func guestCases() []bench.Case {
	return []bench.Case{
		{Name: guestUp, About: "one TCP flow out of a guest, payload that arrives", Unit: "Gbit/s"},
		{Name: guestDown, About: "one TCP flow into a guest, payload that arrives", Unit: "Gbit/s"},
	}
}

func ofGuests(c string) bool { return c == guestUp || c == guestDown }

// guest is one way into a guest.
type guest struct {
	name, about string
	lab         string // a scenario of weft lab, or one of peers
	to          string // the guest's address there
}

func guests() []guest {
	return []guest{
		{"uml-l2tpv3", "User-Mode Linux by L2TPv3 over UDP", "uml-l2tpv3", "192.0.2.2"},
		{"uml-gre", "User-Mode Linux by GRE", "uml-gre", "192.0.2.2"},
		{"uml-raw", "User-Mode Linux by a raw socket on a bridge's veth", "uml-raw", "192.0.2.2"},
		{"uml-raw-gro", "the same with GSO packets", "uml-raw", "192.0.2.66"},
		{"uml-tap", "User-Mode Linux by tap on a bridge", "uml-tap", "192.0.2.2"},
		{"uml-tap-gro", "the same with GSO packets", "uml-tap", "192.0.2.130"},
		{"uml-kernel", "the same on a bridge of the kernel's alone", "uml-kernel", "192.0.2.2"},
		{"qemu-l2tpv3", "QEMU by L2TPv3 over UDP", "qemu-l2tpv3", "192.0.2.2"},
		{"qemu-tap", "QEMU by tap on a bridge", "qemu-tap", "192.0.2.2"},
		{"qemu-kernel", "the same on a bridge of the kernel's alone", "qemu-kernel", "192.0.2.2"},
	}
}

// peer is the lab of a guest on a tap device and a bridge without weft:
//
//	uplink eth0 --- up router vm1 === eth0 guest
//	                   bridge
func peer(kind, wire string) lab.Source {
	text := fmt.Sprintf(`title = "a guest on a bridge of the kernel's"
[[node]]
name = "uplink"
[[node]]
name = "router"
[[node.process]]
name = "bridge"
once = true
first = true
argv = ["sh", "-ec", "ip link add guests type bridge; ip tuntap add dev vm1 mode tap; for d in vm1 up; do ip link set dev $d master guests up; done; ip link set guests up"]
[[node]]
name = "guest"
kind = %q
beside = "router"
memory = %d
[[node.wire]]
device = "eth0"
options = %q
addresses = ["192.0.2.2/26"]
[[link]]
ends = [
  { node = "uplink", device = "eth0", addresses = ["192.0.2.1/26"] },
  { node = "router", device = "up" },
]
[[check]]
kind = "ping"
name = "the guest answers"
from = "uplink"
to = "192.0.2.2"
[[check]]
kind = "transfer"
name = "bytes cross"
from = "uplink"
to = "192.0.2.2"
at = "guest"
`, kind, map[string]int{"uml": 256, "qemu": 512}[kind], wire)
	return lab.Source{Name: kind + "-kernel", File: kind + "-kernel.toml", Text: []byte(text)}
}

func (g guest) source() (lab.Source, error) {
	switch g.lab {
	case "uml-kernel":
		return peer("uml", "transport=tap,ifname=vm1,gro=1"), nil
	case "qemu-kernel":
		return peer("qemu", "tap,ifname=vm1,script=no,downscript=no"), nil
	}
	return lab.Find(g.lab)
}

// scenario is the guest's lab, with a server of TCP flows in it, and the check
// that it tries this way by.
func (g guest) scenario() (*lab.Scenario, lab.Source, lab.Check, error) {
	fail := func(err error) (*lab.Scenario, lab.Source, lab.Check, error) {
		return nil, lab.Source{}, lab.Check{}, fmt.Errorf("lab of %s: %w", g.name, err)
	}
	src, err := g.source()
	if err != nil {
		return fail(err)
	}
	s, err := lab.Parse(src)
	if err != nil {
		return fail(err)
	}
	i := slices.IndexFunc(s.Checks, func(c lab.Check) bool {
		return c.Kind == lab.CheckTransfer && c.To.Addr == netip.MustParseAddr(g.to)
	})
	if i < 0 {
		return fail(fmt.Errorf("it has no transfer to %s", g.to))
	}
	n := slices.IndexFunc(s.Nodes, func(n lab.Node) bool { return n.Name == s.Checks[i].At })
	server := rig.FlowServer()
	s.Nodes[n].Script += "\n" + strings.Join(server, " ") + " -D\n"
	if s.Nodes[n].Kind == lab.QEMU {
		s.Nodes[n].Programs = append(s.Nodes[n].Programs, lab.HostProgram{Name: server[0], Needs: server[0]})
	}
	return s, src, s.Checks[i], nil
}

// Guests returns the names of the guests that a choice of cases and subjects is
// about; an empty list stands for all.
func Guests(cases, subjects []string) []string {
	if len(cases) > 0 && !slices.ContainsFunc(cases, ofGuests) {
		return nil
	}
	var names []string
	for _, g := range guests() {
		if len(subjects) == 0 || slices.Contains(subjects, g.name) {
			names = append(names, g.name)
		}
	}
	return names
}

// lacking returns what this machine has not that guests need, all at once.
func lacking(names []string) error {
	said := map[string]bool{}
	var missing []string
	for _, g := range guests() {
		if !slices.Contains(names, g.name) {
			continue
		}
		s, src, _, err := g.scenario()
		if err != nil {
			return err
		}
		if err := lab.Possible(lab.Options{Name: labName(src.Name), Scenario: s, Source: src}); err != nil && !said[err.Error()] {
			said[err.Error()] = true
			missing = append(missing, fmt.Sprintf("%s: %v", g.name, err))
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%s\n(or choose the cases without guests: --case tcp1 ...)", strings.Join(missing, "\n"))
}

// labPrefix begins the names of labs; what follows is the process that made
// them, so that the next bench finds what a killed one left.
const labPrefix = "bench-"

func labName(scenario string) string { return fmt.Sprintf("%s%d-%s", labPrefix, os.Getpid(), scenario) }

// sweepLabs takes down the labs of benches that were killed.
func sweepLabs(ctx context.Context) error {
	running, err := lab.Running()
	if err != nil {
		return err
	}
	for _, r := range running {
		rest, ours := strings.CutPrefix(r.Name, labPrefix)
		owner, _, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(owner); !ours || err != nil || rig.Alive(pid) {
			continue
		}
		if err := lab.Down(ctx, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// guest measures a guest; its lab stays up for the next time.
func (m *Measurer) guest(ctx context.Context, c, name string) (float64, error) {
	i := slices.IndexFunc(guests(), func(g guest) bool { return g.name == name })
	if i < 0 {
		return 0, fmt.Errorf("no guest is called %q", name)
	}
	g := guests()[i]
	s, src, way, err := g.scenario()
	if err != nil {
		return 0, err
	}
	l, err := m.lab(ctx, s, src)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	ping := lab.Check{Kind: lab.CheckPing, Name: "the guest answers", From: way.From, To: way.To}
	if r, err := l.Check(ctx, ping); err != nil || !r.OK {
		return 0, errors.Join(err, fmt.Errorf("%s: %s", r.Tried, r.Outcome))
	}
	argv := rig.FlowsTo(way.To.Addr, 1, bench.TCPSeconds(m.o.Seconds))
	if c == guestUp {
		argv = rig.FlowFrom(way.To.Addr, bench.TCPSeconds(m.o.Seconds))
	}
	out, err := l.Exec(ctx, way.From, argv...)
	if err != nil {
		return 0, errors.Join(err, rig.FlowError(out))
	}
	return rig.Received(out)
}

func (m *Measurer) lab(ctx context.Context, s *lab.Scenario, src lab.Source) (*lab.Lab, error) {
	if l := m.labs[src.Name]; l != nil {
		return l, nil
	}
	l, err := lab.Up(ctx, lab.Options{Name: labName(src.Name), Scenario: s, Source: src, Weft: m.o.Weft, Started: time.Now()})
	if err != nil {
		return nil, err
	}
	m.labs[src.Name] = l
	return l, nil
}

// sendGuestsHome takes all labs down: other cases are measured without them.
func (m *Measurer) sendGuestsHome(ctx context.Context) error {
	var errs []error
	for name, l := range m.labs {
		l.Close()
		errs = append(errs, lab.Down(ctx, l.Name))
		delete(m.labs, name)
	}
	return errors.Join(errs...)
}
