package syslog

import (
	"strconv"
	"strings"
	"time"
)

// message is one of RFC 5424 section 6, without structured data.
type message struct {
	at                     time.Time
	host, app, process, id string
	text                   string
}

// The longest that fields may be (RFC 5424 section 6).
const (
	hostMax    = 255
	appMax     = 48
	processMax = 128
	idMax      = 32
)

// stamp is TIMESTAMP with milliseconds (RFC 5424 section 6.2.3).
const stamp = "2006-01-02T15:04:05.000Z07:00"

// String gives HEADER, the nil value for STRUCTURED-DATA, and MSG.
func (m message) String() string {
	return strings.Join([]string{
		"<" + strconv.Itoa(priority) + ">1", m.at.UTC().Format(stamp),
		field(m.host, hostMax), field(m.app, appMax), field(m.process, processMax), field(m.id, idMax), "-", m.text,
	}, " ")
}

// field returns a text as a field of HEADER: PRINTUSASCII, which has no space, of
// limited length, and a dash for nothing. There is no escaping: what is not
// allowed becomes a question mark.
func field(text string, most int) string {
	if text == "" {
		return "-"
	}
	printable := func(r rune) rune {
		if r < '!' || r > '~' {
			return '?'
		}
		return r
	}
	text = strings.Map(printable, text)
	return text[:min(len(text), most)]
}
