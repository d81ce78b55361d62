package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// Receivers are kernel threads that receive the packets of some devices (threaded
// NAPI, Documentation/networking/napi.rst). A router processes its packets there, so
// that its work can have a CPU of its own, and can be measured apart from the hosts'
// around it.
type Receivers struct{ threads []int }

// Receive makes threads on one CPU receive the packets of devices, with priority
// over other work. The devices must use NAPI: GRO or an XDP program is active there,
// and no segments are left to the sending device.
func (p *Path) Receive(ctx context.Context, in *netspace.Space, cpu int, devices ...string) (*Receivers, error) {
	r := &Receivers{}
	for _, device := range devices {
		before, err := receivers(device)
		if err != nil {
			return nil, err
		}
		if err := p.sysfs(ctx, in, device+"/threaded", "1"); err != nil {
			return nil, fmt.Errorf("receive at %s in threads: %w", device, err)
		}
		after, err := receivers(device)
		if err != nil {
			return nil, err
		}
		var fresh []int
		for pid := range after {
			if !before[pid] { // others may end meanwhile, of a path that is gone
				fresh = append(fresh, pid)
			}
		}
		if len(fresh) == 0 { // before Linux 6.17 they stay when they have nothing to do
			fresh = slices.DeleteFunc(slices.Clone(p.threads[device]), func(pid int) bool { return !after[pid] })
		}
		if p.threads == nil {
			p.threads = map[string][]int{}
		}
		p.threads[device] = fresh
		r.threads = append(r.threads, fresh...)
		if len(fresh) == 0 {
			return nil, fmt.Errorf("receive at %s in threads: the kernel started none", device)
		}
	}
	var one unix.CPUSet
	one.Set(cpu)
	for _, pid := range r.threads {
		if err := unix.SchedSetaffinity(pid, &one); err != nil {
			return nil, fmt.Errorf("keep a receiving thread on CPU %d: %w", cpu, err)
		}
		if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: receivePriority}, 0); err != nil {
			return nil, fmt.Errorf("put a receiving thread before others: %w", err)
		}
	}
	return r, nil
}

// receivePriority is the lowest of the real-time ones (sched(7)).
const receivePriority = 1

// Rejoin makes packets of devices be received on the CPU of their sender again.
func (p *Path) Rejoin(ctx context.Context, in *netspace.Space, devices ...string) error {
	var errs []error
	for _, device := range devices {
		errs = append(errs, p.sysfs(ctx, in, device+"/threaded", "0"))
	}
	return errors.Join(errs...)
}

// ReceivedAt is the number of packets received on a device of the router.
func (p *Path) ReceivedAt(device string) (n uint64, err error) {
	err = p.Router.Do(func() error {
		dev, err := netlink.LinkByName(device)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", device, p.Router.Name, err)
		}
		if dev.Attrs().Statistics == nil {
			return fmt.Errorf("%s does not count packets", device)
		}
		n = dev.Attrs().Statistics.RxPackets
		return nil
	})
	return n, err
}

// Forwarded is the number of IPv4 packets that the router's stack has forwarded; a
// GRO packet counts as one.
func (p *Path) Forwarded() (n uint64, err error) {
	err = p.Router.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		n, err = forwarded(string(text))
		return err
	})
	return n, err
}

// forwarded finds it in /proc/net/snmp: one line of names, then one of values
// (RFC 2011, ipForwDatagrams).
func forwarded(text string) (uint64, error) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "Ip:" {
			continue
		}
		at := slices.Index(names, "ForwDatagrams")
		if names == nil {
			names = f
		} else if at > 0 && at < len(f) {
			return strconv.ParseUint(f[at], 10, 64)
		}
	}
	return 0, errors.New("read /proc/net/snmp: ForwDatagrams is not there")
}

// KeepL2TPNS keeps an l2tpns in the router on some CPUs, if one runs there.
func (p *Path) KeepL2TPNS(first, last int) error {
	if p.l2tpns == 0 {
		return nil
	}
	var some unix.CPUSet
	for cpu := first; cpu <= last; cpu++ {
		some.Set(cpu)
	}
	if err := unix.SchedSetaffinity(p.l2tpns, &some); err != nil {
		return fmt.Errorf("keep l2tpns on CPUs %d to %d: %w", first, last, err)
	}
	return nil
}

// sysfs writes a setting of a device of a namespace: those are in a sysfs that
// was mounted in it.
func (p *Path) sysfs(ctx context.Context, in *netspace.Space, name, value string) error {
	_, err := p.Command(ctx, in, "unshare", "--mount", "sh", "-c",
		fmt.Sprintf("mount -t sysfs sysfs /sys && echo %s > /sys/class/net/%s", value, name))
	return err
}

// Steer makes a host process the packets of a device on one CPU (RPS,
// Documentation/networking/scaling.rst), instead of on their sender's.
func (p *Path) Steer(ctx context.Context, in *netspace.Space, device string, cpu int) error {
	return p.sysfs(ctx, in, device+"/queues/rx-0/rps_cpus", strconv.FormatUint(1<<cpu, 16))
}

// receivers finds the threads of devices with a name, in any namespace.
func receivers(device string) (map[int]bool, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	found := map[int]bool{}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(comm), "napi/"+device+"-") {
			continue // it has ended, or is another
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err == nil {
			found[pid] = true
		}
	}
	return found, nil
}

// Busy is how long the threads have worked so far.
func (r *Receivers) Busy() (total time.Duration, err error) {
	for _, pid := range r.threads {
		n, err := onCPU(pid)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// onCPU is how long a thread has worked (/proc/PID/schedstat, its first field).
func onCPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, fmt.Errorf("ask how long thread %d has worked: %w", pid, err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ask how long thread %d has worked: %w", pid, err)
	}
	return time.Duration(n), nil
}

// WeftBusy is how long the weft in the router has worked so far, all its
// threads together; nothing if none runs there.
func (p *Path) WeftBusy() (time.Duration, error) { return busy(p.weft) }

// L2TPNSBusy is the same of l2tpns.
func (p *Path) L2TPNSBusy() (time.Duration, error) { return busy(p.l2tpns) }

func busy(process int) (total time.Duration, err error) {
	if process == 0 {
		return 0, nil
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", process))
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return 0, err
		}
		n, err := onCPU(tid)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// CPUs returns the first and the last of the CPUs that this process may use.
// Generators are on the last.
func CPUs() (first, last int, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return 0, 0, fmt.Errorf("read the thread's CPUs: %w", err)
	}
	first = -1
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			if first < 0 {
				first = cpu
			}
			last = cpu
		}
	}
	return first, last, nil
}
