package config

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/internal/state"
)

// join appends a key to a path; either may be empty.
func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// shown writes a key for a path that people read: on one line, in quotes where
// TOML needs them.
func shown(name string) string {
	if plainKey(name) {
		return name
	}
	return strconv.Quote(name)
}

func plainKey(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// steps splits a path: a.b[2].c is a, b, [2], c.
func steps(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(path, "[", ".["), ".")
}

// within reports whether path is outer or lies below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// at turns a byte offset into a position; columns count characters.
func (f *File) at(offset int) state.Position {
	before := string(f.text[:min(max(offset, 0), len(f.text))])
	start := strings.LastIndexByte(before, '\n') + 1
	return state.Position{
		File:   f.file,
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[start:]),
	}
}
