package reality

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// Network is two namespaces with links between them.
type Network struct {
	A, B    *netspace.Space
	names   []string
	devices []int
	cancel  context.CancelFunc
	done    []chan error
	links   [][2]*wire // from A to B, and back
}

// Build makes a network of one link for each shape, the same in both
// directions but for the way back, which has the delay only. Its namespaces are
// called after name.
func Build(ctx context.Context, name string, shapes []Shape) (n *Network, err error) {
	ctx, cancel := context.WithCancel(ctx)
	n = &Network{cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	for _, end := range []struct {
		space **netspace.Space
		name  string
	}{{&n.A, name + "-a"}, {&n.B, name + "-b"}} {
		s, err := netspace.Create(end.name)
		if err != nil {
			return n, err
		}
		n.names = append(n.names, end.name)
		*end.space = s
	}
	for i, s := range shapes {
		if err := n.link(ctx, i, s); err != nil {
			return n, err
		}
	}
	return n, n.settings(len(shapes))
}

// Address returns the address of link i at end 1 (A) or 2 (B).
func Address(link, end int) string { return fmt.Sprintf("10.91.%d.%d", link, end) }

func (n *Network) link(ctx context.Context, i int, s Shape) error {
	device := fmt.Sprintf("p%d", i)
	var ends []int
	for end, space := range []*netspace.Space{n.A, n.B} {
		fd := -1
		err := space.Do(func() (err error) { fd, err = openTUN(device); return err })
		if err != nil {
			return err
		}
		n.devices = append(n.devices, fd)
		ends = append(ends, fd)
		address := Address(i, end+1) + "/24"
		for _, args := range []string{"link set " + device + " mtu 1500 txqueuelen 10000 up", "addr add " + address + " dev " + device} {
			if err := run(space, "ip", strings.Fields(args)...); err != nil {
				return err
			}
		}
	}
	pair := [2]*wire{newWire(s, ends[0], ends[1]), newWire(Shape{Delay: s.Delay}, ends[1], ends[0])}
	n.links = append(n.links, pair)
	for _, w := range pair {
		done := make(chan error, 1)
		n.done = append(n.done, done)
		go func() { done <- w.carry(ctx) }()
	}
	return nil
}

// settings pins what the comparison depends on: a receive window as large as needed, no new slow start after a pause, a subflow on each link.
func (n *Network) settings(links int) error {
	for _, s := range []*netspace.Space{n.A, n.B} {
		err := s.Do(func() error {
			for key, value := range map[string]string{
				"ipv4/tcp_slow_start_after_idle": "0", "ipv4/tcp_no_metrics_save": "1",
				"ipv4/tcp_rmem":           "4096 8388608 16777216",
				"ipv4/conf/all/rp_filter": "0", "mptcp/enabled": "1",
			} {
				if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
					return fmt.Errorf("set net/%s: %w", key, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := run(s, "ip", "mptcp", "limits", "set", "subflow", "4", "add_addr_accepted", "4"); err != nil {
			return err
		}
	}
	for i := 1; i < links; i++ {
		if err := run(n.B, "ip", "mptcp", "endpoint", "add", Address(i, 2), "dev", fmt.Sprintf("p%d", i), "signal"); err != nil {
			return err
		}
	}
	return nil
}

func run(s *netspace.Space, name string, args ...string) error {
	var out []byte
	err := s.Do(func() (err error) { out, err = exec.Command(name, args...).CombinedOutput(); return err })
	if err != nil {
		return fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Carried returns the bytes that link i has taken from A to B.
func (n *Network) Carried(i int) int64 { return n.links[i][0].carried.Load() }

// Close takes the network down.
func (n *Network) Close() error {
	n.cancel()
	var errs []error
	for _, d := range n.done {
		errs = append(errs, <-d)
	}
	for _, fd := range n.devices {
		errs = append(errs, unix.Close(fd))
	}
	for _, s := range []*netspace.Space{n.A, n.B} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, name := range n.names {
		errs = append(errs, netspace.Delete(name))
	}
	return errors.Join(errs...)
}

// Late returns how late packets were delivered, in ascending order. It is to be
// called after Close.
func (n *Network) Late() []time.Duration {
	var all []time.Duration
	for _, l := range n.links {
		for _, w := range l {
			all = append(all, w.late...)
		}
	}
	slices.Sort(all)
	return all
}

// sweep deletes the namespaces of networks whose process is gone.
func sweep(prefix string) error {
	names, err := netspace.List(prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		process, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
		if _, err := strconv.Atoi(process); err != nil {
			continue // another program's
		}
		if _, err := os.Stat("/proc/" + process); errors.Is(err, fs.ErrNotExist) {
			if err := netspace.Delete(name); err != nil {
				return err
			}
		}
	}
	return nil
}
