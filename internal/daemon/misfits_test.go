package daemon_test

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A file of testdata/misfits is a weft.toml that the host does not fit. Its lines that
// begin with
//
//	#+  are commands that make the host so ("#+ listen udp 192.0.2.1:53" is another
//	    program's socket; "#+ file NAME TEXT" writes a file)
//	#-  are commands that undo them
//	#!  are what weft check says, all of it
//	#h  are in weft show health, where weft check has nothing to say; with ... at the end
//	    it is how the line begins
//
// DIR is a directory of the test's.
var updateMisfits = flag.Bool("update-misfits", false, "write what weft check says into testdata/misfits")

// What does not fit the host is said by weft check, in a line each that has the place
// and the remedy. The cases share one host.
func TestEachMisfitIsSaid(t *testing.T) {
	t.Parallel()
	w := newTopology(t, "")
	files, err := filepath.Glob("testdata/misfits/*.toml")
	if err != nil || len(files) < 50 && !*updateMisfits {
		t.Fatalf("%d cases (%v), want 50", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w.misfit(t, file, string(text))
		})
	}
}

func (w *topology) misfit(t *testing.T, file, text string) {
	t.Helper()
	dir := t.TempDir()
	var body, want, health, undo []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch mark, rest, _ := strings.Cut(line, " "); mark {
		case "#+":
			w.makeSo(t, strings.ReplaceAll(rest, "DIR", dir))
		case "#-":
			undo = append(undo, strings.ReplaceAll(rest, "DIR", dir))
		case "#!":
			want = append(want, rest)
		case "#h":
			health = append(health, rest)
		}
		if !strings.HasPrefix(line, "#!") && !strings.HasPrefix(line, "#h") {
			body = append(body, line)
		}
	}
	defer func() {
		if out, err := w.weft("unload"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		for _, line := range undo {
			w.makeSo(t, line)
		}
	}()
	w.write(strings.ReplaceAll(strings.Join(body, "\n")+"\n", "DIR", dir))
	out, _ := w.weft("check", w.file)
	var got []string
	for line := range strings.Lines(strings.NewReplacer(w.file+":", "", dir, "DIR").Replace(out)) {
		if line = strings.TrimSpace(line); !noise.MatchString(line) {
			got = append(got, line)
		}
	}
	if *updateMisfits {
		all := strings.Join(body, "\n") + "\n#! " + strings.Join(got, "\n#! ") + "\n"
		if len(got) == 1 && got[0] == "OK" {
			r := w.start()
			eventually(t, "health has a line", func() bool { health = w.unhealthy(dir); return len(health) > 0 })
			r.stop()
			all += "#h " + strings.Join(health, "\n#h ") + "\n"
		}
		if err := os.WriteFile(file, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if slices.Equal(want, []string{"OK"}) && len(health) == 0 {
		t.Error("nothing is said")
	}
	if len(health) > 0 {
		r := w.start()
		eventually(t, "weft show health says "+strings.Join(health, ", "), func() bool {
			says := w.unhealthy(dir)
			return !slices.ContainsFunc(health, func(line string) bool {
				begin, open := strings.CutSuffix(line, "...")
				return !slices.ContainsFunc(says, func(said string) bool { return said == line || open && strings.HasPrefix(said, begin) })
			})
		})
		r.stop()
	}
	if !slices.Equal(got, want) {
		t.Errorf("weft check says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// unhealthy are the lines of weft show health about what does not work.
func (w *topology) unhealthy(dir string) (list []string) {
	out, _ := w.weft("show", "health")
	for line := range strings.Lines(strings.ReplaceAll(out, dir, "DIR")) {
		if words := strings.Fields(line); slices.Contains(words, "degraded") || slices.Contains(words, "not") {
			list = append(list, strings.Join(words, " "))
		}
	}
	return list
}

// noise is what kernels without VLAN filtering, or with bridge-nf-call, add.
var noise = regexp.MustCompile(`bridge-nf-call|no VLAN filtering|^\s*$`)

// makeSo runs a line of a case.
func (w *topology) makeSo(t *testing.T, line string) {
	t.Helper()
	words := strings.SplitN(line, " ", 3)
	switch words[0] {
	case "listen":
		var closer interface{ Close() error }
		err := w.router.Do(func() (err error) {
			if words[1] == "udp" {
				closer, err = net.ListenPacket("udp", words[2])
			} else {
				closer, err = net.Listen("tcp", words[2])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closer.Close() })
	case "file":
		if err := os.WriteFile(words[1], []byte(strings.ReplaceAll(words[2], `\n`, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		if out, err := w.exec(w.router, "sh", "-c", line); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}
