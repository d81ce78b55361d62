// Package web is what all pages of weft share: who may ask for them, their look,
// and the library that draws. Pages are made by the server (html/template) and
// moved by plain ES modules; there is nothing to build, and nothing is fetched
// from elsewhere. docs/decisions/0021-web-pages.md says why.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// ErrNotLoopback says that an address is not of this machine alone.
var ErrNotLoopback = errors.New("other hosts could reach it")

// Listen listens on HOST:PORT, which must be a loopback address unless remote
// is set. Port 0 is any free one.
func Listen(ctx context.Context, address string, remote bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: write HOST:PORT, like 127.0.0.1:8080: %w", address, err)
	}
	if !remote && !loopback(host) {
		return nil, fmt.Errorf("listen on %s: %w", address, ErrNotLoopback)
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// loopback reports whether a name or address is this machine and no other.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Times that bound one request.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 2 * time.Minute
	idleTimeout  = 2 * time.Minute
	maxHeader    = 64 << 10
)

// Serve answers until ctx ends; requests under way are cut off then.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
