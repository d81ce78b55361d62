package daemon_test

import (
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/lab/netspace"
	"weft/internal/store"
	"weft/internal/testbin"
)

// leased returns what a login has by the file of leases, and puts another in its place.
func leased(t *testing.T, path, login, put string) (had string) {
	t.Helper()
	f, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = f.Each(func(key, value []byte) error {
		if string(key) == login {
			had = string(value)
		}
		return nil
	})
	if err == nil && put != "" {
		err = f.Put([]byte(login), []byte(put))
	}
	if err != nil {
		t.Fatal(err)
	}
	return had
}

// The file that leases of [access] names outlives a reboot: a login has the same
// address and prefix again.
func TestALoginHasWhatTheFileOfLeasesSays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	w := newTopology(t, strings.Replace(concentrator, "[lns.isp]", "[lns.isp]\nleases = \""+path+"\"", 1))
	r := w.start()
	box := w.box()
	w.session("")
	row := w.rows("subscribers")[0]
	r.stop()
	_ = box.Process.Kill()
	_ = box.Wait()
	for _, where := range []*netspace.Space{w.router, w.member} { // as a reboot does: all that is known is in the file
		w.run(where, testbin.Weft(t)+" unload")
	}
	const other = "203.0.113.77;2001:db8:1000:4d00::/64;invalid Prefix"
	if had := leased(t, path, "alice", other); !strings.HasPrefix(had, row["ipv4"].(string)+";") {
		t.Errorf("the file says %q, alice had %v", had, row)
	}
	w.start()
	w.box()
	w.session("")
	if row := w.rows("subscribers")[0]; row["ipv4"] != "203.0.113.77" || row["prefix"] != "2001:db8:1000:4d00::/64" {
		t.Errorf("alice has %v, and had %s", row, other)
	}
}
