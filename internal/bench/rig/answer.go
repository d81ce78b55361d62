package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"weft/internal/lab/netspace"
)

// Answer has a host send datagrams to the discard port back, until stop;
// near has it drop such answers.
func (p *Path) Answer(host *netspace.Space, near bool) (stop func() error, err error) {
	spec, err := loadAnswer()
	if err != nil {
		return nil, fmt.Errorf("read the answering program's object: %w", err)
	}
	var objects answerObjects
	err = errors.Join(spec.Variables["near"].Set(near), rlimit.RemoveMemlock())
	if err == nil {
		err = spec.LoadAndAssign(&objects, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("load the answering program: %w", err)
	}
	var l link.Link
	if l, err = AttachXDP(host, "eth0", objects.Answer); err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return func() error { return errors.Join(l.Close(), objects.Close()) }, nil
}

// Command runs a program in a namespace of the path to its end.
func (p *Path) Command(ctx context.Context, in *netspace.Space, argv ...string) ([]byte, error) {
	return p.run(in, exec.CommandContext(ctx, argv[0], argv[1:]...))
}

// BusySeconds is how long all CPUs of the machine have worked so far
// (proc(5), /proc/stat: user, nice, system, irq, softirq).
func BusySeconds() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, errors.New("read /proc/stat: it does not begin with cpu")
	}
	var ticks float64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		ticks += n
	}
	return ticks / 100, nil // USER_HZ
}

// Sysctls writes settings like net/ipv4/ip_forward=1 in the router.
func (p *Path) Sysctls(settings ...string) error { return sysctls(p.Router, settings...) }
