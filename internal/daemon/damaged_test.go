package daemon_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/testbin"
)

// keeping has the sections that write files; its lasting ones are in dir.
func keeping(dir string) string {
	return fmt.Sprintf(`
[router]
forwarding = true
[interface.lan]
addresses = ["2001:db8:1::1/64"]
[interface.wan]
addresses = ["198.51.100.1/24"]
[nat64.main]
mode = "stateful"
prefix = "2001:db8:64::/96"
pools = [{ ipv4 = "203.0.113.0/28" }]
interfaces = ["lan", "wan"]
bindings = 1024
sessions = 1024
allocation_log = "%[1]s/main.allocations"
[nat64.clat]
mode = "clat"
interfaces = ["lan"]
[ra.lan]
dhcpv6 = "stateful"
pool = ["2001:db8:1::d:0/112"]
leases = "%[1]s/lan.leases"
[guard.uplink]
interfaces = ["wan"]
[offload]
interfaces = ["lan", "wan"]
[lns.members]
listen = ["198.51.100.1"]
lacs = [{ address = "198.51.100.0/24", secret = "between us" }]
users = [{ login = "alice@example.net", password = "wonderland" }]
pools = [{ addresses = ["100.64.0.0/24"] }]
leases = "%[1]s/members.leases"
[l2tp_client.isp]
server = "198.51.100.9"
secret = "between us"
login = "bob@example.net"
password = "wonderland"
`, dir)
}

// damage is a way in which a file is wrong; surely says that it is seen for certain.
type damage struct {
	name   string
	surely bool
	do     func(path string, sound []byte) error
}

// damages are those of one file. seed chooses the bits that flip.
func damages(seed uint64, flips int) (list []damage) {
	random := rand.New(rand.NewPCG(20, seed))
	text := func(name string, surely bool, change func([]byte) []byte) {
		list = append(list, damage{name, surely, func(path string, sound []byte) error { return os.WriteFile(path, change(bytes.Clone(sound)), 0o600) }})
	}
	text("a half", false, func(b []byte) []byte { return b[:len(b)/2] })
	text("its last bytes gone", false, func(b []byte) []byte { return b[:max(len(b)-3, 0)] })
	text("zeroes", true, func(b []byte) []byte { clear(b); return b })
	text("ones", true, func(b []byte) []byte { return bytes.Repeat([]byte{255}, len(b)) })
	text("a number", true, func([]byte) []byte { return []byte("7\n") })
	text("a string", true, func([]byte) []byte { return []byte("\"text\"\n") })
	text("what another program writes", true, func([]byte) []byte { return []byte("[section]\nkey = value\n") })
	text("nothing", false, func([]byte) []byte { return nil })
	text("null", false, func([]byte) []byte { return []byte("null\n") })
	text("a list of null", false, func([]byte) []byte { return []byte("[null]\n") })
	text("fields of another version", false, func([]byte) []byte { return []byte(`{"version":99,"lan":{"later":[1]}}` + "\n") })
	for range flips {
		text("bits that flip", false, func(b []byte) []byte {
			for range 1 + random.IntN(8) {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		})
	}
	other := func(name string, do func(path string) error) {
		list = append(list, damage{name, true, func(path string, _ []byte) error { return do(path) }})
	}
	other("a directory", func(path string) error { return os.Mkdir(path, 0o700) })
	other("a directory with a file", func(path string) error {
		return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	})
	other("a link to itself", func(path string) error { return os.Symlink(path, path) })
	other("a FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) })
	return list
}

// A start over a state file that is damaged in any way is ready, and says which file
// it was and where that is now. Only the journal, which nothing can replace, refuses,
// with its path and the remedy.
func TestWeftStartsOverDamagedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTopology(t, keeping(dir))
	here := w.place().Run
	r := w.start()
	if out, err := w.weft("block", "203.0.113.200"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.stop()
	for name, text := range map[string]string{"l2tp.json": `{"isp":{}}`, "plat.json": `{"lan":{}}`, "trial.json": `{"name":"x","text":"[router]\n"}`, "weft.sock": "x"} {
		if _, err := os.Stat(filepath.Join(here, name)); errors.Is(err, fs.ErrNotExist) {
			if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	sound := map[string][]byte{}
	for _, from := range []string{here, dir} {
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(from, e.Name())
			if sound[path], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(sound) < 12 {
		t.Fatalf("there are only these files: %q", slices.Sorted(maps.Keys(sound)))
	}
	cases, flips := 0, 1
	if proving() {
		flips = 5
	}
	for i, path := range slices.Sorted(maps.Keys(sound)) {
		for n, d := range damages(uint64(i), flips) {
			if !proving() && n%5 != i%5 {
				continue
			}
			cases++
			w.putBack(sound, here, dir)
			if err := errors.Join(os.Remove(path), d.do(path, sound[path])); err != nil {
				t.Fatal(err)
			}
			w.startsOver(path, d)
		}
	}
	t.Logf("%d starts over damaged files of %d kinds", cases, len(sound))
}

// putBack makes all files sound.
func (w *topology) putBack(sound map[string][]byte, dirs ...string) {
	w.t.Helper()
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for path, text := range sound {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// startsOver starts weft over a damaged file.
func (w *topology) startsOver(path string, d damage) {
	w.t.Helper()
	name := filepath.Base(path)
	r := w.launch()
	ready := r.begins()
	log := r.log.String()
	refuses := name == "journal.json" || name == "lock"
	switch {
	case !ready && !refuses:
		w.t.Errorf("%s, %s: it does not start (%v)\n%s", name, d.name, r.exit, log)
	case !ready && !(strings.Contains(log, path) && strings.Contains(log, "remove it")):
		w.t.Errorf("%s, %s: it refuses without the file and a remedy\n%s", name, d.name, log)
	case ready && d.surely && name == "journal.json":
		w.t.Errorf("%s, %s: it starts without its journal\n%s", name, d.name, log)
	case ready && d.surely && name != "lock" && name != "weft.sock":
		// some are read beside the start
		eventually(w.t, name+", "+d.name+": the log names the file", func() bool { return strings.Contains(r.log.String(), path) })
	}
	if ready {
		r.stop()
	}
	if log := r.log.String(); strings.Contains(log, "panic") {
		w.t.Errorf("%s, %s: it panics\n%s", name, d.name, log)
	}
}

// A directory of state that is full or cannot be written ends no start: the lasting
// files' features serve without them. Without its run directory weft could not take
// back what it changes, and refuses.
func TestWeftStartsOverDirectoriesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTopology(t, keeping(dir))
	w.start().stop()
	for name, mount := range map[string]string{
		"read-only": "mount --bind DIR DIR && mount -o remount,bind,ro DIR",
		"full":      "mount -t tmpfs -o size=16k weft DIR && ! dd if=/dev/zero of=DIR/fill 2>/dev/null",
		"no inodes": "mount -t tmpfs -o nr_inodes=1 weft DIR",
	} {
		for _, target := range []string{dir, w.place().Run} {
			script := strings.ReplaceAll(mount, "DIR", target) + " && exec " + testbin.Weft(t) + " run " + w.file
			r := w.begin(exec.Command("unshare", "--mount", "sh", "-c", script))
			ready := r.begins()
			log := r.log.String()
			if ready != (target == dir) || strings.Contains(log, "panic") || !strings.Contains(log, target) {
				t.Errorf("%s %s: ready %v\n%s", name, target, ready, log)
			}
			if ready {
				r.stop()
			}
		}
	}
}
