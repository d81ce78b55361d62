package lab

// These tests build small labs in network namespaces:
//
//	left eth0 --- eth0 middle eth1 --- eth0 right
//
// They need root, and fail when as root something is missing.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weft/internal/lab/netspace"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/testbin"
)

func needRoot(t *testing.T) {
	t.Helper()
	spacetest.NeedRoot(t)
}

// program returns the path of the built weft.
func program(t *testing.T) string {
	t.Helper()
	needRoot(t)
	return testbin.Weft(t)
}

// named numbers the labs of this process.
var named atomic.Int32

// name returns a lab's name that no other test has, gone after the test.
func name(t *testing.T, suffix string) string {
	t.Helper()
	n := fmt.Sprintf("t%d%s", os.Getpid(), suffix)
	if suffix == "" {
		n = fmt.Sprintf("t%dn%d", os.Getpid(), named.Add(1))
	}
	t.Cleanup(func() {
		if err := Down(context.Background(), n); err != nil {
			t.Error(err)
		}
		nothingLeft(t, n)
	})
	return n
}

func nothingLeft(t *testing.T, lab string) {
	t.Helper()
	if there, err := Exists(lab); there || err != nil {
		t.Errorf("something of lab %s is left (%v)", lab, err)
	}
}

func up(t *testing.T, weft, name, text string) (*Lab, error) {
	t.Helper()
	return upWithin(t, time.Minute, weft, name, text)
}

// upWithin is up with so much patience for each step.
func upWithin(t *testing.T, deadline time.Duration, weft, name, text string) (*Lab, error) {
	t.Helper()
	src := Source{Name: "test", File: "test.toml", Text: []byte(text)}
	s, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), Options{Name: name, Scenario: s, Source: src, Weft: weft, Deadline: deadline})
	if err == nil {
		t.Cleanup(l.Close)
	}
	return l, err
}

const pair = `title = "two nodes"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
ends = [
  { node = "a", device = "eth0", addresses = ["192.0.2.1/24", "2001:db8::1/64"] },
  { node = "b", device = "eth0", addresses = ["192.0.2.2/24", "2001:db8::2/64"] },
]
`

func TestTheChainScenarioPasses(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	out, err := exec.Command(weft, "lab", "run", "chain", "--name", lab, "--json").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var last struct{ Summary Summary }
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || !last.Summary.OK || last.Summary.Passed != len(lines)-1 {
		t.Errorf("the summary is %+v (%v) after %d results", last, err, len(lines)-1)
	}
	nothingLeft(t, lab)
}

func TestChecksFailWhenWhatTheySayIsNotSo(t *testing.T) {
	beside(t, false)
	weft := program(t)
	l, err := up(t, weft, name(t, ""), pair)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, check, want string }{
		{"a ping to an unused address", `kind = "ping"` + "\nfrom = \"a\"\nto = \"192.0.2.77\"\ncount = 1", "nothing came back"},
		{"a ping that should fail and does not", `kind = "ping"` + "\nfrom = \"a\"\nto = \"2001:db8::2\"\nfails = true", "3 of 3"},
		{"a transfer to an address that the server has not", `kind = "transfer"` + "\nfrom = \"a\"\nto = \"192.0.2.1\"\nat = \"b\"", "refused"},
		{"datagrams too large for the path and not fragmented", `kind = "pmtu"` + "\nfrom = \"a\"\nto = \"192.0.2.2\"\nat = \"b\"\nmtu = 1499", "learnt a path MTU of 1500"},
		{"datagrams to a closed port", `kind = "udp"` + "\nfrom = \"a\"\nto = \"192.0.2.1\"\nat = \"b\"\nsizes = [1]", "0 of 1"},
		{"a hop that is none", `kind = "observe"` + "\nfrom = \"a\"\nto = \"192.0.2.2\"\nplaces = [\"a:eth0\", \"b:eth0\"]\nrouted = true", "MAC address"},
		{"output that does not come", `kind = "exec"` + "\nnode = \"a\"\nargv = [\"echo\", \"x\"]\nexpect = \"y\"", `"y" is not in the output`},
		{"a command that fails", `kind = "exec"` + "\nnode = \"a\"\nargv = [\"false\"]", "exit status 1"},
		{"a command that should fail", `kind = "exec"` + "\nnode = \"a\"\nargv = [\"true\"]\nfails = true", "should have failed"},
		{"counters of a node without weft", `kind = "counters"` + "\nnode = \"a\"\ncounted = [\"forward-6to4\"]", "weft has nothing in the kernel here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parse(pair + "[[check]]\nname = \"n\"\n" + c.check + "\n")
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.Check(t.Context(), s.Checks[0])
			if err != nil {
				t.Fatal(err)
			}
			if r.OK || !strings.Contains(r.Outcome, c.want) {
				t.Errorf("ok %v, outcome %q, want a failure that says %q", r.OK, r.Outcome, c.want)
			}
		})
	}
}

func TestALinkIsNoFasterThanItsRate(t *testing.T) {
	// alone: a rate is measured
	weft := program(t)
	l, err := up(t, weft, name(t, ""), pair+"rate = \"20mbit\"\n")
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse(pair + "[[check]]\nname = \"n\"\nkind = \"transfer\"\nfrom = \"a\"\nto = \"192.0.2.2\"\nat = \"b\"\nbytes = \"2MiB\"\n")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Check(t.Context(), s.Checks[0])
	if err != nil || !r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, f := range r.Facts {
		// The bucket's first fill comes on top of the rate.
		if rate, ok := f.Value.(float64); ok && rate > 25e6 {
			t.Errorf("%s is %.0f over a link of 20 Mbit/s", f.Key, rate)
		}
	}
}

func TestTwoLabsOfOneScenarioRunAtOnceAndASecondOfOneNameIsRefused(t *testing.T) {
	beside(t, false)
	weft := program(t)
	one, two := name(t, "x"), name(t, "x-y") // one name begins the other
	for _, n := range []string{one, two} {
		l, err := up(t, weft, n, pair)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := parse(pair + "[[check]]\nname = \"n\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"2001:db8::2\"\n")
		if r, err := l.Check(t.Context(), s.Checks[0]); err != nil || !r.OK {
			t.Errorf("%s: %+v, %v", n, r, err)
		}
	}
	_, err := up(t, weft, one, pair)
	if err == nil || !strings.Contains(err.Error(), "weft lab down "+one) {
		t.Errorf("the second of one name: %v, want the remedy", err)
	}
	if _, err := FindNode("a"); err == nil || !strings.Contains(err.Error(), "LAB/NODE") {
		t.Errorf("a node's name that two labs have: %v", err)
	}
	if n, err := FindNode(two + "/a"); err != nil || n.Space != SpaceName(two, "a") {
		t.Errorf("the node of the second lab: %+v, %v", n, err)
	}
	if err := Down(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, one)
	if left, err := spacesOf(two); err != nil || len(left) != 2 {
		t.Errorf("taking the first down left the second with %v, %v", left, err)
	}
}

// hanging is a scenario that runs until it is stopped: a process that does not
// listen to SIGTERM, and a check that does not end.
const hanging = pair + `
[[node]]
name = "c"
[[node.process]]
name = "stubborn"
argv = ["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"]
[[check]]
kind = "exec"
name = "the first passes"
node = "c"
argv = ["true"]
[[check]]
kind = "exec"
name = "the second hangs"
node = "c"
argv = ["sleep", "1000"]
`

// startHanging starts a run and returns when its second check has begun, with
// the processes in node c.
func startHanging(t *testing.T, weft, lab string) (*exec.Cmd, []netspace.Process) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hanging.toml")
	if err := os.WriteFile(file, []byte(hanging), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(weft, "lab", "run", file, "--name", lab, "--json")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "the first passes") {
		t.Fatalf("the run says %q, %v", line, err)
	}
	space, err := netspace.Open(SpaceName(lab, "c"))
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	for {
		ps, err := space.Processes()
		if err != nil {
			t.Fatal(err)
		}
		// The shell, its sleep, and the check's sleep.
		if len(ps) == 3 {
			return c, ps
		}
		if t.Context().Err() != nil {
			t.Fatal("the processes do not come")
		}
	}
}

func gone(t *testing.T, ps []netspace.Process) {
	t.Helper()
	for _, p := range ps {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && strings.Contains(string(line), "sleep") {
			t.Errorf("process %d (%s) is still there", p.PID, p.Command)
		}
	}
}

func TestAnInterruptTakesTheLabDown(t *testing.T) {
	beside(t, false)
	weft := program(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		lab := name(t, "")
		c, ps := startHanging(t, weft, lab)
		if err := c.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Errorf("%s: the run ended well", sig)
		}
		nothingLeft(t, lab)
		gone(t, ps)
	}
}

func TestWhatAKilledRunLeavesIsFoundAndTakenDown(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	c, ps := startHanging(t, weft, lab)
	space, err := netspace.Open(SpaceName(lab, "c"))
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	cookie, err := space.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	// As a weft daemon in the node would have them.
	owned := filepath.Join(runDir, strconv.FormatUint(cookie, 10))
	if err := os.MkdirAll(filepath.Join(owned, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if there, err := Exists(lab); err != nil || !there {
		t.Fatalf("nothing is left after the kill (%v): the test proves nothing", err)
	}
	if out, err := exec.Command(weft, "lab", "run", "chain", "--name", lab).CombinedOutput(); err == nil || !strings.Contains(string(out), "weft lab down "+lab) {
		t.Errorf("running over the remains: %v, %s; want the remedy", err, out)
	}
	if out, err := exec.Command(weft, "lab", "down", lab).CombinedOutput(); err != nil {
		t.Fatalf("lab down: %v\n%s", err, out)
	}
	nothingLeft(t, lab)
	gone(t, ps)
	if _, err := os.Stat(owned); !os.IsNotExist(err) {
		t.Errorf("the daemon's directory is left: %v", err)
	}
	if left, err := space.Processes(); err != nil || len(left) != 0 {
		t.Errorf("in the namespace: %v, %v", left, err)
	}
}

func TestTheRouterIsAwaitedAndItsDeathTold(t *testing.T) {
	// alone: the variable is the process's
	needRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(pair, `name = "a"`, "name = \"a\"\nweft = \"[router]\\n\"", 1)

	t.Setenv(fakeRouter, "dies")
	lab := name(t, "")
	_, err = up(t, self, lab, text)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "interface lan: no such device") {
		t.Errorf("a router that dies: %v, want its status and its words", err)
	}
	nothingLeft(t, lab)

	t.Setenv(fakeRouter, "hangs")
	_, err = upWithin(t, 5*time.Second, self, lab, text)
	if err == nil || !strings.Contains(err.Error(), "not ready after") {
		t.Errorf("a router that is never ready: %v", err)
	}
	nothingLeft(t, lab)

	t.Setenv(fakeRouter, "ready")
	l, err := up(t, self, lab, text)
	if err != nil {
		t.Fatal(err)
	}
	if rs := l.Casualties(); len(rs) != 0 {
		t.Errorf("the router lives, and %v is reported", rs)
	}
	if err := netspace.Stop(t.Context(), 5*time.Second, l.spaces["a"]); err != nil {
		t.Fatal(err)
	}
	<-l.processes[0].done
	if rs := l.Casualties(); len(rs) != 1 || rs[0].OK {
		t.Errorf("the router has died, and %v is reported", rs)
	}
}

func TestAProgramThatIsMissingIsNamedBeforeAnythingIsBuilt(t *testing.T) {
	needRoot(t)
	lab := name(t, "")
	_, err := up(t, "/bin/false", lab, strings.Replace(pair, `name = "a"`, "name = \"a\"\n[[node.process]]\nname = \"x\"\nargv = [\"no-such-program\"]\nneeds = \"some-package\"", 1))
	if err == nil || !strings.Contains(err.Error(), "apt-get install some-package") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, lab)
}

func TestNamesThatWouldLeaveTheLabsDirectoryAreRefused(t *testing.T) {
	for _, n := range []string{"", ".", "..", "../..", "a/b", "/", "a/"} {
		if plainName(n) {
			t.Errorf("%q passes for a lab's name", n)
		}
	}
	if err := Down(t.Context(), ".."); err == nil {
		t.Error("the directory above was taken down")
	}
}
