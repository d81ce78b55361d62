package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const guarded = `
[interface.lan]
addresses = ["10.9.0.1/24", "2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
[guard.inside]
interfaces = ["lan"]
reverse_path = "strict"
[guard.uplink]
interfaces = ["wan"]
icmp_per_source = RATE
burst = 1
[block]
files = ["LIST"]
except = ["10.9.0.3/32"]
`

// newGuarded is a world in which both ends have both families, and what the
// router's guards let in is forwarded by the stack.
func newGuarded(t *testing.T, rate string) (*topology, *running, string) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("# none yet\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newTopology(t, strings.NewReplacer("LIST", list, "RATE", rate).Replace(guarded))
	w.run(w.member, "ip addr add 10.9.0.2/24 dev eth0")
	w.run(w.member, "ip route add default via 10.9.0.1")
	w.run(w.server, "ip route add default via 198.51.100.1")
	w.run(w.server, "ip addr add 2001:db8:2::9/64 dev eth0 nodad")
	w.run(w.server, "ip -6 route add default via 2001:db8:2::1")
	r := w.start()
	eventually(t, "both families cross", func() bool {
		return w.reaches(w.member, "198.51.100.9") && w.reaches(w.member, "2001:db8:2::9")
	})
	return w, r, list
}

func (w *topology) mustWeft(args ...string) string {
	w.t.Helper()
	out, err := w.weft(args...)
	if err != nil {
		w.t.Fatalf("weft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func TestBlockedSourcesGetNothingUntilTheyAreLetIn(t *testing.T) {
	t.Parallel()
	w, r, list := newGuarded(t, "1000")
	w.mustWeft("block", "10.9.0.2", "2001:db8:1::/64", "--reason", "a test")
	if w.reaches(w.member, "198.51.100.9") || w.reaches(w.member, "2001:db8:2::9") {
		t.Error("weft block ended before it was in force")
	}
	if n := w.counted("drop-blocked"); n < 2 {
		t.Errorf("%d drops were counted\n%s", n, w.mustWeft("show", "drops"))
	}
	if out := w.mustWeft("show", "blocked"); !strings.Contains(out, "10.9.0.2 ") || !strings.Contains(out, "a test") {
		t.Errorf("show blocked says\n%s", out)
	}
	r.kill()
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("the guard ended with the daemon")
	}
	if out := w.mustWeft("unblock", "10.9.0.2"); !strings.Contains(out, "not running") {
		t.Errorf("unblock without a daemon says\n%s", out)
	}
	r = w.start()
	eventually(t, "the one that was unblocked is let in", func() bool { return w.reaches(w.member, "198.51.100.9") })
	if w.reaches(w.member, "2001:db8:2::9") {
		t.Error("the other came in as well")
	}
	w.mustWeft("block", "2001:db8:1::/64", "--for", "2s")
	eventually(t, "its time is up", func() bool { return w.reaches(w.member, "2001:db8:2::9") })
	if err := os.WriteFile(list, []byte("10.9.0.0/24 ; a list's own comment\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is read again", func() bool { return !w.reaches(w.member, "198.51.100.9") })
	if err := os.WriteFile(list, []byte("10.9.0.0/24\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mistake is logged", func() bool { return strings.Contains(r.log.String(), `:2:1: \"nonsense\" is neither an address`) })
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("a file with a mistake ended the block")
	}
	if out := w.mustWeft("check", w.file); !strings.Contains(out, `list:2:1: warning: block.files[0]: "nonsense" is neither an address`) {
		t.Errorf("check says\n%s", out)
	}
	r.stop()
	r = w.start() // which knows nothing of what the file said before
	eventually(t, "the mistake is logged again", func() bool { return strings.Contains(r.log.String(), "1 of its lines are in force") })
	eventually(t, "the line that is right is in force", func() bool { return !w.reaches(w.member, "198.51.100.9") })
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing file is logged", func() bool { return strings.Contains(r.log.String(), "no such file") })
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("a missing file ended the block")
	}
	w.planIsEmpty()
	r.stop()
	w.mustWeft("unload")
}

func TestAFileOfSourcesIsBlockedAndLetInAgain(t *testing.T) {
	t.Parallel()
	w, _, _ := newGuarded(t, "1000")
	file := filepath.Join(t.TempDir(), "who")
	if err := os.WriteFile(file, []byte("10.9.0.2 # the member\n10.9.0.3\n2001:db8:77::/48\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := w.mustWeft("block", "--file", file)
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("who is in the file is let in")
	}
	if !strings.HasPrefix(out, "10.9.0.3 is still accepted") || strings.Count(out, "\n") != 1 {
		t.Errorf("block says %q", out)
	}
	if out := w.mustWeft("show", "block-list", "--json"); !strings.Contains(out, `"entries": 3`) {
		t.Errorf("show block-list says\n%s", out)
	}
	w.mustWeft("unblock", "--file", file)
	if !w.reaches(w.member, "198.51.100.9") {
		t.Error("who was unblocked is not let in")
	}
	if out, err := w.weft("block", "--file", file+"-"); err == nil || !strings.Contains(out, "no such file") {
		t.Errorf("a file that is not there: %v, %s", err, out)
	}
	if err := os.WriteFile(file, []byte("10.9.0.2\nnobody\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := w.weft("block", "--file", file); err == nil || !strings.Contains(out, ":2:1: ") {
		t.Errorf("a file with a mistake: %v, %s", err, out)
	}
	if out := w.mustWeft("show", "blocked"); !strings.Contains(out, "none") {
		t.Errorf("show blocked says\n%s", out)
	}
}

// A program that waits for READY=1 of weft may let packets in then. The list is read
// from a pipe, so that reading takes as long as the test decides.
func TestReadyMeansThatTheListIsInForce(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "list")
	var text strings.Builder
	for i := range 300_000 { // so many that reading them takes longer than all else of a start
		fmt.Fprintf(&text, "100.%d.%d.%d\n", 64+i>>16, i>>8&255, i&255)
	}
	if err := os.WriteFile(list, []byte(text.String()+"10.9.0.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newTopology(t, strings.NewReplacer("LIST", list, "RATE", "1000").Replace(guarded))
	w.run(w.member, "ip addr add 10.9.0.2/24 dev eth0")
	w.run(w.member, "ip route add default via 10.9.0.1")
	w.run(w.server, "ip route add default via 198.51.100.1")
	r := w.launch()
	r.await("READY=1")
	if out := w.mustWeft("show", "guards"); !strings.Contains(out, "lan") {
		t.Errorf("show guards says\n%s", out)
	}
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("it is ready, and who is blocked gets through")
	}
	r.stop()
}

// A list that cannot be read does not delay READY=1.
func TestReadyWithoutTheList(t *testing.T) {
	t.Parallel()
	w := newTopology(t, strings.NewReplacer("LIST", filepath.Join(t.TempDir(), "gone"), "RATE", "1000").Replace(guarded))
	r := w.start()
	eventually(t, "it says so", func() bool { return strings.Contains(r.log.String(), "cannot read parts of the block list") })
}

func TestSetsOfTheRulesetAreBlockedToo(t *testing.T) {
	t.Parallel()
	w := newTopology(t, strings.NewReplacer(`files = ["LIST"]`, `sets = ["inet home banned", "inet home banned6"]`, "RATE", "1000").Replace(guarded))
	w.run(w.member, "ip addr add 10.9.0.2/24 dev eth0")
	w.run(w.member, "ip route add default via 10.9.0.1")
	w.run(w.server, "ip route add default via 198.51.100.1")
	w.run(w.server, "ip addr add 2001:db8:2::9/64 dev eth0 nodad")
	w.run(w.server, "ip -6 route add default via 2001:db8:2::1")
	r := w.start()
	eventually(t, "a missing set is logged", func() bool { return strings.Contains(r.log.String(), "list the set inet home banned") })
	w.feed(w.router, "table inet home {\n set banned { type ipv4_addr; flags interval; }\n set banned6 { type ipv6_addr; flags timeout; }\n}\n", "nft -f -")
	for _, c := range []struct{ set, element, address string }{
		{"banned", "10.9.0.0/28", "198.51.100.9"},
		{"banned6", "2001:db8:1::2 timeout 5s", "2001:db8:2::9"},
	} {
		eventually(t, "the address is not blocked", func() bool { return w.reaches(w.member, c.address) })
		w.run(w.router, "nft add element inet home "+c.set+" { "+c.element+" }")
		eventually(t, "the element is blocked", func() bool { return !w.reaches(w.member, c.address) })
		if c.set == "banned" {
			w.run(w.router, "nft delete element inet home banned { "+c.element+" }")
		}
		eventually(t, "it is gone, by itself or by hand", func() bool { return w.reaches(w.member, c.address) })
	}
	w.run(w.router, "nft add element inet home banned { 10.9.0.2 }")
	eventually(t, "it is blocked", func() bool { return !w.reaches(w.member, "198.51.100.9") })
	w.run(w.router, "nft flush ruleset")
	if w.reaches(w.member, "198.51.100.9") {
		t.Error("a set that is lost let everybody in")
	}
	r.stop()
}

func TestSourcesOfOthersAndFloodsAreDropped(t *testing.T) {
	// alone: rates are measured
	w, r, _ := newGuarded(t, "5")
	w.run(w.member, "ip addr add 198.51.100.77/32 dev lo")
	w.run(w.member, "ip -6 addr add 2001:db8:2::77/128 dev lo nodad")
	for _, spoof := range []string{"ping -c 2 -W 1 -I 198.51.100.77 198.51.100.9", "ping -c 2 -W 1 -I 2001:db8:2::77 2001:db8:2::9"} {
		before := w.counted("drop-reverse-path")
		_, _ = w.try(w.member, spoof) // nothing comes back
		if n := w.counted("drop-reverse-path") - before; n != 2 {
			t.Errorf("%s: %d were dropped", spoof, n)
		}
	}
	before := w.counted("drop-icmp-rate")
	_, _ = w.try(w.server, "ping -q -c 60 -i 0.01 -W 1 198.51.100.1")
	if n := w.counted("drop-icmp-rate") - before; n < 30 {
		t.Errorf("of 60 pings at once %d were dropped", n)
	}
	eventually(t, "who keeps to the rate is let in", func() bool { return w.reaches(w.member, "198.51.100.9") })
	if out := w.mustWeft("show", "guards"); !strings.Contains(out, "strict") || !strings.Contains(out, "icmp_per_source 5") {
		t.Errorf("show guards says\n%s", out)
	}
	r.stop()
}

func TestWhatCannotBeBlockedIsTold(t *testing.T) {
	t.Parallel()
	w, _, _ := newGuarded(t, "1000")
	for args, want := range map[string]string{
		"block":                        "takes addresses or prefixes",
		"block 10.9.0":                 `"10.9.0" is neither an address nor a prefix`,
		"block 0.0.0.0/0":              "contains all addresses",
		"block 10.9.0.2 --for -1s":     "is too short",
		"block 10.9.0.2 --for eternal": "invalid argument",
		"unblock 192.0.2.1":            "is not blocked by weft block",
	} {
		out, err := w.weft(strings.Fields(args)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("weft %s: %v\n%s", args, err, out)
		}
	}
	w.pings(w.member, "198.51.100.9") // none of them blocked it
}
