package l2tp

import (
	"encoding/binary"
	"fmt"
)

// Result codes of StopCCN and CDN (section 4.4.2).
const (
	StopRequested      = 1 // the control connection is closed
	StopError          = 2 // see the error code
	StopExists         = 3 // the control channel exists already
	StopUnauthorized   = 4
	StopVersion        = 5
	StopShutDown       = 6
	StopState          = 7 // state machine error
	CallCarrierLost    = 1
	CallError          = 2 // see the error code
	CallAdministrative = 3
	CallNoFacilities   = 4 // for now
	CallNever          = 5 // no facilities at all
	CallTimeout        = 10
)

// Error codes behind a result code (section 4.4.2).
const (
	ErrorNone       = 0
	ErrorNoControl  = 1
	ErrorLength     = 2
	ErrorValue      = 3
	ErrorResources  = 4
	ErrorSession    = 5
	ErrorVendor     = 6
	ErrorTryAnother = 7
	ErrorMandatory  = 8
)

// Result is a Result Code AVP.
type Result struct {
	Code, Error uint16
	Text        string
}

// Words says it for people; kind is the message that it stands in.
func (r Result) Words(kind MessageType) string {
	names := stopNames()
	if kind == CDN {
		names = callNames()
	}
	s := fmt.Sprintf("result %d", r.Code)
	if name := nameOf(names, r.Code); name != "" {
		s += " (" + name + ")"
	}
	if r.Error != ErrorNone {
		s += fmt.Sprintf(", error %d", r.Error)
		if name := nameOf(errorNames(), r.Error); name != "" && r.Code == StopError {
			s += " (" + name + ")"
		}
	}
	if r.Text != "" {
		s += ": " + r.Text
	}
	return s
}

func nameOf(names []string, n uint16) string {
	if int(n) < len(names) {
		return names[n]
	}
	return ""
}

func stopNames() []string {
	return []string{
		"", "closed on request", "general error", "the tunnel is there already", "not authorized", "another version of the protocol", "shutting down", "out of order",
	}
}

func callNames() []string {
	return []string{
		"", "loss of carrier", "general error", "administrative", "no facilities for now", "no facilities", "invalid destination", "no carrier", "busy", "no dial tone",
		"not set up in time", "no framing was found",
	}
}

func errorNames() []string {
	return []string{
		"", "no tunnel yet", "a length is wrong", "a value is out of range", "no resources", "no such session", "the vendor's own", "try another server",
		"a mandatory attribute is not known",
	}
}

// Result returns the Result Code AVP.
func (m *Message) Result() Result {
	b, ok := m.Get(ResultCodeAVP)
	if !ok || len(b) < 2 {
		return Result{}
	}
	r := Result{Code: binary.BigEndian.Uint16(b)}
	if len(b) >= 4 {
		r.Error, r.Text = binary.BigEndian.Uint16(b[2:]), Printable(b[4:])
	}
	return r
}

// Cause is a Q.931 Cause Code AVP: what the telephone network said (section 4.4.2).
type Cause struct {
	Code    uint16
	Message uint8
	Text    string
}

// Cause gives it; false: there is none.
func (m *Message) Cause() (Cause, bool) {
	b, ok := m.Get(CauseCode)
	if !ok || len(b) < 3 {
		return Cause{}, false
	}
	return Cause{binary.BigEndian.Uint16(b), b[2], Printable(b[3:])}, true
}

// Why returns for people why a StopCCN or CDN ends what it is about.
func (m *Message) Why() string {
	s := m.Result().Words(m.Type)
	if c, ok := m.Cause(); ok {
		s += fmt.Sprintf("; Q.931 cause %d", c.Code)
		if c.Text != "" {
			s += ": " + c.Text
		}
	}
	return s
}

// AddResult adds a Result Code AVP.
func (m *Message) AddResult(r Result) *Message {
	b := binary.BigEndian.AppendUint16(nil, r.Code)
	b = binary.BigEndian.AppendUint16(b, r.Error)
	return m.Add(ResultCodeAVP, append(b, r.Text...))
}
