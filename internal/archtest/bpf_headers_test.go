package archtest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a header of bpf/ defines and uses: a call, a type with its keyword, or a word.
var (
	cFunction   = regexp.MustCompile(`(?m)^(?:static |__noinline )[^;={}]*?\b(\w+)\(`)
	cType       = regexp.MustCompile(`(?m)^((?:struct|union|enum) \w+) \{`)
	cEnum       = regexp.MustCompile(`(?ms)^enum \w* ?\{(.*?)\}`)
	cEnumerator = regexp.MustCompile(`\b([A-Z][A-Z0-9_]+)\b\s*(?:=[^,]*)?(?:,|$)`)
	cWord       = regexp.MustCompile(`(?m)^(?:#define (\w+)|\} (\w+) SEC\("\.maps"\)|const volatile \w+ (\w+)|typedef [^;]*?\b(\w+);)`)
	cAttribute  = regexp.MustCompile(`__attribute__\(\([\w, ]+\)\) ?`)
	cInclude    = regexp.MustCompile(`(?m)^#include.*$`)
	cUse        = regexp.MustCompile(`(?:^|[^\w.>])(\w+)(\(?)`)
	cTypeUse    = regexp.MustCompile(`\b(?:struct|union|enum) \w+`)
)

// definitions returns what a header defines.
func definitions(text string) map[string]bool {
	text = cAttribute.ReplaceAllString(text, "")
	all := map[string]bool{}
	for _, m := range cFunction.FindAllStringSubmatch(text, -1) {
		all[m[1]+"("] = true
	}
	for _, m := range cType.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	words := cWord.FindAllStringSubmatch(text, -1)
	for _, m := range cEnum.FindAllStringSubmatch(text, -1) {
		words = append(words, cEnumerator.FindAllStringSubmatch(m[1], -1)...)
	}
	for _, m := range words {
		all[strings.Join(m[1:], "")] = true
	}
	return all
}

// uses returns what a header may use.
func uses(text string) map[string]bool {
	text = cInclude.ReplaceAllString(text, "")
	all := map[string]bool{}
	for _, m := range cUse.FindAllStringSubmatch(text, -1) {
		all[m[1]], all[m[1]+m[2]] = true, true
	}
	for _, m := range cTypeUse.FindAllString(text, -1) {
		all[m] = true
	}
	return all
}

// missing lists the headers of which one uses something and that it does not include.
func missing(headers map[string]source) []string {
	of := map[string]string{} // what is defined, and where
	for name, h := range headers {
		if h.folder == "hook" {
			name = "hook.h" // the program chooses
		}
		for d := range definitions(h.text) {
			of[d] = name
		}
	}
	var list []string
	for name, h := range headers {
		own := definitions(h.text)
		for use := range uses(h.text) {
			other := of[use]
			if other == "" || own[use] || other == name || slices.Contains(h.includes, other) || h.folder == "hook" && other == "hook.h" {
				continue
			}
			list = append(list, name+" uses "+use+" of "+other+", which it does not include")
		}
	}
	slices.Sort(list)
	return list
}

// A header can be read alone: it says where what it uses comes from.
func TestHeadersOfTheProgramsIncludeWhatTheyUse(t *testing.T) {
	headers := map[string]source{}
	for _, s := range sources(t) {
		if s.folder != "" {
			headers[s.name] = s
		}
	}
	if len(headers) < 30 {
		t.Fatalf("there are %d headers only", len(headers))
	}
	for _, m := range missing(headers) {
		t.Error(m)
	}
}

func TestAHeaderThatLacksAnIncludeIsNoticed(t *testing.T) {
	some := func(body string) map[string]source {
		return map[string]source{
			"a.h":  read("lib", "a.h", "struct a {\n};\nenum {\n\tA_ONE,\n};\nstatic __always_inline int a_find(int x)\n{\n}\nstruct {\n} a_map SEC(\".maps\");\n"),
			"tc.h": read("hook", "tc.h", "static __always_inline int hook_len(int x)\n{\n}\n"),
			"b.h":  read("blocks", "b.h", body),
		}
	}
	for body, want := range map[string]int{
		"x = a_find(1);":                             1,
		"struct a *x; y->a_find(1);":                 1,
		"x = A_ONE;":                                 1,
		"lookup(&a_map)":                             1,
		"hook_len(ctx)":                              1,
		"#include \"a.h\"\nx = a_find(A_ONE);":       0,
		"#include \"hook.h\"\nhook_len(ctx);":        0,
		"int a_finder(int a); x->a_map = NULL;":      0,
		"static int a_find(int x)\n{\n}\na_find(1);": 0,
	} {
		if got := missing(some(body)); len(got) != want {
			t.Errorf("%q: %q, want %d", body, got, want)
		}
	}
}

// Each header is compiled by itself, and after xdp.h too if ingress_xdp has it.
func TestHeadersOfTheProgramsCompileAlone(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Skip("clang-19 is not installed")
	}
	base := filepath.Join(root(t), "bpf")
	flags := []string{"-O2", "-Wall", "-Werror", "-mcpu=v3", "-target", "bpf", "-fsyntax-only", "-Wno-unused-function"}
	for _, folder := range []string{"include", "lib", "hook", "blocks"} {
		flags = append(flags, "-I"+filepath.Join(base, folder))
	}
	flags = append(flags, "-x", "c", "-")
	compile := func(headers ...string) {
		c := exec.Command("clang-19", flags...)
		c.Stdin = strings.NewReader("#include \"" + strings.Join(headers, "\"\n#include \"") + "\"\n")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s does not compile alone: %v\n%s", headers, err, out)
		}
	}
	all := map[string]source{}
	for _, s := range sources(t) {
		all[s.name] = s
	}
	xdp := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		if s, ok := all[name]; ok && !xdp[name] {
			xdp[name] = true
			for _, i := range s.includes {
				follow(filepath.Base(i))
			}
		}
	}
	follow("ingress_xdp.bpf.c")
	if len(xdp) < 20 {
		t.Fatalf("ingress_xdp has %d files only", len(xdp))
	}
	for _, s := range all {
		if s.folder == "" {
			continue
		}
		compile(s.name)
		if xdp[s.name] && s.folder != "hook" {
			compile("xdp.h", s.name)
		}
	}
}
