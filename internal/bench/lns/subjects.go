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
	"time"

	"github.com/cilium/ebpf"

	"weft/internal/bench/rig"
	"weft/internal/place"
)

// subject is one of the servers that are compared.
type subject struct {
	name, about string
	// hooks: TCP and packets want different ones, and so a path each.
	hooks bool
	// start makes the router a server; xdp: with the programs at that hook.
	start func(ctx context.Context, p *road, xdp bool) error
	// memory is what the server takes, in bytes.
	memory  func(p *road) (uint64, error)
	forward bool // the bench gives the router its addresses
}

func subjects() []subject {
	return []subject{
		{name: "weft", about: "weft, with everything that a subscriber's set-up takes", hooks: true, start: startWeft, memory: weftMemory},
		{name: "weft-tables", about: "weft's programs alone, their tables filled without set-up", hooks: true, start: startTables, memory: tablesMemory, forward: true},
		{name: "l2tpns", about: "Debian's l2tpns, in user space", start: startL2TPNS, memory: l2tpnsMemory, forward: true},
	}
}

var radius = netip.MustParseAddrPort("127.0.0.1:1812")

// road is a path with a server and its sessions.
type road struct {
	*rig.Path
	subject  subject
	weft     string
	sessions []*session
	rate     float64 // sessions that came up in a second
	lac      *lac
	end      *end
	tables   *tables
	traffic  map[measurement]*traffic
	serving  bool
	closers  []func() error
}

// bringUp has the concentrator set up sessions.
func (p *road) bringUp(ctx context.Context, sessions int) (err error) {
	if p.lac, err = newLAC(p.Left, peer, here, min(64, 1+sessions/500), sessions); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	took, err := p.lac.bringUp(ctx)
	p.sessions, p.rate = p.lac.sessions, float64(sessions)/took.Seconds()
	return err
}

func startL2TPNS(ctx context.Context, p *road, _ bool) error {
	stop, err := welcome(p.Router, radius)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, stop)
	return p.RunL2TPNS(ctx, rig.L2TPNS{Here: here.Addr(), Pool: pool, RADIUS: radius, Secret: secret})
}

func startWeft(ctx context.Context, p *road, xdp bool) error {
	stop, err := welcome(p.Router, radius)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, stop)
	hook := "tc"
	if xdp {
		hook = "xdp"
	}
	var text strings.Builder
	for name, ends := range map[string]rig.Ends{"lan": left, "wan": right} {
		fmt.Fprintf(&text, "[interface.%s]\naddresses = [%q, %q]\nhook = %q\n", name, ends.Router[0], ends.Router[1], hook)
	}
	fmt.Fprintf(&text, "[route]\ninterfaces = [\"lan\", \"wan\"]\n[access.main]\nlisten = [%q]\nlacs = [{ name = \"bench\", address = %q }]\nauthentication = [\"pap\"]\n", here.Addr(), peer.Addr())
	fmt.Fprintf(&text, "radius = [{ server = %q, secret = %q }]\npools = [{ addresses = [%q] }]\nipv6 = false\nduplicates = \"allow\"\nhello = \"1h\"\necho = \"0s\"\n", radius, secret, pool)
	return p.RunWeft(ctx, p.weft, text.String())
}

func startTables(_ context.Context, _ *road, _ bool) error { return nil }

// mapsMemory is that of weft's pinned maps in the router which hold subscribers.
func (p *road) mapsMemory() (total uint64, err error) {
	cookie, err := p.Router.Cookie()
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(place.Of(cookie).Pins, "maps", "l2tp_*"))
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

func tablesMemory(p *road) (uint64, error) {
	if p.tables == nil {
		return 0, nil
	}
	return p.mapsMemory()
}

// residentOf adds up what the programs of a name in the router hold in memory.
func (p *road) residentOf(name string) (total uint64, err error) {
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
		status, err := os.ReadFile(filepath.Join(dir, "statm"))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(status))
		pages, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return 0, err
		}
		total += pages * uint64(os.Getpagesize())
	}
	if total == 0 {
		return 0, fmt.Errorf("no program %s runs in %s", name, p.Router.Name)
	}
	return total, nil
}

func netOf(p *road) (net string, err error) {
	err = p.Router.Do(func() (err error) {
		net, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	return net, err
}

func l2tpnsMemory(p *road) (uint64, error) { return p.residentOf("l2tpns") }

func weftMemory(p *road) (uint64, error) {
	maps, err := p.mapsMemory()
	if err != nil {
		return 0, err
	}
	daemon, err := p.residentOf(filepath.Base(p.weft))
	return maps + daemon, err
}
