package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/features"
	"weft/internal/noun"
	"weft/internal/state"
)

// homeMade are words that weft coined where the field has terms (docs/glossary.md has the
// terms). They stand in no public name.
var homeMade = []string{
	"shortcut", "garden", "strangers", "stranger", "mended", "piece", "pieces", "onward", "news", "tell", "hear", "heard", "say",
	"listing", "listings", "arrive", "arrival", "leave", "screen", "beyond", "binder", "touch", "adopt", "lend", "settled",
	"turnover", "verdicts", "books", "plats", "adverts", "standing", "failover", "road", "world", "duet", "joined", "super",
}

// more are words that one kind of name must not have and another may: echo is ICMP's
// word, up and down are states of a link, and a frame is a super-packet nowhere.
var more = map[string][]string{
	"key":     {"hide", "echo", "up", "down", "access", "refused"},
	"command": {"access", "echo"},
	"outcome": {"access", "refused"},
	"noun":    {"access", "refused", "wires", "ways"},
	"column":  {"access", "shortcut", "here", "onward"},
	"json":    {"access", "here"},
	"metric":  {"access", "refused_flows"},
	"program": {"access", "refusal", "joined"},
}

// allowed are names that hold such a word in the field's sense.
var allowed = map[string][]string{
	// a port joins and leaves a bridge, as ip-link(8) and bridge(8) say
	"json": {"bridges ports[].joined"},
}

var wordsOfName = regexp.MustCompile(`[A-Za-z0-9]+`)

// publicNames are all names by which users know something, by kind.
func publicNames(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	add := func(kind, name string) { names[kind] = append(names[kind], name) }

	var schema any
	text, err := os.ReadFile("../../docs/reference/weft.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var keys func(any)
	keys = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				keys(x)
			}
		case map[string]any:
			if properties, is := v["properties"].(map[string]any); is {
				for name := range properties {
					add("key", name)
				}
			}
			for _, x := range v {
				keys(x)
			}
		}
	}
	keys(schema)

	every(rootCommand(), func(c *cobra.Command) {
		add("command", c.Name())
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { add("command", f.Name) })
	})
	for o := range state.OutcomeCount {
		add("outcome", o.String())
	}
	for n := range noun.All(features.Nouns()) {
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			add("noun", name)
		}
		for _, c := range n.Columns {
			add("column", c)
		}
		for _, k := range n.JSONKeys() {
			key, _, _ := strings.Cut(k, " ")
			add("json", n.Name+" "+key)
		}
		for _, m := range n.Metrics {
			add("metric", m.Name)
			for _, l := range m.Labels {
				add("metric", l)
			}
		}
	}
	programs, err := os.ReadDir("../../bpf")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if name, is := strings.CutSuffix(p.Name(), ".bpf.c"); is {
			add("program", name)
		}
	}
	return names
}

func TestPublicNamesAreTheFieldsTerms(t *testing.T) {
	names := publicNames(t)
	for _, kind := range []string{"key", "command", "outcome", "noun", "column", "json", "metric", "program"} {
		if len(names[kind]) < 8 {
			t.Errorf("only %d names of the kind %s were found: %v", len(names[kind]), kind, names[kind])
		}
		for _, wrong := range homeMadeNames(kind, names[kind]) {
			t.Error(wrong)
		}
	}
}

// homeMadeNames returns what is wrong with names of a kind.
func homeMadeNames(kind string, names []string) (wrong []string) {
	for _, name := range names {
		if slices.Contains(allowed[kind], name) {
			continue
		}
		for _, w := range wordsOfName.FindAllString(strings.ToLower(strings.ReplaceAll(name, "_", " ")), -1) {
			garden := w == "garden" && strings.Contains(strings.ToLower(name), "walled")
			if !garden && slices.Contains(homeMade, w) || strings.EqualFold(w, name) && slices.Contains(more[kind], w) || kind != "key" && slices.Contains(more[kind], w) {
				wrong = append(wrong, fmt.Sprintf("%s %q: %q is a word of weft's own; docs/glossary.md has the field's term", kind, name, w))
			}
		}
	}
	return wrong
}

func TestHomeMadeNamesAreFound(t *testing.T) {
	for kind, name := range map[string]string{"key": "shortcut", "command": "access", "outcome": "pass-mended", "noun": "failover", "column": "HERE", "json": "subscribers onward", "metric": "weft_access_bytes", "program": "nat64_adopt"} {
		if len(homeMadeNames(kind, []string{name})) == 0 {
			t.Errorf("%s %q passes", kind, name)
		}
	}
	for kind, name := range map[string]string{"key": "lcp_echo", "outcome": "drop-walled-garden", "json": "bridges ports[].up", "metric": "weft_l2tp_client_up"} {
		if wrong := homeMadeNames(kind, []string{name}); len(wrong) != 0 {
			t.Errorf("%s %q: %v", kind, name, wrong)
		}
	}
}
