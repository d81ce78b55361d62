package daemon_test

import (
	"strings"
	"testing"
	"time"
)

// A file that is wrong, or wants of subscribers what cannot be, changes nothing; what is
// right changes what it says, and ends no session that it does not have to.
func TestReloadsUnderASession(t *testing.T) {
	t.Parallel()
	w := newTopology(t, concentrator)
	r := w.start()
	w.box()
	id := w.session("")
	w.run(w.server, "ip route add 203.0.113.0/24 via 198.51.100.1")
	w.run(w.member, "ip route add 198.51.100.0/24 dev l2tp-isp")
	address := w.rows("subscribers")[0]["ipv4"].(string)
	eventually(t, "the server reaches the box", func() bool { return w.reaches(w.server, address) })
	change := func(old, with string) {
		t.Helper()
		if !strings.Contains(concentrator, old) {
			t.Fatalf("%q is not in the file", old)
		}
		w.write(strings.ReplaceAll(concentrator, old, with))
		r.reload()
	}
	for _, c := range []struct {
		name, old, with string
		refused         string // what is said; empty: it is taken over
	}{
		{"a prefix with host bits", "2001:db8:1000::/48", "2001:db8:1000::5/48", "lns.isp.prefixes"},
		{"a prefix that is too long", "2001:db8:1000::/48", "2001:db8:1000::/65", "lns.isp.prefixes"},
		{"no TOML", "[lns.isp]", "[lns.isp", "reload refused"},
		{"no LAC may call", `lacs = [{ address = "2001:db8:1::/64", secret = "between us" }]`, "lacs = []", "no LAC may set up a tunnel"},
		{"another pool", "203.0.113.0/24", "203.0.113.128/25", ""},
		{"no pool", `pools = [{ addresses = ["203.0.113.0/24"] }]`, `gateway = "203.0.113.1"`, ""},
		{"no prefixes", `prefixes = ["2001:db8:1000::/48"]`, "", ""},
		{"the user is taken out", `login = "alice"`, `login = "bob"`, ""},
		{"another password", "wonderland", "looking glass", ""},
		{"another secret", "between us", "between them", ""},
		{"other RADIUS servers", "198.51.100.9:1812", "198.51.100.10:1812", ""},
		{"another address", `listen = ["2001:db8:1::1"]`, `listen = ["198.51.100.1"]`, ""},
		{"one more address", `listen = ["2001:db8:1::1"]`, `listen = ["198.51.100.1", "2001:db8:1::1"]`, ""},
	} {
		before := len(r.log.String())
		change(c.old, c.with)
		want := []string{"reloaded"}
		if c.refused != "" {
			want = []string{"reload refused, the old configuration stays", c.refused}
		}
		for _, one := range want { // what it says goes through a pipe
			eventually(t, c.name+": it says "+one, func() bool { return strings.Contains(r.log.String()[before:], one) })
		}
		status, err := w.weft("show", "status")
		if err != nil || strings.Contains(status, "refused") != (c.refused != "") || c.refused != "" && c.refused != "reload refused" && !strings.Contains(status, c.refused) {
			t.Errorf("%s: the status is %v\n%s", c.name, err, status)
		}
		time.Sleep(time.Second)
		if rows := w.rows("subscribers"); len(rows) != 1 || rows[0]["id"] != id || rows[0]["state"] != "up" {
			t.Errorf("%s: the sessions are %v\n%s", c.name, rows, r.log.String()[before:])
		}
		w.pings(w.server, address)
		change("[lns.isp]", "[lns.isp]")
		if rows := w.rows("subscribers"); len(rows) != 1 || rows[0]["id"] != id {
			t.Fatalf("%s, and back: the sessions are %v\n%s", c.name, rows, r.log.String()[before:])
		}
	}
}
