package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is a file of bpf/: where it is and what it includes by "name".
type source struct {
	folder   string // of bpf/; empty for the programs
	name     string
	includes []string
	text     string // without comments
}

var (
	include  = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	// what only a hook's own file may say
	hookWords = regexp.MustCompile(`\b(HOOK_IS_XDP|__sk_buff|xdp_md|bpf_skb_\w+|bpf_xdp_\w+|XDP_(PASS|DROP|TX|REDIRECT|ABORTED)|TCX?_(NEXT|DROP|PASS|REDIRECT|ACT_\w+))\b`)
)

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	base := filepath.Join(root(t), "bpf")
	for _, folder := range []string{"", "blocks", "lib", "hook"} {
		files, err := filepath.Glob(filepath.Join(base, folder, "*.[ch]"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in bpf/%s (%v)", folder, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, read(folder, filepath.Base(f), string(text)))
		}
	}
	return all
}

func read(folder, name, text string) source {
	s := source{folder: folder, name: name, text: comments.ReplaceAllString(text, " ")}
	for _, m := range include.FindAllStringSubmatch(s.text, -1) {
		s.includes = append(s.includes, m[1])
	}
	return s
}

// cFaults lists what a file includes or says and may not. where gives the
// folder of each header.
func cFaults(s source, where map[string]string) []string {
	var list []string
	for _, i := range s.includes {
		to := where[filepath.Base(i)]
		switch {
		case s.folder == "blocks" && to == "blocks" && partOf(i) != partOf(s.name):
			list = append(list, "includes the block "+i)
		case s.folder == "lib" && to == "blocks":
			list = append(list, "includes the block "+i+": blocks use the library")
		case s.folder == "hook" && to == "blocks":
			list = append(list, "includes the block "+i+": blocks use the hook")
		case s.folder != "" && to == "hook" && i != "hook.h" && !(s.folder == "hook" && (s.name == "hook.h" || partOf(i) == partOf(s.name))):
			list = append(list, "includes "+i+": only a program chooses its hook")
		}
	}
	if s.folder == "blocks" || s.folder == "lib" {
		for _, word := range hookWords.FindAllString(s.text, -1) {
			list = append(list, "says "+word+", which only hook/ knows")
		}
	}
	return list
}

// partOf returns the block that a header belongs to: nat64.h for nat64_maps.h.
// The parts of one block know each other.
func partOf(name string) string {
	whole, _, _ := strings.Cut(strings.TrimSuffix(name, ".h"), "_")
	return whole + ".h"
}

func TestBlocksDoNotIncludeBlocksAndOnlyTheHookKnowsTheHook(t *testing.T) {
	all := sources(t)
	where := map[string]string{}
	for _, s := range all {
		where[s.name] = s.folder
	}
	for _, s := range all {
		for _, fault := range cFaults(s, where) {
			t.Errorf("bpf/%s %s", filepath.Join(s.folder, s.name), fault)
		}
		if strings.HasSuffix(s.name, ".bpf.c") && hooks(s) != 1 {
			t.Errorf("bpf/%s includes %d hooks, want one", s.name, hooks(s))
		}
	}
}

func hooks(s source) (n int) {
	for _, i := range s.includes {
		if i == "xdp.h" || i == "tc.h" {
			n++
		}
	}
	return n
}

func TestTheRulesForCNoticeWhoBreaksThem(t *testing.T) {
	where := map[string]string{"nat64.h": "blocks", "nat64_maps.h": "blocks", "neighbour.h": "blocks", "xdp.h": "hook", "xdp_more.h": "hook", "hook.h": "hook", "fib_lookup.h": "lib"}
	for _, c := range []struct{ folder, name, text, want string }{
		{"blocks", "nat64.h", "#include \"nat64_maps.h\"\n#include \"fib_lookup.h\"", ""},
		{"blocks", "nat64.h", "#include \"neighbour.h\"", "includes the block"},
		{"blocks", "neighbour.h", "#include \"nat64_maps.h\"", "includes the block"},
		{"lib", "fib_lookup.h", "#include \"nat64.h\"", "includes the block"},
		{"blocks", "nat64.h", "#include \"xdp.h\"", "chooses its hook"},
		{"blocks", "nat64.h", "#include \"hook.h\"", ""},
		{"blocks", "nat64.h", "if (HOOK_IS_XDP)", "only hook/ knows"},
		{"blocks", "nat64.h", "bpf_skb_load_bytes(ctx, 0, 0, 0);", "only hook/ knows"},
		{"lib", "fib_lookup.h", "return XDP_PASS;", "only hook/ knows"},
		{"lib", "fib_lookup.h", "/* not XDP_PASS */ x = INTERFACE_XDP_OUT;", ""},
		{"hook", "xdp.h", "struct xdp_md *ctx;", ""},
		{"hook", "xdp.h", "#include \"xdp_more.h\"", ""},
		{"hook", "tc.h", "#include \"xdp_more.h\"", "chooses its hook"},
	} {
		got := cFaults(read(c.folder, c.name, c.text), where)
		if c.want == "" && len(got) != 0 || c.want != "" && !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s/%s with %q: %q, want %q", c.folder, c.name, c.text, got, c.want)
		}
	}
}

// fixed are the functions of a hook whose answer does not depend on the frame: their body
// is empty, or returns a constant.
var fixed = regexp.MustCompile(`static __always_inline [\w ]+?\b(hook_\w+)\([^)]*\)\s*\{\s*(?:return (?:\d+|true|false|\(struct \w+\)\{\});\s*)?\}`)

// Where XDP has but one answer, xdp.h gives it, so that blocks need no condition on the
// hook. Each such function stands in its comment, tc.h has it, and something asks.
func TestXDPGivesFixedAnswersOnlyToWhatIsAskedAtTC(t *testing.T) {
	all := sources(t)
	text := map[string]string{}
	for _, s := range all {
		text[s.name] = s.text
	}
	comment, err := os.ReadFile(filepath.Join(root(t), "bpf/hook/xdp.h"))
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(comment), "one answer")
	listed, _, _ = strings.Cut(listed, ")")
	named := regexp.MustCompile(`hook_\w+`).FindAllString(listed, -1)
	var found []string
	for _, m := range fixed.FindAllStringSubmatch(text["xdp.h"], -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	slices.Sort(named)
	if !slices.Equal(found, named) {
		t.Errorf("fixed answers are %v, and the comment of xdp.h lists %v", found, named)
	}
	for _, name := range found {
		call := regexp.MustCompile(`\b` + name + `\(`)
		if !call.MatchString(text["tc.h"]) {
			t.Errorf("tc.h does not have %s", name)
		}
		if fixed.MatchString(text["tc.h"]) && slices.ContainsFunc(fixed.FindAllStringSubmatch(text["tc.h"], -1), func(m []string) bool { return m[1] == name }) {
			t.Errorf("%s has a fixed answer at both hooks: take it away", name)
		}
		if !slices.ContainsFunc(all, func(s source) bool { return s.folder != "hook" && call.MatchString(s.text) }) {
			t.Errorf("no block, library or program calls %s", name)
		}
	}
}
