package web

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestOnlyLoopbackUnlessTold(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:0": false, "[::1]:0": false, "localhost:0": false, "127.3.2.1:0": false,
		"0.0.0.0:0": true, ":0": true, "[::]:0": true, "192.0.2.1:0": true, "example.org:0": true,
	} {
		l, err := Listen(context.Background(), address, false)
		if errors.Is(err, ErrNotLoopback) != refused {
			t.Errorf("%s: %v", address, err)
		}
		if l != nil {
			l.Close()
		}
	}
	l, err := Listen(context.Background(), "0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Listen(context.Background(), "8080", false); err == nil || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("without a host: %v", err)
	}
}

func TestTheGuardKnowsWhoAsks(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inside") })
	for _, c := range []struct {
		name, host string // a word of the name that begins with / is the path
		remote     bool
		header     map[string]string
		want       int
	}{
		{"its address", "127.0.0.1:8080", false, nil, 200},
		{"its address, IPv6", "[::1]:8080", false, nil, 200},
		{"its address, IPv6 without a port", "[::1]", false, nil, 200},
		{"localhost", "localhost:8080", false, nil, 200},
		{"another name for this machine (DNS rebinding)", "evil.example:8080", false, nil, 421},
		{"another name, although others may ask", "evil.example", true, nil, 421},
		{"a name that begins like an address", "127.0.0.1.evil.example", false, nil, 421},
		{"no name", "", false, nil, 421},
		{"an address of the network", "192.0.2.1:80", false, nil, 421},
		{"an address of the network, if others may ask", "192.0.2.1:80", true, nil, 200},
		{"its own script", "localhost:1", false, map[string]string{"Origin": "http://localhost:1", "Sec-Fetch-Site": "same-origin"}, 200},
		{"the address bar", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"a script of another site", "localhost:1", false, map[string]string{"Origin": "http://evil.example"}, 403},
		{"a script of a page that has no site", "localhost:1", false, map[string]string{"Origin": "null"}, 403},
		{"another port of this machine", "localhost:1", false, map[string]string{"Origin": "http://localhost:2"}, 403},
		{"an image in a page of another site", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		{"a script of another port", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403},
		{"a frame in a page of another site", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		{"a link on a page of another site to /data", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403},
		{"a link on a page of another site", "localhost:1", false, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, path, _ := strings.Cut(c.name, "/")
			r := httptest.NewRequest("GET", "/"+path, nil)
			r.Host = c.host
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			Guard(inner, c.remote).ServeHTTP(w, r)
			if w.Code != c.want || (w.Body.String() == "inside") != (c.want == 200) {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
				t.Errorf("policy is %q", p)
			}
		})
	}
}

func TestWhatAClientSentIsMadeHarmless(t *testing.T) {
	if got := clean("a\n<b>\x1b[31m" + strings.Repeat("x", 200)); strings.ContainsAny(got, "\n\x1b") || len(got) > 100 {
		t.Errorf("%q", got)
	}
}

func TestAssetsArePackedAndKept(t *testing.T) {
	own := fstest.MapFS{"a.js": {Data: []byte("first")}}
	other := fstest.MapFS{"a.js": {Data: []byte("second")}, "b.css": {Data: []byte("x{}")}}
	h, err := Assets(own, other)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string, header ...string) *http.Response {
		r := httptest.NewRequest("GET", path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	plain := get("/a.js")
	if text, _ := io.ReadAll(plain.Body); string(text) != "first" || plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("a.js is %q, %s", text, plain.Header.Get("Content-Type"))
	}
	packed := get("/a.js", "Accept-Encoding", "br, gzip;q=0.8")
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(z); string(text) != "first" {
		t.Errorf("unpacked, a.js is %q", text)
	}
	if packed.Header.Get("ETag") == plain.Header.Get("ETag") {
		t.Error("packed and plain have one ETag")
	}
	if again := get("/a.js", "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %s", again.Status)
	}
	if r := get("/a.js", "Accept-Encoding", "gzip;q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("it is packed for who cannot unpack it")
	}
	for _, path := range []string{"/c.js", "/../web.go", "/"} {
		if r := get(path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

// What is borrowed is what was published, byte for byte; the sums are those of
// the file in the package d3 7.9.2.
func TestTheLibraryIsThePublishedFile(t *testing.T) {
	text, err := shared.ReadFile("assets/d3.min.js")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1" {
		t.Errorf("d3.min.js has the sum %s", got)
	}
	if !strings.HasPrefix(string(text), "// https://d3js.org v7.9.2 ") {
		t.Errorf("it says %q", text[:40])
	}
	licence, err := shared.ReadFile("assets/d3.LICENSE")
	if err != nil || !strings.Contains(string(licence), "Permission to use, copy, modify") {
		t.Errorf("its licence: %q, %v", licence, err)
	}
}

func TestServingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	asked, ended := make(chan struct{}), make(chan error, 1)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	go func() { ended <- Serve(ctx, l, slow) }()
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			io.Copy(io.Discard, c)
		}
	}()
	<-asked
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
