package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/noun"
	"weft/internal/task"
)

// timeout bounds one request on the socket.
const timeout = 5 * time.Second

// Serve answers on a unix socket that only root may open, until ctx ends.
func Serve(ctx context.Context, path string, registry Registry, subscribers Subscribers, applier Applier) error {
	// a socket that a killed daemon left behind; the lock says that none lives
	if err := os.RemoveAll(path); err != nil {
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
	registry.serve(mux)
	serveSubscribers(mux, subscribers)
	serveApplier(mux, applier)
	serveHTTP(ctx, listener, mux)
	return nil
}

// serveHTTP serves in the background until ctx ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout}
	context.AfterFunc(ctx, func() { server.Close() })
	task.Go(func() { _ = server.Serve(listener) }) // ends with ErrServerClosed
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// the caller may have gone; there is no one to hear of it
	_ = json.NewEncoder(w).Encode(value)
}

// ErrNoDaemon says that no daemon answers on the socket.
var ErrNoDaemon = noun.ErrNoDaemon

// noDaemon is ErrNoDaemon with the cause; if no daemon runs, with the remedy.
func noDaemon(cause error) error {
	if errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: start it with systemctl start weft, or weft run FILE", ErrNoDaemon)
	}
	return fmt.Errorf("%w (%w); its log may say why: journalctl -u weft", ErrNoDaemon, cause)
}

// reading reads JSON into a value.
func reading(into any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(into) }
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
