package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"weft/internal/noun"
)

// Registry is what the daemon has to show: its nouns, and what their rows are read from.
type Registry struct {
	Nouns  []noun.Noun
	Source func(noun string) any // nil if there is nothing to read it from
}

// serve answers for every noun at /v1/show/NOUN, with its arguments as the query.
func (r Registry) serve(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/show/{noun}", func(w http.ResponseWriter, q *http.Request) {
		args := map[string]string{}
		for name, values := range q.URL.Query() {
			args[name] = values[0]
		}
		r.answer(w, q, args)
	})
	// arguments that are too long for a path
	mux.HandleFunc("POST /v1/show/{noun}", func(w http.ResponseWriter, q *http.Request) {
		var args map[string]string
		if err := json.NewDecoder(http.MaxBytesReader(w, q.Body, argsMost)).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.answer(w, q, args)
	})
}

const (
	argsMost = 4 << 20 // bytes of arguments
	pathMost = 4 << 10 // bytes of them in a path
)

func (r Registry) answer(w http.ResponseWriter, q *http.Request, args map[string]string) {
	n, known := noun.Find(r.Nouns, q.PathValue("noun"))
	if !known {
		http.Error(w, fmt.Sprintf("there is no noun %q", q.PathValue("noun")), http.StatusNotFound)
		return
	}
	question, err := noun.NewQuery(n.Args, args)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	question.Asker = r.ask
	out := &answerWriter{ResponseWriter: w}
	if err := n.Encode(q.Context(), out, r.Source(n.Name), question); err != nil && !out.begun {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// answerWriter notes whether an answer has begun: an error behind that cuts it off.
type answerWriter struct {
	http.ResponseWriter
	begun bool
}

func (w *answerWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.Header().Set("Content-Type", "application/json")
	}
	return w.ResponseWriter.Write(b)
}

// ask is Ask without a socket.
func (r Registry) ask(ctx context.Context, name string, args map[string]string, into any) error {
	n, known := noun.Find(r.Nouns, name)
	if !known {
		return fmt.Errorf("there is no noun %q", name)
	}
	q, err := noun.NewQuery(n.Args, args)
	if err != nil {
		return err
	}
	q.Asker = r.ask
	var text bytes.Buffer
	if err := n.Encode(ctx, &text, r.Source(name), q); err != nil {
		return err
	}
	return json.Unmarshal(text.Bytes(), into)
}

// Ask reads the rows of a noun from the daemon at the socket.
func Ask(ctx context.Context, socket, name string, args map[string]string, into any) error {
	return show(ctx, socket, name, args, func(r io.Reader) error { return json.NewDecoder(r).Decode(into) })
}

// AskRows is Ask for what prints rows of a noun.
func AskRows(ctx context.Context, socket string, n noun.Noun, args map[string]string) (rows noun.Rows, err error) {
	err = show(ctx, socket, n.Name, args, func(r io.Reader) (err error) {
		rows, err = n.Decode(r)
		return err
	})
	return rows, err
}

func show(ctx context.Context, socket, name string, args map[string]string, read func(io.Reader) error) error {
	v := url.Values{}
	for arg, value := range args {
		v.Set(arg, value)
	}
	path := "/v1/show/" + name
	if query := v.Encode(); len(query) > pathMost {
		text, err := json.Marshal(args)
		if err != nil {
			return err
		}
		return request(ctx, http.MethodPost, socket, path, bytes.NewReader(text), read)
	} else if query != "" {
		path += "?" + query
	}
	return request(ctx, http.MethodGet, socket, path, nil, read)
}
