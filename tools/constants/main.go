// Command constants writes the numbers that C and Go share into Go, from the
// headers of bpf/ alone: no list is kept twice.
//
//	constants BPF-FOLDER MODULE-FOLDER
//
// An enum, or #defines that follow each other, are shared when this comment
// stands on the line above:
//
//	/* go: PACKAGE[.TYPE] [PREFIX=NAME] [names|functions|words] */
//
// PACKAGE is internal/PACKAGE, or a folder of the module. TYPE is the Go type of
// the constants; without it they have none. PREFIX at the beginning of a C name
// becomes NAME in Go. "names" adds a function that lists the names in lower case,
// as users see them; "functions" does so with underscores, as C functions are called.
// "words" adds a table of the names and of the sentences behind them.
package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: constants BPF-FOLDER MODULE-FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "constants:", err)
		os.Exit(1)
	}
}

func run(bpf, module string) error {
	files, err := read(bpf)
	if err != nil {
		return err
	}
	lists, err := shared(files)
	if err != nil {
		return err
	}
	packages := map[string][]list{}
	for _, l := range lists {
		packages[l.mark.pkg] = append(packages[l.mark.pkg], l)
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		src, err := render(pkg, packages[pkg])
		if err != nil {
			return err
		}
		folder := filepath.Join(module, "internal", pkg)
		if _, err := os.Stat(folder); err != nil {
			folder = filepath.Join(module, pkg)
		}
		if err := os.WriteFile(filepath.Join(folder, "constants_gen.go"), src, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// source is a C file.
type source struct{ name, text string }

// read returns the programs and headers below a folder, in order of their names.
func read(folder string) ([]source, error) {
	var files []source
	for _, pattern := range []string{"*.bpf.c", "*.h", "blocks/*.h", "lib/*.h", "hook/*.h"} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(folder, p)
			if err != nil {
				return nil, err
			}
			files = append(files, source{filepath.ToSlash(name), string(text)})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no C", folder)
	}
	slices.SortFunc(files, func(a, b source) int { return cmp.Compare(a.name, b.name) })
	return files, nil
}

// goName returns the Go name of a C constant.
func (m mark) goName(c string) (string, error) {
	rest, ok := strings.CutPrefix(c, m.prefix)
	if !ok {
		return "", fmt.Errorf("%s does not begin with %s", c, m.prefix)
	}
	tail := ""
	if rest != "" && rest[0] != '_' && m.prefix != "" && !strings.HasSuffix(m.prefix, "_") {
		tail, rest, _ = strings.Cut(rest, "_") // as the S of L2TP_DROPS
		tail = strings.ToLower(tail)
	}
	name := tail
	for _, w := range strings.Split(strings.Trim(rest, "_"), "_") {
		if w == "" {
			continue
		}
		if !initialisms[w] || m.option == "words" {
			w = w[:1] + strings.ToLower(w[1:])
		}
		name += w
	}
	if m.name != "" {
		return m.name + name, nil
	}
	if m.pkg == "state" {
		return name, nil
	}
	first, _, _ := strings.Cut(strings.Trim(rest, "_"), "_")
	return strings.ToLower(first) + name[len(first):], nil
}

var initialisms = map[string]bool{
	"XDP": true, "TC": true, "ECN": true, "UDP": true, "TCP": true, "ICMP": true, "IP": true, "L2TP": true, "GRE": true, "PPP": true,
	"DF": true, "TTL": true, "TOS": true, "RA": true, "DHCP": true, "SYN": true, "MTK": true, "QCA": true, "GSWIP": true,
}
