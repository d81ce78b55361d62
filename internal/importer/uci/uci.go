// Package uci reads files of OpenWrt's Unified Configuration Interface: what
// /etc/config holds, and what uci export prints. It is pure, and takes time linear in
// the text.
package uci

import (
	"fmt"
	"strings"
)

// MaxSize is the largest file that is read, in bytes. Those of routers have a few KiB.
const MaxSize = 8 << 20

// Kind is what a line begins with.
type Kind uint8

const (
	Config  Kind = iota // config TYPE NAME: begins a section
	Option              // option NAME VALUE
	List                // list NAME VALUE: one value of several
	Package             // package NAME: begins a package, in what uci export prints
)

// Line is one command of a file. A value may reach over several lines of text.
type Line struct {
	Kind        Kind
	First, Last int      // lines of the file, from 1
	Section     *Section // of which it is; nil: of none
	Name        string   // of the option, the list or the package; of a section its type
	Value       string
}

// Value is what the lines of one name in a section amount to.
type Value struct {
	List  bool
	Items []string // one, unless List
	Lines []*Line  // all that say something of it; the last ones count
}

// Section is a group of options. A name that is given twice is one section.
type Section struct {
	Type, Name string // without Name it is anonymous
	Heads      []*Line
	Options    map[string]*Value
	Order      []string // names of Options, as they come
}

// Line is where the section begins.
func (s *Section) Line() int { return s.Heads[0].First }

// File is one package: the name of a file in /etc/config.
type File struct {
	Name     string
	Lines    []*Line
	Sections []*Section
	named    map[string]*Section
}

// Error is what makes a text no UCI file.
type Error struct {
	Line         int
	What, Remedy string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.What) }

// Parse reads a text. name is that of the package, for text without package lines.
func Parse(name string, text []byte) ([]*File, error) {
	if len(text) > MaxSize {
		return nil, &Error{1, fmt.Sprintf("has %d bytes, and no UCI file has more than %d", len(text), MaxSize), "name a file of /etc/config"}
	}
	p := parser{text: text, line: 1}
	p.begin(name)
	for p.pos < len(p.text) {
		if err := p.command(); err != nil {
			return nil, err
		}
	}
	return p.files, nil
}

// parser is a cursor over the text.
type parser struct {
	text    []byte
	pos     int
	line    int
	files   []*File
	section *Section
}

func (p *parser) begin(name string) {
	p.files = append(p.files, &File{Name: name, named: map[string]*Section{}})
	p.section = nil
}

func (p *parser) file() *File { return p.files[len(p.files)-1] }

// fault is an error at the line that the cursor is in.
func (p *parser) fault(line int, what, remedy string) *Error { return &Error{line, what, remedy} }

func space(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'
}

// command reads one command, up to the end of its line or its semicolon.
func (p *parser) command() error {
	start := p.line
	words, err := p.words()
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return nil
	}
	l := &Line{First: start, Last: p.last()}
	word, args := words[0], words[1:]
	switch word {
	case "config", "c":
		l.Kind = Config
		err = p.config(l, args)
	case "option", "o":
		l.Kind = Option
		err = p.option(l, args)
	case "list", "l":
		l.Kind = List
		err = p.option(l, args)
	case "package", "p":
		l.Kind = Package
		err = p.pack(l, args)
	default:
		return p.fault(start, fmt.Sprintf("%s begins no line of UCI", shown(word)), "config, option, list or package; # begins a comment")
	}
	if err != nil {
		return err
	}
	p.file().Lines = append(p.file().Lines, l)
	return nil
}

// last is the line in which the words that were just read end.
func (p *parser) last() int {
	if p.pos > 0 && p.pos <= len(p.text) && p.text[p.pos-1] == '\n' {
		return p.line - 1
	}
	return p.line
}

// shown is a word as it can stand in a message.
func shown(word string) string {
	const most = 40
	if len(word) > most {
		word = word[:most] + "..."
	}
	return fmt.Sprintf("%q", word)
}

// words reads the words up to the end of the command, and passes it.
func (p *parser) words() ([]string, error) {
	var list []string
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '\n':
			p.pos++
			p.line++
			return list, nil
		case c == ';':
			p.pos++
			return list, nil
		case space(c):
			p.pos++
		case c == '#':
			for p.pos < len(p.text) && p.text[p.pos] != '\n' {
				p.pos++
			}
		case c == 0:
			return nil, p.fault(p.line, "has a zero byte", "is this a file of /etc/config?")
		default:
			word, err := p.word()
			if err != nil {
				return nil, err
			}
			list = append(list, word)
		}
	}
	return list, nil
}

// word reads one word: plain, quoted, or pieces of both.
func (p *parser) word() (string, error) {
	var b strings.Builder
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '\n', c == ';', c == '#', space(c):
			return b.String(), nil
		case c == 0:
			return "", p.fault(p.line, "has a zero byte", "is this a file of /etc/config?")
		case c == '\'', c == '"':
			if err := p.quoted(&b, c); err != nil {
				return "", err
			}
		case c == '\\':
			p.escape(&b)
		default:
			b.WriteByte(c)
			p.pos++
		}
	}
	return b.String(), nil
}

// quoted reads up to the quote that closes it, over ends of lines too.
func (p *parser) quoted(b *strings.Builder, quote byte) error {
	start := p.line
	for p.pos++; p.pos < len(p.text); {
		switch c := p.text[p.pos]; {
		case c == quote:
			p.pos++
			return nil
		case c == 0:
			return p.fault(p.line, "has a zero byte", "is this a file of /etc/config?")
		case c == '\\' && quote == '"':
			p.escape(b)
		default:
			if c == '\n' {
				p.line++
			}
			b.WriteByte(c)
			p.pos++
		}
	}
	return p.fault(start, fmt.Sprintf("a value begins with %c and does not end", quote), "close the quotes")
}

// escape reads a backslash and what it stands before: at the end of a line it
// continues it.
func (p *parser) escape(b *strings.Builder) {
	p.pos++
	rest := p.text[p.pos:]
	switch {
	case len(rest) == 0:
	case rest[0] == '\n':
		p.pos++
		p.line++
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		p.pos += 2
		p.line++
	default:
		b.WriteByte(rest[0])
		p.pos++
	}
}

func (p *parser) config(l *Line, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return p.fault(l.First, "config has no type behind it", "like config interface 'lan'")
	case len(args) > 2:
		return p.fault(l.First, fmt.Sprintf("%s is one word too many", shown(args[2])), "quote a value that has spaces")
	case !valid(args[0], func(c byte) bool { return c > ' ' && c < 0x7f }):
		return p.fault(l.First, fmt.Sprintf("%s is not a type of sections", shown(args[0])), "letters, digits and -")
	}
	l.Name = args[0]
	if len(args) == 2 {
		l.Value = args[1]
	}
	if !named(l.Value) {
		return p.fault(l.First, fmt.Sprintf("%s is not a name of a section", shown(l.Value)), "letters, digits and _, as uci(1) wants")
	}
	f := p.file()
	s := f.named[l.Value]
	if s == nil {
		s = &Section{Name: l.Value, Options: map[string]*Value{}}
		f.Sections = append(f.Sections, s)
		if l.Value != "" {
			f.named[l.Value] = s
		}
	}
	s.Type = l.Name
	s.Heads = append(s.Heads, l)
	l.Section, p.section = s, s
	return nil
}

func (p *parser) option(l *Line, args []string) error {
	word := map[Kind]string{Option: "option", List: "list"}[l.Kind]
	switch {
	case p.section == nil:
		return p.fault(l.First, word+" stands before the first config", "begin a section, like config interface 'lan'")
	case len(args) == 0 || args[0] == "":
		return p.fault(l.First, word+" has no name behind it", "like option proto 'static'")
	case len(args) > 2:
		return p.fault(l.First, fmt.Sprintf("%s is one word too many", shown(args[2])), "quote a value that has spaces")
	case !named(args[0]):
		return p.fault(l.First, fmt.Sprintf("%s is not a name of an option", shown(args[0])), "letters, digits and _, as uci(1) wants")
	}
	l.Name, l.Section = args[0], p.section
	if len(args) == 2 {
		l.Value = args[1]
	}
	s := p.section
	v := s.Options[l.Name]
	if v == nil {
		v = &Value{}
		s.Options[l.Name] = v
		s.Order = append(s.Order, l.Name)
	}
	v.Lines = append(v.Lines, l)
	switch {
	case l.Kind == List:
		v.List = true
		if l.Value != "" {
			v.Items = append(v.Items, l.Value)
		}
	case l.Value == "": // an empty option is none
		v.List, v.Items = false, nil
	default:
		v.List, v.Items = false, []string{l.Value}
	}
	return nil
}

func (p *parser) pack(l *Line, args []string) error {
	if len(args) != 1 || !valid(args[0], func(c byte) bool { return named(string(c)) || c == '-' }) || args[0] == "" {
		return p.fault(l.First, "package needs one name behind it", "like package network")
	}
	l.Name = args[0]
	if len(p.files) == 1 && len(p.file().Lines) == 0 {
		p.file().Name = l.Name // the first line
		return nil
	}
	for _, f := range p.files {
		if f.Name == l.Name {
			return p.fault(l.First, fmt.Sprintf("package %s is there twice", l.Name), "keep one of the two")
		}
	}
	if len(p.files) >= packagesMax {
		return p.fault(l.First, fmt.Sprintf("there are more than %d packages", packagesMax), "is this what uci export prints?")
	}
	p.begin(l.Name)
	return nil
}

// packagesMax bounds the packages of one text.
const packagesMax = 1024

// named reports whether a text is letters, digits and underscores, or empty.
func named(text string) bool {
	return valid(text, func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	})
}

func valid(text string, is func(byte) bool) bool {
	for i := range len(text) {
		if !is(text[i]) {
			return false
		}
	}
	return true
}
