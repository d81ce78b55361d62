// Command configdoc writes the reference page and the JSON Schema of weft.toml
// from the structs that weft reads it into.
//
//	configdoc DIRECTORY
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weft/internal/config"
	"weft/internal/feature/nat64"
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
	return append(config.CoreSections(), nat64.Section())
}

// pages gives the text of each file by its name.
func pages() map[string][]byte {
	return map[string][]byte{
		"weft.toml.md":     []byte(config.Reference(sections())),
		"weft.schema.json": config.Schema(sections()),
	}
}
