package trace

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"weft/internal/testbin"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
}

// captureOf makes a pcap file of packets that are a millisecond apart.
func captureOf(t *testing.T, raw bool, packets ...[]byte) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w, err := NewOutput(&b, raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		if err := w.Write(time.UnixMilli(int64(i)), p); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weft.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runTrace runs weft trace --json and gives its lines.
func runTrace(t *testing.T, capture *bytes.Buffer, args ...string) []Result {
	t.Helper()
	c := exec.CommandContext(t.Context(), testbin.Weft(t), append([]string{"trace", "--json"}, args...)...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = capture, &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args[1:], err, errs.String())
	}
	var results []Result
	lines := json.NewDecoder(&out)
	for lines.More() {
		var r Result
		if err := lines.Decode(&r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	return results
}
