// Package watch shows runs of the simulator as a page: streams that shrink,
// packets that move, at any time and any speed, two schedulers side by side. The
// server runs the simulation and gives its trace; the page draws it.
package watch

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"weft/internal/simulate/scenario"
	"weft/internal/web"
	"weft/schedule"
)

//go:embed assets
var embedded embed.FS

// Options of the page.
type Options struct {
	File       string   // a scenario file outside of the program, read again for each run; may be empty
	Scenario   string   // which one comes first; empty: File, or else the first of the menu
	Set        []string // changes that it begins with
	Schedulers []string // one or two that it begins with
	Limits     Limits
	Runs       int             // at the same time
	Measured   func([]byte)    // takes what a page measured of itself (bench); nil = it must not
	Log        func(err error) // called for internal errors; may be nil
}

// Server answers the requests of the page.
type Server struct {
	Options
	mux   *http.ServeMux
	page  pageTemplate
	slots chan struct{}
}

// First is what the menu begins with.
const First = "unequal"

// New makes a server. It says what is wrong with what it is to begin with.
func New(o Options) (*Server, error) {
	if o.Scenario == "" {
		if o.Scenario = o.File; o.File == "" {
			o.Scenario = First
		}
	}
	for _, name := range o.Schedulers {
		if _, err := schedule.New(name); err != nil {
			return nil, err
		}
	}
	if len(o.Schedulers) > 2 {
		return nil, fmt.Errorf("show %s: at most two schedulers fit side by side", strings.Join(o.Schedulers, ", "))
	}
	s := &Server{Options: o, mux: http.NewServeMux(), slots: make(chan struct{}, max(1, o.Runs))}
	loaded, err := s.load(o.Scenario, nil)
	if err != nil {
		return nil, err
	}
	for _, one := range o.Set {
		if err := Allowed(loaded, one); err != nil {
			return nil, err
		}
	}
	if _, err := s.load(o.Scenario, o.Set); err != nil {
		return nil, err
	}
	if s.page, err = newPage(); err != nil {
		return nil, err
	}
	assets, err := assets()
	if err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /{$}", s.servePage)
	s.mux.HandleFunc("GET /trace", s.serveTrace)
	s.mux.Handle("GET /assets/", http.StripPrefix("/assets", assets))
	if o.Measured != nil {
		s.mux.HandleFunc("POST /measured", s.serveMeasured)
	}
	return s, nil
}

func assets() (http.Handler, error) {
	own, err := fs.Sub(embedded, "assets")
	if err != nil {
		return nil, err
	}
	shared, err := web.Shared()
	if err != nil {
		return nil, err
	}
	return web.Assets(own, shared)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// names lists the scenarios of the menu.
func (s *Server) names() ([]string, error) {
	names, err := scenario.Names()
	if err != nil {
		return nil, err
	}
	if i := slices.Index(names, First); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, First)
	}
	if s.File != "" {
		names = slices.Insert(names, 0, s.File)
	}
	return names, nil
}

// load reads a scenario of the menu: a page must not have other files read.
func (s *Server) load(name string, set []string) (*scenario.Scenario, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("no scenario is called %q: there are %s", name, strings.Join(names, ", "))
	}
	src, err := scenario.Find(name)
	if err != nil {
		return nil, err
	}
	return scenario.Load(src, set...)
}

// changed loads a scenario with what a request sets.
func (s *Server) changed(name string, set []string) (*scenario.Scenario, error) {
	if len(set) > 200 {
		return nil, fmt.Errorf("set %d values: that is more than there are", len(set))
	}
	base, err := s.load(name, nil)
	if err != nil {
		return nil, err
	}
	for _, one := range set {
		if err := Allowed(base, one); err != nil {
			return nil, err
		}
	}
	return s.load(name, set)
}

// maxWindow is the longest window of a trace.
const maxWindow = 2 * time.Minute

// serveTrace runs a scenario: scenario, scheduler, set (several), from, for.
func (s *Server) serveTrace(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err := duration(q.Get("from"), 0, 1000*time.Hour)
	length, err2 := duration(q.Get("for"), maxWindow, maxWindow)
	if err := errors.Join(err, err2); err != nil {
		refuse(w, err)
		return
	}
	loaded, err := s.changed(q.Get("scenario"), q["set"])
	if err != nil {
		refuse(w, err)
		return
	}
	if name := q.Get("scheduler"); name != "" {
		if _, err := schedule.New(name); err != nil {
			refuse(w, err)
			return
		}
		loaded.Setup.Scheduler = name
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return // the page asked for something else meanwhile
	}
	t, err := Run(r.Context(), loaded, from, length, s.Limits)
	if err != nil {
		if r.Context().Err() == nil {
			refuse(w, err)
		}
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept-Encoding")
	s.fault(send(w, web.AcceptsGzip(r), t.Write))
}

// send writes, packed if the browser can unpack. An error is one of encoding;
// that the browser has gone is none.
func send(w http.ResponseWriter, pack bool, write func(io.Writer) error) error {
	if !pack {
		return notGone(write(w))
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	return notGone(errors.Join(write(z), z.Close()))
}

func notGone(err error) error {
	var unknown *json.MarshalerError
	var kind *json.UnsupportedValueError
	if errors.As(err, &unknown) || errors.As(err, &kind) {
		return err
	}
	return nil
}

func (s *Server) fault(err error) {
	if err != nil && s.Log != nil {
		s.Log(err)
	}
}

// refuse says to the page what is wrong with what it asked.
func refuse(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusBadRequest)
}

func duration(text string, otherwise, most time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		return 0, fmt.Errorf("%q is not a time like 1.5s, up to %s", text, most)
	}
	return d, nil
}

// maxMeasured is what a page may say of its measurement, in bytes.
const maxMeasured = 1 << 20

func (s *Server) serveMeasured(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMeasured))
	if err != nil {
		refuse(w, err)
		return
	}
	s.Measured(text)
	w.WriteHeader(http.StatusNoContent)
}

// Serve serves the page on HOST:PORT until ctx ends; ready is called with its
// address.
func Serve(ctx context.Context, address string, remote bool, o Options, ready func(url string)) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	listener, err := web.Listen(ctx, address, remote)
	if err != nil {
		return err
	}
	ready("http://" + listener.Addr().String() + "/")
	return web.Serve(ctx, listener, web.Guard(s, remote))
}
