// Command configdoc writes the reference page and the JSON Schema of weft.toml
// from the structs that weft reads it into, and the page that explains what may
// become of a packet from the list that the programs count by.
//
//	configdoc DIRECTORY
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/state"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configdoc DIRECTORY")
		os.Exit(2)
	}
	for name, text := range pages() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "configdoc:", err)
			os.Exit(1)
		}
	}
}

// sections lists what weft.toml may hold.
func sections() []config.Section {
	return features.Sections()
}

// pages returns the text of each file by its name.
func pages() map[string][]byte {
	return map[string][]byte{
		"weft.toml.md":     []byte(config.Reference(sections())),
		"weft.schema.json": config.Schema(sections()),
		"outcomes.md":      outcomes(),
	}
}

const outcomesHead = `# Outcomes: what happened to a packet

<!-- Made by tools/configdoc from bpf/lib/outcome.h; do not edit. -->

These are the rows of ` + "`weft show counters`" + `, the reasons of ` + "`weft trace`" + `, and the
label ` + "`outcome`" + ` of the metric ` + "`weft_packets_total`" + `. The first word is the verdict.

| verdict | |
|---|---|
| forward | weft forwarded or answered the packet |
| slow | weft gave the packet to the slow path; the rows ` + "`slow_path/NAME`" + ` have its decision |
| pass | weft left the packet to the kernel |
| drop | weft dropped the packet |

| outcome | meaning |
|---|---|
`

// outcomes returns the page with every outcome.
func outcomes() []byte {
	var b bytes.Buffer
	b.WriteString(outcomesHead)
	for o := state.OutcomeNone + 1; o < state.OutcomeCount; o++ {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o, strings.ReplaceAll(o.Words(), "|", "\\|"))
	}
	return b.Bytes()
}
