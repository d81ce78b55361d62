package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weft/internal/fault"
	"weft/internal/state"
)

// pin names a link: interface index, program and build. A bpf file system
// allows no dots, and the index outlives a rename of the device.
type pin struct {
	index   int
	program string
	build   string
}

func (p pin) name() string { return fmt.Sprintf("%d-%s-%s", p.index, p.program, p.build) }

func parsePin(name string) (pin, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return pin{}, false
	}
	index, err := strconv.Atoi(parts[0])
	return pin{index, parts[1], parts[2]}, err == nil
}

func (d *Datapath) pinPath(p pin) string { return filepath.Join(d.dir, "links", p.name()) }

func (d *Datapath) pins() ([]pin, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "links"))
	if err != nil {
		return nil, err
	}
	var pins []pin
	for _, e := range entries {
		if p, ok := parsePin(e.Name()); ok {
			pins = append(pins, p)
		}
	}
	return pins, nil
}

// Attachments lists the programs that are attached. One whose device is gone
// is listed under a name like #12.
func (d *Datapath) Attachments() ([]state.Attachment, error) {
	pins, err := d.pins()
	if err != nil {
		return nil, err
	}
	var found []state.Attachment
	for _, p := range pins {
		prog, err := programNamed(p.program)
		if err != nil {
			prog = program{name: p.program, hook: "unknown"}
		}
		name := DeviceName(p.index)
		if d.detached(p) {
			name = fmt.Sprintf("#%d", p.index)
		}
		found = append(found, state.Attachment{Device: name, Hook: prog.hook, Program: p.program, Build: p.build})
	}
	return found, nil
}

// detached reports whether the kernel has detached the link because its device was
// removed.
func (d *Datapath) detached(p pin) bool {
	l, err := link.LoadPinnedLink(d.pinPath(p), nil)
	if err != nil {
		return true
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return true
	}
	if x := info.XDP(); x != nil {
		return x.Ifindex == 0
	}
	if t := info.TCX(); t != nil {
		return t.Ifindex == 0
	}
	return false
}

func (d *Datapath) findPin(device, program string) (pin, bool) {
	pins, err := d.pins()
	if err != nil {
		return pin{}, false
	}
	for _, p := range pins {
		if p.program != program {
			continue
		}
		if DeviceName(p.index) == device || device == fmt.Sprintf("#%d", p.index) {
			return p, true
		}
	}
	return pin{}, false
}

func (d *Datapath) applyAttachment(a state.Attachment, remove bool) error {
	if remove {
		return d.detach(a)
	}
	return d.attach(a)
}

// attach attaches a program to a device, or replaces the build that is attached
// without letting a packet pass unseen.
func (d *Datapath) attach(a state.Attachment) error {
	p, err := programNamed(a.Program)
	if err != nil {
		return err
	}
	index, err := DeviceIndex(a.Device)
	if err != nil {
		return fmt.Errorf("attach %s: %w", a.Program, err)
	}
	prog, err := d.load(p)
	if err != nil {
		return err
	}
	now := d.pinPath(pin{index, a.Program, a.Build})
	if old, ok := d.findPin(a.Device, a.Program); ok {
		l, err := link.LoadPinnedLink(d.pinPath(old), nil)
		if err != nil {
			return fmt.Errorf("open link of %s on %s: %w", a.Program, a.Device, err)
		}
		defer l.Close()
		if err := l.Update(prog); err != nil {
			return fmt.Errorf("replace %s on %s: %w", a.Program, a.Device, err)
		}
		fault.At(fault.LinkUpdated, now)
		return l.Pin(now)
	}
	var l link.Link
	switch p.hook {
	case state.HookXDP:
		l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: link.XDPDriverMode})
	default:
		l, err = link.AttachTCX(link.TCXOptions{Program: prog, Interface: index, Attach: attachType(p.hook), Anchor: p.anchor()})
	}
	if err != nil {
		return fmt.Errorf("attach %s to %s: %w", a.Program, a.Device, ExplainAttach(err, p.hook))
	}
	defer l.Close()
	fault.At(fault.ProgramAttached, now)
	if err := l.Pin(now); err != nil {
		return err
	}
	fault.At(fault.LinkPinned, now)
	return nil
}

func attachType(hook state.Hook) ebpf.AttachType {
	if hook == state.HookEgress {
		return ebpf.AttachTCXEgress
	}
	return ebpf.AttachTCXIngress
}

// ExplainAttach adds a remedy to the kernel's refusal to attach.
func ExplainAttach(err error, hook state.Hook) error {
	switch {
	case hook == state.HookXDP && errors.Is(err, unix.ERANGE):
		return fmt.Errorf("%w (the MTU of the device or of its peer is too large for XDP; lower it, or set hook = \"tc\")", err)
	case hook == state.HookXDP && errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w (its driver has no XDP; set hook = \"tc\")", err)
	case hook == state.HookXDP && errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w (another XDP program is on the device; remove it, or set hook = \"tc\")", err)
	case hook != state.HookXDP && errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w (TCX needs Linux 6.6 or newer)", err)
	}
	return err
}

func (d *Datapath) detach(a state.Attachment) error {
	p, ok := d.findPin(a.Device, a.Program)
	if !ok {
		return nil
	}
	path := d.pinPath(p)
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	defer l.Close()
	if err := l.Unpin(); err != nil {
		return err
	}
	fault.At(fault.LinkRemoved, path)
	return nil
}

// Attached is a program that is attached to a device.
type Attached struct {
	Info *ebpf.ProgramInfo

	d    *Datapath
	pin  pin
	link link.Link
}

// Replace replaces this program by the one that Load returns, without letting a
// packet pass unseen.
func (a Attached) Replace() error {
	prog, err := a.d.Load(a.pin.program)
	if err != nil {
		return err
	}
	if err := a.link.Update(prog); err != nil {
		return fmt.Errorf("replace %s on %s: %w", a.pin.program, DeviceName(a.pin.index), err)
	}
	fault.At(fault.LinkUpdated, a.pin.name())
	return nil
}

// EachAttached calls visit for the attached programs whose names which accepts.
func (d *Datapath) EachAttached(which func(program string) bool, visit func(Attached) error) error {
	if d.dir == "" {
		return nil
	}
	pins, err := d.pins()
	if err != nil {
		return err
	}
	for _, p := range pins {
		if !which(p.program) {
			continue
		}
		if err := d.visit(p, visit); err != nil {
			return fmt.Errorf("%s on %s: %w", p.program, DeviceName(p.index), err)
		}
	}
	return nil
}

func (d *Datapath) visit(p pin, visit func(Attached) error) error {
	l, err := link.LoadPinnedLink(d.pinPath(p), nil)
	if err != nil {
		return fmt.Errorf("open its link: %w", err)
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return fmt.Errorf("ask about its link: %w", err)
	}
	prog, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return fmt.Errorf("open the program: %w", err)
	}
	defer prog.Close()
	about, err := prog.Info()
	if err != nil {
		return fmt.Errorf("ask about the program: %w", err)
	}
	return visit(Attached{Info: about, d: d, pin: p, link: l})
}
