package daemon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/testbin"
)

func TestTheSecondRunFindsNothingToDo(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	eventually(t, "the first run says that it applied something", r.applied) // so that its absence below means something
	w.planIsEmpty()
	w.pings(w.member, serverFrom6)
	w.pings(w.server, memberFrom4)
	r.stop()
	r = w.start()
	if r.applied() {
		t.Errorf("it changed something:\n%s", r.log.String())
	}
	w.planIsEmpty()
	r.reload()
	if r.applied() {
		t.Errorf("reloading the same file changed something:\n%s", r.log.String())
	}
}

func TestAReloadThatChangesThingsLosesNoPacket(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	f := w.startFlood()
	more := strings.Replace(usual(), "mappings = [", "mappings = [\n  { ipv6 = \"2001:db8:3::/120\", ipv4 = \"192.0.2.0/24\" },\n  ", 1)
	for _, toml := range []string{
		more,
		usual() + "tcp_mss_clamp = true\nudp_zero_checksum = \"compute\"\nlowest_ipv6_mtu = 1400\n",
		more + "\n[nat64.second]\nmode = \"stateless\"\nprefix = \"64:ff9b:2::/96\"\nmappings = [{ ipv6 = \"2001:db8:7::7\", ipv4 = \"203.0.113.7\" }]\ninterfaces = [\"lan\"]\n",
		bypass(),
		strings.Replace(usual(), `interfaces = ["lan", "wan"]`, `interfaces = ["wan", "lan"]`, 1),
		usual(),
	} {
		w.write(toml)
		before := r.status().Applied
		r.reload()
		if s := r.status(); s.Refused != nil || !s.Applied.After(before) {
			t.Fatalf("with\n%s\n%+v\n%s", toml, s, r.log)
		}
		w.planIsEmpty()
	}
	f.endWithoutLoss(t)
}

func TestAReloadWithABrokenFileChangesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	f := w.startFlood()
	before := w.run(w.router, testbin.Weft(t)+" show translations")
	for _, broken := range []string{"[nat64.main\n", strings.Replace(usual(), "prefix", "prefxi", 1), strings.Replace(usual(), "[interface.wan]", "[interface.wan]\ndevice = \"eth9\"", 1)} {
		w.write(broken)
		r.reload()
		if s := r.status(); s.Refused == nil || len(s.Refused.Why) == 0 {
			t.Errorf("show status does not say why it was refused: %+v", s)
		}
		w.write(usual())
		w.planIsEmpty()
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	r.reload()
	f.endWithoutLoss(t)
	log := r.log.String()
	for _, want := range []string{"weft.toml:1:", "prefxi", "eth9", "old configuration", "no such file"} {
		if !strings.Contains(log, want) {
			t.Errorf("it does not say %q:\n%s", want, log)
		}
	}
	after := w.run(w.router, testbin.Weft(t)+" show translations")
	if rules(before) != rules(after) {
		t.Errorf("the rules changed from\n%s\nto\n%s", before, after)
	}
}

// rules keeps the lines of `weft show translations` that do not count.
func rules(table string) string {
	var kept []string
	for line := range strings.Lines(table) {
		if strings.Contains(line, "/") {
			kept = append(kept, strings.Fields(line)[0])
		}
	}
	return strings.Join(kept, "\n")
}

func TestKilledItForwardsOnAndARestartAdopts(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	f := w.startFlood()
	r.kill()
	w.pings(w.member, serverFrom6)
	if n := w.counted("forward-6to4"); n == 0 {
		t.Error("weft show counts nothing while weft does not run")
	}
	w.planIsEmpty()
	r = w.start()
	if r.applied() {
		t.Errorf("it did not adopt what was there:\n%s", r.log.String())
	}
	f.endWithoutLoss(t)
	w.fragmentsPass()
}

// An older build is made of the present one by renaming its pins: the plan
// compares the build in the name.
func TestAnUpgradeReplacesTheProgramsWithoutLosingAPacket(t *testing.T) {
	t.Parallel()
	w := newTopology(t, bypass())
	r := w.start()
	f := w.startFlood()
	r.stop()
	links := filepath.Join(w.place().Pins, "links")
	old := pins(t, links)
	if len(old) < 4 {
		t.Fatalf("only %v are pinned", old)
	}
	for _, name := range old {
		aged := name[:strings.LastIndex(name, "-")+1] + "00000000"
		if err := os.Rename(filepath.Join(links, name), filepath.Join(links, aged)); err != nil {
			t.Fatal(err)
		}
	}
	before := programIDs(t, links)
	out, err := w.weft("plan", w.file)
	if err != nil || strings.Count(out, "change  program") != len(old) {
		t.Errorf("the plan does not say that %d programs change (%v):\n%s", len(old), err, out)
	}
	w.start()
	f.endWithoutLoss(t)
	w.planIsEmpty()
	if now := pins(t, links); strings.Join(now, " ") != strings.Join(old, " ") {
		t.Errorf("pinned are %v, want %v", now, old)
	}
	for pin, id := range programIDs(t, links) {
		if before[pin[:strings.LastIndex(pin, "-")]+"-00000000"] == id {
			t.Errorf("%s still runs the old program", pin)
		}
	}
}

func pins(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestASecondRunInTheSameNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.start()
	second := w.launch()
	<-second.ended
	want := fmt.Sprintf("another weft run controls this network namespace (process %d)", r.cmd.Process.Pid)
	if second.exit == nil || !strings.Contains(second.log.String(), want) {
		t.Errorf("the second ended with %v and said\n%s", second.exit, second.log)
	}
	out, err := w.weft("unload")
	if err == nil || !strings.Contains(out, "another weft run") {
		t.Errorf("unload while it runs: %v\n%s", err, out)
	}
	w.pings(w.member, serverFrom6)
}

func TestOnlyRootMayRunItOrTalkToIt(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	w.start()
	for path, want := range map[string]os.FileMode{
		w.place().Run: 0o700 | os.ModeDir, w.place().Socket(): 0o600 | os.ModeSocket, w.place().Lock(): 0o600, w.place().Pins: 0o700 | os.ModeDir,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
		} else if info.Mode()&^os.ModeSticky != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	program, err := os.Open(testbin.Weft(t)) // by descriptor: its directory is root's
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, verb := range [][]string{{"run", w.file}, {"plan", w.file}, {"unload"}, {"show", "counters"}} {
		c := exec.Command("/proc/self/fd/3", verb...)
		c.ExtraFiles = []*os.File{program}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "needs root") {
			t.Errorf("weft %s without root: %v\n%s", verb[0], err, out)
		}
	}
}

func TestSystemdIsToldOfEveryPartOfItsLife(t *testing.T) {
	t.Parallel()
	w := newTopology(t, usual())
	r := w.launch("WATCHDOG_USEC=200000")
	r.await("READY=1")
	r.await("WATCHDOG=1")
	r.signal(unix.SIGHUP)
	if note := r.await("RELOADING=1"); !strings.Contains(note, "MONOTONIC_USEC=") {
		t.Errorf("it reloads without saying when: %q", note)
	}
	r.await("READY=1")
	r.await("WATCHDOG=1")
	r.signal(unix.SIGTERM)
	r.await("STOPPING=1")
	<-r.ended
	if r.exit != nil {
		t.Errorf("it ended with %v", r.exit)
	}
}
