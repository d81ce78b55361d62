package openwrt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"weft/internal/importer/uci"
)

// Verdict says whether weft does what a line asks for.
type Verdict uint8

const (
	none    Verdict = iota
	Yes             // weft does it, or there is nothing to do
	Differs         // weft does it otherwise
	No              // weft does not do it
)

func (v Verdict) String() string {
	return [...]string{"", "yes", "differs", "no"}[v]
}

// mark is the verdict on a line.
type mark struct {
	verdict      Verdict
	what, remedy string
}

// Line is the verdict on one line of a file, or on several that stand together and have
// the same.
type Line struct {
	File        string
	First, Last int
	Verdict     Verdict
	Section     string   // type and name
	Options     []string // of the section; empty: the section itself
	What        string   // for Yes: where it is in weft.toml
	Remedy      string
	Count       int  // lines of UCI
	begins      bool // the line that begins the section is one of them
}

// String returns the verdict in one line. It has no values: some are secret.
func (l Line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%s: %s: ", l.File, span(l.First, l.Last), l.Verdict)
	if l.Section != "" {
		fmt.Fprintf(&b, "%s: ", l.Section)
	}
	if len(l.Options) > 0 && !l.begins {
		fmt.Fprintf(&b, "%s: ", strings.Join(l.Options, ", "))
	}
	b.WriteString(l.What)
	if l.Remedy != "" {
		fmt.Fprintf(&b, " (%s)", l.Remedy)
	}
	return b.String()
}

func span(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// lines returns the verdicts on all lines, in the order of the files.
func (c *converter) lines() []Line {
	var list []Line
	for _, p := range c.order {
		sections := map[*uci.Section]*section{}
		for _, s := range p.sections {
			sections[s.Section] = s
		}
		var before *uci.Line
		for _, l := range p.lines {
			m := c.marks[l]
			if m.verdict == none {
				m = mark{No, "weft does not know this line", "look for it in docs/reference/weft.toml.md"}
			}
			if before != nil && before.Section == l.Section && c.marks[before] == m && l.First > before.Last {
				last := &list[len(list)-1]
				last.Last = l.Last
				last.add(l)
			} else {
				entry := Line{File: p.file, First: l.First, Last: l.Last, Verdict: m.verdict, What: m.what, Remedy: m.remedy}
				if l.Section != nil {
					entry.Section = sections[l.Section].label()
				}
				entry.add(l)
				list = append(list, entry)
			}
			before = l
			c.marks[l] = m
		}
	}
	return list
}

func (l *Line) add(u *uci.Line) {
	l.Count++
	switch {
	case u.Kind == uci.Config:
		l.begins = true
	case u.Kind != uci.Package && !slices.Contains(l.Options, u.Name):
		l.Options = append(l.Options, u.Name)
	}
}

// label names a section for people: by its name, or what it has for one.
func (s *section) label() string {
	name := s.Name
	for _, option := range []string{"name", "interface", "target"} {
		if name == "" {
			name = s.value(option)
		}
	}
	if name == "" {
		return s.Type
	}
	return s.Type + " " + printable(name)
}

// printable is a value of a file as it can stand in a line.
func printable(text string) string {
	const most = 60
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// value is what an option has, "" if it is not there; the items of a list are joined.
func (s *section) value(name string) string {
	if v := s.Options[name]; v != nil {
		return strings.Join(v.Items, " ")
	}
	return ""
}

// words are the items of a list, or what an option has between spaces.
func (s *section) words(name string) []string {
	v := s.Options[name]
	if v == nil {
		return nil
	}
	if v.List {
		return v.Items
	}
	return strings.Fields(strings.Join(v.Items, " "))
}

func (s *section) has(name string) bool { return s.value(name) != "" }

// on reads a boolean.
func (s *section) on(name string, otherwise bool) bool {
	switch strings.ToLower(s.value(name)) {
	case "1", "yes", "on", "true", "enabled":
		return true
	case "":
		return otherwise
	}
	return false
}

// mark gives the lines of an option a verdict; of "" the line that begins the section.
func (s *section) mark(verdict Verdict, name, what, remedy string) {
	m := mark{verdict, what, remedy}
	if name == "" {
		for _, l := range s.Heads {
			s.c.marks[l] = m
		}
		return
	}
	v := s.Options[name]
	if v == nil {
		return
	}
	for i, l := range v.Lines {
		s.c.marks[l] = m
		if !v.List && i < len(v.Lines)-1 {
			s.c.marks[l] = mark{Yes, fmt.Sprintf("line %d sets it again", v.Lines[i+1].First), ""}
		}
	}
}

// item gives one item of a list, or of an option with several words, a verdict.
func (s *section) item(verdict Verdict, name, item, what, remedy string) {
	v := s.Options[name]
	if v == nil {
		return
	}
	for _, l := range v.Lines {
		if l.Kind == uci.List && l.Value == item || l.Kind == uci.Option && slices.Contains(strings.Fields(l.Value), item) {
			s.c.marks[l] = mark{verdict, what, remedy}
		}
	}
}

func (s *section) yes(name, what string)             { s.mark(Yes, name, what, "") }
func (s *section) differs(name, what, remedy string) { s.mark(Differs, name, what, remedy) }
func (s *section) no(name, what, remedy string)      { s.mark(No, name, what, remedy) }

// judged reports whether an option has a verdict.
func (s *section) judged(name string) bool {
	v := s.Options[name]
	return v == nil || s.c.marks[v.Lines[len(v.Lines)-1]].verdict != none
}

// rest gives all lines without a verdict one.
func (s *section) rest(verdict Verdict, what, remedy string) {
	if s.c.marks[s.Heads[0]].verdict == none {
		s.mark(verdict, "", what, remedy)
	}
	for _, name := range s.Order {
		if !s.judged(name) {
			s.mark(verdict, name, what, remedy)
		}
	}
}

// table gives the options that a table has its verdicts, where they have none; words are
// pairs of what stands there and what is meant.
func (s *section) table(verdicts map[string]mark, words ...string) {
	fill := strings.NewReplacer(words...)
	for _, name := range s.Order {
		if m, known := verdicts[name]; known && !s.judged(name) {
			s.mark(m.verdict, name, fill.Replace(m.what), fill.Replace(m.remedy))
		}
	}
}

// remarks are the comments that say what the result does not carry over: a paragraph for
// each difference, with all lines that have it.
func (c *converter) remarks() []string {
	type key struct{ file, what, remedy string }
	places := map[key][]Line{}
	var order []key
	for _, l := range c.lines() {
		if l.Verdict == Yes {
			continue
		}
		k := key{l.File, l.What, l.Remedy}
		if places[k] == nil {
			order = append(order, k)
		}
		places[k] = append(places[k], l)
	}
	const most = 6
	var list []string
	for _, k := range order {
		var spans []string
		for i, l := range places[k] {
			if i == most {
				spans = append(spans, fmt.Sprintf("and %d more", len(places[k])-most))
				break
			}
			spans = append(spans, span(l.First, l.Last))
		}
		text := fmt.Sprintf("%s %s, ", path.Base(k.file), strings.Join(spans, ", "))
		if l := places[k][0]; len(places[k]) == 1 {
			text += l.Section
			if len(l.Options) > 0 && !l.begins {
				text += ", " + strings.Join(l.Options, ", ")
			}
		} else {
			text += strings.Fields(places[k][0].Section + " -")[0]
		}
		text += ": " + k.what
		if k.remedy != "" {
			text += " (" + k.remedy + ")"
		}
		list = append(list, text)
	}
	return list
}
