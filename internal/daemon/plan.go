// Package daemon owns the tasks and the event loop of `weft run`. It connects the other
// packages: config -> the features' plans -> reconcile -> the kernel and the datapath.
package daemon

import (
	"fmt"
	"io"
	"os"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/state"
)

// Load reads a weft.toml, "-" from standard input. The error is that of reading the
// file; mistakes in it, and in the files that it names, are problems.
func Load(file string) (*config.File, []state.Problem, error) {
	text, err := read(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	f, problems := loaded(file, text)
	return f, problems, nil
}

// loaded is Load for a given text, with the files that it names.
func loaded(file string, text []byte) (*config.File, []state.Problem) {
	f, problems := Parse(file, text)
	if !state.HasErrors(problems) {
		problems = append(problems, features.Files(f)...)
	}
	return f, problems
}

func read(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}

// Parse is Load for a given text.
func Parse(file string, text []byte) (*config.File, []state.Problem) {
	return config.Load(file, text, features.Sections())
}
