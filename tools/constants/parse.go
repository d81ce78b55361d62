package main

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math/bits"
	"regexp"
	"strings"
)

// mark is the comment that says where constants go.
type mark struct {
	pkg, kind    string // kind: the Go type, or empty
	prefix, name string
	option       string // names, functions, words or nothing
}

// item is one constant.
type item struct {
	c       string // its name in C
	text    string // what C says its value is; empty: one more than the last
	value   string
	comment string
}

// list is an enum, or some #defines, that Go shares.
type list struct {
	mark mark
	file string
	enum string // its name; empty for #defines
	// comment is what stands above the mark, if it is one line.
	comment string
	items   []item
}

var (
	markLine   = regexp.MustCompile(`^/\* go: ([\w/]+)(?:\.(\w+))?(?: (\w*)=(\w*))?(?: (names|functions|words))? \*/$`)
	enumLine   = regexp.MustCompile(`^enum (\w+) \{$`)
	itemLine   = regexp.MustCompile(`^\t([A-Z][A-Z0-9_]*)(?: = ([^,/]+))?,(?:\s*/\* (.*) \*/)?$`)
	aside      = regexp.MustCompile(`^\t/\*.*\*/$|^$`) // what may stand between items
	defineLine = regexp.MustCompile(`^#define ([A-Z][A-Z0-9_]*) (.*?)(?:\s*/\* (.*) \*/)?$`)
	identifier = regexp.MustCompile(`\b[A-Z][A-Z0-9_]*\b`)
	cast       = regexp.MustCompile(`\(__u(32|64)\)`)
	suffix     = regexp.MustCompile(`\b(0x[0-9a-fA-F]+|[0-9]+)U?L{0,2}\b`)
	comment    = regexp.MustCompile(`^/\* (.*[^.]) \*/$`)
	literal    = regexp.MustCompile(`^(0x[0-9a-f]+|[0-9]+)$`)
)

// shared returns what is marked in these files, each with its value.
func shared(files []source) ([]list, error) {
	var lists []list
	values := map[string]string{}
	for _, f := range files {
		more, err := parse(f, values)
		if err != nil {
			return nil, err
		}
		lists = append(lists, more...)
	}
	for _, l := range lists {
		for i := range l.items {
			v, err := evaluate(values[l.items[i].c], values, 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", l.file, l.items[i].c, err)
			}
			l.items[i].value = v
		}
	}
	return lists, nil
}

// parse returns the marked lists of a file, and notes what each constant is said to be.
func parse(f source, values map[string]string) (lists []list, err error) {
	var marked *mark
	var open *list        // to which items belong, of an enum or of #defines
	base, since := "0", 0 // in an enum: the last value that is written out, and items since it
	lines := strings.Split(f.text, "\n")
	for n, line := range lines {
		fail := func(what string) error { return fmt.Errorf("%s:%d: %s: %q", f.name, n+1, what, line) }
		m := markLine.FindStringSubmatch(line)
		if m == nil && strings.HasPrefix(line, "/* go:") {
			return nil, fail("no mark of a known form")
		}
		enum, define := enumLine.FindStringSubmatch(line), defineLine.FindStringSubmatch(line)
		inEnum := open != nil && open.enum != ""
		if marked != nil && enum == nil && define == nil {
			return nil, fail("neither an enum nor a #define follows the mark")
		}
		switch {
		case m != nil:
			if open != nil { // #defines end here too
				lists, open = append(lists, *open), nil
			}
			marked = &mark{pkg: m[1], kind: m[2], prefix: m[3], name: m[4], option: m[5]}
		case enum != nil:
			open, base, since = &list{file: f.name, enum: enum[1]}, "0", 0
			if marked != nil {
				open.mark, open.comment = *marked, above(lines, n-1)
			}
			marked = nil
		case inEnum && line == "};":
			if open.mark.pkg != "" {
				lists = append(lists, *open)
			}
			open = nil
		case inEnum:
			i := itemLine.FindStringSubmatch(line)
			if i == nil {
				if open.mark.pkg != "" && !aside.MatchString(line) {
					return nil, fail("not of the form NAME [= VALUE], [/* comment */]")
				}
				continue
			}
			text := i[2]
			if text != "" {
				base, since = text, 0
			} else {
				text = fmt.Sprintf("%s + %d", base, since)
			}
			values[i[1]] = text
			since++
			open.items = append(open.items, item{c: i[1], text: i[2], comment: i[3]})
		case define != nil:
			values[define[1]] = define[2]
			if marked != nil {
				open, marked = &list{mark: *marked, file: f.name, comment: above(lines, n-1)}, nil
			}
			if open != nil {
				open.items = append(open.items, item{c: define[1], text: define[2], comment: define[3]})
			}
		case open != nil:
			lists, open = append(lists, *open), nil
		}
	}
	if open != nil {
		lists = append(lists, *open)
	}
	return lists, nil
}

// above returns the comment of one line above line n.
func above(lines []string, n int) string {
	if n == 0 {
		return ""
	}
	if m := comment.FindStringSubmatch(lines[n-1]); m != nil && !markLine.MatchString(lines[n-1]) {
		return m[1]
	}
	return ""
}

// evaluate returns the number that an expression is: as it stands if it is one.
func evaluate(expression string, values map[string]string, depth int) (string, error) {
	if depth > 100 {
		return "", fmt.Errorf("%s is defined by itself", expression)
	}
	text := cast.ReplaceAllString(expression, "")
	text = suffix.ReplaceAllString(strings.TrimSpace(text), "$1")
	if literal.MatchString(text) {
		return text, nil
	}
	if strings.HasPrefix(text, "'") && strings.HasSuffix(text, "'") {
		return text, nil
	}
	var wrong error
	text = identifier.ReplaceAllStringFunc(text, func(name string) string {
		inner, ok := values[name]
		if !ok {
			wrong = fmt.Errorf("%s is not known", name)
			return name
		}
		v, err := evaluate(inner, values, depth+1)
		if err != nil {
			wrong = err
		}
		return "(" + v + ")"
	})
	if wrong != nil {
		return "", wrong
	}
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	if v.Value == nil || v.Value.Kind() != constant.Int {
		return "", fmt.Errorf("%s is no integer", text)
	}
	if n, ok := constant.Uint64Val(v.Value); ok && n >= 1<<12 && n&(n-1) == 0 {
		return fmt.Sprintf("1 << %d", bits.TrailingZeros64(n)), nil
	}
	return v.Value.ExactString(), nil
}
