package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets a page load what this server has, and nothing else: no inline
// scripts or styles, no frames (Content Security Policy Level 3).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Guard accepts only requests that are meant for this server. A page of another site must
// not read its content by DNS rebinding (a name of its own that resolves to a loopback
// address), and must not cause work on this machine. So the Host must be localhost or a
// loopback address, with remote any address, but never another name, which another party
// may own. Requests from pages of other sites are rejected (Fetch Metadata Request
// Headers; RFC 6454), except for following a link to a page, whose path ends in a slash.
func Guard(next http.Handler, remote bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case !hostFits(r.Host, remote):
			http.Error(w, "This server answers to localhost and its addresses only, not to "+clean(r.Host)+".", http.StatusMisdirectedRequest)
		case foreign(r):
			http.Error(w, "The request comes from a page of another site.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func hostFits(hostport string, remote bool) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if loopback(host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return remote && err == nil
}

// foreign tells that another site's page asks, for something else than to be left
// for a page of this one.
func foreign(r *http.Request) bool {
	if o := r.Header.Get("Origin"); o != "" && o != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/") || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// clean makes of what a client sent something to show: short, and printable.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 100)]
}
