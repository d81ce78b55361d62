package lab

// The failover scenario needs the Debian packages keepalived and openssl, and
// says so where they are missing.

import (
	"fmt"
	"os/exec"
	"testing"
)

func TestTheFailoverScenarioPasses(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	if out, err := exec.Command(weft, "lab", "run", "failover", "--name", lab).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nothingLeft(t, lab)
}

const bridged = `title = "two nodes and a switch"
[[node]]
name = "a"
[[node]]
name = "b"
[[node.process]]
name = "sleep"
argv = ["sleep", "1000"]
[[node]]
name = "c"
[[node]]
name = "s"
switch = true
[[link]]
ends = [
  { node = "a", device = "eth0", addresses = ["192.0.2.1/24", "2001:db8::1/64"] },
  { node = "s", device = "port1" },
]
rate = "50mbit"
[[link]]
ends = [
  { node = "b", device = "eth0", addresses = ["192.0.2.2/24", "2001:db8::2/64"] },
  { node = "s", device = "port2" },
]
[[link]]
ends = [
  { node = "c", device = "eth0", addresses = ["192.0.2.3/24"] },
  { node = "s", device = "port3" },
]
`

func TestANodeIsKilledAndComesBack(t *testing.T) {
	beside(t, false)
	weft := program(t)
	l, err := up(t, weft, name(t, ""), bridged)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what, check string, want bool) {
		t.Helper()
		s, err := parse(bridged + "[[check]]\nname = \"n\"\n" + check + "\n")
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Check(t.Context(), s.Checks[0])
		if err != nil || r.OK != want {
			t.Errorf("%s: %+v (%v), want ok %v", what, r, err, want)
		}
	}
	ping := "kind = \"ping\"\nfrom = \"b\"\nto = \"2001:db8::1\""
	takeover := func(kill, within, bytes string) string {
		return fmt.Sprintf("kind = \"takeover\"\nfrom = \"a\"\nto = \"2001:db8::2\"\nat = \"b\"\nkill = %q\nwithin = %q\nbytes = %q", kill, within, bytes)
	}
	try("through the switch", ping, true)
	try("what is alive is not revived", "kind = \"revive\"\nnode = \"b\"", false)
	try("a transfer that was over before", takeover("b", "1s", "1KiB"), false)
	try("b still answers", ping, true)
	try("a transfer that the node has nothing to do with", takeover("c", "20s", "16MiB"), true)
	try("who is dead cannot be killed", takeover("c", "20s", "16MiB"), false)
	try("the node comes back", "kind = \"revive\"\nnode = \"c\"", true)
	try("a silence that is too long", takeover("c", "1ns", "16MiB"), false)

	try("a node is killed", "kind = \"kill\"\nnode = \"b\"", true)
	try("but not twice", "kind = \"kill\"\nnode = \"b\"", false)
	try("dead", "kind = \"ping\"\nfrom = \"a\"\nto = \"2001:db8::2\"\nfails = true\ncount = 1", true)
	if c := l.Casualties(); len(c) != 0 {
		t.Errorf("who was killed is missed: %+v", c)
	}
	try("it comes back", "kind = \"revive\"\nnode = \"b\"", true)
	try("and is there for others", ping, true)
	ps, err := l.spaces["b"].Processes()
	if err != nil || len(ps) != 1 {
		t.Errorf("its processes are %v, %v", ps, err)
	}
}
