package lookup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"weft/internal/bench/rig"
)

// kernelTable is a router whose kernel has all routes.
//
//	left --- lan router wan --- right, where all gateways are
type kernelTable struct {
	*rig.Path
	lan    int           // index of the device by which packets arrive
	loaded time.Duration // how long ip -batch took
	bytes  uint64        // by which the machine's free memory shrank
}

// The gateways' last 16 bits are the numbers of the next hops. Their networks are in
// no table: RFC 6598, and RFC 4193.
var (
	lan = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("100.126.0.2/24"), netip.MustParsePrefix("fd00:76::2/64")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("100.126.0.1/24"), netip.MustParsePrefix("fd00:76::1/64")},
	}
	wan = rig.Ends{
		Host:   [2]netip.Prefix{netip.MustParsePrefix("100.127.255.2/16"), netip.MustParsePrefix("fd00:77::ff02/64")},
		Router: [2]netip.Prefix{netip.MustParsePrefix("100.127.255.1/16"), netip.MustParsePrefix("fd00:77::ff01/64")},
	}
)

func gateway(p netip.Prefix, hop uint32) string {
	if p.Addr().Is4() {
		return fmt.Sprintf("100.127.%d.%d", hop>>8, hop&0xff)
	}
	return fmt.Sprintf("fd00:77::%x", hop)
}

// openKernel makes the router and loads the routes.
func openKernel(ctx context.Context, name string, tables ...iter.Seq2[netip.Prefix, uint32]) (*kernelTable, error) {
	p, err := rig.NewPath(rig.PathOptions{Name: name, Lan: lan, Wan: wan, Forward: true, RouterGRO: true})
	if err != nil {
		return nil, err
	}
	k := &kernelTable{Path: p}
	err = p.Router.Do(func() error {
		dev, err := net.InterfaceByName("lan")
		if err == nil {
			k.lan = dev.Index
		}
		return err
	})
	before, err2 := takenMemory()
	start := time.Now()
	for _, routes := range tables {
		err2 = errors.Join(err2, k.batch(ctx, func(w *bufio.Writer) {
			for p, hop := range routes {
				fmt.Fprintf(w, "route add %s via %s dev wan\n", p, gateway(p, hop))
			}
		}))
	}
	k.loaded = time.Since(start)
	after, err3 := takenMemory()
	k.bytes = after - min(before, after)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, errors.Join(fmt.Errorf("load the kernel's routing table: %w", err), p.Close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// batch runs the lines by ip -batch in the router.
func (k *kernelTable) batch(ctx context.Context, lines func(*bufio.Writer)) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := k.Router.Start(cmd); err != nil {
		return fmt.Errorf("start ip -batch: %w", err)
	}
	w := bufio.NewWriterSize(in, 1<<16)
	lines(w)
	err = errors.Join(w.Flush(), in.Close(), cmd.Wait())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		text, _ := io.ReadAll(io.LimitReader(&complaint, 400))
		return fmt.Errorf("ip -batch: %w: %s", err, bytes.TrimSpace(text))
	}
	return nil
}

// takenMemory is what the machine's kernel has taken for itself: pages of the
// slab, per CPU and vmalloc memory (proc(5), /proc/meminfo).
func takenMemory() (bytes uint64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "Slab:", "VmallocUsed:", "Percpu:":
			kb, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read /proc/meminfo: %w", err)
			}
			bytes += kb * 1024
		}
	}
	return bytes, nil
}
