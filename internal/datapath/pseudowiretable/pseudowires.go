package pseudowiretable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weft/internal/datapath"
	"weft/internal/state"
)

// pseudowireLinks is the directory of the links of hidden ends: separate from other
// devices', because there may be thousands.
const pseudowireLinks = "wires"

func (d Table) pseudowirePins() (map[int]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.core.Dir(), pseudowireLinks))
	if errors.Is(err, fs.ErrNotExist) {
		return map[int]string{}, nil
	}
	builds := map[int]string{}
	for _, e := range entries {
		index, build, ok := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(index); ok && err == nil {
			builds[n] = build
		}
	}
	return builds, err
}

// wires are the programs of the hidden ends. Only steps change them.
type pseudowires struct {
	d      Table
	builds map[int]string // by hidden end; nil: not listed yet
}

// of makes them the programs of a datapath.
func (w *pseudowires) of(d Table) *pseudowires {
	if w.d != d {
		*w = pseudowires{d: d}
	}
	return w
}

// pseudowireBuild is the build of the program on one hidden end; empty if there is none.
// The directory is listed once: to list it for each of thousands would take longer
// than the rest.
func (w *pseudowires) pseudowireBuild(index int) (_ string, err error) {
	if w.builds == nil {
		if w.builds, err = w.d.pseudowirePins(); err != nil {
			return "", fmt.Errorf("list programs of pseudowires: %w", err)
		}
	}
	return w.builds[index], nil
}

func (d Table) pseudowirePin(index int, build string) string {
	return filepath.Join(d.core.Dir(), pseudowireLinks, fmt.Sprintf("%d-%s", index, build))
}

// attachPseudowire attaches the program to a hidden end, or replaces the one that is
// there.
func (w *pseudowires) attachPseudowire(index int, build, was string) error {
	prog, err := w.d.core.Load("pseudowire_encap")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(w.d.core.Dir(), pseudowireLinks), 0o700); err != nil {
		return fmt.Errorf("make pin directory: %w", err)
	}
	var l link.Link
	if was == "" {
		l, err = link.AttachTCX(link.TCXOptions{Program: prog, Interface: index, Attach: ebpf.AttachTCXIngress})
	} else if l, err = link.LoadPinnedLink(w.d.pseudowirePin(index, was), nil); err == nil {
		defer l.Close()
		err = l.Update(prog)
	}
	if err != nil {
		return fmt.Errorf("attach pseudowire_encap to device %d: %w", index, datapath.ExplainAttach(err, state.HookIngress))
	}
	defer l.Close()
	if err := l.Pin(w.d.pseudowirePin(index, build)); err != nil {
		return fmt.Errorf("pin pseudowire_encap of device %d: %w", index, err)
	}
	w.builds[index] = build
	return nil
}

func (w *pseudowires) detachPseudowire(index int, build string) error {
	delete(w.builds, index)
	path := w.d.pseudowirePin(index, build)
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return os.Remove(path)
	}
	defer l.Close()
	return l.Unpin()
}

// Pseudowires lists them. One whose device is gone has a name like #12.
func (d Table) Pseudowires() ([]state.Pseudowire, error) {
	builds, err := d.pseudowirePins()
	if err != nil {
		return nil, fmt.Errorf("list programs of pseudowires: %w", err)
	}
	m, err := d.core.Map("pseudowire_rxs")
	if err != nil {
		return nil, err
	}
	_, rxs, err := datapath.ReadAll[pseudowireKey, pseudowireRx](m)
	if err != nil {
		return nil, fmt.Errorf("read map pseudowire_rxs: %w", err)
	}
	return datapath.Collect(d.core, "pseudowire_txs", func(index uint32, tx pseudowireTx) state.Pseudowire {
		// without its receive entry it is incomplete, and so differs from the
		// desired one
		p := decodePseudowire(int(index), tx, rxs[keyOf(tx)])
		p.Build = builds[int(index)]
		return p
	})
}

// writePseudowire writes a pseudowire: first its new receive entries, then its transmit
// entry; its old receive entries are removed last, so that packets on the path are
// not lost.
func (w *pseudowires) writePseudowire(p state.Pseudowire, remove bool) error {
	index := uint32(p.Hidden)
	old, err := w.d.pseudowireKeys(index)
	if err != nil {
		return err
	}
	build, err := w.pseudowireBuild(p.Hidden)
	if err != nil {
		return err
	}
	if remove {
		errs := []error{w.d.core.Write("pseudowire_txs", index, pseudowireTx{}, true), w.d.forgetKeys(index, old, nil), w.d.core.Write("pseudowire_counts", index, nil, true), w.d.writeBypass(p, false)}
		if build != "" {
			errs = append(errs, w.detachPseudowire(p.Hidden, build))
		}
		return errors.Join(errs...)
	}
	if err := w.d.notifyOfPseudowire(p, old); err != nil {
		return err
	}
	if build != p.Build {
		return w.attachPseudowire(p.Hidden, p.Build, build)
	}
	return nil
}

// notifyOfPseudowire writes the map entries of a pseudowire; old are its former keys.
func (d Table) notifyOfPseudowire(p state.Pseudowire, old []pseudowireKey) error {
	index := uint32(p.Hidden)
	tx, keys, rx, err := encodePseudowire(p)
	if err != nil {
		return err
	}
	if err := d.keepNumbers(index, &tx, &rx, keys[0]); err != nil {
		return err
	}
	for _, k := range keys {
		if err := d.core.Write("pseudowire_rxs", k, rx, false); err != nil {
			return err
		}
	}
	if err := d.makeCounts(index); err != nil {
		return err
	}
	if err := d.core.Write("pseudowire_txs", index, tx, false); err != nil {
		return err
	}
	if err := d.writeBypass(p, p.Bypass); err != nil {
		return err
	}
	return d.forgetKeys(index, old, keys)
}

// writeBypass maps the visible end to the hidden one, if packets may bypass the
// visible end.
func (d Table) writeBypass(p state.Pseudowire, there bool) error {
	return d.core.Write("pseudowire_bypasses", uint32(p.Peer), uint32(p.Hidden), !there)
}

// pseudowireKeys lists the receive keys of an existing pseudowire.
func (d Table) pseudowireKeys(index uint32) ([]pseudowireKey, error) {
	m, err := d.core.Map("pseudowire_txs")
	if err != nil {
		return nil, err
	}
	var tx pseudowireTx
	switch err := m.Lookup(index, &tx); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read map pseudowire_txs: %w", err)
	}
	key := keyOf(tx)
	return []pseudowireKey{key, looseKey(key), sentKey(key, tx)}, nil
}

// forgetKeys removes the keys of old that are not in keep, unless they lead to
// another pseudowire by now.
func (d Table) forgetKeys(index uint32, old, keep []pseudowireKey) error {
	m, err := d.core.Map("pseudowire_rxs")
	if err != nil {
		return err
	}
	for _, k := range old {
		var rx pseudowireRx
		if slices.Contains(keep, k) || m.Lookup(k, &rx) != nil || rx.Ifindex != index {
			continue
		}
		if err := d.core.Write("pseudowire_rxs", k, nil, true); err != nil {
			return err
		}
	}
	return nil
}

// keepNumbers keeps the sequence numbers of an existing pseudowire.
func (d Table) keepNumbers(index uint32, tx *pseudowireTx, rx *pseudowireRx, key pseudowireKey) error {
	txs, err := d.core.Map("pseudowire_txs")
	if err != nil {
		return err
	}
	rxs, err := d.core.Map("pseudowire_rxs")
	if err != nil {
		return err
	}
	var oldTx pseudowireTx
	if txs.Lookup(index, &oldTx) == nil {
		tx.Sequence = oldTx.Sequence
	}
	var oldRx pseudowireRx
	if rxs.Lookup(key, &oldRx) == nil {
		rx.Sequence, rx.Received = oldRx.Sequence, oldRx.Received
	}
	return nil
}

// makeCounts makes the counters of a pseudowire, if there are none.
func (d Table) makeCounts(index uint32) error {
	m, err := d.core.Map("pseudowire_counts")
	if err != nil {
		return err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	err = datapath.Retry(func() error { return m.Update(index, make([]pseudowireCounts, cpus), ebpf.UpdateNoExist) })
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("write to map pseudowire_counts: %w", err)
	}
	return nil
}

// PseudowireFaults names the reasons in PseudowireCounts.Faults.
func PseudowireFaults() []string { return pseudowireFaultNames()[:pseudowireFaultReassembled] }

// PseudowireCounts is the traffic of a pseudowire, and its faults.
type PseudowireCounts struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
	Reassembled                            uint64 // received packets that were reassembled from fragments
	Faults                                 map[string]uint64
}

// PseudowireCounts returns the counters of each pseudowire, by the index of its hidden
// end.
func (d Table) PseudowireCounts() (map[int]PseudowireCounts, error) {
	m, err := d.core.Map("pseudowire_counts")
	if err != nil {
		return nil, err
	}
	all := map[int]PseudowireCounts{}
	_, values, err := datapath.ReadAll[uint32, []pseudowireCounts](m)
	if err != nil {
		return nil, fmt.Errorf("read map pseudowire_counts: %w", err)
	}
	for index, perCPU := range values {
		c := PseudowireCounts{Faults: map[string]uint64{}}
		for _, one := range perCPU {
			c.RxPackets += one.RxPackets
			c.RxBytes += one.RxBytes
			c.TxPackets += one.TxPackets
			c.TxBytes += one.TxBytes
			c.Reassembled += one.Faults[pseudowireFaultReassembled]
			for i, name := range PseudowireFaults() {
				if n := one.Faults[i]; n > 0 {
					c.Faults[name] += n
				}
			}
		}
		all[int(index)] = c
	}
	return all, nil
}

// pathMTULife is the lifetime of a path MTU that a router reported (RFC 1191 section
// 6.3, RFC 8201 section 4).
const pathMTULife = 10 * time.Minute

// SetPath sets the path from one host to the other. A path MTU that routers have
// reported stays until it expires.
func (d Table) SetPath(endpoints state.Endpoints, way state.PseudowirePath) error {
	m, err := d.core.Map("pseudowire_paths")
	if err != nil {
		return err
	}
	key, v := encodeEndpoints(endpoints), encodeWay(way)
	var old pseudowirePath
	if m.Lookup(key, &old) == nil && old.PathMtu != 0 && fresh(old.Learnt) {
		v.PathMtu, v.Learnt = old.PathMtu, old.Learnt
	}
	if v == old {
		return nil
	}
	if err := m.Put(key, v); err != nil {
		return fmt.Errorf("write to map pseudowire_paths: %w", err)
	}
	return nil
}

func fresh(learnt uint64) bool {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return true
	}
	return uint64(now.Nano())-learnt < uint64(pathMTULife)
}

// Ways lists the paths of pseudowires to other hosts.
func (d Table) Paths() (map[state.Endpoints]state.PseudowirePath, error) {
	paths := map[state.Endpoints]state.PseudowirePath{}
	_, err := datapath.Collect(d.core, "pseudowire_paths", func(k pseudowireEndpoints, v pseudowirePath) bool {
		w := decodeWay(v)
		if !fresh(v.Learnt) {
			w.PathMTU = 0
		}
		paths[decodeEndpoints(k)] = w
		return false
	})
	return paths, err
}

// ForgetWay removes a path.
func (d Table) ForgetWay(endpoints state.Endpoints) error {
	return d.core.Write("pseudowire_paths", encodeEndpoints(endpoints), nil, true)
}

// PseudowirePorts lists the addresses and ports that only pseudowires use.
func (d Table) PseudowirePorts() ([]state.PseudowirePort, error) {
	var list []state.PseudowirePort
	_, err := datapath.Collect(d.core, "pseudowire_rxs", func(k pseudowireKey, _ pseudowireRx) bool {
		if k.Kind&uint8(state.PseudowireSome) != 0 {
			list = append(list, decodePseudowirePort(k))
		}
		return false
	})
	return list, err
}

func (d Table) writePseudowirePort(p state.PseudowirePort, remove bool) error {
	return d.core.Write("pseudowire_rxs", encodePseudowirePort(p), pseudowireRx{}, remove)
}
