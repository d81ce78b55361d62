package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var shared embed.FS

//go:embed layout.html
var layout string

// Shared returns what every page may use: weft.css, d3.js, colours.js.
func Shared() (fs.FS, error) { return fs.Sub(shared, "assets") }

// Page makes a template of a page. Its text defines "title" and "main", and may
// define "head"; the layout puts them together. The functions are the page's own.
func Page(text string, functions template.FuncMap) (*template.Template, error) {
	t, err := template.New("layout").Funcs(functions).Parse(layout)
	if err != nil {
		return nil, err
	}
	return t.Parse(text)
}

// asset is a file, ready to be sent.
type asset struct {
	kind, tag    string
	text, packed []byte
}

// Assets serves files by their names in the given folders, of which the first
// that has one counts. Browsers keep them, and ask whether they changed.
func Assets(folders ...fs.FS) (http.Handler, error) {
	all := map[string]asset{}
	for _, folder := range folders {
		err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
			if _, there := all[name]; err != nil || d.IsDir() || there {
				return err
			}
			all[name], err = load(folder, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := all[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Accept-Encoding")
		text, tag := a.text, a.tag
		if AcceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			text, tag = a.packed, a.tag+"-gzip"
		}
		h.Set("ETag", `"`+tag+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	}), nil
}

func load(folder fs.FS, name string) (asset, error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return asset{}, err
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // machines differ in what they know
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	case ".LICENSE":
		kind = "text/plain; charset=utf-8"
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return asset{}, err
	}
	if err := z.Close(); err != nil {
		return asset{}, err
	}
	sum := sha256.Sum256(text)
	return asset{kind: kind, tag: hex.EncodeToString(sum[:12]), text: text, packed: packed.Bytes()}, nil
}

// AcceptsGzip reports whether the answer may be packed (RFC 9110 section 12.5.3).
func AcceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}
