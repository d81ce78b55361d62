package syslog

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// grammar is that of RFC 5424 section 6, for messages without structured data.
var grammar = regexp.MustCompile(`^<(?P<pri>0|[1-9]\d{0,2})>1 (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) ` +
	`(?P<host>[!-~]{1,255}) (?P<app>[!-~]{1,48}) (?P<process>[!-~]{1,128}) (?P<id>[!-~]{1,32}) - (?P<text>(?s:.*))$`)

// parse5424 returns the parts of a message by their names; nil if it is none.
func parse5424(line string) map[string]string {
	found := grammar.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	parts := map[string]string{}
	for i, name := range grammar.SubexpNames() {
		parts[name] = found[i]
	}
	return parts
}

func TestAMessageIsTheOneThatRFC5424Shows(t *testing.T) {
	m := message{at: time.Date(2003, 10, 11, 22, 14, 15, 3e6, time.UTC), host: "mymachine.example.com", app: "evntslog", process: "", id: "ID47", text: "An application event"}
	// section 6.5, example 3, with this program's priority and no structured data
	const want = "<134>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 - An application event"
	if got := m.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheTimeOfAMessageIsUTC(t *testing.T) {
	m := message{at: time.Date(2026, 3, 4, 1, 6, 7, 899_999_999, time.FixedZone("", 2*3600))}
	if p := parse5424(m.String()); p["time"] != "2026-03-03T23:06:07.899Z" {
		t.Errorf("%q: the time is %s", m, p["time"])
	}
}

func TestFieldsOfTheHeaderArePrintableAndBounded(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ text, host, id string }{
		{"", "-", "-"},
		{"router1", "router1", "router1"},
		{"two words", "two?words", "two?words"},
		{"a\nb\x00c\x7fd", "a?b?c?d", "a?b?c?d"},
		{`"]\`, `"]\`, `"]\`}, // only parameters of structured data escape these
		{"für", "f?r", "f?r"},
		{"\xff", "?", "?"},
		{" ", "?", "?"},
		{long, long[:255], long[:32]},
	} {
		line := message{host: c.text, app: c.text, process: c.text, id: c.text, text: "the text"}.String()
		p := parse5424(line)
		if p == nil {
			t.Errorf("%q is no message of RFC 5424", line)
			continue
		}
		if p["host"] != c.host || p["id"] != c.id || p["text"] != "the text" || len(p["app"]) > 48 || len(p["process"]) > 128 {
			t.Errorf("%q as a field: %q", c.text, p)
		}
	}
}

func TestTheTextOfAMessageIsLeftAsItIs(t *testing.T) {
	for _, text := range []string{"", "plain", " leading space", "two\nlines", "für alle", `[a b="c"]`, "<34>1 - - - - - -"} {
		if p := parse5424(message{host: "h", app: "a", process: "1", id: "I", text: text}.String()); p["text"] != text || p["host"] != "h" {
			t.Errorf("%q comes out as %q", text, p)
		}
	}
}
