package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/fault"
)

// proving reports whether the tests have the hours that make prove gives them.
func proving() bool { return os.Getenv("WEFT_PROVE") != "" }

// files are those that a router starts with, and that it is reloaded with.
type files struct{ first, second string }

// large has a section of each feature, small few, for little time.
func large(t *testing.T) files {
	dir := t.TempDir()
	return files{everything(dir), otherwise(dir)}
}

func small() files {
	return files{usual(), strings.Replace(statefulTOML(fmt.Sprintf(ends, "bypass = true", ""), 65536), "nat64.main", "nat64.other", 1)}
}

// passed lists the points of the three verbs with which a weft that is not killed
// starts, is given another file, and is unloaded.
func passed(t *testing.T, f files) map[string][]string {
	t.Helper()
	w, all := newFaults(t), map[string][]string{}
	w.write(f.first)
	r := w.faulty("run", 0)
	r.await("READY=1")
	all["run"] = w.points()
	r.stop()
	r = w.faulty("reload", 0)
	r.await("READY=1")
	w.write(f.second)
	r.signal(unix.SIGHUP)
	r.await("RELOADING=1")
	r.await("READY=1")
	all["reload"] = w.points()
	r.stop()
	<-w.faulty("unload", 0).ended
	all["unload"] = w.points()
	if left := w.whole(); left != w.before {
		t.Errorf("the host after unload differs:\n%s", differences(w.before, left))
	}
	return all
}

func kindOf(point string) fault.Point {
	kind, _, _ := strings.Cut(point, ": ")
	return fault.Point(kind)
}

// A test can end the process at each kind of point that is listed, and at no other.
func TestEachPointIsPassed(t *testing.T) {
	t.Parallel()
	missing := fault.Points()
	for _, points := range passed(t, large(t)) {
		for _, point := range points {
			if !slices.Contains(fault.Points(), kindOf(point)) {
				t.Errorf("%q is not listed", point)
			}
			missing = slices.DeleteFunc(missing, func(p fault.Point) bool { return p == kindOf(point) })
		}
	}
	if len(missing) > 0 {
		t.Errorf("never passed: %q", missing)
	}
}

// A start, a reload and an unload that are killed at any of their points are finished
// by the next start, after which weft unload leaves the host as it was. make prove
// kills at each point of large files, make test at one of each kind of small ones.
func TestKilledAtAnyPointItStartsAgain(t *testing.T) {
	t.Parallel()
	f := small()
	if proving() {
		f = large(t)
	}
	all, seen := passed(t, f), map[fault.Point]bool{}
	for _, verb := range []string{"run", "reload", "unload"} {
		var chosen []int
		for n, point := range all[verb] {
			if proving() || !seen[kindOf(point)] {
				chosen = append(chosen, n+1)
			}
			seen[kindOf(point)] = true
		}
		t.Logf("weft %s passes %d points; it is killed at %d of them", verb, len(all[verb]), len(chosen))
		for i, some := range slices.Collect(slices.Chunk(chosen, 90)) {
			t.Run(fmt.Sprint(verb, " ", i), func(t *testing.T) {
				t.Parallel()
				newFaults(t).killedAt(f, verb, some)
			})
		}
	}
	if len(seen) < 14 {
		t.Errorf("only these kinds of points are passed: %v", seen)
	}
}

// killedAt kills a verb at each of these points; then weft starts, and every fourth
// time it is killed there once more and unloaded without a start.
func (w *faults) killedAt(f files, verb string, points []int) {
	w.t.Helper()
	for i, n := range points {
		w.recovers(w.killed(f, verb, n))
		if i%4 == 3 {
			w.unloads(w.killed(f, verb, n))
		}
	}
}

// killed kills a verb at its n-th point, and says where that was. One that passes
// fewer points than before is killed when it has passed them all.
func (w *faults) killed(f files, verb string, n int) string {
	w.t.Helper()
	w.write(f.first)
	if verb == "unload" {
		w.start().stop()
	}
	r := w.faulty(verb, n)
	if verb == "reload" {
		r.await("READY=1")
		w.write(f.second)
		r.signal(unix.SIGHUP)
	}
	if !r.died() {
		r.kill()
	}
	return fmt.Sprintf("weft %s, %q (point %d)", verb, w.points(), n)
}

// A start that is killed at any moment before it is ready is finished by the next
// one: the moments are drawn from a seed.
func TestKilledAtAnyMomentItStartsAgain(t *testing.T) {
	t.Parallel()
	w, f, moments := newFaults(t), small(), 6
	if proving() {
		f, moments = large(t), 200
	}
	w.write(f.first)
	begun := time.Now()
	r := w.start()
	took := time.Since(begun)
	r.stop()
	w.unloads("nothing")
	random := rand.New(rand.NewPCG(20, 6))
	for n := range moments {
		after := time.Duration(random.Int64N(int64(took)))
		r := w.launch()
		time.Sleep(after)
		r.kill()
		w.recovers(fmt.Sprintf("%v of %v (moment %d)", after, took, n))
	}
	t.Logf("killed at %d moments of a start that takes %v", moments, took)
}
