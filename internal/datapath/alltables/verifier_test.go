package alltables

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"weft/fib"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/lab/guest"
	"weft/internal/state"
)

// Kernels' verifiers differ: what a newer one takes an older one may refuse. Every
// program, as it is for each choice that is made when it is loaded, goes through
// that of this machine's kernel, and that of Debian's in a guest.

// TestMain lets the test binary play the roles that a guest needs of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guest" {
		os.Exit(guest.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// logLines is how much of the verifier's log is shown, from its end.
const logLines = 400

// choice is a way to load programs.
type choice struct {
	name    string
	options datapath.Options
	routes  state.RouteTables
}

// homeRouter is one that offloads flows, and does nothing else.
func homeRouter() datapath.Options {
	return datapath.Options{Tables: state.Tables{Flows: 16384, Unused: state.RoleOptional &^ state.RoleOffloaded}}
}

// choices are those of a router without any of what is chosen, of one with all of
// it, of each format of switches that offload knows, and of weft trace.
func choices() []choice {
	all := state.Tables{Bindings: 1 << 12, Sessions: 1 << 14, Flows: 1024, Subscribers: 1024}
	tables := state.RouteTables{Words4: 4 * fib.MinWords4, Words6: 4 * fib.MinWords6}
	list := []choice{{"nothing", datapath.Options{}, state.RouteTables{}}, {"all", datapath.Options{Tables: all}, tables}, {"home", homeRouter(), state.RouteTables{}}}
	for _, format := range []state.SwitchFormat{state.SwitchMTK, state.SwitchQCA, state.SwitchGSWIP} {
		all.Switch = format
		list = append(list, choice{"switch-" + format.String(), datapath.Options{Tables: all}, tables})
	}
	all.Switch = state.SwitchNone
	return append(list, choice{"trace", datapath.Options{Tables: all, UnlimitedSlow: true, ForceSlow: true}, tables})
}

func TestTheVerifierTakesEveryProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	var known sync.Map // programs with their load-time constants
	for _, c := range choices() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := openChoice(t, c)
			for _, name := range datapath.AllPrograms() {
				spec, err := d.Chosen(name)
				if err != nil {
					t.Fatal(err)
				}
				if len(spec.Programs) != 1 || spec.Programs[name] == nil {
					t.Fatalf("object %s has programs %v", name, slices.Sorted(maps.Keys(spec.Programs)))
				}
				if _, seen := known.LoadOrStore(name+constants(spec, spec.Programs[name]), true); !seen {
					takes(t, d, name, c)
				}
			}
		})
	}
}

// What a program takes to load is what the verifier looks at: seconds on a weak
// router. It is not to look at what the router has no use for.
func TestAHomeRouterLoadsOnlyWhatItUses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	whole := openChoice(t, choice{"whole", datapath.Options{Tables: state.Tables{Flows: 16384}}, state.RouteTables{}})
	home := openChoice(t, choice{"home-only", homeRouter(), state.RouteTables{}})
	for _, name := range []string{"ingress_tc", "ingress_xdp"} {
		all, some := verified(t, whole, name), verified(t, home, name)
		t.Logf("%s: %d instructions looked at, of %d for every use", name, some, all)
		if some == 0 || some > all/3 {
			t.Errorf("%s: the verifier looks at %d instructions for offload alone, at %d for everything", name, some, all)
		}
	}
	guarded := state.IngressEntry{Device: "lo", Roles: state.RoleGuarded}
	step := state.Step{Op: state.Add, Object: guarded}
	if err := home.Apply(t.Context(), step); err == nil {
		t.Error("an interface is to be guarded by programs that cannot")
	}
	if err := whole.Apply(t.Context(), step); err != nil {
		t.Error(err)
	}
}

// verified is how many instructions the verifier looked at.
func verified(t *testing.T, d *datapath.Datapath, name string) uint32 {
	t.Helper()
	prog, err := d.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := info.VerifiedInstructions()
	return n
}

// takes loads a program, and shows what the verifier says if it refuses.
func takes(t *testing.T, d *datapath.Datapath, name string, c choice) {
	t.Helper()
	begin := time.Now()
	_, err := d.Load(name)
	var refusal *ebpf.VerifierError
	switch {
	case errors.As(err, &refusal):
		t.Errorf("%s for %s: %v\n%s", name, c.name, err, strings.Join(refusal.Log[max(0, len(refusal.Log)-logLines):], "\n"))
	case err != nil:
		t.Errorf("%s for %s: %v", name, c.name, err)
	default:
		t.Logf("%s for %s: taken after %d ms", name, c.name, time.Since(begin).Milliseconds())
	}
}

// openChoice opens a datapath of its own, until the test's end.
func openChoice(t *testing.T, c choice) *datapath.Datapath {
	t.Helper()
	dir := filepath.Join("/sys/fs/bpf", fmt.Sprintf("weft-verifier-%d-%s", os.Getpid(), c.name))
	d, err := Open(dir, c.options)
	if err != nil {
		t.Fatal(errors.Join(err, datapath.Remove(dir)))
	}
	t.Cleanup(func() {
		if err := errors.Join(nat64table.Of(d).StopSweep(), d.Close(), datapath.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if c.routes != (state.RouteTables{}) {
		if err := d.Apply(t.Context(), state.Step{Op: state.Add, Object: c.routes}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// constants are the load-time constants that a program reads: the verifier skips the
// branches that they exclude.
func constants(spec *ebpf.CollectionSpec, p *ebpf.ProgramSpec) string {
	read := map[uint32]bool{}
	for _, in := range p.Instructions {
		if in.IsLoadFromMap() && in.Src == asm.PseudoMapValue && in.Reference() == ".rodata" {
			read[uint32(in.Constant>>32)] = true
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(spec.Variables)) {
		if v := spec.Variables[name]; v.SectionName == ".rodata" && read[v.Offset] {
			fmt.Fprintf(&b, " %s=%x", name, v.Value)
		}
	}
	return b.String()
}

// inGuest are the choices that a processor which is emulated has time for.
var inGuest = []string{"nothing", "all", "home", "switch-mtk"}

// Linux 6.12 is Debian's kernel for guests that run weft, and the oldest that it
// is tried on.
func TestLinux612TakesEveryProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "verifier-") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	g, err := guest.Start(t.Context(), guest.Spec{
		Kind: guest.QEMU, Name: "verifier", Kernel: "6.12", Dir: filepath.Join(dir, "g"), Memory: 1024, CPUs: 2,
		Self: []string{self, "guest"}, Script: "mount -t bpf bpf /sys/fs/bpf", Patience: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	version, _, err := g.Exec(t.Context(), "uname", "-r")
	if err != nil || !bytes.HasPrefix(version, []byte("6.12.")) {
		t.Fatalf("the guest's kernel is %q, %v", version, err)
	}
	out, exit, err := g.Exec(t.Context(), guest.SelfInQEMU(self), "-test.run", "^TestTheVerifierTakesEveryProgram$/^("+strings.Join(inGuest, "|")+")$", "-test.v")
	t.Logf("%s", out)
	for _, want := range inGuest {
		if !bytes.Contains(out, []byte("--- PASS: TestTheVerifierTakesEveryProgram/"+want)) {
			t.Errorf("in Linux %s: not every program for %s was taken", bytes.TrimSpace(version), want)
		}
	}
	if err != nil || exit != 0 {
		t.Errorf("in Linux %s: exit %d, %v", bytes.TrimSpace(version), exit, err)
	}
}
