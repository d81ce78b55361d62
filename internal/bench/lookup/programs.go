package lookup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weft/fib"
	"weft/internal/datapath"
)

// programs are the lookups in eBPF, with the arrays they read.
type programs struct {
	objects  lookupObjects
	fib      map[int]*datapath.Words
	to       map[int]*datapath.Words
	kept     *datapath.Words
	programs map[string]map[int]*ebpf.Program
}

// words is the size of the arena of a family, in 32-bit words.
var words = map[int]uint32{4: 4 << 20, 6: 4 << 20}

// load loads the programs to run through count addresses, and to keep every
// answer or not. The kernel's table is asked as for packets that arrive by
// device.
func load(count, device int, keep bool) (*programs, error) {
	return loadOver(nil, count, device, keep)
}

// loadOver loads the programs over another one's tables, if there is one.
func loadOver(other *programs, count, device int, keep bool) (*programs, error) {
	spec, err := loadLookup()
	if err != nil {
		return nil, fmt.Errorf("read the lookup programs: %w", err)
	}
	for name, family := range map[string]int{"fib4": 4, "fib6": 6} {
		m := spec.Maps[name]
		m.ValueSize = 4 * words[family]
		m.Key, m.Value = nil, nil // their types tell the least size
	}
	err = errors.Join(
		spec.Variables["last4"].Set(words[4]-fib.Slack), spec.Variables["last6"].Set(words[6]-fib.Slack),
		spec.Variables["count"].Set(uint32(count)), spec.Variables["device"].Set(uint32(device)),
		spec.Variables["keep"].Set(keep), rlimit.RemoveMemlock(),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the lookup programs: %w", err)
	}
	p := &programs{fib: map[int]*datapath.Words{}, to: map[int]*datapath.Words{}}
	options := ebpf.CollectionOptions{}
	if other != nil {
		options.MapReplacements = map[string]*ebpf.Map{"fib4": other.objects.Fib4, "fib6": other.objects.Fib6}
	}
	if err := spec.LoadAndAssign(&p.objects, &options); err != nil {
		return nil, fmt.Errorf("load the lookup programs: %w", err)
	}
	o := &p.objects
	var errs [5]error
	p.fib[4], errs[0] = datapath.MapWords(o.Fib4)
	p.fib[6], errs[1] = datapath.MapWords(o.Fib6)
	p.to[4], errs[2] = datapath.MapWords(o.To4)
	p.to[6], errs[3] = datapath.MapWords(o.To6)
	p.kept, errs[4] = datapath.MapWords(o.Kept)
	p.programs = map[string]map[int]*ebpf.Program{
		weft:    {4: o.Weft4, 6: o.Weft6},
		kernel:  {4: o.Kernel4, 6: o.Kernel6},
		lpmTrie: {4: o.Trie4, 6: o.Trie6},
		empty:   {4: o.Empty4, 6: o.Empty6},
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close unmaps and unloads.
func (p *programs) Close() error {
	var errs []error
	for _, w := range []*datapath.Words{p.fib[4], p.fib[6], p.to[4], p.to[6], p.kept} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(append(errs, p.objects.Close())...)
}

// aim writes the destinations for the next run.
func (p *programs) aim(family int, addrs []netip.Addr) {
	to := p.to[family].Words
	for i, a := range addrs {
		if family == 4 {
			b := a.As4()
			to[i] = binary.BigEndian.Uint32(b[:])
			continue
		}
		b := a.As16()
		at := to[4*i : 4*i+4]
		at[1], at[0] = binary.BigEndian.Uint32(b[0:]), binary.BigEndian.Uint32(b[4:])
		at[3], at[2] = binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	}
}

// run looks all destinations up and gives the time it took, in ns.
func (p *programs) run(subject string, family int) (ns uint64, err error) {
	_, err = p.programs[subject][family].Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		return 0, fmt.Errorf("run the lookups of %s for IPv%d: %w", subject, family, err)
	}
	return ns, p.objects.Took.Get(&ns)
}

// answers are those of the last run, if they are kept.
func (p *programs) answers(n int) []uint32 { return p.kept.Words[:n] }

// trie is the LPM trie of a family.
func (p *programs) trie(family int) *ebpf.Map {
	if family == 4 {
		return p.objects.Lpm4
	}
	return p.objects.Lpm6
}

// trieKey is a prefix as the trie's programs and system calls see it.
func trieKey(p netip.Prefix) []byte {
	key := make([]byte, 4, 20)
	binary.NativeEndian.PutUint32(key, uint32(p.Bits()))
	return append(key, p.Addr().AsSlice()...)
}
