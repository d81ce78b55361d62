package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/noun"
)

// Status says which daemon answers.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	File    string    `json:"file"`
	Started time.Time `json:"started"`
	Applied time.Time `json:"applied"` // when the configuration that is in force was read
	Refused *Refusal  `json:"refused"` // nil: it is the file's, as it was read last
	// BlockList is what the guards drop by; nil: nothing is guarded.
	BlockList *BlockList `json:"block_list"`
}

// BlockList is the list in force, of [block], its files and sets, and weft block.
type BlockList struct {
	Entries  int       `json:"entries"`  // prefixes, exceptions and bogons among them
	Commands time.Time `json:"commands"` // as what weft block noted was at that time; zero: it noted nothing
}

// Refusal says why a reload changed nothing.
type Refusal struct {
	At  time.Time `json:"at"`
	Why []string  `json:"why"`
}

// Source is the daemon, as the API sees it.
type Source interface {
	Status() Status
	DNS64() *DNS64 // nil: there is no name server
	RouteSource
	OffloadSource
	Adverts() []Advert
	AccessSource
	Failover() *Failover // nil: sessions are not shared
}

// timeout bounds one request on the socket.
const timeout = 5 * time.Second

// Serve answers on a unix socket that only root may open, until ctx ends.
func Serve(ctx context.Context, path string, registry Registry, source Source) error {
	// a socket that a killed daemon left behind; the lock says that none lives
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", answer(func() any { return source.Status() }))
	mux.HandleFunc("GET /v1/ra", answer(func() any { return source.Adverts() }))
	mux.HandleFunc("GET /v1/failover", answer(func() any { return source.Failover() }))
	mux.HandleFunc("GET /v1/dns64", answer(func() any { return source.DNS64() }))
	registry.serve(mux)
	serveRoutes(mux, source)
	serveAccess(mux, source)
	serveOffload(mux, source)
	serveHTTP(ctx, listener, mux)
	return nil
}

// serveHTTP serves in the background until ctx ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() { _ = server.Serve(listener) }() // ends with ErrServerClosed
}

func answer(value func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// the caller may have gone; nobody is left to tell
		_ = json.NewEncoder(w).Encode(value())
	}
}

// answerRows writes an array of rows, each as it comes.
func answerRows[T any](rows func() iter.Seq[T]) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		b := bufio.NewWriter(w)
		encoder, before := json.NewEncoder(b), byte('[')
		for row := range rows() {
			_ = b.WriteByte(before) // the caller may have gone, as above: then Encode says so
			if encoder.Encode(row) != nil {
				return
			}
			before = ','
		}
		if before == '[' {
			_ = b.WriteByte(before)
		}
		_, _ = b.WriteString("]\n")
		_ = b.Flush()
	}
}

// ErrNoDaemon says that no daemon answers on the socket.
var ErrNoDaemon = noun.ErrNoDaemon

// noDaemon is ErrNoDaemon with the cause: if nobody is there at all, how to
// change that.
func noDaemon(cause error) error {
	if errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: start it with systemctl start weft, or weft run FILE", ErrNoDaemon)
	}
	return fmt.Errorf("%w (%w); its log may say why: journalctl -u weft", ErrNoDaemon, cause)
}

// AskPath reads what the daemon at the socket says at a path, like /v1/slow.
func AskPath(ctx context.Context, socket, path string, into any) error {
	return request(ctx, http.MethodGet, socket, path, nil, reading(into))
}

// reading reads JSON into a value.
func reading(into any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(into) }
}

// askAbout asks with a question that is too long for a path.
func askAbout(ctx context.Context, socket, path string, question, into any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	return request(ctx, http.MethodPost, socket, path, bytes.NewReader(text), reading(into))
}

func request(ctx context.Context, method, socket, path string, body io.Reader, read func(io.Reader) error) error {
	client := http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	question, err := http.NewRequestWithContext(ctx, method, "http://weft"+path, body)
	if err != nil {
		return err
	}
	response, err := client.Do(question)
	if err != nil {
		var about *url.Error // which would say the question, too
		if errors.As(err, &about) {
			err = about.Err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return noDaemon(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		if response.StatusCode == http.StatusServiceUnavailable {
			return errors.New(strings.TrimSpace(string(why)))
		}
		return fmt.Errorf("ask the daemon for %s: %s: %s", path, response.Status, strings.TrimSpace(string(why)))
	}
	return read(response.Body)
}
