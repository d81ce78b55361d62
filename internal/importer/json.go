package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// value is a JSON value that knows its line.
type value struct {
	line    int
	scalar  any // string, json.Number, bool or nil, unless it is one of the next two
	members []member
	items   []value
	kind    byte // '{', '[' or 0
}

type member struct {
	name string
	line int
	value
}

// depthMax is far beyond what a configuration nests.
const depthMax = 32

// syntaxError is a mistake in JSON, with its line.
type syntaxError struct {
	line int
	err  error
}

func (e *syntaxError) Error() string { return e.err.Error() }

type jsonReader struct {
	text []byte
	d    *json.Decoder
}

// readJSON reads one JSON value and nothing behind it.
func readJSON(text []byte) (value, error) {
	r := &jsonReader{text: text, d: json.NewDecoder(bytes.NewReader(text))}
	r.d.UseNumber()
	v, err := r.next(0)
	if err == nil {
		if _, more := r.d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind the configuration")
		}
	}
	switch {
	case err == nil:
		return v, nil
	case len(bytes.TrimSpace(text)) == 0:
		err = errors.New("the file is empty")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the file ends in the midst of it")
	}
	return value{}, &syntaxError{r.line(), err}
}

// line is that of the token that was read last.
func (r *jsonReader) line() int {
	return 1 + bytes.Count(r.text[:min(int(r.d.InputOffset()), len(r.text))], []byte{'\n'})
}

func (r *jsonReader) next(depth int) (value, error) {
	if depth > depthMax {
		return value{}, fmt.Errorf("nested deeper than %d", depthMax)
	}
	token, err := r.d.Token()
	if errors.Is(err, io.EOF) {
		return value{}, io.ErrUnexpectedEOF
	}
	if err != nil {
		return value{}, err
	}
	v := value{line: r.line()}
	switch token {
	case json.Delim('{'):
		v.kind = '{'
		for r.d.More() {
			name, err := r.d.Token()
			if err != nil {
				return v, err
			}
			m := member{name: fmt.Sprint(name), line: r.line()}
			if m.value, err = r.next(depth + 1); err != nil {
				return v, err
			}
			v.members = append(v.members, m)
		}
	case json.Delim('['):
		v.kind = '['
		for r.d.More() {
			item, err := r.next(depth + 1)
			if err != nil {
				return v, err
			}
			v.items = append(v.items, item)
		}
	default:
		v.scalar = token
		return v, nil
	}
	_, err = r.d.Token() // the closing bracket
	return v, err
}
