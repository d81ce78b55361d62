package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/internal/testbin"
)

// trialTopology runs a router, and gives a file with another address on lan.
func trialTopology(t *testing.T) (w *topology, r *running, next string) {
	t.Helper()
	w = newTopology(t, "[interface.lan]\naddresses = [\"192.0.2.1/24\"]\n")
	r = w.start()
	next = filepath.Join(t.TempDir(), "new.toml")
	if err := os.WriteFile(next, []byte("[interface.lan]\naddresses = [\"192.0.2.7/24\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, r, next
}

func (w *topology) has(address string) func() bool {
	return func() bool { return strings.Contains(w.run(w.router, "ip -4 addr show dev lan"), address+"/24") }
}

// holds fails unless the file that weft run reads has an address.
func (w *topology) holds(address string) {
	w.t.Helper()
	if text, err := os.ReadFile(w.file); err != nil || !strings.Contains(string(text), address) {
		w.t.Errorf("the file of weft run is (%v)\n%s\nwant one with %s", err, text, address)
	}
}

func (w *topology) must(arguments ...string) string {
	w.t.Helper()
	out, err := w.weft(arguments...)
	if err != nil {
		w.t.Fatalf("weft %v: %v\n%s", arguments, err, out)
	}
	return out
}

func TestAConfirmedConfigurationStays(t *testing.T) {
	w, r, next := trialTopology(t)
	w.must("apply", "--confirm", "60", next)
	if !w.has("192.0.2.7")() || w.has("192.0.2.1")() {
		t.Error("the new configuration is not in force")
	}
	w.holds("192.0.2.1")
	if out, err := w.weft("show", "health", "--wide"); err == nil || !strings.Contains(out, "on trial") {
		t.Errorf("health says (%v)\n%s", err, out)
	}
	if out, err := w.weft("apply", "--confirm", "60", next); err == nil || !strings.Contains(out, "on trial already") {
		t.Errorf("a second one: %v\n%s", err, out)
	}
	r.reload()
	if !w.has("192.0.2.7")() || !strings.Contains(r.log.String(), "is on trial") {
		t.Errorf("a reload ends the trial:\n%s", r.log)
	}
	w.must("apply", "--confirm-now")
	w.holds("192.0.2.7")
	if out, err := w.weft("apply", "--confirm-now"); err == nil || !strings.Contains(out, "no configuration to confirm") {
		t.Errorf("confirmed twice: %v\n%s", err, out)
	}
	r.kill()
	w.start()
	if !w.has("192.0.2.7")() {
		t.Error("the next daemon does not have the new configuration")
	}
}

func TestAConfigurationThatIsNotConfirmedIsTakenBack(t *testing.T) {
	w, r, next := trialTopology(t)
	w.must("apply", "--confirm", "2", next)
	eventually(t, "the old configuration is back", w.has("192.0.2.1"))
	if w.has("192.0.2.7")() {
		t.Error("the new address is still there")
	}
	w.holds("192.0.2.1")
	kept, err := os.ReadFile(filepath.Join(w.place().Run, "unconfirmed.toml"))
	if err != nil || !strings.Contains(string(kept), "192.0.2.7") {
		t.Errorf("the new configuration is lost: %v\n%s", err, kept)
	}
	if !strings.Contains(r.log.String(), "not confirmed in time") {
		t.Errorf("the log does not say so:\n%s", r.log)
	}
	w.must("apply", next) // without a trial
	w.holds("192.0.2.7")
}

func TestATrialSurvivesTheDaemon(t *testing.T) {
	w, r, next := trialTopology(t)
	w.must("apply", "--confirm", "6", next)
	end := time.Now().Add(6 * time.Second)
	r.kill()
	r = w.start()
	if time.Now().Before(end) && !w.has("192.0.2.7")() {
		t.Error("the next daemon does not go on with the trial")
	}
	eventually(t, "the next daemon has taken it back", w.has("192.0.2.1"))

	w.must("apply", "--confirm", "1", next)
	r.kill()
	time.Sleep(1100 * time.Millisecond)
	w.start()
	if !w.has("192.0.2.1")() || w.has("192.0.2.7")() {
		t.Error("a daemon that starts after the time does not have the old configuration")
	}
}

// A connection that lives on proves nothing.
func TestATrialIsConfirmedOverANewConnection(t *testing.T) {
	w, _, next := trialTopology(t)
	old, fresh := "SSH_CONNECTION=198.51.100.9 50000 192.0.2.1 22", "SSH_CONNECTION=198.51.100.9 50001 192.0.2.1 22"
	weft := testbin.Weft(t)
	if out, err := w.exec(w.router, "env", old, weft, "apply", "--confirm", "1m", next); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := w.exec(w.router, "env", old, weft, "apply", "--confirm-now"); err == nil || !strings.Contains(out, "over a new connection") {
		t.Errorf("confirmed over the old connection: %v\n%s", err, out)
	}
	if out, err := w.exec(w.router, "env", fresh, weft, "apply", "--confirm-now"); err != nil {
		t.Errorf("not confirmed over a new one: %v\n%s", err, out)
	}
	w.holds("192.0.2.7")
}

// The file of weft run itself may be edited and applied.
func TestAConfigurationThatIsEditedInPlaceIsTakenBack(t *testing.T) {
	w, r, _ := trialTopology(t)
	w.write("[interface.lan]\naddresses = [\"192.0.2.7/24\"]\n")
	w.must("apply", "--confirm", "60", w.file)
	if !w.has("192.0.2.7")() {
		t.Error("the new configuration is not in force")
	}
	w.holds("192.0.2.1")
	w.must("apply", "--confirm-now")
	w.holds("192.0.2.7")
	w.write("[interface.lan]\naddresses = [\"192.0.2.9/24\"]\n")
	w.must("apply", "--confirm", "1", w.file)
	eventually(t, "it is taken back", w.has("192.0.2.7"))
	w.holds("192.0.2.7")
	r.stop()
}

func TestAConfigurationThatIsRefusedIsNotOnTrial(t *testing.T) {
	w, _, next := trialTopology(t)
	for text, want := range map[string]string{
		"[interface.lan]\naddresses = [\"192.0.2.300/24\"]\n": "new.toml:2",
		"[interface.gone]\n": "gone",
	} {
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := w.weft("apply", "--confirm", "60", next); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s\nwant %q", err, out, want)
		}
		if !w.has("192.0.2.1")() {
			t.Error("the old configuration is not in force")
		}
		if out, err := w.weft("apply", "--confirm-now"); err == nil {
			t.Errorf("it was on trial:\n%s", out)
		}
	}
	if out, err := w.weft("apply", "--confirm", "soon", next); err == nil || !strings.Contains(out, "60, or 2m") {
		t.Errorf("%v\n%s", err, out)
	}
}
