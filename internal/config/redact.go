package config

import (
	"bytes"
	"regexp"
	"strings"
)

// secretKey matches the names of keys whose values are secrets, those of earlier versions
// and misspelt ones too.
var secretKey = regexp.MustCompile(`(?i)secret|pas|pwd|cookie|psk|private|token|hash|credential`)

// IsSecret reports whether the value of a key is a secret.
func IsSecret(key string) bool {
	return secretKey.MatchString(strings.ReplaceAll(key, "bypass", ""))
}

// Redacted stands where a secret was.
const Redacted = `"removed"`

// Redact returns a weft.toml without secrets and without comments, in which secrets may
// stand too, and the secrets that it has removed. The text may be broken: what may be a
// secret and cannot be read is left out, to the end of its line or of the text.
func Redact(text []byte) (clean []byte, secrets []string) {
	r := redactor{rest: text}
	for len(r.rest) > 0 {
		r.token()
	}
	return r.out.Bytes(), r.secrets
}

type redactor struct {
	rest    []byte
	out     bytes.Buffer
	secrets []string
}

// take moves n bytes of the text to the result.
func (r *redactor) take(n int) {
	r.out.Write(r.rest[:n])
	r.rest = r.rest[n:]
}

// skipLine leaves out what is left of a line.
func (r *redactor) skipLine() {
	if end := bytes.IndexByte(r.rest, '\n'); end >= 0 {
		r.rest = r.rest[end:]
	} else {
		r.rest = nil
	}
}

func (r *redactor) token() {
	switch c := r.rest[0]; {
	case c == '#':
		r.skipLine()
	case c == '"' || c == '\'':
		n, whole := stringEnd(r.rest)
		if !whole && n == len(r.rest) && bytes.HasPrefix(r.rest, []byte{c, c, c}) {
			r.rest = nil // all that follows may be in it
			return
		}
		r.word(n, strings.Trim(string(r.rest[:n]), `"'`), true)
	case isBare(c):
		n := 0
		for n < len(r.rest) && (isBare(r.rest[n]) || r.rest[n] == '.') {
			n++
		}
		r.word(n, string(r.rest[:n]), false)
	default:
		r.take(1)
	}
}

// word is a key or a value of n bytes.
func (r *redactor) word(n int, text string, quoted bool) {
	after := bytes.TrimLeft(r.rest[n:], " \t")
	is := bytes.HasPrefix(after, []byte("="))
	if !IsSecret(text) || quoted && !is {
		r.take(n)
		return
	}
	if !is {
		r.skipLine() // a mistake: its value may stand anywhere
		return
	}
	r.take(len(r.rest) - len(after) + 1)
	r.take(len(r.rest) - len(bytes.TrimLeft(r.rest, " \t")))
	end := valueEnd(r.rest)
	for _, s := range regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,\[\]{}"']+`).FindAllString(string(r.rest[:end]), -1) {
		if s = strings.Trim(s, `"'`); s != "" {
			r.secrets = append(r.secrets, s)
		}
	}
	r.out.WriteString(Redacted)
	r.rest = r.rest[end:]
}

// valueEnd returns the length of the value that text begins with: a string, a list, a
// table, or what stands before the next comma, bracket or end of the line.
func valueEnd(text []byte) int {
	depth := 0
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"' || c == '\'':
			n, _ := stringEnd(text[at:])
			at += n
			if depth == 0 {
				return at
			}
			continue
		case c == '[' || c == '{':
			depth++
		case (c == ']' || c == '}') && depth == 0, c == ',' && depth == 0, (c == '\n' || c == '#') && depth == 0:
			return at
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return at + 1
			}
		}
		at++
	}
	return len(text)
}

// stringEnd returns the length of the string that text begins with, and whether it is
// whole: one that is not ends with its line, or with the text if it may have many.
func stringEnd(text []byte) (n int, whole bool) {
	quote := text[:1]
	many := []byte{quote[0], quote[0], quote[0]}
	if bytes.HasPrefix(text, many) {
		quote = many
	}
	for at := len(quote); at < len(text); at++ {
		switch {
		case text[at] == '\\' && quote[0] == '"':
			at++
		case bytes.HasPrefix(text[at:], quote):
			return at + len(quote), true
		case text[at] == '\n' && len(quote) == 1:
			return at, false
		}
	}
	return len(text), false
}

func isBare(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
