package rig

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weft/internal/paths"
)

// Programs returns the programs that weft has attached in the router, each once.
// They are closed with the path.
func (p *Path) Programs() ([]*ebpf.Program, error) {
	cookie, err := p.Router.Cookie()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(paths.Of(cookie).Pins, "links")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list weft's programs: %w", err)
	}
	var programs []*ebpf.Program
	known := map[ebpf.ProgramID]bool{}
	for _, e := range entries {
		id, err := programOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("look at program %s: %w", e.Name(), err)
		}
		if known[id] {
			continue
		}
		known[id] = true
		program, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return nil, fmt.Errorf("open program %s: %w", e.Name(), err)
		}
		p.onClose(program.Close)
		programs = append(programs, program)
	}
	return programs, nil
}

func programOf(pin string) (ebpf.ProgramID, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return 0, err
	}
	return info.Program, nil
}

// Clock makes the kernel measure the run time of programs (BPF_ENABLE_STATS): it
// reads the clock before and after each run. Floor is the cost of that itself, in
// nanoseconds per run.
type Clock struct {
	stats io.Closer
	Floor float64
}

// StartClock switches the measuring on until Close, for the whole machine.
func StartClock() (*Clock, error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, fmt.Errorf("have the kernel time programs: %w", err)
	}
	c := &Clock{stats: stats}
	if c.Floor, err = emptyRun(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close switches the measuring off.
func (c *Clock) Close() error { return c.stats.Close() }

// emptyRun is the time that the kernel reports for a program that does nothing.
func emptyRun() (float64, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, 1), // XDP_DROP
		asm.Return(),
	}})
	if err != nil {
		return 0, fmt.Errorf("load an empty program: %w", err)
	}
	defer program.Close()
	if _, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1 << 18}); err != nil {
		return 0, fmt.Errorf("run an empty program: %w", err)
	}
	t, err := TimesOf([]*ebpf.Program{program})
	if err != nil {
		return 0, err
	}
	return float64(t[0].ns) / float64(t[0].runs), nil
}

// Times is how long a program ran and how often, since it was loaded.
type Times struct{ ns, runs uint64 }

// TimesOf reads the times of programs, in their order.
func TimesOf(programs []*ebpf.Program) ([]Times, error) {
	var list []Times
	for _, p := range programs {
		s, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("read a program's run time: %w", err)
		}
		list = append(list, Times{uint64(s.Runtime), s.RunCount})
	}
	return list, nil
}

// PerPacket is the sum of the programs' mean run times for a packet, between two
// readings in which that many packets arrived. It counts the programs that ran for
// at least every second packet.
func PerPacket(before, after []Times, packets uint64, floor float64) float64 {
	var ns float64
	for i := range after {
		runs := after[i].runs - before[i].runs
		if packets == 0 || runs < packets/2 {
			continue
		}
		ns += float64(after[i].ns-before[i].ns)/float64(runs) - floor
	}
	return ns
}
