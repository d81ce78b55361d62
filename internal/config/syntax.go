package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// syntaxError says what is not TOML, and where reading can go on.
type syntaxError struct {
	offset       int
	what, remedy string
	resume       int
	heading      bool // a [heading] was lost
}

const closeList = "close it with ] or }"

// explain turns the parser's error into words for someone who has not read the
// TOML specification.
func (r *reader) explain(text []byte, e *unstable.ParserError) syntaxError {
	at := min(r.base+int(r.Range(e.Highlight).Offset), len(text)-1)
	begin := min(r.failed(text), at)
	s := syntaxError{
		offset:  at,
		what:    e.Message,
		remedy:  "write TOML: key = value",
		resume:  nextLine(text, at),
		heading: text[begin] == '[',
	}
	spread := bytes.IndexByte(text[begin:at], '\n') >= 0
	switch {
	case s.heading && !spread:
		s.remedy = "write [section] or [section.NAME]"
	case strings.HasSuffix(e.Message, "is incomplete"):
		s.offset, s.what, s.remedy = begin, "the list or table that begins here is never closed", closeList
	case spread && isNewExpression(lineAt(text, at)):
		s.offset = begin
		s.what = fmt.Sprintf("the list or table that begins here is not closed before line %d", 1+bytes.Count(text[:at], []byte("\n")))
		s.remedy = closeList
		s.resume = lineStart(text, at)
	case strings.Contains(e.Message, "not terminated"):
		s.offset, s.what, s.remedy = begin, "the string that begins here is never closed", "end it as it begins"
	default:
		inWords(text, &s)
	}
	// Inside a value of several lines a key = value line may be part of it:
	// only a heading is sure to be a new beginning.
	if spread && s.resume != lineStart(text, at) {
		for s.resume < len(text) && !headingLine.Match(lineAt(text, s.resume)) {
			s.resume = nextLine(text, s.resume)
		}
	}
	return s
}

// inWords explains an error inside one line.
func inWords(text []byte, s *syntaxError) {
	parser := s.what
	here, _ := utf8.DecodeRune(text[s.offset:])
	before := strings.TrimSpace(string(text[lineStart(text, s.offset):s.offset]))
	begin, word, rest := wordAround(text, s.offset)
	say := func(what, remedy string) { s.what, s.remedy = what, remedy }
	switch {
	case strings.Contains(parser, "cannot have new lines"), strings.HasPrefix(parser, "unterminated"):
		say("the string is not closed on its line", "end it with the quote it begins with")
	case strings.Contains(parser, "escape"):
		say(`\ in a string begins an escape that TOML does not have`, `write \\ for one \, or put the string in single quotes`)
	case strings.ContainsRune("“”„«»‘’‚", here):
		say(fmt.Sprintf("%c is a typographic quote", here), `write the plain "`)
	case before == "" && (here == ';' || here == '/'):
		say("a line cannot begin with "+string(here), "comments begin with #")
	case strings.HasSuffix(before, "=") && (here == '\n' || here == '\r' || here == '#' || parser == "expected value, not end of input"):
		say("there is nothing behind the =", "write a value, or take the line out")
	case strings.HasPrefix(parser, "expected '='"):
		say("there is no = behind the key", "write key = value")
	case strings.HasPrefix(rest, "="):
		say(fmt.Sprintf("a comma or a new line is missing before %s", word), "a comma goes between the keys of { }, and a line holds one key = value")
	case here == ',' && !strings.ContainsAny(before, "[{"):
		say("a comma ends the value", "take the comma out: a line holds one key = value")
	case strings.Contains(before, "=") && unquoted.MatchString(word):
		say(word+" is not a TOML value", fmt.Sprintf("put strings, addresses and prefixes in quotes: %q", word))
		if b := boolean(word); b == "true" || b == "false" {
			s.remedy = "write " + b
		}
		s.offset = begin
	case strings.HasPrefix(parser, "expected newline"):
		say("the value ends before the line does", "a line holds one key = value")
	case strings.HasPrefix(parser, "expected ','"):
		say("a comma is missing", "put commas between the values of [ ] and the keys of { }")
	case strings.Contains(parser, "leading zero"):
		say("a number begins with 0", "write it without leading zeros")
	}
}

var (
	headingLine = regexp.MustCompile(`^\s*\[\[?\s*[A-Za-z_][A-Za-z0-9_."' -]*\]\]?\s*(#.*)?$`)
	keyLine     = regexp.MustCompile(`^\s*[A-Za-z_][A-Za-z0-9_.-]*\s*=`)
	unquoted    = regexp.MustCompile(`[A-Za-z.:/]`)
)

func isNewExpression(line []byte) bool { return headingLine.Match(line) || keyLine.Match(line) }

// wordAround returns the bare word that covers the place, where it begins, and
// what follows it.
func wordAround(text []byte, at int) (begin int, word, rest string) {
	const outside = " \t\r\n,[]{}\"'=#"
	end := at
	begin = at
	for begin > 0 && !strings.ContainsRune(outside, rune(text[begin-1])) {
		begin--
	}
	for end < len(text) && !strings.ContainsRune(outside, rune(text[end])) {
		end++
	}
	return begin, string(text[begin:end]), strings.TrimLeft(string(lineAt(text, at)[end-lineStart(text, at):]), " \t")
}

// failed returns where the expression begins that could not be read: behind the
// rest of the line that ends the last good one, blank lines and comments.
func (r *reader) failed(text []byte) int {
	at := r.good
	if r.good > r.base {
		at = nextLine(text, r.good)
	}
	for at < len(text) {
		line := bytes.TrimSpace(lineAt(text, at))
		if len(line) > 0 && line[0] != '#' {
			return at + bytes.IndexByte(text[at:], line[0])
		}
		at = nextLine(text, at)
	}
	return at
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// nextLine returns the offset behind the end of the line at is on.
func nextLine(text []byte, at int) int {
	n := bytes.IndexByte(text[at:], '\n')
	if n < 0 {
		return len(text)
	}
	return at + n + 1
}

// lineAt returns the whole line at is on, without its end.
func lineAt(text []byte, at int) []byte {
	return bytes.TrimRight(text[lineStart(text, at):nextLine(text, at)], "\r\n")
}
