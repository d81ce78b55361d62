// Package words holds the tests of the language that weft's text is written in.
package words

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// roots are the files and folders whose text is checked. Of Go files comments
// and string literals are checked (help texts and log messages among them), of
// all other files every line.
var roots = []string{
	"README.md",
	"CHANGELOG.md",
	"Makefile",
	"docs",
	"examples",
	"packaging",
	"bpf",
	"cmd",
	"fib",
	"internal",
	"schedule",
	"tools",
	"wire",
}

// pending are files below roots that are made from text that is still to be
// rewritten, and texts of others.
var pending = []string{"bpf/LICENSES/GPL-2.0-only.txt"}

// columns is the longest line of prose. Rows of tables, code and links may be longer.
const columns = 160

var (
	unwanted = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{"to" + "ld", "an" + "ew", "no" + "body", "some" + "body", "who" + "ever", "there" + "of"}, "|") + `)\b`)
	unixUser = "\"no" + "body\"" // the account, in examples
	text     = []string{".go", ".c", ".h", ".md", ".toml", ".service", ".txt", ".sh", ".conf"}
)

// found is an unwanted word, or a line that is too long.
type found struct {
	line int
	what string
}

func (f found) String() string { return fmt.Sprintf("%d: %s", f.line, f.what) }

// search returns the unwanted words of a file.
func search(name string, content []byte) (list []found) {
	add := func(first int, text string) {
		for i, line := range strings.Split(text, "\n") {
			for _, word := range unwanted.FindAllString(strings.ReplaceAll(line, unixUser, ""), -1) {
				list = append(list, found{first + i, word})
			}
		}
	}
	if filepath.Ext(name) != ".go" {
		add(1, string(content))
		return list
	}
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(content))
	s.Init(file, content, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return list
		case token.COMMENT, token.STRING:
			add(file.Line(pos), literal)
		}
	}
}

// long returns the lines of prose in a Markdown page that are too long.
func long(content []byte) (list []found) {
	fenced := false
	for i, line := range strings.Split(string(content), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if n := len([]rune(line)); n > columns && !fenced && !strings.HasPrefix(line, "|") {
			list = append(list, found{i + 1, fmt.Sprintf("%d columns", n)})
		}
	}
	return list
}

func files(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range roots {
		before := len(names)
		err := filepath.WalkDir(filepath.Join(repository, r), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(repository, path)
			if err != nil {
				return err
			}
			if !d.IsDir() && (slices.Contains(text, filepath.Ext(name)) || filepath.Base(name) == "Makefile") && !slices.Contains(pending, filepath.ToSlash(name)) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == before {
			t.Errorf("%s: no files", r)
		}
	}
	return names
}

func TestTextHasNoUnwantedWords(t *testing.T) {
	for _, name := range files(t) {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range search(name, content) {
			t.Errorf("%s:%v", name, f)
		}
	}
}

func TestLinesOfProseAreNotTooLong(t *testing.T) {
	for _, name := range files(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range long(content) {
			t.Errorf("%s:%v", name, f)
		}
	}
}

func TestTheSearchFindsWordsInTextCommentsAndStrings(t *testing.T) {
	word := "to" + "ld"
	source := func(format string) string { return strings.ReplaceAll(format, "WORD", word) }
	for _, c := range []struct {
		name, content string
		want          []int
	}{
		{"page.md", "one\nhosts are WORD\n", []int{2}},
		{"page.md", "WORD, and WORD again; unWORD, reWORDing and weft_WORD are other words", []int{1, 1}},
		{"page.md", source("owner = ") + unixUser, nil},
		{"a.go", "package a\n\n// The peer is WORD.\nfunc WORD() {}\n", []int{3}},
		{"a.go", "package a\n\nvar x = \"was WORD\"\nvar y = `one\nWORD`\n", []int{3, 5}},
		{"a.go", "package a\n\n/* one\n\nWORD */\nvar WORD int\n", []int{5}},
	} {
		var lines []int
		for _, f := range search(c.name, []byte(source(c.content))) {
			lines = append(lines, f.line)
		}
		if !slices.Equal(lines, c.want) {
			t.Errorf("%s %q: found in lines %v, want %v", c.name, source(c.content), lines, c.want)
		}
	}
}

func TestTheSearchFindsLongLinesOfProse(t *testing.T) {
	line := strings.Repeat("x", columns+1)
	page := bytes.Join([][]byte{[]byte("short"), []byte(line), []byte("| " + line), []byte("```"), []byte(line), []byte("```"), []byte(line)}, []byte("\n"))
	if list := long(page); len(list) != 2 || list[0].line != 2 || list[1].line != 7 {
		t.Errorf("found %v", list)
	}
}
