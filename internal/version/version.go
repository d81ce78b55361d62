// Package version tells which build this is.
package version

import (
	"runtime/debug"
	"strings"
)

// number is set by the linker: -X weft/internal/version.number=...
var number = "0.1.0-dev"

// commit likewise; without it the build information is asked.
var commit string

// String returns the version with the commit, like 0.1.0 (1a2b3c4).
func String() string {
	c := Commit()
	if c == "" {
		return number
	}
	return number + " (" + c[:min(len(c), 12)] + ")"
}

// Commit returns the commit that was built, empty if it is not known.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return strings.TrimSpace(s.Value)
		}
	}
	return ""
}
