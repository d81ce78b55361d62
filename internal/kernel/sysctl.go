package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/state"
)

func (k *Kernel) applySysctl(_ context.Context, o state.Sysctl, remove bool) error {
	if remove {
		return k.restoreSysctl(o)
	}
	was, err := readSysctl(o.Name)
	if err != nil {
		return err
	}
	if err := k.journal.note(o.Key(), was); err != nil {
		return err
	}
	return writeSysctl(o.Name, o.Value)
}

func (k *Kernel) restoreSysctl(o state.Sysctl) error {
	if was, ok := k.journal.was[o.Key()]; ok {
		if err := writeSysctl(o.Name, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return k.journal.forget(o.Key())
}

func writeSysctl(name, value string) error {
	if err := os.WriteFile(sysctlPath(name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("write sysctl %s: %w", name, err)
	}
	return nil
}

// observeSysctls reads what is wanted and what the journal says was changed.
// A setting whose device is gone is gone with it.
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
	return found, nil
}

func sysctlPath(name string) string { return filepath.Join("/proc/sys", name) }

func readSysctl(name string) (string, error) {
	text, err := os.ReadFile(sysctlPath(name))
	if err != nil {
		return "", fmt.Errorf("read sysctl: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Sysctls reads settings, those that there are.
func (k *Kernel) Sysctls(names []string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		if value, err := readSysctl(name); err == nil {
			values[name] = value
		}
	}
	return values
}
