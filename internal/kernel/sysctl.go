package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/internal/kernel/netfilter"
	"weft/internal/state"
)

func (k *Kernel) applySysctl(ctx context.Context, o state.Sysctl, remove bool) error {
	if remove {
		return k.restoreSysctl(o)
	}
	was, err := readSysctl(o.Name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(o.Name, conntrackSettings) {
		if err := netfilter.LoadConntrack(ctx); err != nil {
			return err
		}
		was, err = readSysctl(o.Name)
	}
	if err != nil {
		return err
	}
	if err := k.noteBeside(o.Name); err != nil {
		return err
	}
	if err := k.journal.note(o.Key(), was); err != nil {
		return err
	}
	return writeSysctl(o.Name, o.Value)
}

// conntrackSettings begin the names of settings that come with the module
// nf_conntrack. The kernel loads it when connection tracking is first used; a machine
// without a firewall has not used it yet when weft starts. (Other settings of weft
// are the kernel's own, or come with a device.)
const conntrackSettings = "net/netfilter/nf_conntrack_"

func (k *Kernel) restoreSysctl(o state.Sysctl) error {
	if was, ok := k.journal.was[o.Key()]; ok {
		if err := writeSysctl(o.Name, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := k.restoreBeside(o.Name); err != nil {
			return err
		}
	}
	return errors.Join(k.journal.forget(o.Key()), k.journal.forget(besideKey(o.Name)))
}

// beside lists the settings that the kernel changes together with one, to values of
// its own: all devices follow the forwarding settings (inet_forward_change in
// net/ipv4/devinet.c, addrconf_forward_change in net/ipv6/addrconf.c), and
// accept_redirects of all becomes the opposite of ip_forward.
func beside(name string) (list []string) {
	each := func(pattern string) {
		found, _ := filepath.Glob(sysctlPath(pattern)) // the pattern is well-formed
		for _, path := range found {
			other := strings.TrimPrefix(path, sysctlPath("")+"/")
			if !strings.Contains(other, "/conf/all/") {
				list = append(list, other)
			}
		}
	}
	switch name {
	case forwarding4:
		each("net/ipv4/conf/*/forwarding")
		list = append(list, "net/ipv4/conf/all/accept_redirects")
	case forwarding6:
		each("net/ipv6/conf/*/forwarding")
	}
	return list
}

func besideKey(name string) string { return "beside sysctl " + name }

// noteBeside records the settings that change together with one.
func (k *Kernel) noteBeside(name string) error {
	var was []string
	for _, other := range beside(name) {
		if value, err := readSysctl(other); err == nil {
			was = append(was, other+"="+value)
		}
	}
	if len(was) == 0 {
		return nil
	}
	return k.journal.note(besideKey(name), strings.Join(was, "\n"))
}

// restoreBeside restores those settings, after the one that they follow.
func (k *Kernel) restoreBeside(name string) error {
	for line := range strings.Lines(k.journal.was[besideKey(name)]) {
		other, was, _ := strings.Cut(strings.TrimSpace(line), "=")
		if now, err := readSysctl(other); err != nil || now == was {
			continue // it is right, or its device is gone
		}
		if err := writeSysctl(other, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The switches of forwarding.
const (
	forwarding4 = "net/ipv4/ip_forward"
	forwarding6 = "net/ipv6/conf/all/forwarding"
)

// original returns a setting's value before weft changed it, empty if it is
// unreadable.
func (k *Kernel) original(name string) string {
	if was, ours := k.journal.was[state.Sysctl{Name: name}.Key()]; ours {
		return was
	}
	value, _ := readSysctl(name)
	return value
}

// acceptsRA reports whether the host accepted router advertisements on a device
// before weft made it a router. With accept_ra = 1 forwarding ends that (Linux,
// Documentation/networking/ip-sysctl.rst).
func (k *Kernel) acceptsRA(device string) bool {
	return k.original(acceptRA(device)) == "1" && k.original(forwarding6) == "0"
}

// keptRA reports whether weft has changed accept_ra of a device already.
func (k *Kernel) keptRA(device string) bool {
	_, ours := k.journal.was[state.Sysctl{Name: acceptRA(device)}.Key()]
	return ours
}

func acceptRA(device string) string { return "net/ipv6/conf/" + device + "/accept_ra" }

func writeSysctl(name, value string) error {
	if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("write sysctl %s: %w", name, err)
	}
	return nil
}

// observeSysctls reads the desired settings and those that the journal has. A
// setting whose device is gone is gone with it.
func (k *Kernel) observeSysctls(v *view) (found []state.Sysctl, err error) {
	names := map[string]bool{}
	for _, o := range v.want {
		if s, ok := o.(state.Sysctl); ok {
			names[s.Name] = true
		}
	}
	for key := range k.journal.was {
		if name, ok := strings.CutPrefix(key, "sysctl "); ok {
			names[name] = true
		}
	}
	for name := range names {
		value, err := readSysctl(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, state.Sysctl{Name: name, Value: value})
	}
	// restored in this order: accept_ra = 1 while the host forwards means none
	slices.SortFunc(found, func(a, b state.Sysctl) int {
		return cmp.Or(cmp.Compare(restoreRank(a.Name), restoreRank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

func restoreRank(name string) int {
	if strings.HasSuffix(name, "/accept_ra") {
		return 1
	}
	return 0
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	text, err := os.ReadFile(sysctlPath(name))
	if err != nil {
		return "", fmt.Errorf("read sysctl: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Sysctls reads the settings that exist.
func (k *Kernel) Sysctls(names []string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		if value, err := readSysctl(name); err == nil {
			values[name] = value
		}
	}
	return values
}
