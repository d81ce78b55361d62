package rig

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The limits of the kernel's connection tracking apply to all network namespaces,
// and can be set in the first of them only.
const (
	conntrackMax     = "/proc/sys/net/netfilter/nf_conntrack_max"
	conntrackBuckets = "/proc/sys/net/netfilter/nf_conntrack_buckets"
)

// RaiseConntrack makes the kernel track up to n connections, in a hash table of as
// many buckets (a power of two). restore resets the former limits.
func RaiseConntrack(n int) (restore func() error, err error) {
	buckets := 1
	for buckets < n*4/5 {
		buckets *= 2
	}
	var undo []func() error
	restore = func() error {
		var errs []error
		for _, f := range undo {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for _, s := range []struct {
		file string
		want int
	}{{conntrackBuckets, buckets}, {conntrackMax, n}} {
		had, err := readNumber(s.file)
		if err != nil {
			return restore, errors.Join(fmt.Errorf("read what the kernel may track: %w", err), restore())
		}
		if had >= s.want {
			continue
		}
		if err := os.WriteFile(s.file, []byte(strconv.Itoa(s.want)), 0o644); err != nil {
			name := strings.ReplaceAll(strings.TrimPrefix(s.file, "/proc/sys/"), "/", ".")
			return restore, errors.Join(fmt.Errorf("have the kernel track %d connections: %w; outside of any network namespace, sysctl -w %s=%d does it", n, err, name, s.want), restore())
		}
		undo = append(undo, func() error { return os.WriteFile(s.file, []byte(strconv.Itoa(had)), 0o644) })
	}
	return restore, nil
}

// ConntrackTable is the size of the hash table of tracked connections in bytes.
func ConntrackTable() (uint64, error) {
	n, err := readNumber(conntrackBuckets)
	return uint64(n) * 8, err
}

// SlabBytes is what the kernel's allocator of small objects holds (proc(5),
// /proc/meminfo).
func SlabBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return kilobytes(string(text), "Slab:")
}

// kilobytes finds a line like "Slab:  123 kB".
func kilobytes(text, name string) (uint64, error) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("find %s: it is not there", name)
}

func readNumber(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
