package lns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weft/internal/bench"
	"weft/internal/bench/rig"
	"weft/internal/lab/probe/lac"
	"weft/internal/paths"
)

// subject is one of the servers that are compared.
type subject struct {
	name, about string
	// hooks: TCP and packets want different ones, and so a path each.
	hooks bool
	// start makes the router a server; xdp: with the programs at that hook.
	start func(ctx context.Context, p *topology, xdp bool) error
	// memory is what the server takes, in bytes.
	memory  func(p *topology) (uint64, error)
	forward bool // the bench gives the router its addresses
}

// Describe is for the bench.
func (s subject) Describe() bench.Subject { return bench.Subject{Name: s.name, About: s.about} }

func subjects() []subject {
	return []subject{
		{name: "weft", about: "weft, with everything that a subscriber's set-up takes", hooks: true, start: startWeft, memory: weftMemory},
		{name: "weft-tables", about: "weft's programs alone, their tables filled without set-up", hooks: true, start: startTables, memory: tablesMemory, forward: true},
		{name: "l2tpns", about: "Debian's l2tpns, in user space", start: startL2TPNS, memory: l2tpnsMemory, forward: true},
	}
}

var radius = netip.MustParseAddrPort("127.0.0.1:1812")

// welcome starts a RADIUS server in the router that accepts every login: it is part
// of the topology, and not measured.
func (p *topology) welcome() error {
	return p.Router.Do(func() error {
		conn, err := lac.ListenRADIUS(radius)
		if err != nil {
			return err
		}
		lac.ServeRADIUS(conn)
		p.closers = append(p.closers, conn.Close)
		return nil
	})
}

func startL2TPNS(ctx context.Context, p *topology, _ bool) error {
	if err := p.welcome(); err != nil {
		return err
	}
	o := rig.L2TPNS{LocalAddr: here.Addr(), Pool: pool, RADIUS: radius, Secret: lac.Secret}
	if p.behind != nil {
		o.Realm, o.Other = realm, far
	}
	return p.RunL2TPNS(ctx, o)
}

func startWeft(ctx context.Context, p *topology, xdp bool) error {
	if err := p.welcome(); err != nil {
		return err
	}
	hook := "tc"
	if xdp {
		hook = "xdp"
	}
	var text strings.Builder
	for name, ends := range map[string]rig.Ends{"lan": left, "wan": right} {
		fmt.Fprintf(&text, "[interface.%s]\naddresses = [%q, %q]\nhook = %q\n", name, ends.Router[0], ends.Router[1], hook)
	}
	fmt.Fprintf(&text, "[route]\ninterfaces = [\"lan\", \"wan\"]\n[lns.main]\nlisten = [%q]\nlacs = [{ name = \"bench\", address = %q }]\nauthentication = [\"pap\"]\n", here.Addr(), peer.Addr())
	fmt.Fprintf(&text, "radius = [{ server = %[1]q, accounting = %[1]q, secret = %[2]q }]\npools = [{ addresses = [%[3]q] }]\nipv6 = false\nduplicates = \"allow\"\nhello = \"1h\"\nlcp_echo = \"0s\"\n", radius, lac.Secret, pool)
	if p.behind != nil {
		fmt.Fprintf(&text, "forward = [{ realm = %q, server = %q, secret = %q }]\n", realm[1:], far, lac.Secret)
	}
	return p.RunWeft(ctx, p.weft, text.String())
}

func startTables(_ context.Context, _ *topology, _ bool) error { return nil }

// mapsMemory is that of weft's pinned maps in the router which hold subscribers.
func (p *topology) mapsMemory() (total uint64, err error) {
	cookie, err := p.Router.Cookie()
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(paths.Of(cookie).Pins, "maps", "l2tp_*"))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(err, errors.New("weft has no maps of subscribers"))
	}
	for _, f := range files {
		m, err := ebpf.LoadPinnedMap(f, nil)
		if err != nil {
			return 0, err
		}
		info, err := m.Info()
		if err == nil {
			bytes, _ := info.Memlock()
			total += bytes
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return 0, err
		}
	}
	return total, nil
}

func tablesMemory(p *topology) (uint64, error) {
	if p.tables == nil {
		return 0, nil
	}
	return p.mapsMemory()
}

// residentOf adds up the resident memory of the programs of a name in the router,
// without mapped kernel tables and files in memory, which are counted separately.
func (p *topology) residentOf(name string) (total uint64, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	here, err := netOf(p)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		dir := filepath.Dir(f)
		comm, _ := os.ReadFile(f)
		if net, err := os.Readlink(filepath.Join(dir, "ns/net")); err != nil || net != here || strings.TrimSpace(string(comm)) != name {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "smaps"))
		if err != nil {
			return 0, err
		}
		n, err := resident(string(text))
		if err != nil {
			return 0, err
		}
		total += n
	}
	if total == 0 {
		return 0, fmt.Errorf("no program %s runs in %s", name, p.Router.Name)
	}
	return total, nil
}

// resident reads smaps (proc_pid_smaps(5)).
func resident(smaps string) (total uint64, err error) {
	elsewhere := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") {
			elsewhere = strings.Contains(line, "bpf-map") || strings.HasSuffix(fields[len(fields)-1], ".db")
		}
		if fields[0] == "Rss:" && !elsewhere {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read smaps: %w", err)
			}
			total += kib << 10
		}
	}
	return total, nil
}

func netOf(p *topology) (net string, err error) {
	err = p.Router.Do(func() (err error) {
		net, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	return net, err
}

func l2tpnsMemory(p *topology) (uint64, error) { return p.residentOf("l2tpns") }

// weftMemory is the memory of the daemon, of the kernel's tables of subscribers, and
// of the store of sessions, which is a file in memory.
func weftMemory(p *topology) (uint64, error) {
	maps, err := p.mapsMemory()
	if err != nil {
		return 0, err
	}
	daemon, err := p.residentOf(filepath.Base(p.weft))
	if err != nil {
		return 0, err
	}
	cookie, err := p.Router.Cookie()
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(paths.Of(cookie).Run, "subscribers.db"), &st); err != nil {
		return 0, fmt.Errorf("look at the store of sessions: %w", err)
	}
	return maps + daemon + uint64(st.Blocks)*512, nil
}
