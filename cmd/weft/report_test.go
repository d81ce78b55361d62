package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
)

// No secret of weft.toml is in a report, whatever says it: the file, its check, a command.
func TestAReportHasNoSecrets(t *testing.T) {
	var text strings.Builder
	count := 0
	seen := map[string]bool{}
	for _, key := range publicNames(t)["key"] {
		if config.IsSecret(key) && !seen[key] {
			seen[key] = true
			count++
			fmt.Fprintf(&text, "[lns.a%d]\n%s = \"MARKER-%d\" # MARKER-comment\nlacs = [{ %s = 'MARKER-in-%d' }]\n", count, key, count, key, count)
		}
	}
	for _, key := range []string{"secret", "password", "password_hash", "rx_cookie", "tx_cookie"} {
		if !seen[key] {
			t.Errorf("the key %s is not taken for a secret", key)
		}
	}
	file := filepath.Join(t.TempDir(), "weft.toml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	r := collect(t.Context(), file, func(what string) { said = append(said, what) })
	r.add("log.txt", []byte("secret MARKER-1, pseudowire l2tp0 cookies 00aabb 00ccdd ttl 64"), nil)
	r.add("broken.txt", nil, errors.New("MARKER-2 is wrong"))
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil || head.Mode != 0o600 {
			t.Errorf("%s: mode %o, %v", head.Name, head.Mode, err)
		}
		files[head.Name] = string(text)
		if bytes.Contains(text, []byte("MARKER")) || bytes.Contains(text, []byte("00aabb")) {
			t.Errorf("%s has a secret:\n%s", head.Name, text)
		}
	}
	for _, name := range []string{"weft.toml", "check.txt", "version.json", "show/health.json", "show/interfaces.json", "host/link.json", "host/nftables.txt", "host/os-release"} {
		if _, is := files["weft-report/"+name]; !is {
			t.Errorf("%s is not in the archive", name)
		}
	}
	if !strings.Contains(files["weft-report/weft.toml"], "secret = \"removed\"") || !strings.Contains(files["weft-report/check.txt"], "error") || len(said) < 3 {
		t.Errorf("the configuration is\n%s\nits check\n%s\nprogress %v", files["weft-report/weft.toml"], files["weft-report/check.txt"], said)
	}
}
