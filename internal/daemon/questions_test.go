package daemon_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/testbin"
)

// A wrong command line gets an answer of one line that names the right arguments.
func TestWrongQuestionsGetAPlainAnswer(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "main.allocations")
	w := newTopology(t, statefulTOML(fmt.Sprintf(ends, "", ""), 65536)+fmt.Sprintf("allocation_log = %q\n", log))
	ask := func(line, want string) {
		t.Helper()
		out, err := w.exec(w.router, append([]string{testbin.Weft(t)}, strings.Fields(line)...)...) // as it stands, without --wide
		if err == nil || !strings.Contains(out, want) || strings.Contains(out, "http://") || strings.Count(strings.TrimSpace(out), "\n") > 0 {
			t.Errorf("weft %s: %v, want %q\n%s", line, err, want, out)
		}
	}
	const nothing = "weft has nothing in the kernel here; weft run FILE starts it"
	for _, noun := range []string{"show bib", "show nat-sessions", "show pools", "show nat-subscribers", "flush bib --all", "flush nat-sessions --all"} {
		ask(noun, nothing)
	}
	ask("show who 192.0.2.1 4711", "--file reads the log without it")
	ask("show who 192.0.2.1 4711 --file "+log, "no such file")
	r := w.start()
	for _, c := range []struct{ line, want string }{
		{"show bib --translator missing", "there is no translator missing; there are: main"},
		{"show nat-sessions --translator missing", "there is no translator missing"},
		{"show nat-subscribers --translator missing", "there is no translator missing"},
		{"flush bib --translator missing", "there is no translator missing"},
		{"show bib --port 70000", "a port is a number from 1 to 65535"},
		{"show bib --ipv6 nonsense", "is neither an address nor a prefix"},
		{"show bib --ipv6 192.0.2.1", "is of the other family"},
		{"show bib --protocol sctp", "none of tcp, udp and icmp"},
		{"show nat-sessions --limit -1", "is negative"},
		{"show bibb", "did you mean"},
		{"show who 192.0.2.1", "takes an address, a port and a time"},
		{"show who 2001:db8::1 80", "is no IPv4 address"},
		{"show who 192.0.2.1 99999", "is no port"},
		{"show who 192.0.2.1 80 tomorrow", "is no time"},
		{"show who 192.0.2.1 80 2099-01-01T00:00:00Z", "is yet to come"},
		{"show who 192.0.2.1 80 --protocol sctp", "none of tcp, udp and icmp"},
		{"show who 192.0.2.1 80 1h --file " + w.file, "is not a log file"},
		{"show who 192.0.2.1 80 1h --file " + log, "weft run has it open"},
		{"flush bib", "wants either flags that say which, or --all"},
		{"flush bib --all --ipv4 192.0.2.1", "wants either flags that say which, or --all"},
		{"flush bib --ipv6 zz", "is neither an address nor a prefix"},
		{"run " + w.file, "another weft run controls this network namespace"},
	} {
		ask(c.line, c.want)
	}
	if out, err := w.weft("show", "who", "192.0.2.1", "4711"); err != nil || !strings.Contains(out, "no allocation found in the log") {
		t.Errorf("a port without an allocation: %v %s", err, out)
	}
	r.kill()
	ask("show who 192.0.2.1 4711", "no weft run is answering: start it with systemctl start weft, or weft run FILE")
	// what a kill left behind is taken over, and Ctrl-C is no failure
	w.opens(5001)
	r = w.start()
	if rows := w.rows("bib"); len(rows) != 2 { // with the static one
		t.Errorf("after the kill there are %v", rows)
	}
	r.signal(2)
	<-r.ended
	if r.exit != nil {
		t.Errorf("Ctrl-C ends it with %v", r.exit)
	}
}
